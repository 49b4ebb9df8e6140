// SlotTable: the slots of one worker's transactions (slot.h): which are free, and who waits for one.
//
// There are more slots than transactions in flight, because a finished one keeps its slot until its notices have left.
// Coroutines that find no free slot, or no credit, wait in line, each until its own deadline. They hold nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/txn.h"
#include "weft/txn/context.h"
#include "weft/txn/pool.h"
#include "weft/txn/slot.h"

namespace weft {

class SlotTable {
 public:
  // How many slots a worker with these limits has.
  static int slots_for(const Limits& limits) {
    return std::min<int>(
        kSlotsMax, static_cast<int>(limits.transactions_in_flight_max + limits.transactions_in_flight_max / 4 + 8));
  }

  // `answer_ns`: how long a caller without a deadline waits. `last_sequence`: ids go on from there. `rotated_rows`:
  // test only, transactions take this many rows of the cluster in turn; below 2, the first. `sequence_gap`: test only,
  // what ids jump by after every 16 transactions, as if others that only read had taken the numbers between.
  SlotTable(WorkerContext& ctx, Pool* pool, TxnWorker* txn_worker, uint64_t answer_ns, uint64_t last_sequence,
            size_t rotated_rows = 0, uint64_t sequence_gap = 0);

  // Returns nullptr if none is free now, or if there is no credit (conflict_avoidance.h) for one that takes it. If the
  // deadline has passed: refused(), a slot that is finished and never changes.
  TxnSlot* acquire(uint64_t until_ns, bool takes_credit = true);
  void wait(Session::BeginAwaiter* waiter);
  TxnSlot* refused() { return &refused_; }
  // The application has dropped its handle.
  void detach(TxnSlot& slot);
  // Frees the slot if nothing holds it any more.
  void free_if_done(TxnSlot& slot) {
    const bool busy = slot.attached || slot.reads_pending != 0 || slot.notices_pending != 0;
    if (!busy && slot.stage == TxnStage::kFinished) free(slot);
  }
  // Gives a free slot to the first in line that may have one.
  void serve_waiter() {
    if (begin_first_ != nullptr) serve_first();
  }
  void serve_waiters() {
    while (begin_first_ != nullptr && serve_first()) {
    }
  }
  bool has_waiters() const { return begin_first_ != nullptr; }

  // No wait for a slot or for an answer expires before this time.
  uint64_t due_ns() const { return due_ns_; }
  void note_due(uint64_t ns) { due_ns_ = std::min(due_ns_, ns); }
  void reset_due() { due_ns_ = UINT64_MAX; }
  uint64_t answer_ns() const { return answer_ns_; }
  void expire_waiters(uint64_t now_ns);

  size_t size() const { return slots_.size(); }
  TxnSlot& at(size_t index) { return slots_[index]; }
  const TxnSlot& at(size_t index) const { return slots_[index]; }
  template <class F>  // f(TxnSlot&): those in use
  void for_each(F f) {
    for (TxnSlot& slot : slots_) {
      if (slot.stage != TxnStage::kFree) f(slot);
    }
  }
  template <class F>  // f(const TxnSlot&): those in use
  void for_each(F f) const {
    for (const TxnSlot& slot : slots_) {
      if (slot.stage != TxnStage::kFree) f(slot);
    }
  }
  bool all_free() const { return free_.size() == slots_.size(); }
  bool runs_short() const { return free_.size() < slots_.size() / 8 + 1; }
  uint32_t in_use() const { return in_use_; }  // held by applications
  uint64_t last_sequence() const { return sequence_; }

 private:
  bool has_room(bool takes_credit) const {
    return in_use_ < ctx_.limits.transactions_in_flight_max && !free_.empty() &&
           (!takes_credit || ctx_.conflicts.may_begin());
  }
  void reset(TxnSlot& slot, uint64_t until_ns);
  void free(TxnSlot& slot);
  bool serve_first();
  Session::BeginAwaiter* take_first_with_room();

  WorkerContext& ctx_;
  Pool* const pool_;
  const uint64_t answer_ns_;
  const size_t rotated_rows_;
  const std::span<TxnSlot> slots_;  // in the pool, which is on huge pages
  std::vector<uint8_t> free_;
  TxnSlot refused_;
  uint64_t due_ns_ = UINT64_MAX;
  const uint64_t sequence_gap_;
  uint64_t sequence_;
  uint32_t in_use_ = 0;
  Session::BeginAwaiter* begin_first_ = nullptr;
  Session::BeginAwaiter* begin_last_ = nullptr;
};

}  // namespace weft
