// How recovery decides, rule by rule: decide_script.txt. A line of a case says one fact:
//
//   row replicated|unanimous           what commits a transaction of this row without its coordinator
//   coordinator lives|gone             in the incarnation that began it
//   own open|commit|abort              what a coordinator that lives reports of it
//   participants 0 1 2                 and `active 0 1`: those of them that were active before
//   writes 2                           keys that it writes; `value 0 1`: those whose new value a survivor has
//   locked|replicated|committed 1 2    at these members, by their records
//   finished commit | finished abort 1 2   a member has finished it
//   written commit|abort               an earlier recovery has written a decision
#include "weft/txn/decide.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "weft/base/script_testing.h"
#include "weft/fabric/nodes_testing.h"

namespace weft {
namespace {

NodeSet nodes_of(const std::vector<std::string>& words, size_t from) {
  NodeSet nodes;
  for (size_t i = from; i < words.size(); ++i) nodes.add(NodeId(static_cast<uint8_t>(std::stoul(words[i]))));
  return nodes;
}

Ending ending_of(const std::string& word) {
  if (word == "commit") return Ending::kCommit;
  if (word == "abort") return Ending::kAbort;
  EXPECT_EQ(word, "open");
  return Ending::kOpen;
}

std::string run_decide(const std::vector<std::string>& input) {
  OpenTransaction open;
  DecideFacts facts;
  for (const std::string& line : input) {
    const std::vector<std::string> words = words_of(line);
    const std::string& fact = words[0];
    if (fact == "row") {
      facts.unanimous = words.at(1) == "unanimous";
    } else if (fact == "coordinator") {
      facts.coordinator_lives = words.at(1) == "lives";
    } else if (fact == "own") {
      open.own_report = true;
      open.own_ending = ending_of(words.at(1));
    } else if (fact == "participants") {
      open.participants = nodes_of(words, 1);
    } else if (fact == "active") {
      facts.was_active = nodes_of(words, 1);
    } else if (fact == "writes") {
      open.writes = static_cast<uint8_t>(std::stoul(words.at(1)));
      for (uint8_t key = 0; key < open.writes; ++key) open.keys[key] = {};
    } else if (fact == "value") {
      for (size_t i = 1; i < words.size(); ++i) open.keys[static_cast<uint8_t>(std::stoul(words[i]))].has_value = true;
    } else if (fact == "locked") {
      open.locked = nodes_of(words, 1);
    } else if (fact == "replicated") {
      open.replicated = nodes_of(words, 1);
    } else if (fact == "committed") {
      open.committed = nodes_of(words, 1);
    } else if (fact == "finished" && words.at(1) == "commit") {
      facts.finished_commit = true;
    } else if (fact == "finished") {
      facts.finished_abort = nodes_of(words, 2);
    } else if (fact == "written") {
      open.written = ending_of(words.at(1));
    } else {
      ADD_FAILURE() << "what is " << line << "?";
    }
  }
  const DecideResult result = decide(open, facts);
  return std::string(result.ending == Ending::kCommit ? "commit" : "abort") + ": " + std::string(result.why) +
         (result.everywhere ? "; every replica has it" : "") + "\n";
}

TEST(Decide, Script) { run_script("src/weft/txn/decide_script.txt", run_decide); }

// Whatever is known: what a member has committed, or a living coordinator has acknowledged, is never aborted; and a
// written decision is taken, whatever else is reported.
TEST(Decide, NeverContradictsWhatWasTold) {
  for (unsigned bits = 0; bits < 1U << 9; ++bits) {
    const auto has = [bits](unsigned n) { return (bits >> n & 1U) != 0; };
    OpenTransaction open;
    open.participants = node_set({0, 1, 2});
    open.writes = 1;
    open.keys[0].has_value = has(0);
    open.locked = has(1) ? node_set({0, 1, 2}) : node_set({0, 1});
    open.replicated = has(2) ? node_set({1}) : NodeSet{};
    open.committed = has(3) ? node_set({2}) : NodeSet{};
    open.own_report = has(4);
    open.own_ending = has(5) ? Ending::kCommit : Ending::kOpen;
    DecideFacts facts;
    facts.was_active = open.participants;
    facts.coordinator_lives = has(6);
    facts.finished_commit = has(7);
    facts.unanimous = has(8);
    for (const Ending written : {Ending::kOpen, Ending::kCommit, Ending::kAbort}) {
      open.written = written;
      const DecideResult result = decide(open, facts);
      ASSERT_NE(result.ending, Ending::kOpen);
      if (written != Ending::kOpen) {
        EXPECT_EQ(result.ending, written);
        continue;
      }
      const bool acknowledged = facts.coordinator_lives ? !open.own_report || open.own_ending == Ending::kCommit
                                                        : !open.committed.empty() || facts.finished_commit;
      if (acknowledged) {
        EXPECT_EQ(result.ending, Ending::kCommit) << bits;
      }
      const bool nobody = !facts.coordinator_lives && open.committed.empty() && !facts.finished_commit &&
                          open.replicated.empty() && !(facts.unanimous && open.locked == open.participants);
      if (nobody) {
        EXPECT_EQ(result.ending, Ending::kAbort) << bits;
      }
    }
  }
}

}  // namespace
}  // namespace weft
