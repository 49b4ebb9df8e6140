// DecisionApplier: applies the decisions of recovery to the tables, each once, using the records that are here and the
// values that came with the decision.
//
// All workers of the node begin together: see ViewBoard::last_active. Aborts come first: an undo brings back the
// version that an earlier commit waits for to mark it readable. Where peers reach the tables by verbs, all workers also
// start the commits together, because an undo of one worker may bring back what a commit of another is to replace.
// After that, locks that peers have taken by verbs are freed.
#pragma once

#include <cstdint>

#include "weft/txn/context.h"
#include "weft/txn/decision_log.h"
#include "weft/txn/participant.h"
#include "weft/txn/prepared_table.h"
#include "weft/txn/verb_memory.h"
#include "weft/txn/worker_barrier.h"

namespace weft {

class DecisionApplier {
 public:
  // `verbs`: peers reach the tables by verbs (else nullptr). `verb_locks`: they also lock by verbs.
  DecisionApplier(WorkerContext& ctx, WorkerBarrier& barrier, PreparedTable& records, DecisionLog& decisions,
                  Participant& participant, VerbMemory* verbs, bool verb_locks)
      : ctx_(ctx),
        barrier_(barrier),
        records_(records),
        decisions_(decisions),
        participant_(participant),
        verbs_(verbs),
        verb_locks_(verb_locks) {}

  // A recovery begins.
  void begin();
  enum class Progress : uint8_t { kWaits, kGoesOn, kDone };  // kWaits: for other workers; kGoesOn: there is more to do
  Progress step();

 private:
  enum class Stage : uint8_t { kBegin, kAborts, kCommits, kLocks };  // what is done, or has begun
  bool come_to(WorkerBarrier::Step step);
  void apply_decisions(bool commits);
  void install(const PreparedKeys* part, const PreparedTxn* record, Owner owner);
  bool release_orphaned_locks();

  WorkerContext& ctx_;
  WorkerBarrier& barrier_;
  PreparedTable& records_;
  DecisionLog& decisions_;
  Participant& participant_;
  VerbMemory* const verbs_;
  const bool verb_locks_;
  Stage stage_ = Stage::kBegin;
  size_t table_ = 0;    // the table whose verb locks are being freed
  uint64_t piece_ = 0;  // and the position in it
};

}  // namespace weft
