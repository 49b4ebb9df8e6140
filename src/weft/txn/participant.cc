// Locking is all of a transaction's keys at this node, or none, without waiting (no-wait). The answer carries each
// key's base, so that a coordinator that wrote blindly learns the version to replicate.
//
// Validation: every key that was only read is still at the version that was read, at its primary, and not locked by
// another transaction (rule G2).
//
// Replication logs the writes and applies them at backups (backup_writes.h).
//
// Unlocking installs and releases (commit), or releases and forgets (abort). The record of a commit stays until the
// coordinator says that every participant has acknowledged (rule K4): by a notice, or by the slot's next transaction,
// which may also overtake the notice (out of a ring). Then what was applied here as a backup becomes readable (rule
// G4).
#include "weft/txn/participant.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/inline.h"
#include "weft/base/marks.h"
#include "weft/store/table_in_place.h"
#include "weft/txn/log_receiver.h"
#include "weft/txn/ship_server.h"
#include "weft/txn/slot_table.h"

namespace weft {

Participant::Participant(WorkerContext& ctx, PreparedTable& records, OutcomeLog& outcomes, bool marks_readable)
    : ctx_(ctx),
      records_(records),
      outcomes_(outcomes),
      backup_(ctx, records, marks_readable),
      acks_(ctx),
      unlock_acks_(ctx, Kind::kUnlocked, static_cast<size_t>(SlotTable::slots_for(ctx.limits))) {}

void Participant::finish_record(PreparedTxn& record) { finish(record); }

WEFT_INLINE void Participant::finish(PreparedTxn& record) {
  WEFT_CHECK(record.state != 0, "a record is finished once");
  if (!record.ends_quietly) backup_.finish(record);
  if ((record.state & kCommitted) == 0) note_outcome(record.incarnation, record.sequence, true);
  records_.drop(record, true);
}

// Returns the record for this transaction; nullptr if the slot's last one is still there, and is not finished.
WEFT_INLINE PreparedTxn* Participant::open_record(const CommitRequest& request, NodeId sender) {
  PreparedTxn& record = records_.at(request.coordinator, request.slot);
  if (record.in_progress) [[unlikely]] {
    ctx_.faults.report(sender, "a message about what is still in progress");
    return nullptr;
  }
  // The slot is used again, so all participants of its last transaction have acknowledged (truncation.h).
  if (record.state != 0 && record.sequence < request.sequence && record.may_be_finished()) finish(record);
  if (record.state != 0 && record.sequence != request.sequence) {
    ctx_.faults.report(sender, "a slot is used again before its record was truncated");
    return nullptr;
  }
  WEFT_CHECK(record.state != 0 || (record.locked == nullptr && record.applied == nullptr) || ctx_.bugs.mask != 0,
             "what has no state has no keys");
  if (record.aborted_here != 0) [[unlikely]]
    note_aborted(record);  // the slot is reused, so it is over everywhere
  record.begin(ctx_.views.incarnation_of(request.coordinator), request.sequence);
  record.participants = request.participants;
  record.unanimous = (request.flags & kUnanimous) != 0;
  record.writes = request.writes;
  return &record;
}

void Participant::note_aborted(PreparedTxn& record) {
  if (record.aborted_here == 0) return;
  note_outcome(record.finished_incarnation, std::exchange(record.aborted_here, 0), false);
}

WEFT_INLINE void Participant::reply(const CommitRequest& request, Phase phase, const PhaseResult& result) {
  if (result.code == Code::kOk && result.versions.empty()) return acknowledge(request, phase);
  const size_t bases = result.versions.size() - result.erased;
  WEFT_CHECK(result.erased <= result.versions.size() && bases <= UINT16_MAX, "an answer has a version for each key");
  std::byte* at = ctx_.port.reserve(request.coordinator, Flow::kCommit, static_cast<uint8_t>(Kind::kReply),
                                    sizeof(PhaseReply) + result.versions.size_bytes(), request.slot);
  PhaseReply answer{};
  answer.sequence = static_cast<uint32_t>(request.sequence);
  answer.phase = static_cast<uint8_t>(phase);
  answer.code = static_cast<uint8_t>(result.code);
  answer.index = result.index;
  answer.bases = static_cast<uint16_t>(bases);
  answer.erased = static_cast<uint16_t>(result.erased);
  answer.holder = result.holder.bits;
  store(at, answer);
  if (!result.versions.empty()) {
    std::memcpy(at + sizeof answer, result.versions.data(), result.versions.size_bytes());
  }
}

void Participant::on_lock(const Batch& batch, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!m.ok) continue;
    const CommitRequest request = request_of(m);
    PhaseResult result;
    if (lock(request, records_.make_part(batch.keys_of(m)), &result)) reply(request, Phase::kLock, result);
  }
}

WEFT_INLINE bool Participant::lock(const CommitRequest& request, const PreparedTable::NewPart& part,
                                   PhaseResult* result) {
  PreparedTxn* record = open_record(request);
  if (record == nullptr) {
    records_.drop_parts(part.keys);
    return false;
  }
  *result = lock_keys(request, *record, part.keys);
  return true;
}

WEFT_INLINE PhaseResult Participant::lock_keys(const CommitRequest& request, PreparedTxn& record, PreparedKeys* part) {
  const Owner owner = owner_of(request);
  const std::span<PreparedKey> keys = part->all();
  if (versions_.size() < 2 * keys.size()) versions_.resize(2 * keys.size());
  size_t words = keys.size();
  bool as_named = true;
  bool reads_only = true;
  for (size_t i = 0; i < keys.size(); ++i) {
    PreparedKey& key = keys[i];
    LockResult result;
    if (key.write == Write::kPut && (key.flags & (kHasVersion | kHeld | kWantsReplaced)) == kHasVersion &&
        key.table->lock_in_place(key.key, owner, key.version, key.room, &key.locked)) [[likely]] {
      key.locked_to_write = true;
      ctx_.touch_record();
      versions_[i] = key.version.value;
      reads_only = false;
      continue;
    }
    if (!key.has(kHeld) || !relock_held(record, key, owner, &result)) [[likely]] {
      std::optional<Version> expected;
      if (key.has(kHasVersion)) expected = key.version;
      result = key.table->lock(key.key, owner, key.write, expected, key.room);
      key.locked = result.locked;
      key.locked_to_write = installs(key.write);
    } else {
      key.table = nullptr;  // the lock stays with the PreparedKeys that took it
    }
    ctx_.touch_record();
    if (result.code != Code::kOk) {
      const uint16_t index = key.index;
      release_part(part, i, owner);
      records_.drop_parts(part);
      if ((request.flags & kRefusalIsFinal) != 0) note_outcome(record.incarnation, record.sequence, false);
      return {.code = result.code, .index = index, .holder = result.holder, .versions = {}, .erased = 0};
    }
    versions_[i] = result.locked.base.value;
    as_named = as_named && key.has(kHasVersion) && result.locked.base == key.version && !key.has(kWantsReplaced);
    reads_only = reads_only && key.write == Write::kNone;
    if (key.has(kWantsReplaced)) versions_[words++] = result.replaced.value;
  }
  part->next = record.locked;
  record.locked = part;
  if (!ctx_.bugs.has(PlantedBug::kDropReadRecords) || !reads_only) record.state |= kLocked;
  PhaseResult result;
  if (as_named) return result;
  result.versions = {versions_.data(), words};
  result.erased = words - keys.size();
  return result;
}

// For a key that was locked while it was read: sets what the lock is for. Returns false if there is no such lock.
bool Participant::relock_held(PreparedTxn& record, const KeyRef& ref, Owner owner, LockResult* result) {
  for (PreparedKeys* part = record.locked; part != nullptr; part = part->next) {
    for (PreparedKey& key : part->all()) {
      if (key.index != ref.index || key.table != ref.table) continue;
      WEFT_MARK("lock_taken_while_reading_changes_purpose");
      result->code = key.table->relock(key.key, owner, ref.write, ref.room, &key.locked);
      result->locked = key.locked;
      if (result->code == Code::kOk) {
        key.write = ref.write;
        key.room = ref.room;
        key.locked_to_write = installs(ref.write);
      }
      return true;
    }
  }
  return false;
}

void Participant::release_part(PreparedKeys* part, size_t keys, Owner owner) {
  WEFT_CHECK(keys <= part->keys, "no more is released than was locked");
  for (size_t i = keys; i > 0; --i) {
    PreparedKey& key = part->all()[i - 1];
    if (key.table != nullptr) key.table->unlock(key.key, owner, key.locked);
  }
}

void Participant::on_validate(const Batch& batch, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!m.ok) continue;
    const CommitRequest request = request_of(m);
    reply(request, Phase::kValidate, validate(request, batch.keys_of(m)));
  }
}

WEFT_INLINE PhaseResult Participant::validate(const CommitRequest& request, std::span<const KeyRef> keys) {
  PhaseResult result;
  for (const KeyRef& ref : keys) {
    result.code = ref.table->validate(ref.key, ref.version, owner_of(request), &result.holder);
    ctx_.touch_record();
    if (result.code == Code::kOk) continue;
    result.index = ref.index;
    // Nobody can commit what was refused here: it is not replicated yet.
    note_outcome(ctx_.views.incarnation_of(request.coordinator), request.sequence, false);
    break;
  }
  return result;
}

void Participant::on_replicate(const Batch& batch, std::span<const Message> run) {
  for (const Message& m : run) {
    if (m.ok) take(batch, m, Origin::kMessage);
  }
}

void Participant::take_entry(const Batch& batch, const Message& m, Origin origin) { take(batch, m, origin); }

WEFT_INLINE void Participant::take(const Batch& batch, const Message& m, Origin origin) {
  const std::span<const KeyRef> keys = batch.keys_of(m);
  if (origin == Origin::kMessage && log_ != nullptr && !backup_.predecessors_applied(keys)) {
    log_->defer(m);
    return;
  }
  const CommitRequest request = request_of(m);
  if (replicate(request, records_.make_part(keys)) && origin == Origin::kMessage) {
    acknowledge(request, Phase::kReplicate);
  }
}

WEFT_INLINE bool Participant::replicate(const CommitRequest& request, const PreparedTable::NewPart& part) {
  return log(open_record(request), part);
}

WEFT_INLINE bool Participant::log(PreparedTxn* record, const PreparedTable::NewPart& part) {
  if (record == nullptr) {
    records_.drop_parts(part.keys);
    return false;
  }
  backup_.add(*record, part.keys, part.room);
  record->state |= kReplicated;
  return true;
}

// It may overtake the coordinator's notice that the slot's last transaction is finished, and says the same (H6).
void Participant::on_replicate_for(const Batch& batch, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!m.ok) continue;
    const NodeId coordinator(static_cast<uint8_t>(load<uint64_t>(m.body.data())));
    const CommitRequest request = CommitRequest::of(coordinator, m.tag, m.body.data() + sizeof(uint64_t), ctx_.nodes);
    const PreparedTxn& last = records_.at(coordinator, request.slot);
    if (ctx_.bugs.has(PlantedBug::kLogFinishesNothing) && last.state != 0 && last.sequence != request.sequence) {
      acknowledge(request, Phase::kReplicate);  // it is taken for one that was logged before
      continue;
    }
    if (has_had(request)) {
      ctx_.faults.report(m.source, "a log of what is here, or was finished");
      continue;
    }
    if (log(open_record(request, m.source), records_.make_part(batch.keys_of(m)))) {
      acknowledge(request, Phase::kReplicate);
    }
  }
}

void Participant::on_unlock(const Batch& batch, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!m.ok) continue;
    const CommitRequest request = request_of(m);
    if (!unlock(request, batch.keys_of(m))) continue;
    acknowledge_unlock(request);
    if (ship_server_ != nullptr) ship_server_->on_unlocked(request.coordinator, request.slot);
  }
}

WEFT_INLINE void Participant::acknowledge_unlock(const CommitRequest& request) {
  if (request.commits() && (request.flags & kPiggybackAck) != 0 && request.coordinator != ctx_.self) {
    unlock_acks_.add(request.coordinator, {request.sequence, request.slot});
  } else {
    acknowledge(request, Phase::kUnlock);
  }
}

WEFT_INLINE bool Participant::unlock(const CommitRequest& request, std::span<const KeyRef> keys) {
  PreparedTxn& record = records_.at(request.coordinator, request.slot);
  if (!is_locked(record, request)) {
    ctx_.faults.report(request.coordinator, "an unlock of what is not locked");
    return false;
  }
  const Owner owner = owner_of(request);
  if (request.commits()) {
    for (PreparedKeys* part = record.locked; part != nullptr; part = part->next) {
      for (PreparedKey& key : part->all()) commit_key(record, key, owner, keys);
    }
    record.state |= kCommitted;
    note_outcome(record.incarnation, request.sequence, true);
    return true;
  }
  for (PreparedKeys* part = record.locked; part != nullptr; part = part->next) release_part(part, part->keys, owner);
  const uint32_t incarnation = record.incarnation;
  records_.drop(record, false);
  if ((request.flags & kRefusalIsFinal) != 0) {
    note_outcome(incarnation, request.sequence, false);
  } else {
    record.aborted_here = request.sequence;
  }
  return true;
}

void Participant::commit_key(const PreparedTxn& record, PreparedKey& key, Owner owner,
                             std::span<const KeyRef> carried) {
  if (key.table == nullptr) return;
  ctx_.touch_record();
  if (key.has(kHasValue) || key.write == Write::kErase) {
    if (key.write != Write::kErase && key.table->commit_in_place(key.key, owner, key.value, key.locked)) [[likely]]
      return;
    key.table->commit(key.key, owner, key.write, key.value, key.locked);
    return;
  }
  const ByteView* value = nullptr;
  if (const KeyRef* ref = find_index(carried, key.index)) value = &ref->value;
  if (value == nullptr) {
    if (const PreparedKey* logged = record.find_value(key.index)) value = &logged->value;
  }
  if (value != nullptr && !key.locked_to_write) {
    ctx_.faults.report(ctx_.owners.node(owner), "a value for what was not locked to be written");
  } else if (value != nullptr) {
    if (value->size() <= key.room) {
      key.table->commit(key.key, owner, Write::kPut, *value, key.locked);
      return;
    }
    ctx_.faults.report(ctx_.owners.node(owner), "a value larger than what was locked for");
  }
  key.table->unlock(key.key, owner, key.locked);  // locked for reading, or for an update that did not come
}

void Participant::on_done(const Batch&, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!m.ok) continue;
    for (const TxnCompleteNotice& notice : NoticeQueue::of(m)) {
      PreparedTxn& record = records_.at(m.source, notice.slot());
      if (record.state == 0 || record.sequence > notice.sequence()) continue;
      if (record.may_be_finished() && !record.in_progress) {
        finish_record(record);
      } else {
        ctx_.faults.report(m.source, "a notice that what is not unlocked is finished");
      }
    }
  }
}

// Messages of which a little is done at a time.

PreparedTxn* Participant::begin_replicate(const CommitRequest& request, PreparedKeys* part) {
  PreparedTxn* record = open_record(request);
  if (record == nullptr) {
    records_.drop_parts(part);
    return nullptr;
  }
  part->next = record->applied;
  record->applied = part;
  record->in_progress = true;
  return record;
}

void Participant::replicate_key(PreparedTxn& record, PreparedKey& key, uint8_t role, std::span<std::byte>* room) {
  backup_.add_key(record, key, role, room);
}

void Participant::end_replicate(const CommitRequest& request, PreparedTxn& record, bool answers) {
  record.state |= kReplicated;
  record.in_progress = false;
  if (answers) acknowledge(request, Phase::kReplicate);
}

PreparedTxn* Participant::begin_unlock(const CommitRequest& request) {
  PreparedTxn& record = records_.at(request.coordinator, request.slot);
  if (!is_locked(record, request)) return nullptr;
  record.in_progress = true;
  return &record;
}

void Participant::unlock_key(const PreparedTxn& record, PreparedKey& key, const CommitRequest& request,
                             std::span<const KeyRef> carried) {
  commit_key(record, key, owner_of(request), carried);
}

void Participant::end_unlock(const CommitRequest& request, PreparedTxn& record, bool answers) {
  record.state |= kCommitted;
  record.in_progress = false;
  note_outcome(record.incarnation, request.sequence, true);
  if (answers) acknowledge_unlock(request);
}

void Participant::answer(const CommitRequest& request, Phase phase, const PhaseResult& result) {
  reply(request, phase, result);
}

// For recovery.

void Participant::commit_record(PreparedTxn& record, Owner owner, const PreparedKeys* decided) {
  if ((record.state & kCommitted) == 0) {
    WEFT_CHECK(record.decided == nullptr, "one decision at a time");
    record.decided = decided;
    for (PreparedKeys* part = record.locked; part != nullptr; part = part->next) {
      for (PreparedKey& key : part->all()) commit_key(record, key, owner, {});
    }
    record.decided = nullptr;
    record.state |= kCommitted;
  }
  for (const PreparedKeys* part = record.applied; part != nullptr; part = part->next) {
    for (const PreparedKey& key : part->all()) {
      if (key.deferred_apply || !ctx_.bugs.has(PlantedBug::kNoRaiseOnPromotion)) backup_.finish_key(key);
    }
  }
}

void Participant::abort_record(PreparedTxn& record, Owner owner) {
  const bool committed = (record.state & kCommitted) != 0;
  if (committed && ctx_.bugs.has(PlantedBug::kOldEpochAccepted))
    return;  // the outcomes contradict each other, and that is reported
  WEFT_CHECK(!committed, "what was committed anywhere is decided to commit");
  for (PreparedKeys* part = record.locked; part != nullptr; part = part->next) release_part(part, part->keys, owner);
  BackupWrites::undo(record);
}

}  // namespace weft
