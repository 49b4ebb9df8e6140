#include "weft/txn/coordinator.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/base/inline.h"
#include "weft/base/marks.h"
#include "weft/txn/messages.h"
#include "weft/txn/verb_transport.h"

namespace weft {

Coordinator::Coordinator(WorkerContext& ctx, SlotTable& slots, ClientAcks& acks, CreditGate& credit,
                         const Planner& planner, MessageTransport& messages, VerbTransport* verbs,
                         bool acked_before_unlock)
    : ctx_(ctx),
      slots_(slots),
      acks_(acks),
      planner_(planner),
      messages_(messages),
      verbs_(verbs),
      acked_before_unlock_(acked_before_unlock),
      credit_(ctx, credit),
      local_(ctx, slots.size()),
      complete_notices_(ctx, Kind::kDone, slots.size()) {}

// What the application asks for.

void Coordinator::start_commit(TxnSlot& slot) {
  if (slot.state != SlotState::kExecuting) {
    acks_.wake(slot);  // a second commit: the first one's outcome stands
    return;
  }
  if (slot.expired) {  // what it has in flight is let come in, and then released
    abort_by_client(slot, Code::kNoAnswer);
    acks_.wake(slot);
    return;
  }
  WEFT_CHECK(slot.phase == Phase::kExecute && !slot.acknowledged, "what executes has no outcome");
  slot.state = SlotState::kCommitting;
  if (slot.reads_pending != 0) {
    slot.commit_wanted = true;
    return;
  }
  begin_commit(slot);
}

void Coordinator::abort_by_client(TxnSlot& slot, Code why) {
  WEFT_CHECK(slot.state == SlotState::kExecuting, "only what executes is given up");
  fail(slot, why == Code::kOk ? Code::kApplication : why, nullptr, Owner());
  slot.acknowledged = true;  // whoever gave up knows
  if (!slot.single) acks_.note(slot);
  slot.state = SlotState::kDraining;
  if (slot.reads_pending == 0) release(slot);
}

void Coordinator::detach(TxnSlot& slot) {
  if (&slot == slots_.refused()) return;
  slots_.detach(slot);
  if (slot.state == SlotState::kExecuting) {
    if (slot.locked_nodes != 0 || slot.reads_pending != 0) WEFT_MARK("dropped_half_way");
    abort_by_client(slot, Code::kApplication);
  }
  slots_.free_if_done(slot);
  slots_.serve_waiter();
}

// From the plan to the first phase.

void Coordinator::begin_commit(TxnSlot& slot) {
  WEFT_CHECK(slot.state == SlotState::kCommitting && slot.reads_pending == 0, "a commit begins when all reads are in");
  WEFT_CHECK(slot.phase == Phase::kExecute && !slot.commit_wanted && !slot.acknowledged, "a commit begins once");
  plan(slot);
  if (slot.outcome.code == Code::kOk && slot.count == 0) {
    acks_.acknowledge(slot);
    finish(slot);
    return;
  }
  if (slot.single_node) {
    local_.add(slot);
  } else if (slot.outcome.code == Code::kOk && credit_.queue_empty() && reserve(slot)) {
    begin_phases(slot);
  } else if (slot.outcome.code != Code::kOk) {
    advance(slot);
  } else if (slot.locked_nodes != 0) {
    WEFT_MARK("no_credit_with_locks_held");
    fail(slot, Code::kBusy, nullptr, Owner());
    advance(slot);
  } else {
    WEFT_MARK("commit_waits_for_credit");
    credit_.enqueue(slot);
  }
}

WEFT_INLINE void Coordinator::plan(TxnSlot& slot) {
  const uint64_t nodes = planner_.plan(slot);
  slot.single_node = is_local(slot, nodes);
  if (slot.single_node) return;
  for_each_node(nodes & ~slot.participants, [&](NodeId n) { slot.credit[n.value] = 0; });
  slot.participants = nodes;
  if (verbs_ != nullptr) verbs_->plan(slot);
  CommitCredit::plan(slot);
  const uint64_t lost = nodes & ctx_.views.lost_peers();
  if (lost != 0) fail_for_peer(slot, nullptr, lost);
}

// What the row replicates to the primary only is not replicated: the value is there when it is installed.
//
// Rows that tell a commit before it is unlocked have unlocks in flight to this node, and whoever was told is not to
// meet them: then the commit queues up behind them, as messages.
bool Coordinator::is_local(const TxnSlot& slot, uint64_t nodes) const {
  const uint64_t own = uint64_t{1} << ctx_.self.value;
  if (nodes != own || slot.participants != 0 || slot.outcome.code != Code::kOk) return false;
  return !acked_before_unlock_ || !ctx_.port.has_open(ctx_.self, Flow::kCommit);
}

bool Coordinator::reserve(TxnSlot& slot) {
  if (!credit_.take(slot)) return false;
  if (slot.ring_nodes != 0) verbs_->reserve(slot);
  return true;
}

// First come, first served, so that a large transaction is not starved by small ones.
bool Coordinator::retry_commits() {
  bool busy = false;
  while (TxnSlot* const first = credit_.first()) {
    TxnSlot& slot = *first;
    const uint64_t lost = slot.participants & ctx_.views.lost_peers();
    if (lost != 0) fail_for_peer(slot, nullptr, lost);
    const bool got_it = slot.outcome.code == Code::kOk && reserve(slot);
    if (!got_it && slot.outcome.code == Code::kOk) break;
    credit_.pop();
    if (got_it) {
      begin_phases(slot);
    } else {
      advance(slot);
    }
    busy = true;
  }
  return busy;
}

bool Coordinator::run_local_commits() {
  if (local_.empty()) return false;
  local_.begin_batch();
  // None of these can make another one: whoever is told goes on in the next step.
  for (TxnSlot* slot : local_.queue()) {
    local_.commit(*slot);
    acks_.acknowledge(*slot);
    finish(*slot);
  }
  local_.clear();
  return true;
}

// From phase to phase.

void Coordinator::begin_phases(TxnSlot& slot) {
  WEFT_CHECK(slot.phase == Phase::kExecute && slot.outcome.code == Code::kOk, "what has failed sends no phase");
  slot.committing = true;
  advance(slot);
}

void Coordinator::enter(TxnSlot& slot, Phase phase) {
  WEFT_CHECK(phase > slot.phase, "phases follow each other");
  WEFT_CHECK(slot.outcome.code == Code::kOk || (phase == Phase::kUnlock && !slot.committing),
             "what has failed only unlocks");
  slot.phase = phase;
  PlanStep step = slot.steps[index_of(phase)];
  if (phase == Phase::kUnlock) step = {slot.locked_nodes, slot.locked_nodes};
  WEFT_CHECK((step.await_from & ~slot.participants) == 0, "a commit awaits its participants only");
  if (verbs_ != nullptr) verbs_->post_phase(slot, phase, &step);
  slot.waiting = step.await_from;
  if (slot.phase_over()) return;
  if (phase == Phase::kReplicate) slot.record_nodes |= slot.steps[index_of(phase)].send_to;
  if (step.send_to != 0) messages_.send(slot, phase, step.send_to);
  const bool remote = (slot.waiting & ~(uint64_t{1} << ctx_.self.value)) != 0 || slot.verbs_pending != 0;
  if (!slot.acknowledged && remote) {
    ++slot.round_trips;
    ++ctx_.counters.phase_round_trips[index_of(phase)];
  }
  if (ctx_.observer != nullptr) ctx_.observer->on_phase(ctx_.self, ctx_.id, slot);
}

// Called when the answers of slot.phase are all in (or there were none to wait for).
void Coordinator::advance(TxnSlot& slot) {
  WEFT_CHECK(slot.state == SlotState::kCommitting, "only a commit has phases");
  WEFT_CHECK(slot.phase_over() && slot.reads_pending == 0, "a phase ends when all its answers are in");
  // In doubt, where views do not change: others may have applied it, so that nobody may abort it any more.
  if (slot.acknowledged && slot.outcome.kind == OutcomeKind::kUnknown) return;
  for (;;) {
    if (slot.outcome.code != Code::kOk && slot.phase != Phase::kUnlock) {
      slot.committing = false;
      if (!slot.unanimous || slot.locked_nodes == 0) acks_.acknowledge(slot);
      enter(slot, Phase::kUnlock);
    } else {
      if (slot.committing && slot.phase == slot.ack_after) {
        if (ctx_.observer != nullptr && slot.writes != 0 && slot.phase < Phase::kUnlock) {
          ctx_.observer->on_commit_point(ctx_.self, ctx_.id, slot);
        }
        acks_.acknowledge(slot);
      }
      const bool last = slot.phase == Phase::kUnlock || (slot.read_only && slot.phase == Phase::kValidate);
      if (last) {
        acks_.acknowledge(slot);
        finish(slot);
        return;
      }
      const auto next = static_cast<Phase>(static_cast<int>(slot.phase) + 1);
      if (next == Phase::kUnlock && ctx_.observer != nullptr && !slot.acknowledged) {
        ctx_.observer->on_commit_point(ctx_.self, ctx_.id, slot);
      }
      enter(slot, next);
      if (next == Phase::kReplicate && ctx_.bugs.has(PlantedBug::kUnlockEarly)) continue;
    }
    if (!slot.phase_over()) return;
  }
}

// A transaction that was given up, when all its reads are in: unlocks what they locked.
void Coordinator::release(TxnSlot& slot) {
  WEFT_CHECK(slot.state == SlotState::kDraining && slot.reads_pending == 0, "what is released has been given up");
  slot.committing = false;
  slot.state = SlotState::kCommitting;
  advance(slot);
}

void Coordinator::finish(TxnSlot& slot) {
  WEFT_CHECK(slot.state == SlotState::kCommitting && slot.acknowledged, "what is finished has been acknowledged");
  WEFT_CHECK(slot.notices_pending == 0 && slot.reads_pending == 0, "a commit finishes once, after its reads");
  slot.state = SlotState::kFinished;
  credit_.give_back(slot);
  slot.participants = slot.locked_nodes = slot.fill_nodes = 0;
  if (slot.ring_bytes != 0) verbs_->give_back(slot);
  if (slot.committing) {
    for_each_node(slot.record_nodes, [&](NodeId n) {
      complete_notices_.add(n, {static_cast<uint32_t>(slot.sequence), slot.index});
      ++slot.notices_pending;
    });
  }
  slots_.free_if_done(slot);
}

bool Coordinator::send_notices() {
  if (complete_notices_.empty()) return false;
  return complete_notices_.send(slots_.runs_short(), [&](const TxnCompleteNotice& notice) {
    TxnSlot& slot = slots_.at(notice.slot);
    WEFT_CHECK(slot.state == SlotState::kFinished && slot.notices_pending != 0, "notices are of what is finished");
    --slot.notices_pending;
    slots_.free_if_done(slot);
  });
}

// Answers.

void Coordinator::on_reply(const Batch& batch, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!batch.ok(m)) continue;
    const auto answer = load<PhaseReply>(m.body.data());
    TxnSlot& slot = slots_.at(m.tag);
    const uint64_t bit = uint64_t{1} << m.source.value;
    if (m.source != ctx_.self && answer.phase < kPhases) ++ctx_.counters.phase_messages[answer.phase];
    if (slot.state != SlotState::kCommitting || static_cast<uint32_t>(slot.sequence) != answer.sequence ||
        static_cast<Phase>(answer.phase) != slot.phase || (slot.waiting & bit) == 0) {
      continue;
    }
    if (slot.phase >= Phase::kReplicate && static_cast<Code>(answer.code) != Code::kOk) {
      ctx_.faults.report(m.source, "a refusal of what cannot be refused");
      continue;
    }
    slot.waiting &= ~bit;
    if (static_cast<Code>(answer.code) != Code::kOk) {
      fail(slot, static_cast<Code>(answer.code), answer.index < slot.count ? &slot.entry(answer.index) : nullptr,
           Owner(answer.holder));
    } else if (slot.phase == Phase::kLock) {
      note_locked(slot, m);
    }
    if (slot.phase_over()) advance(slot);
  }
}

// A node has locked all its keys: the answer brings their versions.
WEFT_INLINE void Coordinator::note_locked(TxnSlot& slot, const Message& m) {
  const auto answer = load<PhaseReply>(m.body.data());
  const uint64_t bit = uint64_t{1} << m.source.value;
  slot.locked_nodes |= bit;
  slot.record_nodes |= bit;
  const std::byte* bases = m.body.data() + sizeof answer;
  int n = 0;
  for (uint16_t i = 0; i < slot.count; ++i) {
    Entry& e = slot.entry(i);
    if ((e.at[index_of(Phase::kLock)] & bit) == 0 || n >= answer.bases) continue;
    const Version base(load<uint64_t>(bases + n++ * sizeof(uint64_t)));
    if (e.write != Write::kNone && e.base != Version() && e.base != base && !e.locked) {
      fail(slot, Code::kVersionMoved, &e, Owner());
    }
    e.base = base;
  }
  bases += answer.bases * sizeof(uint64_t);
  uint32_t erased = 0;
  for (uint16_t i = 0; answer.erased != 0 && i < slot.count; ++i) {
    Entry& e = slot.entry(i);
    const bool locked_there = (e.at[index_of(Phase::kLock)] & bit) != 0;
    if (!locked_there || e.write != Write::kErase || erased >= answer.erased) continue;
    e.replaced = Version(load<uint64_t>(bases + erased++ * sizeof(uint64_t)));
  }
}

void Coordinator::on_unlocked(const Batch& batch, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!batch.ok(m)) continue;
    if (m.source != ctx_.self) ++ctx_.counters.phase_messages[index_of(Phase::kUnlock)];
    const uint64_t bit = uint64_t{1} << m.source.value;
    for (const TxnCompleteNotice& notice : NoticeQueue::of(m)) {
      TxnSlot& slot = slots_.at(notice.slot);
      if (slot.state != SlotState::kCommitting || static_cast<uint32_t>(slot.sequence) != notice.sequence ||
          slot.phase != Phase::kUnlock || (slot.waiting & bit) == 0) {
        continue;
      }
      slot.waiting &= ~bit;
      if (slot.phase_over()) advance(slot);
    }
  }
}

}  // namespace weft
