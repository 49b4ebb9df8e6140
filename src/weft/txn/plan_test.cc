// What each row means for a transaction's keys: plan_script.txt. A case begins with
//
//   row NAME self N [verbs]        by which row, at which node it is coordinated; whether verbs may lock
//
// and has a line for each key: `key NAME at P B ... [filling F]`, its primary, its backups and a replica that is
// catching up, then what was done with it: read (found or absent), locked while reading, put, insert, erase; `place`: a
// verb knows where its record is.
#include "weft/txn/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/script_testing.h"
#include "weft/fabric/nodes.h"
#include "weft/txn/messages.h"
#include "weft/txn/rows_testing.h"

namespace weft {
namespace {

std::string nodes_text(NodeSet nodes) {
  std::string out;
  for (const NodeId node : nodes) out += (out.empty() ? "" : " ") + std::to_string(node.value);
  return out.empty() ? "-" : out;
}

// A transaction whose keys a test names. It needs no table and no port.
class PlannedTxn {
 public:
  PlannedTxn() : slot(std::make_unique<TxnSlot>()) {
    slot->entries = slot->inline_entries.data();
    names.reserve(TxnSlot::kInlineEntries);
    slot->stage = TxnStage::kCommitting;
  }

  Entry& add(const std::string& name, const Placement& at) {
    names.push_back(name);
    placements.push_back(std::make_unique<Placement>(at));
    Entry* entry = new (slot->entries + slot->count) Entry();
    ++slot->count;
    entry->key.bytes = as_bytes(names.back());
    entry->placement = placements.back().get();
    entry->done = true;
    return *entry;
  }

  std::unique_ptr<TxnSlot> slot;
  std::vector<std::string> names{};
  std::vector<std::unique_ptr<Placement>> placements;
};

void read_key(const std::vector<std::string>& words, PlannedTxn& txn) {
  Placement at;
  size_t i = 3;
  for (; i < words.size() && words[i].find_first_not_of("0123456789") == std::string::npos; ++i) {
    const NodeId node(static_cast<uint8_t>(std::stoul(words[i])));
    at.replicas[at.count++] = node;
    at.in_sync.add(node);
  }
  if (i < words.size() && words[i] == "filling") {
    at.catching_up.add(NodeId(static_cast<uint8_t>(std::stoul(words.at(i + 1)))));
    i += 2;
  }
  Entry& e = txn.add(words.at(1), at);
  for (; i < words.size(); ++i) {
    const std::string& what = words[i];
    if (what == "read" || what == "absent") {
      e.read = true;
      e.found = what == "read";
    } else if (what == "locked") {
      e.locked = true;
      txn.slot->locked_nodes.add(at.primary());
      txn.slot->participants.add(at.primary());
    } else if (what == "put" || what == "insert") {
      e.write = Write::kPut;
      e.precondition = what == "insert" ? Precondition::kAbsent : Precondition::kNothing;
      e.new_bytes = 8;
    } else if (what == "erase") {
      e.write = Write::kErase;
      e.precondition = Precondition::kPresent;
    } else if (what == "place") {
      e.where = RecordSlot(uint64_t{1} << 20 | 4);
    } else {
      ADD_FAILURE() << "what is " << what << "?";
    }
  }
}

std::string key_text(const std::string& name, const Entry& e) {
  std::string out = "key " + name + ":";
  const auto add = [&](Phase phase, const char* what) {
    if (!e.at[index_of(phase)].empty())
      out += std::string(" ") + what + " at " + nodes_text(e.at[index_of(phase)]) + ";";
    if ((e.by_verb >> index_of(phase) & 1U) != 0) out += std::string(" ") + what + " by verbs;";
  };
  add(Phase::kLock, "lock");
  add(Phase::kValidate, "validate");
  add(Phase::kReplicate, "replicate");
  add(Phase::kUnlock, "value with unlock");
  if ((e.flags & kOrdered) != 0) out += " in order;";
  if ((e.flags & kDeferred) != 0) out += " deferred;";
  if ((e.flags & kWantsReplaced) != 0) out += " asks what it replaces;";
  if (out.back() == ';') out.pop_back();
  return out + "\n";
}

std::string run_plan(const std::vector<std::string>& input, NodeSet (Planner::*plan)(TxnSlot&) const) {
  const std::vector<std::string> first = words_of(input[0]);
  const RowSet rows = *RowSet::parse(first.at(1));
  const NodeId self(static_cast<uint8_t>(std::stoul(first.at(3))));
  const Planner planner(rows, self, PlantedBugs{}, first.size() > 4 && first[4] == "verbs");
  PlannedTxn txn;
  for (size_t i = 1; i < input.size(); ++i) read_key(words_of(input[i]), txn);
  TxnSlot& slot = *txn.slot;
  const NodeSet nodes = (planner.*plan)(slot);
  if (slot.outcome.code != Code::kOk) return "fails: " + std::string(code_text(slot.outcome.code)) + "\n";
  std::string out;
  for (size_t i = 0; i < txn.names.size(); ++i) out += key_text(txn.names[i], slot.entry(i));
  for (const Phase phase : {Phase::kLock, Phase::kValidate, Phase::kReplicate}) {
    const PlanStep& step = slot.steps[index_of(phase)];
    if (step.send_to.empty()) continue;
    out += std::string(phase_name(phase)) + " to " + nodes_text(step.send_to) + ", awaits " +
           nodes_text(step.await_from) + "\n";
  }
  out += "involves " + nodes_text(nodes) +
         (slot.nonvoting_nodes.empty() ? "" : ", without a vote " + nodes_text(slot.nonvoting_nodes)) +
         "; acknowledged after " + std::string(phase_name(slot.ack_after)) + (slot.read_only ? "; reads only" : "") +
         ((slot.flags & kUnanimous) != 0 ? "; by unanimity" : "") +
         ((slot.flags & kRefusalIsFinal) == 0 ? "; refusals are final when acknowledged" : "") +
         ((slot.flags & kPiggybackAck) != 0 ? "; unlocks are acknowledged by notices" : "") + "\n";
  return out;
}

// Rows that are known when the planner is compiled have code of their own: it plans as that for any row does.
TEST(Plan, Script) {
  for (const auto plan : {&Planner::plan, &Planner::plan_by_pointer}) {
    run_script("src/weft/txn/plan_script.txt",
               [&](const std::vector<std::string>& input) { return run_plan(input, plan); });
  }
}

// K2, for every row and every placement on three nodes: when the plan lets the client be acknowledged, or an unlock
// leave, each written value is at more than f nodes, counting the coordinator once.
TEST(Plan, EveryValueIsAtMoreThanFNodesBeforeAnybodySeesIt) {
  for (const Protocol& row : kProtocols) {
    const RowSet rows = *RowSet::parse(row.name);
    for (uint8_t self = 0; self < 4; ++self) {
      for (uint8_t primary = 0; primary < 3; ++primary) {
        for (const bool second : {false, true}) {
          const Planner planner(rows, NodeId(self), PlantedBugs{}, false);
          PlannedTxn txn;
          Placement at;
          for (uint8_t r = 0; r < 3; ++r) {
            const NodeId node(static_cast<uint8_t>((primary + r) % 3));
            at.replicas[at.count++] = node;
            at.in_sync.add(node);
          }
          Entry& e = txn.add("k", at);
          e.read = e.found = true;
          e.write = Write::kPut;
          if (second) {  // of another primary
            std::rotate(at.replicas.begin(), at.replicas.begin() + 1, at.replicas.begin() + 3);
            Entry& other = txn.add("l", at);
            other.write = Write::kPut;
          }
          planner.plan(*txn.slot);
          NodeSet has_value = NodeSet::of(NodeId(self)) | e.at[index_of(Phase::kReplicate)];
          if (txn.slot->lock_brings_values) has_value |= e.at[index_of(Phase::kLock)];
          EXPECT_GE(has_value.size(), 3) << row.name << " at " << int{self};
          const NodeSet replicas = has_value & at.in_sync;
          if (second) {
            EXPECT_EQ(replicas, at.in_sync) << row.name << ": another primary may show it";
          }
          const NodeSet gets_value = has_value | e.at[index_of(Phase::kUnlock)];
          EXPECT_EQ(gets_value & at.in_sync, at.in_sync) << row.name << ": every replica gets the value in the end";
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft
