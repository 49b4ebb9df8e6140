#include "weft/txn/client_waits.h"

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/txn_scan.h"

namespace weft {

void ClientWaits::begin(TxnSlot& slot, std::coroutine_handle<> waiter) {
  WEFT_CHECK(slot.stage != TxnStage::kFree, "nobody waits for a free slot");
  slot.waiter = waiter;
  slot.due_ns = slot.until_ns != 0 ? slot.until_ns : ctx_.now_ns() + slots_.answer_ns();
  slots_.note_due(slot.due_ns);
}

bool ClientWaits::expire() {
  const uint64_t now_ns = ctx_.now_ns();
  if (now_ns < slots_.due_ns()) return false;
  bool some = false;
  slots_.reset_due();
  for (size_t i = 0; i < slots_.size(); ++i) {
    TxnSlot& slot = slots_.at(i);
    if (!slot.waiter) continue;
    if (now_ns < slot.due_ns) {
      slots_.note_due(slot.due_ns);
    } else {
      expire(slot);
      some = true;
    }
  }
  slots_.expire_waiters(now_ns);
  return some;
}

// Nodes, other than this one, that have not answered.
NodeSet ClientWaits::silent_nodes(const TxnSlot& slot) const {
  NodeSet nodes = slot.waiting;
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    const bool posted = slot.verbs_pending != 0 && (e.by_verb >> static_cast<int>(slot.phase) & 1U) != 0;
    if ((!e.done && !slot.in_phases()) || posted) nodes.add(e.placement->primary());
  }
  if (slot.verbs_pending != 0 && slot.phase == Phase::kReplicate) nodes |= slot.ring_nodes;
  if (slot.scans != nullptr) nodes |= silent_scans(slot);
  return nodes - NodeSet::of(ctx_.self);
}

void ClientWaits::expire(TxnSlot& slot) {
  WEFT_CHECK(slot.stage != TxnStage::kFree && slot.waiter, "a wait that expires has a client");
  if (slot.stage == TxnStage::kAwaitingBatch) {  // it commits in this step or the next
    slots_.note_due(slot.due_ns);
    return;
  }
  acks_.forget(slot);
  const NodeSet silent = silent_nodes(slot);
  const bool aborts_shipped = !slot.executor.empty() && ctx_.bugs.has(PlantedBug::kAbortsShipped);
  if (others_may_commit(slot) && !aborts_shipped) {
    WEFT_MARK("a wait is over: unknown");
    slot.left = true;
    slot.silent = silent;
    acks_.count_unknown();
    acks_.wake(slot);
    return;
  }
  WEFT_MARK("a wait is over: it did not happen");
  if (slot.outcome.code == Code::kOk) {
    fail(slot, Code::kNoAnswer, nullptr, Owner());
    slot.outcome.silent = silent.bits();
  }
  switch (slot.stage) {
    case TxnStage::kExecuting:
      slot.expired = true;
      ++ctx_.counters.aborted;
      ++ctx_.counters.aborts_by_code[static_cast<int>(Code::kNoAnswer)];
      acks_.wake(slot);
      break;
    case TxnStage::kDraining:  // the client gave it up before, but still waits for a read
      slot.expired = true;
      acks_.wake(slot);
      break;
    case TxnStage::kFinished:
      acks_.wake_unacknowledged(slot);
      break;
    default:
      coordinator_.abort_expired(slot);
  }
}

}  // namespace weft
