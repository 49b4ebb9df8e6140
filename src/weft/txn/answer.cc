// Waits that have taken too long (Limits::answer_ms): a node that is cut off from the others answers all the same.
//
// What is said must be true for ever, whoever decides the transaction later, with this node or without it:
//
// - A1: "It did not happen" is said only of what no recovery can commit (docs/recovery.md): of what executes, of what
//   only reads, and of what commits and has begun to lock or validate, in rows where a commit needs REPLICATED. This
//   worker does not send that any more: `committing` is false from here on, which is what it reports to a recovery.
// - A2: Of everything else the outcome is unknown, from the first lock on where locks alone can commit (dnl1), from the
//   first log entry on elsewhere. It goes on, and is noted when it ends (fate.cc).
// - A3: Nobody waits for a slot's answer any more, but the slot is not free before they have all come, or a new view
//   says that they will not: nothing that is late finds another transaction in it. When all slots are such, begin()
//   waits, and gives up in its turn.
#include <algorithm>
#include <string>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/engine.h"

namespace weft {

void Engine::wait_for(TxnSlot& slot, std::coroutine_handle<> waiter) {
  slot.waiter = waiter;
  slot.due_ns = slot.until_ns != 0 ? slot.until_ns : worker_->now_ns() + answer_ns_;
  due_ns_ = std::min(due_ns_, slot.due_ns);
}

bool Engine::end_waits() {
  const uint64_t now_ns = worker_->now_ns();
  bool some = false;
  due_ns_ = UINT64_MAX;
  for (const auto& slot : slots_) {
    if (!slot->waiter) continue;
    if (now_ns < slot->due_ns) {
      due_ns_ = std::min(due_ns_, slot->due_ns);
    } else {
      expire(*slot);
      some = true;
    }
  }
  end_begins(now_ns);
  return some;
}

void Engine::end_begins(uint64_t now_ns) {
  Session::BeginAwaiter* last = nullptr;
  for (Session::BeginAwaiter* waiter = begin_first_; waiter != nullptr; waiter = waiter->next) {
    if (now_ns < waiter->due_ns) {
      due_ns_ = std::min(due_ns_, waiter->due_ns);
      last = waiter;
      continue;
    }
    WEFT_MARK("a transaction could not begin in time");
    (last != nullptr ? last->next : begin_first_) = waiter->next;
    waiter->slot = &refused_;
    worker_->ready(waiter->waiter);
  }
  begin_last_ = last;
}

// A commit that waits for the lease to be told (wake_leased) is one that others know of, too.
bool Engine::others_may_commit(const TxnSlot& slot) const {
  if (slot.state != SlotState::kCommitting && slot.state != SlotState::kFinished) return false;
  if (slot.row == &kReadOnly || slot.phase == Phase::kExecute) return false;
  return slot.phase >= Phase::kReplicate || slot.row->locks_backups();
}

uint64_t Engine::silent_nodes(const TxnSlot& slot) const {
  uint64_t nodes = slot.waiting;
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    const bool posted = slot.posts_waiting != 0 && (e.by_verb >> static_cast<int>(slot.phase) & 1U) != 0;
    if (!e.done || posted) nodes |= uint64_t{1} << e.placement->primary().value;
  }
  if (slot.posts_waiting != 0 && slot.phase == Phase::kReplicate) nodes |= slot.ring_nodes;
  return nodes & ~(uint64_t{1} << self_.value);
}

void Engine::expire(TxnSlot& slot) {
  const bool committing = slot.state == SlotState::kCommitting && !slot.commit_wanted;
  if (committing && slot.phase == Phase::kExecute && slot.alone) {  // in the next step it is done
    due_ns_ = std::min(due_ns_, slot.due_ns);
    return;
  }
  std::erase_if(told_, [&](const Told& told) { return told.slot == &slot; });
  const uint64_t silent = silent_nodes(slot);
  if (others_may_commit(slot)) {
    WEFT_MARK("a wait is over: unknown");
    slot.left = true;
    slot.silent = silent;
    ++counters_.unknown;
    wake(slot);
    return;
  }
  WEFT_MARK("a wait is over: it did not happen");
  if (slot.outcome.code == Code::kOk) {
    fail(slot, Code::kNoAnswer, nullptr, Owner());
    slot.outcome.silent = silent;
  }
  if (slot.state == SlotState::kExecuting) {
    slot.expired = true;
    ++counters_.aborted;
    ++counters_.aborts_by_code[static_cast<int>(Code::kNoAnswer)];
    wake(slot);
  } else if (slot.state == SlotState::kFinished) {
    wake(slot);
  } else if (slot.commit_wanted) {
    slot.commit_wanted = false;
    slot.state = SlotState::kDraining;
    tell(slot);
  } else if (slot.phase == Phase::kExecute) {
    leave_credit_queue(slot);
    advance(slot);
  } else {
    slot.committing = false;
    tell(slot);
  }
}

void Engine::leave_credit_queue(TxnSlot& slot) {
  TxnSlot* last = nullptr;
  for (TxnSlot* at = credit_first_; at != nullptr; last = at, at = at->next) {
    if (at != &slot) continue;
    (last != nullptr ? last->next : credit_first_) = slot.next;
    if (credit_last_ == &slot) credit_last_ = last;
    slot.next = nullptr;
    credit_came_back_ = true;  // those behind it may have room
    return;
  }
  WEFT_CHECK(false, "a commit that has sent nothing waits for credit");
}

std::string Engine::trouble() const {
  if (retired_) return "this node was removed from the view";
  if (!active_) return "the view is not active: not all of its nodes answer";
  if (node_->leased() && worker_->now_ns() >= node_->lease_until_ns()) {
    return "this node has no lease: it does not reach all nodes of the view";
  }
  return {};
}

}  // namespace weft
