#include "weft/txn/slot_table.h"

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/messages.h"

namespace weft {

SlotTable::SlotTable(WorkerContext& ctx, Pool* pool, TxnWorker* txn_worker, uint64_t answer_ns, uint64_t last_sequence,
                     size_t rotated_rows, uint64_t sequence_gap)
    : ctx_(ctx),
      pool_(pool),
      answer_ns_(answer_ns),
      rotated_rows_(rotated_rows),
      slots_(pool->make_array<TxnSlot>(static_cast<size_t>(slots_for(ctx.limits)))),
      sequence_gap_(sequence_gap),
      sequence_(last_sequence) {
  WEFT_CHECK(!slots_.empty() && slots_.size() <= kSlotsMax, "a slot is named by a byte");
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].txn_worker = txn_worker;
    slots_[i].owners = ctx.owners;
    slots_[i].index = static_cast<uint8_t>(i);
  }
  for (size_t i = slots_.size(); i > 0; --i) free_.push_back(static_cast<uint8_t>(i - 1));
  refused_.txn_worker = txn_worker;
  refused_.stage = TxnStage::kFinished;
  refused_.entries = refused_.inline_entries.data();
  refused_.rejected = refused_.outcome.code = Code::kNoAnswer;
  refused_.outcome.kind = OutcomeKind::kRejected;
}

TxnSlot* SlotTable::acquire(uint64_t until_ns, bool takes_credit) {
  if (until_ns != 0 && ctx_.now_ns() >= until_ns) return &refused_;
  if (!has_room(takes_credit) || ctx_.views.recovering()) return nullptr;
  TxnSlot& slot = slots_[free_.back()];
  WEFT_CHECK(!slot.attached && !slot.waiter && slot.notices_pending == 0, "nobody needs a free slot");
  free_.pop_back();
  ++in_use_;
  reset(slot, until_ns);
  slot.has_credit = takes_credit;
  if (takes_credit) ctx_.conflicts.begin();
  if (ctx_.views.removed()) {
    reject(slot, Code::kPeerUnreachable, nullptr, {});
  } else if (!ctx_.views.runs_transactions()) {
    reject(slot, Code::kNoTransactions, nullptr, {});
  }
  return &slot;
}

void SlotTable::reset(TxnSlot& slot, uint64_t until_ns) {
  slot.enter(TxnStage::kExecuting);
  clear(slot);
  slot.attached = true;
  slot.row = rotated_rows_ < 2 ? uint8_t{0} : static_cast<uint8_t>(sequence_ % rotated_rows_);
  slot.until_ns = until_ns;
  slot.begun_ns = ctx_.now_ns();
  slot.asked_ns = 0;
  slot.incarnation = ctx_.views.incarnation();
  slot.epoch = ctx_.view().epoch.value;
  slot.sequence = ++sequence_;
  WEFT_CHECK(sequence_ <= CommitRequest::kSequenceMax, "a worker's sequences have 48 bits");
  if (sequence_gap_ != 0 && sequence_ % 16 == 0) sequence_ += sequence_gap_;
  slot.outcome.id = slot.id(ctx_.id);
}

void SlotTable::wait(Session::BeginAwaiter* waiter) {
  WEFT_CHECK(waiter->slot == nullptr && waiter->waiter, "who waits in line has no slot");
  waiter->due_ns = waiter->until_ns != 0 ? waiter->until_ns : ctx_.now_ns() + answer_ns_;
  note_due(waiter->due_ns);
  waiter->next = nullptr;
  (begin_last_ != nullptr ? begin_last_->next : begin_first_) = waiter;
  begin_last_ = waiter;
}

void SlotTable::detach(TxnSlot& slot) {
  WEFT_CHECK(slot.attached && in_use_ > 0, "an application drops its handle once");
  slot.attached = false;
  slot.waiter = {};
  --in_use_;
  if (!slot.has_credit) return;
  ctx_.conflicts.end();
  const Code code = slot.outcome.code;
  if (code == Code::kOk || !code_retryable(code)) {
    ctx_.conflicts.count_operation();
  } else if (is_conflict(code)) {
    ctx_.conflicts.count_retry();
  }
}

void SlotTable::free(TxnSlot& slot) {
  WEFT_CHECK(!slot.attached && &slot != &refused_, "nobody holds a slot that is freed");
  WEFT_CHECK(slot.participants.empty() && slot.credit_nodes.empty() && slot.ring_bytes == 0,
             "a slot that is freed holds no credit");
  for (int i = 0; i < slot.chunks; ++i) {
    const TxnSlot::Chunk& chunk = slot.chunk[static_cast<size_t>(i)];
    pool_->free(chunk.block, chunk.bytes);
  }
  slot.enter(TxnStage::kFree);
  free_.push_back(slot.index);
  serve_waiter();
}

// Whoever needs no credit does not wait for those that do.
Session::BeginAwaiter* SlotTable::take_first_with_room() {
  Session::BeginAwaiter* before = nullptr;
  for (Session::BeginAwaiter* waiter = begin_first_; waiter != nullptr; before = waiter, waiter = waiter->next) {
    if (!has_room(waiter->takes_credit)) continue;
    (before != nullptr ? before->next : begin_first_) = waiter->next;
    if (begin_last_ == waiter) begin_last_ = before;
    return waiter;
  }
  return nullptr;
}

// True if somebody has got a slot.
bool SlotTable::serve_first() {
  if (ctx_.views.recovering()) return false;
  while (Session::BeginAwaiter* const waiter = take_first_with_room()) {
    waiter->slot = acquire(waiter->until_ns, waiter->takes_credit);
    WEFT_CHECK(waiter->slot != nullptr, "there was room for the first in line");
    ctx_.worker->ready(waiter->waiter);
    if (waiter->slot != &refused_) return true;
  }
  return false;
}

void SlotTable::expire_waiters(uint64_t now_ns) {
  Session::BeginAwaiter* last = nullptr;
  for (Session::BeginAwaiter* waiter = begin_first_; waiter != nullptr; waiter = waiter->next) {
    if (now_ns < waiter->due_ns) {
      note_due(waiter->due_ns);
      last = waiter;
      continue;
    }
    WEFT_MARK("a transaction could not begin in time");
    (last != nullptr ? last->next : begin_first_) = waiter->next;
    waiter->slot = &refused_;
    ctx_.worker->ready(waiter->waiter);
  }
  begin_last_ = last;
}

}  // namespace weft
