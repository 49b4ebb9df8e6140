#include "weft/txn/interrupted_commits.h"

#include "weft/base/check.h"
#include "weft/txn/txn_scan.h"

namespace weft {

void InterruptedCommits::on_peer_lost(TxnSlot& slot, NodeId peer) {
  if (!slot.in_phases() || !slot.waiting.contains(peer) || ctx_.recovers) return;
  fail_for_peer(slot, nullptr, NodeSet::of(peer));
  slot.waiting.remove(peer);
  slot.locked_nodes.remove(peer);
  slot.executor.remove(peer);
  if ((slot.phase < Phase::kReplicate || slot.read_only) && !slot.unanimous) {
    if (slot.phase_over()) coordinator_.on_answered(slot);
    return;
  }
  slot.outcome.kind = OutcomeKind::kUnknown;
  acks_.acknowledge(slot);
}

void InterruptedCommits::freeze(TxnSlot& slot) {
  WEFT_CHECK(slot.stage != TxnStage::kFree, "a free slot has nothing to freeze");
  slot.participants = slot.credit_nodes = slot.locked_nodes = slot.record_nodes = slot.catching_up_nodes = {};
  slot.executor = {};
  slot.ring_bytes = 0;
  slot.notices_pending = 0;
  slot.next = nullptr;
  const bool sent = slot.in_phases() && slot.phase != Phase::kExecute;
  if (sent && !slot.read_only) return;
  if (slot.stage == TxnStage::kFinished) {
    acks_.fail_unacknowledged(slot);
    slots_.free_if_done(slot);
    return;
  }
  for (uint16_t i = 0; i < slot.count; ++i) {
    Entry& e = slot.entry(i);
    if (!e.done) e.code = Code::kEpoch;
    e.done = true;
    e.locked = e.asked = e.announced = false;
    e.credit = 0;
  }
  if (slot.scans != nullptr) end_scans(slot, Code::kEpoch);
  slot.done_upto = slot.count;
  slot.reads_pending = 0;
  slot.waiting = {};
  slot.verbs_pending = 0;
  fail(slot, Code::kEpoch, nullptr, Owner());
  if (slot.stage == TxnStage::kExecuting) {
    acks_.wake(slot);
    return;
  }
  if (slot.stage != TxnStage::kAborting) slot.enter(TxnStage::kAborting);
  acks_.acknowledge(slot);
  coordinator_.finish(slot);
}

void InterruptedCommits::resolve(TxnSlot& slot, bool commits) {
  WEFT_CHECK(slot.in_phases(), "recovery decides commits");
  WEFT_CHECK(slot.participants.empty() && slot.phase != Phase::kExecute, "recovery decides what was frozen in a phase");
  WEFT_CHECK(slot.stage == TxnStage::kCommitting || !commits || ctx_.bugs.mask != 0,
             "recovery does not commit what its coordinator aborts");
  if (!commits) {
    fail(slot, Code::kEpoch, nullptr, Owner());
    if (slot.stage != TxnStage::kAborting) slot.enter(TxnStage::kAborting);
  }
  slot.waiting = {};
  slot.verbs_pending = 0;
  acks_.acknowledge(slot);
  coordinator_.finish(slot);
}

void InterruptedCommits::abandon(TxnSlot& slot) {
  if (!slot.in_phases()) return;
  fail(slot, Code::kEpoch, nullptr, Owner());
  if (others_may_commit(slot)) {
    slot.outcome.code = Code::kEpoch;
    slot.outcome.kind = OutcomeKind::kUnknown;
  }
  acks_.acknowledge(slot);
  coordinator_.finish(slot);
}

}  // namespace weft
