// Truncation: tells participants that transactions are finished, so that they drop their records (rule K4). It belongs
// to a worker's coordinator.
//
// A slot is used again only when all participants of its last transaction have acknowledged it. So the first message of
// a later transaction that opens a record says that the slot's last record at that node is finished, and costs nothing.
// A notice is sent only if no such message comes: when the slot was idle for a millisecond, or when a record has stayed
// for kLongestNs at a node that the slot's transactions no longer involve. A notice means the slot's last finished
// transaction and all before it.
//
// Where others wait until a record is finished (its writes become readable, or are installed, only then), each
// transaction has notices of its own, and keeps its slot until they have left.
#pragma once

#include <cstdint>

#include "weft/txn/context.h"
#include "weft/txn/notices.h"
#include "weft/txn/slot_table.h"

namespace weft {

class Truncation {
 public:
  static constexpr uint64_t kIdleNs = NoticeQueue::kRideAlongNs;
  static constexpr uint64_t kLongestNs = 16 * kIdleNs;

  // `by_next_use`: RowSet::truncates_by_next_use.
  Truncation(WorkerContext& ctx, SlotTable& slots, bool by_next_use)
      : ctx_(ctx), slots_(slots), by_next_use_(by_next_use), notices_(ctx, Kind::kDone, slots.size()) {}

  // All participants of the slot's transaction, which has committed, have acknowledged.
  void finished(TxnSlot& slot);
  // The slot's transaction sends messages that open a record at these nodes.
  static void opens_records(TxnSlot& slot, NodeSet nodes) { slot.untruncated -= nodes; }

  // Sends the notices that are due. Returns true if it did something.
  bool step();
  // The view ends, and all records with it.
  void clear();

  bool pending() const { return !notices_.empty() || due_ns_ != UINT64_MAX; }
  uint64_t deadline_ns() const { return by_next_use_ ? due_ns_ : notices_.deadline_ns(); }

 private:
  bool send_due(uint64_t now_ns);

  WorkerContext& ctx_;
  SlotTable& slots_;
  const bool by_next_use_;
  NoticeQueue notices_;
  uint64_t due_ns_ = UINT64_MAX;  // by next use: when the slots are examined again
};

}  // namespace weft
