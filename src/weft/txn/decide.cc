#include "weft/txn/decide.h"

#include "weft/base/marks.h"

namespace weft {

DecideResult decide(const OpenTransaction& open, const DecideFacts& facts) {
  if (open.written != Ending::kOpen) {
    WEFT_MARK("a written decision wins");
    return {open.written, facts.finished_commit, "a written decision wins"};
  }
  if (facts.coordinator_lives) {
    if (!open.own_report) {
      WEFT_MARK("decided by a coordinator that has finished");
      return {Ending::kCommit, true, "its coordinator has finished it"};
    }
    if (open.own_ending == Ending::kCommit) return {Ending::kCommit, facts.finished_commit, "its coordinator commits"};
    // It acknowledged nobody, so an abort contradicts nothing.
    return {Ending::kAbort, facts.finished_commit, "its coordinator has told nobody"};
  }
  if (!open.committed.empty()) return {Ending::kCommit, facts.finished_commit, "a member has committed it"};
  if (facts.finished_commit) return {Ending::kCommit, true, "a member has finished it"};
  size_t have = 0;
  for (const auto& [index, write] : open.keys) have += write.has_value ? 1 : 0;
  const bool all_values = have == open.writes;
  // Replication begins when every lock and check has held. In dnl1 only replicas that are catching up have such a
  // record.
  if (!open.replicated.empty()) {
    if (all_values) {
      WEFT_MARK("committed by a replicated record");
      return {Ending::kCommit, false, "a member has replicated it"};
    }
    // More than f nodes are lost, or the commit point was not passed (rule K2).
    WEFT_MARK("aborted: a value is lost");
    return {Ending::kAbort, false, "a value is lost"};
  }
  if (facts.unanimous) {
    // A value that nobody has: its only in-sync replica is gone and the one that was catching up had not received it,
    // so the commit point was not passed.
    const NodeSet voters = open.participants & facts.was_active;
    if (all_values && !voters.empty() && facts.finished_abort.empty() && (voters - open.locked).empty()) {
      WEFT_MARK("committed by unanimity");
      return {Ending::kCommit, false, "all that take part have locked it"};
    }
  }
  return {Ending::kAbort, false, "nobody can have been told"};
}

}  // namespace weft
