// ClientAcks: acknowledges transactions to their clients, and records their outcomes.
//
// A client gets current results (a commit, a read) only under a lease (rule E4): the worker checks the lease at the
// beginning of its next step, and the client waits while there is none.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/base/histogram.h"
#include "weft/txn/context.h"
#include "weft/txn/outcomes.h"
#include "weft/txn/slot.h"
#include "weft/txn/view_change_timing.h"

namespace weft {

class ClientAcks {
 public:
  ClientAcks(WorkerContext& ctx, OutcomeLog& outcomes, size_t slots) : ctx_(ctx), outcomes_(outcomes) {
    waiting_.reserve(slots);
  }

  // Called once for each transaction, when its outcome is certain: records and counts it, and wakes the client. A
  // commit that wrote nothing and waits for a lease is counted when its client is woken: until then it may become an
  // abort (rule E4).
  void acknowledge(TxnSlot& slot);
  // Records the outcome without acknowledging it: the client knows it already.
  void note(const TxnSlot& slot);
  // Counts a single-key read that was answered: it has no commit.
  void count_single(const TxnSlot& slot);
  // The client was answered that the outcome is unknown.
  void count_unknown() { ++ctx_.counters.unknown; }

  void wake(TxnSlot& slot);
  void wake_with_lease(TxnSlot& slot);
  // A step begins: wakes the waiting clients if there is a lease.
  void begin_step() {
    if (!waiting_.empty()) release(false);
  }
  // The view is active, or this node was removed: wakes the waiting clients whatever the lease.
  void release_all() { release(true); }
  // The epoch ends before this worker was sure of its lease again: what the transaction read may not have been current.
  void fail_unacknowledged(TxnSlot& slot);
  // A read that has become an abort while it waited for a lease: counts it, and wakes the client.
  void wake_unacknowledged(TxnSlot& slot);
  // Nobody waits for this transaction any more.
  void forget(const TxnSlot& slot);
  bool waiting() const { return !waiting_.empty(); }

  const Histogram& latency_ns() const { return latency_ns_; }  // of committed transactions, from begin to the outcome
  ViewChangeTiming& change() { return change_; }
  const ViewChangeTiming& change() const { return change_; }

 private:
  struct Waiting {
    TxnSlot* slot;
    uint64_t sequence;
  };
  bool waits_for_lease(const TxnSlot& slot) const;
  void count(const TxnSlot& slot);
  void release(bool now);

  WorkerContext& ctx_;
  OutcomeLog& outcomes_;
  std::vector<Waiting> waiting_;
  Histogram latency_ns_;
  ViewChangeTiming change_;
};

}  // namespace weft
