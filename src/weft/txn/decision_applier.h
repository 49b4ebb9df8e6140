// DecisionApplier: carries the decisions of recovery out in the tables: each once, by the records that are here and by
// the values that came with it.
//
// All workers of the node begin together: see ViewBoard::last_active. Aborts first: an undo brings back the version
// that an earlier commit's mark waits for. Where peers have reached the tables by verbs all workers also go on to the
// commits together, for an undo of one may bring back what a commit of another is to replace; and then what peers have
// locked by verbs is freed.
#pragma once

#include <cstdint>

#include "weft/txn/context.h"
#include "weft/txn/decision_log.h"
#include "weft/txn/log.h"
#include "weft/txn/participant.h"
#include "weft/txn/verb_memory.h"
#include "weft/txn/worker_barrier.h"

namespace weft {

class DecisionApplier {
 public:
  // `verbs`: peers reach the tables by verbs (else nullptr). `verb_locks`: and lock by them.
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
  enum class Progress : uint8_t { kWaits, kGoesOn, kDone };  // for other workers; there is more to do
  Progress step();

 private:
  enum class Stage : uint8_t { kBegin, kAborts, kCommits, kLocks };  // what is done, or begun
  bool come_to(WorkerBarrier::Step step);
  void carry_out(bool commits);
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
  size_t table_ = 0;    // whose locks of verbs are freed
  uint64_t piece_ = 0;  // and where
};

}  // namespace weft
