// The member's side of recovery (recovery.h): stop, report, write decisions down, go on. Carrying them out:
// recovery_apply.cc.
#include <algorithm>
#include <cstring>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/engine.h"

namespace weft {

void Engine::adopt(std::shared_ptr<const View> view) {
  WEFT_CHECK(view->epoch > view_->epoch || !served_, "views only grow");
  const Member* self = view->find(self_);
  if (posts_ != nullptr) stop_verbs(*view);
  active_ = false;
  change_.adopted(view->epoch.value, in_use_, worker_->now_ns());
  retired_ = self == nullptr || self->token != node_->token() || (served_ && self->incarnation != incarnation_);
  stop_transactions();
  if (bugs_.has(Bug::kForgetsDecisions)) forget_decisions();
  for (int n = 0; n < nodes_; ++n) {
    const NodeId node(static_cast<uint8_t>(n));
    const Member* now = retired_ ? nullptr : view->find(node);
    const uint32_t is = now == nullptr ? 0 : now->incarnation;
    uint32_t& met = met_[node.value];
    if (node != self_ && met == is && is != 0 && node_->reconnects(node) > view_->epoch.value) begin_anew(node, is);
    if (node == self_ || met == is) continue;
    if (met != 0) gone_ |= uint64_t{1} << n;
    met = is;
    port_.renew(node);  // first: what it still sends to the old one must not reach the new one
    wire_->admit(node, is);
    lost_peers_ &= ~(uint64_t{1} << n);
  }
  old_views_.push_back(std::move(view_));
  view_ = std::move(view);
  node_->worker_adopted(view_->epoch, id_);
  if (retired_) {
    port_.set_epoch(port_epoch(view_->epoch, false));
    retire();
    return;
  }
  if (!served_) incarnation_ = self->incarnation;
  if (!bugs_.has(Bug::kOldEpochAccepted) || !served_) port_.set_epoch(port_epoch(view_->epoch, false));
  member_ = MemberRecovery();
  leader_.reset();
  if (view_->leader() == self_) {
    leader_ = std::make_unique<LeaderRecovery>();
    leader_->members = leader_->waiting = view_->member_mask();
  }
}

// The same two processes get another connection: nothing of the last one, and nothing that waits for it.
void Engine::begin_anew(NodeId peer, uint32_t incarnation) {
  WEFT_MARK("two that have lost each other begin anew");
  port_.renew(peer);
  wire_->admit(peer, 0);
  wire_->admit(peer, incarnation);
}

// What executes is aborted (E3), what commits is frozen until recovery has decided it.
void Engine::stop_transactions() {
  local_gets_.clear();
  gets_without_credit_.clear();
  alone_.clear();
  credit_first_ = credit_last_ = nullptr;
  dones_.clear();
  unlocked_.clear();
  credit_.reset();
  for (const auto& s : slots_) {
    TxnSlot& slot = *s;
    if (slot.state == SlotState::kFree) continue;
    note_own(slot);
    slot.participants = slot.locked_nodes = slot.record_nodes = slot.fill_nodes = 0;
    slot.ring_bytes = 0;
    slot.dones_pending = 0;
    slot.next = nullptr;
    const bool sent = slot.state == SlotState::kCommitting && slot.phase != Phase::kExecute;
    if (sent && slot.row != &kReadOnly) continue;
    if (slot.state == SlotState::kFinished) {
      refuse_untold(slot);
      maybe_free(slot);
      continue;
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
    slot.posts_waiting = 0;
    fail(slot, Code::kEpoch, nullptr, Owner());
    if (slot.state == SlotState::kExecuting) {
      wake(slot);
    } else {
      slot.committing = false;
      tell(slot);
      finish(slot);
    }
  }
}

// A worker that stops again before it was active keeps what it noted first.
void Engine::note_own(const TxnSlot& slot) {
  for (const OwnTransaction& own : own_) {
    if (own.slot == slot.index) return;
  }
  Ending ending = Ending::kAbort;
  if (slot.state == SlotState::kFinished) {
    if (!slot.committing || slot.dones_pending == 0) return;
    ending = Ending::kCommit;
  } else if (slot.state == SlotState::kCommitting && slot.committing) {
    ending = slot.phase == Phase::kUnlock || slot.told ? Ending::kCommit : Ending::kOpen;
  }
  own_.push_back({slot.sequence, slot.index, ending});
}

// Not a member any more: nobody here will learn how those of its commits ended that others can bring to their end.
void Engine::retire() {
  WEFT_MARK("retired");
  for (const auto& slot : slots_) {
    if (slot->state != SlotState::kCommitting) continue;
    fail(*slot, Code::kEpoch, nullptr, Owner());
    if (others_may_commit(*slot)) {
      slot->outcome.code = Code::kEpoch;
      slot->outcome.kind = OutcomeKind::kUnknown;
    }
    tell(*slot);
    finish(*slot);
  }
  release_told(true);
  while (begin_first_ != nullptr && in_use_ < limits_.inflight && !free_slots_.empty()) give_slot_to_waiter();
}

// One step of whatever is left to do before this worker is active.
bool Engine::recovery_step() {
  bool busy = false;
  if (member_.asked && !member_.reported) busy |= report();
  const bool fenced = worker_->now_ns() >= node_->fenced_after_ns() || bugs_.has(Bug::kNoFenceWait);
  const bool may_apply = member_.applying && !member_.applied && fenced;
  if (may_apply) {
    const Progress progress = carry_out_step();
    busy |= progress != Progress::kWaits;
    if (progress == Progress::kDone) {
      member_.applied = true;
      send_recovery(view_->leader(), RecoveryStep::kApplied);
    }
  }
  if (leader_ != nullptr) busy |= lead();
  if (member_.all_applied) {
    if (settle_tables()) {
      activate();
      node_->went_active(view_);
    }
    busy = true;
  }
  return busy;
}

bool Engine::parse_recovery(const Message& m) {
  if (m.body.size() < sizeof(RecoveryHeader)) return false;
  const auto header = load<RecoveryHeader>(m.body.data());
  if (header.step > static_cast<uint8_t>(RecoveryStep::kActive) || header.coordinator >= nodes_ ||
      header.slot >= log_.slots() || header.row >= kRows.size() ||
      header.ending > static_cast<uint8_t>(Ending::kAbort)) {
    return false;
  }
  ByteView left = m.body.subspan(sizeof header);
  for (int i = 0; i < header.keys; ++i) {
    if (left.size() < sizeof(KeyPart)) return false;
    const auto part = load<KeyPart>(left.data());
    if (part.table >= node_->tables() || part.write > static_cast<uint8_t>(Write::kErase)) return false;
    const Table* table = node_->table(TableId(part.table));
    if (part.key_bytes > limits_.key_bytes_max || part.value_bytes > table->spec().value_bytes_max) return false;
    if (table->spec().keys == KeyKind::kInteger && part.key_bytes != 8) return false;
    if (static_cast<RecoveryStep>(header.step) == RecoveryStep::kDecide && !makes_sense(Kind::kReplicate, part)) {
      return false;
    }
    const size_t value_bytes = (part.flags & kHasValue) != 0 ? part.value_bytes : 0;
    const size_t need = sizeof part + padded(part.key_bytes) + padded(value_bytes);
    if (left.size() < need) return false;
    left = left.subspan(need);
  }
  return true;
}

void Engine::on_recovery(std::span<const Message> run) {
  for (const Message& m : run) {
    if (!parsed(m).ok) continue;
    const auto header = load<RecoveryHeader>(m.body.data());
    if (header.epoch != view_->epoch.value || active_ || retired_) continue;
    const auto step = static_cast<RecoveryStep>(header.step);
    const bool leads = step == RecoveryStep::kAsk || step == RecoveryStep::kDecide || step == RecoveryStep::kWrite ||
                       step == RecoveryStep::kApply || step == RecoveryStep::kActive;
    if (leads && m.source != view_->leader()) {
      bad_message(m.source, "a step of recovery from a node that does not lead it");
      continue;
    }
    switch (step) {
      case RecoveryStep::kAsk:
        member_.asked = true;
        break;
      case RecoveryStep::kDecide:
        write_decision(m, header);
        break;
      case RecoveryStep::kWrite:
        if (!all_decided()) {
          bad_message(m.source, "not all that is open has been decided");
          break;
        }
        member_.wrote = true;
        send_recovery(m.source, RecoveryStep::kWrote);
        break;
      case RecoveryStep::kApply:
        if (!member_.wrote && !bugs_.has(Bug::kNotWritten)) {
          bad_message(m.source, "decisions to carry out that are not written");
          break;
        }
        member_.applying = true;
        break;
      case RecoveryStep::kActive:
        if (!member_.applied) {
          bad_message(m.source, "a view that is active before everything is carried out");
          break;
        }
        member_.all_applied = true;
        break;
      default:
        if (leader_ != nullptr) hear(m, header);
        break;
    }
  }
}

const Decision* Engine::decision_on(NodeId coordinator, uint32_t incarnation, uint8_t slot, uint32_t sequence) const {
  for (const Decision& d : decisions_) {
    if (d.coordinator == coordinator && d.incarnation == incarnation && d.slot == slot && d.sequence == sequence) {
      return &d;
    }
  }
  return nullptr;
}

// Every commit of this worker and every record here: that there is nothing else left, activate() relies on.
bool Engine::all_decided() const {
  const bool own = std::all_of(slots_.begin(), slots_.end(), [&](const auto& slot) {
    return slot->state != SlotState::kCommitting ||
           decision_on(self_, incarnation_, slot->index, static_cast<uint32_t>(slot->sequence)) != nullptr;
  });
  bool records = true;
  for (int n = 0; n < nodes_; ++n) {
    const NodeId node(static_cast<uint8_t>(n));
    for (int s = 0; s < log_.slots(); ++s) {
      const LogRecord& record = log_.at(node, static_cast<uint8_t>(s));
      if (record.state == 0) continue;
      records = records && decision_on(node, record.incarnation, static_cast<uint8_t>(s),
                                       static_cast<uint32_t>(record.sequence)) != nullptr;
    }
  }
  return own && records;
}

// The bug: only that a record was brought to an end is still known, as otherwise it could not be touched again.
void Engine::forget_decisions() {
  for (const Decision& decision : decisions_) {
    LogRecord& record = log_.at(decision.coordinator, decision.slot);
    if (decision.carried_out && record.is(decision.incarnation, decision.sequence)) record.ended = true;
    log_.drop_parts(decision.keys);
  }
  decisions_.clear();
}

void Engine::write_decision(const Message& m, const RecoveryHeader& header) {
  // It was carried out before this worker was last active, and others may have gone on since.
  if (header.decided_epoch <= active_epoch_.value && !bugs_.has(Bug::kDecisionAgain)) return;
  const NodeId coordinator(header.coordinator);
  const LogRecord& record = log_.at(coordinator, header.slot);
  const bool has_record = record.is(header.incarnation, header.sequence);
  const bool own = coordinator == self_ && header.incarnation == incarnation_;
  if (!has_record && !own && record.was_finished(header.incarnation, header.sequence)) return;
  if (decision_on(coordinator, header.incarnation, header.slot, header.sequence) != nullptr) return;
  if (decisions_.size() >= open_max() * static_cast<size_t>(nodes_)) {
    bad_message(m.source, "more decisions than there can be transactions");
    return;
  }
  decisions_.push_back({coordinator, header.slot, header.sequence, header.incarnation, header.decided_epoch,
                        header.sequence_high, static_cast<Ending>(header.ending) == Ending::kCommit});
  if (header.keys == 0) return;
  std::byte* at;
  LogPart* part = log_.make_part(header.keys, m.body.size() - sizeof header, &at);
  std::memcpy(at, m.body.data() + sizeof header, m.body.size() - sizeof header);
  for (LogKey& key : part->all()) {
    const auto in = load<KeyPart>(at);
    const std::byte* bytes = at + sizeof in;
    key.table_id = TableId(in.table);
    key.table = node_->table(key.table_id);
    key.key = key.table->hashed({bytes, in.key_bytes});
    key.has_value = (in.flags & kHasValue) != 0;
    key.value = {bytes + padded(in.key_bytes), key.has_value ? in.value_bytes : 0};
    key.version = Version(in.version);
    key.write = static_cast<Write>(in.write);
    key.index = in.index;
    at += sizeof in + padded(in.key_bytes) + padded(key.value.size());
  }
  decisions_.back().keys = part;
}

void Engine::activate() {
  for (const auto& s : slots_) {
    TxnSlot& slot = *s;
    if (slot.state != SlotState::kCommitting) continue;
    const Decision* decision = decision_on(self_, incarnation_, slot.index, static_cast<uint32_t>(slot.sequence));
    WEFT_CHECK(decision != nullptr, "recovery decides every commit of a member");
    slot.committing = decision->commit;
    if (!slot.committing) fail(slot, Code::kEpoch, nullptr, Owner());
    slot.waiting = 0;
    slot.posts_waiting = 0;
    tell(slot);
    finish(slot);
  }
  for (int n = 0; n < nodes_; ++n) {
    const NodeId node(static_cast<uint8_t>(n));
    for (int s = 0; s < log_.slots(); ++s) {
      LogRecord& record = log_.at(node, static_cast<uint8_t>(s));
      if (record.state == 0) continue;
      const Decision* decision =
          decision_on(node, record.incarnation, static_cast<uint8_t>(s), static_cast<uint32_t>(record.sequence));
      WEFT_CHECK(decision != nullptr && decision->carried_out, "recovery decides every record");
      log_.drop(record, decision->commit);
    }
    if ((gone_ >> n & 1U) == 0) continue;
    for (int s = 0; s < log_.slots(); ++s) note_aborted_here(log_.at(node, static_cast<uint8_t>(s)));
    log_.forget(node);
  }
  // Finished here too, for those who ask in a later recovery.
  for (const Decision& decision : decisions_) {
    LogRecord& record = log_.at(decision.coordinator, decision.slot);
    const bool lives = incarnation_of(decision.coordinator) == decision.incarnation;
    if (lives && !record.was_finished(decision.incarnation, decision.sequence)) {
      record.finished = decision.sequence;
      record.finished_incarnation = decision.incarnation;
      record.finished_commit = decision.commit;
    }
    log_.drop_parts(decision.keys);
  }
  decisions_.clear();
  gone_ = 0;
  own_.clear();
  leader_.reset();
  active_ = served_ = true;
  active_epoch_ = view_->epoch;
  uint32_t oldest = view_->epoch.value;
  for (const auto& slot : slots_) {
    if (slot->state != SlotState::kFree) oldest = std::min(oldest, slot->epoch);
  }
  std::erase_if(old_views_, [&](const auto& view) { return view->epoch.value < oldest; });
  port_.set_epoch(port_epoch(view_->epoch, true));
  change_.active(worker_->now_ns());
  release_told(true);
  begin_filling();
  discards_ = id_.value == node_->workers() - 1 && node_->has_stale();
  while (begin_first_ != nullptr && in_use_ < limits_.inflight && !free_slots_.empty()) give_slot_to_waiter();
}

}  // namespace weft
