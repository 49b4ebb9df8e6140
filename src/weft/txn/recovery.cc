// The member's side of recovery (recovery.h): stop, report, write decisions down, carry them out, go on.
#include <algorithm>
#include <cstring>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/engine.h"

namespace weft {

void Engine::adopt(std::shared_ptr<const View> view) {
  WEFT_CHECK(view->epoch > view_->epoch || !served_, "views only grow");
  const Member* self = view->find(self_);
  active_ = false;
  retired_ = self == nullptr || (served_ && self->incarnation != incarnation_);
  stop_transactions();
  for (int n = 0; n < nodes_; ++n) {
    const NodeId node(static_cast<uint8_t>(n));
    const Member* now = retired_ ? nullptr : view->find(node);
    const uint32_t is = now == nullptr ? 0 : now->incarnation;
    uint32_t& met = met_[node.value];
    if (node == self_ || met == is) continue;
    if (met != 0) gone_ |= uint64_t{1} << n;
    met = is;
    port_.renew(node);  // first: what it still sends to the old one must not reach the new one
    wire_->admit(node, is);
    lost_peers_ &= ~(uint64_t{1} << n);
  }
  if (!filled_from_) filled_from_ = view_;
  old_views_.push_back(std::move(view_));
  view_ = std::move(view);
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

// What executes is aborted (E3), what commits is frozen until recovery has decided it.
void Engine::stop_transactions() {
  local_gets_.clear();
  gets_without_credit_.clear();
  credit_first_ = credit_last_ = nullptr;
  for (DoneQueue& queue : dones_) queue.items.clear();
  dones_queued_ = 0;
  credit_.reset();
  for (const auto& s : slots_) {
    TxnSlot& slot = *s;
    if (slot.state == SlotState::kFree) continue;
    note_own(slot);
    slot.participants = slot.locked_nodes = slot.record_nodes = slot.fill_nodes = 0;
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
  Verdict verdict = Verdict::kAbort;
  if (slot.state == SlotState::kFinished) {
    if (!slot.committing || slot.dones_pending == 0) return;
    verdict = Verdict::kCommit;
  } else if (slot.state == SlotState::kCommitting && slot.outcome.code == Code::kOk && slot.committing) {
    verdict = slot.phase == Phase::kUnlock || slot.told ? Verdict::kCommit : Verdict::kOpen;
  }
  own_.push_back({static_cast<uint32_t>(slot.sequence), slot.index, verdict});
}

// Not a member any more: nobody here will learn how its commits ended.
void Engine::retire() {
  WEFT_MARK("retired");
  for (const auto& slot : slots_) {
    if (slot->state != SlotState::kCommitting) continue;
    fail(*slot, Code::kEpoch, nullptr, Owner());
    slot->outcome.code = Code::kEpoch;
    slot->outcome.kind = OutcomeKind::kUnknown;
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
  if (member_.applying && !member_.applied && worker_->now_ns() >= node_->fenced_after_ns()) {
    carry_out();
    member_.applied = true;
    send_recovery(view_->leader(), RecoveryStep::kApplied);
    busy = true;
  }
  if (leader_ != nullptr) busy |= lead();
  return busy;
}

void Engine::send_recovery(NodeId to, RecoveryStep step) {
  RecoveryHeader header{};
  header.step = static_cast<uint8_t>(step);
  header.served = served_;
  send_recovery(to, header, {});
}

void Engine::send_recovery(NodeId to, RecoveryHeader header, std::span<const std::byte> keys) {
  header.epoch = view_->epoch.value;
  std::byte* at =
      port_.reserve(to, Flow::kRecovery, static_cast<uint8_t>(Kind::kRecovery), sizeof header + keys.size());
  store(at, header);
  if (!keys.empty()) std::memcpy(at + sizeof header, keys.data(), keys.size());
}

void Engine::add_key(std::vector<std::byte>& to, const KeyPart& part, ByteView key, ByteView value) {
  const size_t at = to.size();
  to.resize(at + sizeof part + padded(key.size()) + padded(value.size()));
  std::byte* bytes = to.data() + at;
  store(bytes, part);
  std::memcpy(bytes + sizeof part, key.data(), key.size());
  if (!value.empty()) std::memcpy(bytes + sizeof part + padded(key.size()), value.data(), value.size());
}

// Sends a little at a time: nobody holds credit for this.
bool Engine::report() {
  const NodeId leader = view_->leader();
  const size_t records = static_cast<size_t>(nodes_) * static_cast<size_t>(log_.slots());
  bool busy = false;
  while (member_.next < records + own_.size() + decisions_.size()) {
    if (port_.backlog(leader, Flow::kRecovery) > limits_.credit_bytes / 2) return busy;
    const size_t i = member_.next++;
    busy = true;
    if (i < records) {
      const NodeId coordinator(static_cast<uint8_t>(i / static_cast<size_t>(log_.slots())));
      report_record(coordinator, static_cast<uint8_t>(i % static_cast<size_t>(log_.slots())));
      continue;
    }
    RecoveryHeader header{};
    if (i - records >= own_.size()) {
      const Decision& decision = decisions_[i - records - own_.size()];
      header.step = static_cast<uint8_t>(RecoveryStep::kDecided);
      header.coordinator = decision.coordinator.value;
      header.slot = decision.slot;
      header.sequence = decision.sequence;
      header.incarnation = decision.incarnation;
      header.decided_epoch = decision.epoch;
      header.verdict = static_cast<uint8_t>(decision.commit ? Verdict::kCommit : Verdict::kAbort);
      send_part(leader, header, decision.keys, false);
      continue;
    }
    const OwnTransaction& own = own_[i - records];
    header.step = static_cast<uint8_t>(RecoveryStep::kSlot);
    header.coordinator = self_.value;
    header.slot = own.slot;
    header.sequence = own.sequence;
    header.incarnation = incarnation_;
    header.row = row_index_;
    header.verdict = static_cast<uint8_t>(own.verdict);
    report_own(header, *slots_[own.slot]);
  }
  send_recovery(leader, RecoveryStep::kReported);
  member_.reported = true;
  return true;
}

// With the writes of what is committed: for some keys the coordinator may be the only one left that has them (rule K2
// counts it).
void Engine::report_own(RecoveryHeader header, const TxnSlot& slot) {
  std::vector<std::byte> bytes;
  const bool same = slot.state == SlotState::kCommitting && static_cast<uint32_t>(slot.sequence) == header.sequence;
  for (uint16_t i = 0; same && i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if (e.write == Write::kNone || static_cast<Verdict>(header.verdict) != Verdict::kCommit) continue;
    KeyPart out{};
    out.version = e.base.value + 1;
    out.value_bytes = e.new_bytes;
    out.table = e.table_id.value;
    out.key_bytes = static_cast<uint16_t>(e.key.bytes.size());
    out.write = static_cast<uint8_t>(e.write);
    out.index = static_cast<uint8_t>(i);
    const bool erase = e.write == Write::kErase;
    if (!erase) out.flags |= kHasValue;
    add_key(bytes, out, e.key.bytes, erase ? ByteView() : ByteView(e.new_value, e.new_bytes));
    ++header.keys;
  }
  send_recovery(view_->leader(), header, bytes);
}

void Engine::report_record(NodeId coordinator, uint8_t slot) {
  const NodeId leader = view_->leader();
  const LogRecord& record = log_.at(coordinator, slot);
  RecoveryHeader header{};
  header.coordinator = coordinator.value;
  header.slot = slot;
  if (record.finished != 0) {
    header.step = static_cast<uint8_t>(RecoveryStep::kFinished);
    header.sequence = record.finished;
    header.incarnation = record.finished_incarnation;
    header.verdict = static_cast<uint8_t>(record.finished_commit ? Verdict::kCommit : Verdict::kAbort);
    send_recovery(leader, header, {});
  }
  if (record.state == 0) return;
  header.step = static_cast<uint8_t>(RecoveryStep::kRecord);
  header.sequence = static_cast<uint32_t>(record.sequence);
  header.participants = record.participants;
  header.incarnation = record.incarnation;
  header.state = record.state;
  header.row = record.row;
  header.writes = record.writes;
  header.verdict = 0;
  send_recovery(leader, header, {});
  for (const LogPart* part = record.locked; part != nullptr; part = part->next) send_part(leader, header, part, true);
  for (const LogPart* part = record.applied; part != nullptr; part = part->next) send_part(leader, header, part, false);
}

void Engine::send_part(NodeId to, RecoveryHeader header, const LogPart* part, bool locked) {
  std::vector<std::byte> bytes;
  header.keys = 0;
  for (const LogKey& key : part == nullptr ? std::span<const LogKey>() : part->all()) {
    if (key.write == Write::kNone || key.table == nullptr) continue;
    KeyPart out{};
    out.version = locked ? key.locked.base.value + 1 : key.version.value;
    out.value_bytes = static_cast<uint32_t>(key.value.size());
    out.table = key.table_id.value;
    out.key_bytes = static_cast<uint16_t>(key.key.bytes.size());
    out.write = static_cast<uint8_t>(key.write);
    out.index = key.index;
    if (key.has_value) out.flags |= kHasValue;
    add_key(bytes, out, key.key.bytes, key.has_value ? key.value : ByteView());
    ++header.keys;
  }
  send_recovery(to, header, bytes);
}

bool Engine::parse_recovery(const Message& m) {
  if (m.body.size() < sizeof(RecoveryHeader)) return false;
  const auto header = load<RecoveryHeader>(m.body.data());
  if (header.step > static_cast<uint8_t>(RecoveryStep::kActive) || header.coordinator >= nodes_ ||
      header.slot >= log_.slots() || header.row >= kProtocols.size() ||
      header.verdict > static_cast<uint8_t>(Verdict::kAbort)) {
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
    switch (step) {
      case RecoveryStep::kAsk:
        member_.asked = true;
        break;
      case RecoveryStep::kDecide:
        write_decision(m, header);
        break;
      case RecoveryStep::kWrite:
        send_recovery(m.source, RecoveryStep::kWrote);
        break;
      case RecoveryStep::kApply:
        member_.applying = true;
        break;
      case RecoveryStep::kActive:
        activate();
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

void Engine::write_decision(const Message& m, const RecoveryHeader& header) {
  // It was carried out before this worker was last active, and others may have gone on since.
  if (header.decided_epoch <= active_epoch_.value) return;
  const NodeId coordinator(header.coordinator);
  const LogRecord& record = log_.at(coordinator, header.slot);
  const bool has_record = record.is(header.incarnation, header.sequence);
  const bool own = coordinator == self_ && header.incarnation == incarnation_;
  if (!has_record && !own && record.was_finished(header.incarnation, header.sequence)) return;
  if (decision_on(coordinator, header.incarnation, header.slot, header.sequence) != nullptr) return;
  decisions_.push_back({coordinator, header.slot, header.sequence, header.incarnation, header.decided_epoch,
                        static_cast<Verdict>(header.verdict) == Verdict::kCommit});
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

// Aborts first: an undo brings back the version that an earlier commit's raise waits for.
void Engine::carry_out() {
  for (const bool commits : {false, true}) {
    for (Decision& decision : decisions_) {
      if (decision.carried_out || decision.commit != commits) continue;
      decision.carried_out = true;
      LogRecord& record = log_.at(decision.coordinator, decision.slot);
      const bool has_record = record.is(decision.incarnation, decision.sequence);
      const Owner owner(decision.coordinator, id_, decision.slot);
      if (has_record && commits) {
        commit_record(record, owner, decision.keys);
      } else if (has_record) {
        abort_record(record, owner);
      }
      if (commits) install_decided(decision.keys, has_record ? &record : nullptr);
    }
  }
}

// Partitions that were filling and are whole now: their tombstones go, when all workers have carried everything out and
// before the first one of this node goes on.
void Engine::settle_filled() {
  const std::scoped_lock lock(node_->settling());
  if (!node_->settle_once(view_->epoch) || filled_from_ == nullptr) return;
  for (size_t p = 0; p < view_->partitions.size(); ++p) {
    if (!filled_from_->partitions[p].filled_at(self_) || !view_->partitions[p].held_by(self_)) continue;
    for (size_t t = 0; t < node_->tables(); ++t) {
      node_->table(TableId(static_cast<uint16_t>(t)))->settle(PartitionId(static_cast<uint16_t>(p)));
    }
  }
}

void Engine::commit_record(LogRecord& record, Owner owner, const LogPart* decided) {
  if ((record.state & kLogCommitted) == 0) {
    record.decided = decided;
    for (LogPart* part = record.locked; part != nullptr; part = part->next) {
      for (LogKey& key : part->all()) commit_key(record, key, owner, {});
    }
    record.decided = nullptr;
    record.state |= kLogCommitted;
  }
  for (const LogPart* part = record.applied; part != nullptr; part = part->next) {
    for (const LogKey& key : part->all()) {
      if (key.staged || !bugs_.has(Bug::kNoRaiseOnPromotion)) finish_key(key);
    }
  }
}

void Engine::abort_record(LogRecord& record, Owner owner) {
  WEFT_CHECK((record.state & kLogCommitted) == 0, "what was committed anywhere is decided to commit");
  for (LogPart* part = record.locked; part != nullptr; part = part->next) release_part(part, part->keys, owner);
  for (const LogPart* part = record.applied; part != nullptr; part = part->next) {
    for (const LogKey& key : part->all()) {
      if (key.applied) key.table->undo(key.key, key.version, key.undo, key.old_value);
    }
  }
}

// What the record has not brought about here itself. What it has may be history already: once the primary is unlocked,
// later transactions change the key, and finish, while this one's last acknowledgement is still on its way.
void Engine::install_decided(const LogPart* part, const LogRecord* record) {
  if (part == nullptr) return;
  for (const LogKey& key : part->all()) {
    if (record != nullptr && record->covers(key.index)) continue;
    const Placement& now = view_->placement(key.key.partition);
    const bool fills = now.filled_at(self_);
    // What it has just begun to fill, it gets by copying, which comes later.
    const bool filled_before = filled_from_ != nullptr && filled_from_->placement(key.key.partition).filled_at(self_);
    if (!now.held_by(self_) && !(fills && filled_before)) continue;
    key.table->install(key.key, key.write, key.value, key.version, scratch_.data());
    // Tombstones of what was filling stay until all workers have brought what they know (settle_filled).
    if (!filled_before && key.write == Write::kErase) key.table->raise(key.key, key.version);
  }
}

void Engine::activate() {
  settle_filled();
  for (const auto& s : slots_) {
    TxnSlot& slot = *s;
    if (slot.state != SlotState::kCommitting) continue;
    const Decision* decision = decision_on(self_, incarnation_, slot.index, static_cast<uint32_t>(slot.sequence));
    WEFT_CHECK(decision != nullptr, "recovery decides every commit of a member");
    slot.committing = decision->commit;
    if (!slot.committing) fail(slot, Code::kEpoch, nullptr, Owner());
    slot.waiting = 0;
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
    if ((gone_ >> n & 1U) != 0) log_.forget(node);
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
  filled_from_ = view_;
  if (in_use_ == 0) old_views_.clear();
  port_.set_epoch(port_epoch(view_->epoch, true));
  release_told(true);
  begin_filling();
  while (begin_first_ != nullptr && in_use_ < limits_.inflight && !free_slots_.empty()) give_slot_to_waiter();
}

}  // namespace weft
