// How commits end that no answer ends: their client has waited too long, a peer is lost, the view changes.
//
// Waits that have taken too long (Limits::answer_ms): a node that is cut off from the others answers all the same. What
// is said must be true for ever, whoever decides the transaction later, with this node or without it:
//
// - A1: "It did not happen" is said only of what no recovery can commit (docs/recovery.md): of what executes, of what
//   only reads, and of what commits and has begun to lock or validate, in rows where a commit needs REPLICATED. This
//   worker does not send that any more: `committing` is false from here on, which is what it reports to a recovery.
// - A2: Of everything else the outcome is unknown, from the first lock on where locks alone can commit (dnl1), from the
//   first log entry on elsewhere. It goes on, and is noted when it ends.
// - A3: Nobody waits for a slot's answer any more, but the slot is not free before they have all come, or a new view
//   says that they will not: nothing that is late finds another transaction in it. When all slots are such, begin()
//   waits, and gives up in its turn.
#include <algorithm>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/coordinator.h"

namespace weft {

void Coordinator::wait_for(TxnSlot& slot, std::coroutine_handle<> waiter) {
  WEFT_CHECK(slot.state != SlotState::kFree, "nobody waits for a free slot");
  slot.waiter = waiter;
  slot.due_ns = slot.until_ns != 0 ? slot.until_ns : ctx_.now_ns() + slots_.answer_ns();
  slots_.note_due(slot.due_ns);
}

bool Coordinator::expire_waits() {
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

// A commit that waits for the lease to be acknowledged is one that others know of, too.
bool Coordinator::others_may_commit(const TxnSlot& slot) {
  if (slot.state != SlotState::kCommitting && slot.state != SlotState::kFinished) return false;
  if (slot.read_only || slot.phase == Phase::kExecute) return false;
  return slot.phase >= Phase::kReplicate || slot.unanimous;
}

uint64_t Coordinator::silent_nodes(const TxnSlot& slot) const {
  uint64_t nodes = slot.waiting;
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    const bool posted = slot.verbs_pending != 0 && (e.by_verb >> static_cast<int>(slot.phase) & 1U) != 0;
    if (!e.done || posted) nodes |= uint64_t{1} << e.placement->primary().value;
  }
  if (slot.verbs_pending != 0 && slot.phase == Phase::kReplicate) nodes |= slot.ring_nodes;
  return nodes & ~(uint64_t{1} << ctx_.self.value);
}

void Coordinator::expire(TxnSlot& slot) {
  WEFT_CHECK(slot.state != SlotState::kFree && slot.waiter, "a wait that is over was one");
  const bool committing = slot.state == SlotState::kCommitting && !slot.commit_wanted;
  if (committing && slot.phase == Phase::kExecute && slot.single_node) {  // in the next step it is done
    slots_.note_due(slot.due_ns);
    return;
  }
  acks_.forget(slot);
  const uint64_t silent = silent_nodes(slot);
  if (others_may_commit(slot)) {
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
    slot.outcome.silent = silent;
  }
  if (slot.state == SlotState::kExecuting) {
    slot.expired = true;
    ++ctx_.counters.aborted;
    ++ctx_.counters.aborts_by_code[static_cast<int>(Code::kNoAnswer)];
    acks_.wake(slot);
  } else if (slot.state == SlotState::kFinished) {
    acks_.wake(slot);
  } else if (slot.commit_wanted) {
    slot.commit_wanted = false;
    slot.state = SlotState::kDraining;
    acks_.acknowledge(slot);
  } else if (slot.phase == Phase::kExecute) {
    credit_.remove(slot);
    advance(slot);
  } else {
    slot.committing = false;
    acks_.acknowledge(slot);
  }
}

// A commit that waits for a peer whose channel is closed is left as it is where views change: the peer may have applied
// it, so it is decided by recovery, when the agent has had the peer removed. Where they do not, it gets an outcome: one
// that has replicated nothing aborts, any other is unknown.
void Coordinator::on_peer_lost(TxnSlot& slot, NodeId peer) {
  const uint64_t bit = uint64_t{1} << peer.value;
  if (slot.state != SlotState::kCommitting || (slot.waiting & bit) == 0 || ctx_.recovers) return;
  fail_for_peer(slot, nullptr, bit);
  slot.waiting &= ~bit;
  slot.locked_nodes &= ~bit;
  if (slot.phase < Phase::kReplicate && !slot.unanimous) {
    if (slot.phase_over()) advance(slot);
    return;
  }
  slot.outcome.kind = OutcomeKind::kUnknown;
  acks_.acknowledge(slot);
}

// The view changes.

void Coordinator::drop_queues() {
  local_.clear();
  credit_.drop_queue();
  complete_notices_.clear();
}

void Coordinator::freeze(TxnSlot& slot) {
  WEFT_CHECK(slot.state != SlotState::kFree, "a free slot has nothing to freeze");
  slot.participants = slot.locked_nodes = slot.record_nodes = slot.fill_nodes = 0;
  slot.ring_bytes = 0;
  slot.notices_pending = 0;
  slot.next = nullptr;
  const bool sent = slot.state == SlotState::kCommitting && slot.phase != Phase::kExecute;
  if (sent && !slot.read_only) return;
  if (slot.state == SlotState::kFinished) {
    acks_.fail_unacknowledged(slot);
    slots_.free_if_done(slot);
    return;
  }
  for (uint16_t i = 0; i < slot.count; ++i) {
    Entry& e = slot.entry(i);
    if (!e.done) e.code = Code::kEpoch;
    e.done = true;
    e.locked = false;
    e.credit = 0;
  }
  slot.done_upto = slot.count;
  slot.reads_pending = 0;
  slot.commit_wanted = false;
  slot.waiting = 0;
  slot.verbs_pending = 0;
  fail(slot, Code::kEpoch, nullptr, Owner());
  if (slot.state == SlotState::kExecuting) {
    acks_.wake(slot);
    return;
  }
  slot.state = SlotState::kCommitting;  // also of one that was given up and drained
  slot.committing = false;
  acks_.acknowledge(slot);
  finish(slot);
}

void Coordinator::resolve(TxnSlot& slot, bool commits) {
  WEFT_CHECK(slot.state == SlotState::kCommitting, "recovery decides commits");
  WEFT_CHECK(slot.participants == 0 && slot.phase != Phase::kExecute, "recovery decides what was frozen in a phase");
  slot.committing = commits;
  if (!commits) fail(slot, Code::kEpoch, nullptr, Owner());
  slot.waiting = 0;
  slot.verbs_pending = 0;
  acks_.acknowledge(slot);
  finish(slot);
}

void Coordinator::abandon(TxnSlot& slot) {
  if (slot.state != SlotState::kCommitting) return;
  fail(slot, Code::kEpoch, nullptr, Owner());
  if (others_may_commit(slot)) {
    slot.outcome.code = Code::kEpoch;
    slot.outcome.kind = OutcomeKind::kUnknown;
  }
  acks_.acknowledge(slot);
  finish(slot);
}

}  // namespace weft
