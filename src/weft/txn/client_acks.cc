#include "weft/txn/client_acks.h"

#include "weft/base/check.h"
#include "weft/base/marks.h"

namespace weft {

void ClientAcks::acknowledge(TxnSlot& slot) {
  if (slot.acknowledged) return;
  WEFT_CHECK(slot.stage > TxnStage::kExecuting, "what executes has no outcome");
  WEFT_CHECK((slot.outcome.code == Code::kOk) == slot.outcome.committed(), "what did not commit has a reason");
  slot.acknowledged = true;
  note(slot);
  if (!slot.read_only || !waits_for_lease(slot)) count(slot);
  wake_with_lease(slot);
}

void ClientAcks::count(const TxnSlot& slot) {
  const Outcome& out = slot.outcome;
  Counters& counters = ctx_.counters;
  if (out.code == Code::kOk) {
    ++counters.committed;
    ++counters.commits_counted;
    counters.commit_round_trips += slot.round_trips;
    latency_ns_.record(ctx_.now_ns() - slot.begun_ns);
  } else {
    ++(out.kind == OutcomeKind::kRejected  ? counters.rejected
       : out.kind == OutcomeKind::kUnknown ? counters.unknown
                                           : counters.aborted);
    ++counters.aborts_by_code[static_cast<int>(out.code)];
    if (slot.round_trips != 0) {
      ++counters.aborts_counted;
      counters.abort_round_trips += slot.round_trips;
    }
  }
}

// The outcome of a commit that wrote nothing is not recorded: until it is acknowledged it may still become an abort
// (rule E4), and nobody can see a difference.
void ClientAcks::note(const TxnSlot& slot) {
  const Outcome& out = slot.outcome;
  if (out.kind == OutcomeKind::kUnknown || (out.code == Code::kOk && slot.read_only)) return;
  outcomes_.note(slot.incarnation, slot.sequence, out.code == Code::kOk, ctx_.now_ns());
}

void ClientAcks::count_single(const TxnSlot& slot) {
  WEFT_CHECK(slot.single && slot.outcome.code == Code::kOk, "a single read that was answered");
  ++ctx_.counters.committed;
  latency_ns_.record(ctx_.now_ns() - slot.begun_ns);
}

void ClientAcks::wake(TxnSlot& slot) {
  if (!slot.waiter) return;
  WEFT_CHECK(slot.stage != TxnStage::kFree, "nobody waits for a free slot");
  ctx_.worker->ready(slot.waiter);
  slot.waiter = {};
}

bool ClientAcks::waits_for_lease(const TxnSlot& slot) const {
  return slot.waiter && slot.outcome.code == Code::kOk && ctx_.state.lease.in_use() &&
         !ctx_.bugs.has(PlantedBug::kNoLeaseCheck);
}

void ClientAcks::wake_with_lease(TxnSlot& slot) {
  if (waits_for_lease(slot)) {
    waiting_.push_back({&slot, slot.sequence});
  } else {
    wake(slot);
  }
}

void ClientAcks::fail_unacknowledged(TxnSlot& slot) {
  WEFT_CHECK(slot.stage == TxnStage::kFinished && slot.acknowledged, "it has an outcome that its client waits for");
  if (!slot.waiter || !slot.read_only || (ctx_.views.removed() && ctx_.bugs.has(PlantedBug::kToldRemoved))) return;
  fail(slot, Code::kEpoch, nullptr, Owner());
  wake_unacknowledged(slot);
}

void ClientAcks::wake_unacknowledged(TxnSlot& slot) {
  WEFT_CHECK(slot.outcome.code != Code::kOk, "what has become an abort has a reason");
  count(slot);
  wake(slot);
}

void ClientAcks::forget(const TxnSlot& slot) {
  std::erase_if(waiting_, [&](const Waiting& waiting) { return waiting.slot == &slot; });
}

void ClientAcks::release(bool now) {
  const uint64_t late_ns = ctx_.bugs.has(PlantedBug::kToldLate) ? 2'000'000 : 0;
  if (!now && ctx_.now_ns() >= ctx_.state.lease.until_ns() + late_ns) {
    WEFT_MARK("an outcome waits for the lease");
    return;
  }
  if (!now && !waiting_.empty()) change_.acknowledged(ctx_.now_ns());
  for (const auto& [slot, sequence] : waiting_) {
    if (slot->sequence != sequence || !slot->waiter) continue;  // the application has gone
    if (slot->read_only) count(*slot);
    wake(*slot);
  }
  waiting_.clear();
}

}  // namespace weft
