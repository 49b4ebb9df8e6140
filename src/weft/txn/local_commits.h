// LocalCommits: commits that concern this node alone: all their keys have their primary here, and what they write has
// no other replica, nor one that fills. There is nobody to send a phase to, and nothing to log for: whoever could
// recover the transaction has no copy of its data, and it is open for no longer than one call. So the phases of the row
// are done one after the other, on the tables: lock, validate, install. Commits of one step of the loop share a table
// batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/store/table.h"
#include "weft/txn/context.h"
#include "weft/txn/slot.h"

namespace weft {

class LocalCommits {
 public:
  LocalCommits(WorkerContext& ctx, size_t slots) : ctx_(ctx), locks_(ctx.limits.txn_keys_max) { queue_.reserve(slots); }

  void add(TxnSlot& slot) { queue_.push_back(&slot); }
  bool empty() const { return queue_.empty(); }
  std::span<TxnSlot* const> queue() const { return queue_; }
  void clear() { queue_.clear(); }

  // Prefetches what those in the queue will touch.
  void begin_batch();
  // Locks, validates, and installs or releases. Then slot.stage says which.
  void commit(TxnSlot& slot);

 private:
  uint16_t lock(TxnSlot& slot, Owner owner);
  void validate(TxnSlot& slot, Owner owner);

  WorkerContext& ctx_;
  std::vector<TxnSlot*> queue_;
  std::vector<Locked> locks_;  // what the one in progress holds, by entry
};

}  // namespace weft
