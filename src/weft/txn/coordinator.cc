#include "weft/txn/coordinator.h"

#include "weft/base/check.h"
#include "weft/base/inline.h"
#include "weft/base/marks.h"
#include "weft/txn/messages.h"
#include "weft/txn/own_transport.h"
#include "weft/txn/piece_sender.h"
#include "weft/txn/scan_checks.h"
#include "weft/txn/txn_scan.h"
#include "weft/txn/verb_transport.h"

namespace weft {

Coordinator::Coordinator(WorkerContext& ctx, bool truncates_by_next_use, SlotTable& slots, ClientAcks& acks,
                         CreditGate& credit, const Planner& planner, const Transports& transports)
    : ctx_(ctx),
      slots_(slots),
      acks_(acks),
      planner_(planner),
      messages_(transports.messages),
      own_(transports.own),
      verbs_(transports.verbs),
      pieces_(transports.pieces),
      scans_(transports.scans),
      credit_(ctx.limits, credit, ctx.large_commit_bytes),
      local_(ctx, slots.size(), transports.scans),
      truncation_(ctx, slots, truncates_by_next_use) {}

// What the application asks for.

void Coordinator::start_commit(TxnSlot& slot) {
  if (slot.stage != TxnStage::kExecuting) {
    acks_.wake(slot);  // a second commit: the first one's outcome stands
    return;
  }
  if (slot.expired) {  // the answers in flight are awaited, then their locks are released
    abort_by_client(slot, Code::kNoAnswer);
    acks_.wake(slot);
    return;
  }
  WEFT_CHECK(slot.phase == Phase::kExecute && !slot.acknowledged, "what executes has no outcome");
  if (slot.reads_pending != 0) {
    slot.enter(TxnStage::kAwaitingReads);
    return;
  }
  begin_commit(slot);
}

void Coordinator::abort_by_client(TxnSlot& slot, Code why) {
  fail(slot, why == Code::kOk ? Code::kApplication : why, nullptr, Owner());
  slot.acknowledged = true;  // the application that gave it up knows
  if (!slot.single) acks_.note(slot);
  slot.enter(TxnStage::kDraining);
  if (slot.reads_pending == 0) abort(slot);
}

void Coordinator::detach(TxnSlot& slot) {
  if (&slot == slots_.refused()) return;
  slots_.detach(slot);
  if (slot.stage == TxnStage::kExecuting) {
    if (!slot.locked_nodes.empty() || slot.reads_pending != 0) WEFT_MARK("dropped_half_way");
    abort_by_client(slot, Code::kApplication);
  }
  slots_.free_if_done(slot);
  slots_.serve_waiter();
}

// From the plan to the first phase.

void Coordinator::begin_commit(TxnSlot& slot) {
  WEFT_CHECK(slot.reads_pending == 0 && slot.phase == Phase::kExecute && !slot.acknowledged,
             "a commit begins once, when all reads are in");
  const bool local = plan(slot);
  if (slot.outcome.code == Code::kOk && slot.count == 0 && slot.scans == nullptr) {
    slot.enter(TxnStage::kCommitting);
    acks_.acknowledge(slot);
    finish(slot);
  } else if (local) {
    slot.enter(TxnStage::kAwaitingBatch);
    local_.add(slot);
  } else if (slot.read_only && holds_here(slot)) {
    slot.enter(TxnStage::kCommitting);
    acks_.acknowledge(slot);
    finish(slot);
  } else if (slot.outcome.code == Code::kOk && credit_.nobody_waits(slot) && reserve(slot)) {
    slot.enter(TxnStage::kCommitting);
    advance(slot);
  } else if (slot.outcome.code != Code::kOk) {  // the plan failed, or it can never have the credit
    abort(slot);
  } else if (!slot.locked_nodes.empty()) {
    WEFT_MARK("no_credit_with_locks_held");
    fail(slot, Code::kBusy, nullptr, Owner());
    abort(slot);
  } else {
    WEFT_MARK("commit_waits_for_credit");
    slot.enter(TxnStage::kAwaitingCredit);
    credit_.enqueue(slot);
  }
}

// Returns true if the commit involves only this node.
WEFT_INLINE bool Coordinator::plan(TxnSlot& slot) {
  NodeSet nodes = planner_.plan(slot);
  if (slot.scans != nullptr) [[unlikely]]
    nodes |= scans_->plan(slot);
  if (is_local(slot, nodes)) return true;
  slot.participants = nodes;
  if (verbs_ != nullptr) verbs_->plan(slot);
  const NodeSet lost = nodes & ctx_.views.lost_peers();
  if (!lost.empty()) fail_for_peer(slot, nullptr, lost);
  return false;
}

// Replication that would go only to the primary is skipped: the value is there once it is installed.
//
// Where this node is sent messages too, a commit that was acknowledged may have an unlock in flight here, and its
// client must not run into those locks: then the commit queues up behind them, as messages.
bool Coordinator::is_local(const TxnSlot& slot, NodeSet nodes) const {
  const NodeSet own = NodeSet::of(ctx_.self);
  if (nodes != own || !slot.participants.empty() || slot.outcome.code != Code::kOk) return false;
  if (own_ != nullptr) return true;
  return !ctx_.port.has_open(ctx_.self, Flow::kCommit) && !ctx_.port.has_open(ctx_.self, Flow::kExecution);
}

// Rule G7: whether all that a transaction has read was at this node's replicas, and still is what they may serve.
bool Coordinator::holds_here(const TxnSlot& slot) const {
  // A scan is checked at its primary.
  if (slot.outcome.code != Code::kOk || slot.scans != nullptr) return false;
  for (uint16_t i = 0; i < slot.count; ++i) {
    if (!slot.entry(i).newest && !slot.entry(i).unvalidated) return false;
  }
  if (ctx_.bugs.has(PlantedBug::kReadsOfTwoMoments)) return true;
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if (e.unvalidated) continue;
    ctx_.touch_record();
    const bool primary = e.placement->primary() == ctx_.self || ctx_.bugs.has(PlantedBug::kHiddenReads);
    if (!e.table->is_newest(e.key, e.version, primary)) {
      WEFT_MARK("what was read at a replica does not hold there");
      return false;
    }
  }
  WEFT_MARK("read_only_commit_at_a_replica");
  return true;
}

bool Coordinator::reserve(TxnSlot& slot) {
  if (!credit_.take(slot)) return false;
  if (!slot.ring_nodes.empty()) verbs_->reserve(slot);
  return true;
}

// First come, first served, so that a large transaction is not starved by small ones.
bool Coordinator::retry_commits() {
  const bool some = retry_commits(CommitCredit::Line::kCredit);
  return retry_commits(CommitCredit::Line::kTurn) || some;
}

bool Coordinator::retry_commits(CommitCredit::Line line) {
  bool busy = false;
  while (TxnSlot* const first = credit_.first(line)) {
    TxnSlot& slot = *first;
    const NodeSet lost = slot.participants & ctx_.views.lost_peers();
    if (!lost.empty()) fail_for_peer(slot, nullptr, lost);
    const bool got_it = slot.outcome.code == Code::kOk && reserve(slot);
    if (!got_it && slot.outcome.code == Code::kOk) break;
    credit_.pop(line);
    if (got_it) {
      slot.enter(TxnStage::kCommitting);
      advance(slot);
    } else {
      abort(slot);
    }
    busy = true;
  }
  return busy;
}

bool Coordinator::run_local_commits() {
  if (local_.empty()) return false;
  local_.begin_batch();
  // None of these can add another one: a client that is acknowledged goes on in the next step.
  for (TxnSlot* slot : local_.queue()) {
    local_.commit(*slot);
    acks_.acknowledge(*slot);
    finish(*slot);
  }
  local_.clear();
  return true;
}

// From phase to phase.

void Coordinator::enter(TxnSlot& slot, Phase phase) {
  WEFT_CHECK(phase > slot.phase, "phases follow each other");
  WEFT_CHECK(slot.stage == TxnStage::kCommitting || phase == Phase::kUnlock, "what has failed only unlocks");
  slot.phase = phase;
  PlanStep step = slot.steps[index_of(phase)];
  if (phase == Phase::kUnlock) step = {slot.locked_nodes, slot.locked_nodes};
  WEFT_CHECK((step.await_from - slot.participants).empty(), "a commit awaits its participants only");
  if (phase == Phase::kReplicate) slot.record_nodes |= step.send_to;
  if (slot.scans != nullptr && phase == Phase::kValidate) [[unlikely]]
    return enter_with_scans(slot, step);
  if (slot.in_pieces) [[unlikely]]
    return enter_in_pieces(slot, phase, step);
  if (own_ != nullptr && !run_own(slot, phase, &step)) return;
  if (phase == Phase::kLock || phase == Phase::kReplicate) Truncation::opens_records(slot, step.send_to);
  if (verbs_ != nullptr) verbs_->post_phase(slot, phase, &step);
  slot.waiting = step.await_from;
  if (slot.phase_over()) return;
  if (!step.send_to.empty()) messages_.send(slot, phase, step.send_to);
  count_round_trip(slot, phase);
}

WEFT_INLINE void Coordinator::count_round_trip(TxnSlot& slot, Phase phase) {
  const bool remote = !(slot.waiting - NodeSet::of(ctx_.self)).empty() || slot.verbs_pending != 0;
  if (!slot.acknowledged && remote) {
    ++slot.round_trips;
    ++ctx_.counters.phase_round_trips[index_of(phase)];
  }
  if (remote && ctx_.conflicts.measures()) slot.asked_ns = ctx_.now_ns();
  if (ctx_.observer != nullptr) ctx_.observer->on_phase(ctx_.self, ctx_.id, slot);
}

// The same for a large commit: this node is a participant as any other, and answers when it has done its part.
void Coordinator::enter_in_pieces(TxnSlot& slot, Phase phase, const PlanStep& step) {
  if (phase == Phase::kLock || phase == Phase::kReplicate) Truncation::opens_records(slot, step.send_to);
  slot.waiting = step.await_from;
  if (slot.phase_over()) return;
  pieces_->add(slot, phase, step.send_to);
  count_round_trip(slot, phase);
}

// Validates where there are scans to check. Each node gets one message for its keys and its scans.
void Coordinator::enter_with_scans(TxnSlot& slot, PlanStep step) {
  scans_->begin(slot);
  if (!slot.in_pieces && own_ != nullptr && step.send_to.contains(ctx_.self)) {
    if (!run_own(slot, Phase::kValidate, &step)) return;
    scans_->check_own(slot);
    slot.waiting = {};
    if (slot.outcome.code != Code::kOk) return;
  }
  if (verbs_ != nullptr) verbs_->post_phase(slot, Phase::kValidate, &step);
  slot.waiting = step.await_from;
  if (slot.phase_over()) return;
  const NodeSet with_scans = ScanChecks::nodes_with_scans(slot, step.send_to);
  const NodeSet without = step.send_to - with_scans;
  scans_->send(slot, with_scans);
  if (slot.in_pieces) {
    if (!without.empty()) pieces_->add(slot, Phase::kValidate, without);
  } else if (!without.empty()) {
    messages_.send(slot, Phase::kValidate, without);
  }
  count_round_trip(slot, Phase::kValidate);
}

// Runs the phase at this node, if it has a part in it. Returns false if that was refused: then nobody else is asked.
WEFT_INLINE bool Coordinator::run_own(TxnSlot& slot, Phase phase, PlanStep* step) {
  const NodeSet own = NodeSet::of(ctx_.self);
  if ((step->send_to & own).empty()) return true;
  step->send_to -= own;
  step->await_from -= own;
  own_->run(slot, phase);
  if (phase == Phase::kLock || phase == Phase::kReplicate) Truncation::opens_records(slot, own);
  if (phase >= Phase::kReplicate || slot.outcome.code == Code::kOk) return true;
  slot.waiting = {};
  return false;
}

// The next phase that anybody has a part in, or after which the client is acknowledged.
WEFT_INLINE Phase Coordinator::next_phase(const TxnSlot& slot) const {
  auto next = static_cast<Phase>(static_cast<int>(slot.phase) + 1);
  while (next < Phase::kUnlock && verbs_ == nullptr && slot.steps[index_of(next)].send_to.empty() &&
         next != slot.ack_after) {
    next = static_cast<Phase>(static_cast<int>(next) + 1);
  }
  return next;
}

// Called when all answers of slot.phase have come (or there were none to wait for).
void Coordinator::advance(TxnSlot& slot) {
  WEFT_CHECK(slot.in_phases(), "only a commit has phases");
  WEFT_CHECK(slot.phase_over() && slot.reads_pending == 0, "a phase ends when all its answers are in");
  if (slot.asked_ns != 0) {
    ctx_.conflicts.note_round_trip(slot.asked_ns, ctx_.now_ns());
    slot.asked_ns = 0;
  }
  // In doubt, where views do not change: others may have applied it, so nobody may abort it any more.
  if (slot.acknowledged && slot.outcome.kind == OutcomeKind::kUnknown) return;
  do {
    if (slot.scans != nullptr && slot.phase == Phase::kValidate) [[unlikely]]
      scans_->end(slot);
    if (slot.outcome.code != Code::kOk && slot.phase != Phase::kUnlock) {
      abort(slot);
      return;
    }
    if (slot.stage == TxnStage::kCommitting && slot.phase == slot.ack_after) {
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
    const Phase next = next_phase(slot);
    if (next == Phase::kUnlock && ctx_.observer != nullptr && !slot.acknowledged) {
      ctx_.observer->on_commit_point(ctx_.self, ctx_.id, slot);
    }
    enter(slot, next);
  } while (slot.phase_over() || (slot.phase == Phase::kReplicate && ctx_.bugs.has(PlantedBug::kUnlockEarly)));
}

// The transaction has failed, and no answers are outstanding: unlocks what it has locked. Where every replica locks, a
// refusal is final only when all have unlocked.
void Coordinator::abort(TxnSlot& slot) {
  WEFT_CHECK(slot.outcome.code != Code::kOk && slot.phase != Phase::kUnlock,
             "what aborts has failed, and not unlocked");
  if (slot.stage != TxnStage::kAborting) slot.enter(TxnStage::kAborting);
  if (!slot.unanimous || slot.locked_nodes.empty()) acks_.acknowledge(slot);
  enter(slot, Phase::kUnlock);
  if (!slot.phase_over() && !ctx_.bugs.has(PlantedBug::kReusedUnacked)) return;
  acks_.acknowledge(slot);
  finish(slot);
}

void Coordinator::abort_expired(TxnSlot& slot) {
  switch (slot.stage) {
    case TxnStage::kAwaitingReads:
      slot.enter(TxnStage::kDraining);
      acks_.acknowledge(slot);
      break;
    case TxnStage::kAwaitingCredit:
      credit_.remove(slot);
      abort(slot);
      break;
    default:  // waits for its phase's answers, and then unlocks
      slot.enter(TxnStage::kAborting);
      acks_.acknowledge(slot);
  }
}

void Coordinator::finish(TxnSlot& slot) {
  WEFT_CHECK(slot.acknowledged && slot.notices_pending == 0 && slot.reads_pending == 0,
             "a commit finishes once, acknowledged and after its reads");
  const bool committed = slot.stage == TxnStage::kCommitting;
  slot.enter(TxnStage::kFinished);
  if (!slot.credit_nodes.empty() || credit_.has_turn(slot)) credit_.give_back(slot);
  slot.participants = slot.locked_nodes = slot.catching_up_nodes = {};
  if (slot.ring_bytes != 0) verbs_->give_back(slot);
  if (committed) truncation_.finished(slot);
  slots_.free_if_done(slot);
}

// Answers.

namespace {

WEFT_INLINE void take_lock_answer(TxnSlot& slot, const Message& m, const PhaseReply& answer) {
  const std::byte* const versions = m.body.data() + sizeof answer;  // 8-byte aligned, as every body is
  PhaseResult result;
  result.versions = {reinterpret_cast<const uint64_t*>(versions), size_t{answer.bases} + answer.erased};
  result.erased = answer.erased;
  MessageTransport::take_lock_versions(slot, m.source, result);
}

}  // namespace

void Coordinator::on_ack(const Batch&, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!m.ok) continue;
    const NodeSet source = NodeSet::of(m.source);
    const std::byte* const end = m.body.data() + m.body.size();
    for (const std::byte* at = m.body.data(); at != end; at += sizeof(PhaseAck)) {
      const auto ack = load<PhaseAck>(at);
      TxnSlot& slot = slots_.at(ack.slot);
      if (m.source != ctx_.self && ack.phase < kPhases) ++ctx_.counters.phase_messages[ack.phase];
      if (!slot.in_phases() || static_cast<uint16_t>(slot.sequence) != ack.sequence ||
          static_cast<Phase>(ack.phase) != slot.phase) {
        continue;
      }
      if (!slot.executor.empty() && slot.executor != source) {
        WEFT_MARK("a log is acknowledged before its executor has answered");
        slot.early_acks |= source;
        continue;
      }
      if ((slot.waiting & source).empty() || !slot.executor.empty()) continue;
      slot.waiting -= source;
      if (slot.phase == Phase::kLock) {
        slot.locked_nodes |= source;
        slot.record_nodes |= source;
        MessageTransport::take_lock_versions(slot, m.source, PhaseResult());
      }
      if (slot.phase_over()) advance(slot);
    }
  }
}

void Coordinator::on_reply(const Batch&, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!m.ok) continue;
    const auto answer = load<PhaseReply>(m.body.data());
    TxnSlot& slot = slots_.at(m.tag);
    const NodeSet source = NodeSet::of(m.source);
    if (m.source != ctx_.self && answer.phase < kPhases) ++ctx_.counters.phase_messages[answer.phase];
    if (!slot.in_phases() || static_cast<uint32_t>(slot.sequence) != answer.sequence ||
        static_cast<Phase>(answer.phase) != slot.phase || (slot.waiting & source).empty()) {
      continue;
    }
    const bool refused = static_cast<Code>(answer.code) != Code::kOk;
    if (!slot.executor.empty() || (slot.phase >= Phase::kReplicate && refused)) {
      ctx_.faults.report(m.source, "a refusal of what cannot be refused");
      continue;
    }
    slot.waiting -= source;
    if (static_cast<Code>(answer.code) != Code::kOk) {
      const Owner holder(answer.holder);
      if (answer.index >= TxnScan::kIndexBase) {
        const auto scan = static_cast<uint16_t>(answer.index - TxnScan::kIndexBase);
        fail_scan(slot, find_scan(slot, scan), static_cast<Code>(answer.code), holder);
      } else {
        const Entry* const entry = answer.index < slot.count ? &slot.entry(answer.index) : nullptr;
        fail(slot, static_cast<Code>(answer.code), entry, holder);
      }
    } else if (slot.phase == Phase::kLock) {
      slot.locked_nodes |= source;
      slot.record_nodes |= source;
      take_lock_answer(slot, m, answer);
    }
    if (slot.phase_over()) advance(slot);
  }
}

void Coordinator::on_unlocked(const Batch&, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!m.ok) continue;
    const NodeSet source = NodeSet::of(m.source);
    for (const TxnCompleteNotice& notice : NoticeQueue::of(m)) {
      TxnSlot& slot = slots_.at(notice.slot());
      if (!slot.in_phases() || slot.sequence != notice.sequence() || slot.phase != Phase::kUnlock ||
          (slot.waiting & source).empty()) {
        continue;
      }
      slot.waiting -= source;
      if (slot.phase_over()) advance(slot);
    }
  }
}

// The view ends.

void Coordinator::drop_queues() {
  local_.clear();
  credit_.drop_queues();
  if (pieces_ != nullptr) pieces_->clear();
  truncation_.clear();
}

}  // namespace weft
