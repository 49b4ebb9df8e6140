// LocalCommits: commits that involve only this node: the primaries of all their keys are here, and what they write has
// no other replica, not even one that is catching up. There is no node to send a phase to, and no reason to log:
// whoever could recover the transaction has no copy of its data, and it is open for no longer than one call. So the
// phases of the row run one after the other on the tables: lock, validate, install. Commits of one step of the loop
// share a table batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/store/table.h"
#include "weft/txn/context.h"
#include "weft/txn/slot.h"

namespace weft {

class ScanChecks;

class LocalCommits {
 public:
  // `scans` may be nullptr: nobody scans.
  LocalCommits(WorkerContext& ctx, size_t slots, ScanChecks* scans = nullptr)
      : ctx_(ctx), scans_(scans), locks_(ctx.limits.txn_keys_max) {
    queue_.reserve(slots);
  }

  void add(TxnSlot& slot) { queue_.push_back(&slot); }
  bool empty() const { return queue_.empty(); }
  std::span<TxnSlot* const> queue() const { return queue_; }
  void clear() { queue_.clear(); }

  // Prefetches what the queued commits will touch.
  void begin_batch();
  // Locks, validates, and installs or releases. slot.stage then says which.
  void commit(TxnSlot& slot);

 private:
  uint16_t lock(TxnSlot& slot, Owner owner);
  void validate(TxnSlot& slot, Owner owner);

  WorkerContext& ctx_;
  ScanChecks* const scans_;
  std::vector<TxnSlot*> queue_;
  std::vector<Locked> locks_;  // held by the commit in progress, by entry
};

}  // namespace weft
