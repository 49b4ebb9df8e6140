// Locking is all of a transaction's keys at this node, or none, without waiting (no-wait). The answer carries each
// key's base, so that a coordinator that wrote blindly learns the version to replicate.
//
// Validation: every key that was only read is still at the version that was read, at its primary, and not locked by
// another transaction (rule G2).
//
// Replication: a backup applies the write at once, unreadable, and logs what it replaced (undo). A primary that gets
// the values in this phase only logs them; it installs at unlock, under its lock.
//
// Lazy backups redo: they keep the writes in their record and install them when the transaction is finished. These
// installs come in any order, so a put only ever replaces an older version of what is there, and brings back nothing
// that is gone. What is not a put of something that was there (an insert, a delete, a blind put) comes by message and
// is applied before it is acknowledged, with an undo log as elsewhere, and after what it replaces has been installed
// here. A ring entry of a slot's next transaction may overtake the notice that its last one is finished. It says the
// same: a slot is used again only when that notice has left.
//
// Unlocking installs and releases (commit), or releases and forgets (abort). The record of a commit stays until the
// coordinator's notice that every participant has acknowledged (rule K4); that notice also marks readable what was
// applied here as a backup (rule G4).
#include "weft/txn/participant.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/inline.h"
#include "weft/base/marks.h"
#include "weft/txn/log_receiver.h"
#include "weft/txn/slot_table.h"

namespace weft {

Participant::Participant(WorkerContext& ctx, PreparedTable& records, OutcomeLog& outcomes, bool marks_readable)
    : ctx_(ctx),
      records_(records),
      outcomes_(outcomes),
      marks_readable_(marks_readable),
      unlock_acks_(ctx, Kind::kUnlocked, static_cast<size_t>(SlotTable::slots_for(ctx.limits))) {}

// The record for this message's transaction; nullptr (and the peer is closed) if the slot's last one is still there.
WEFT_INLINE PreparedTxn* Participant::open_record(const Message& m, Origin origin) {
  const auto request = load<CommitRequest>(m.body.data());
  PreparedTxn& record = records_.at(m.source, static_cast<uint8_t>(m.tag));
  if (origin == Origin::kRing && (record.state & (kReplicated | kCommitted)) != 0 &&
      record.sequence < request.sequence) {
    finish_record(record);  // the notice that its last transaction is finished is still on its way
  }
  if (record.state != 0 && static_cast<uint32_t>(record.sequence) != static_cast<uint32_t>(request.sequence)) {
    ctx_.faults.report(m.source, "a slot is used again before its record was truncated");
    return nullptr;
  }
  WEFT_CHECK(record.state != 0 || (record.locked == nullptr && record.applied == nullptr) || ctx_.bugs.mask != 0,
             "what has no state has no keys");
  if (record.aborted_here != 0) [[unlikely]]
    note_aborted(record);  // the slot is used again: it is over everywhere
  record.sequence = request.sequence;
  record.participants = request.participants;
  record.incarnation = ctx_.views.incarnation_of(m.source);
  record.unanimous = (request.flags & kUnanimous) != 0;
  record.entries = request.entries;
  record.writes = request.writes;
  return &record;
}

WEFT_INLINE void Participant::acknowledge(const Message& m, Phase phase) {
  std::byte* at =
      ctx_.port.reserve(m.source, Flow::kCommit, static_cast<uint8_t>(Kind::kReply), sizeof(PhaseReply), m.tag);
  PhaseReply answer{};
  answer.sequence = static_cast<uint32_t>(load<CommitRequest>(m.body.data()).sequence);
  answer.phase = static_cast<uint8_t>(phase);
  store(at, answer);
}

void Participant::note_aborted(PreparedTxn& record) {
  if (record.aborted_here == 0) return;
  note_outcome(record.finished_incarnation, std::exchange(record.aborted_here, 0), false);
}

WEFT_INLINE void Participant::reply(const Message& m, Phase phase, Code code, uint8_t index, Owner holder,
                                    std::span<const uint64_t> bases, size_t erased) {
  WEFT_CHECK(erased <= bases.size() && bases.size() - erased <= UINT8_MAX, "an answer has a version for each key");
  std::byte* at = ctx_.port.reserve(m.source, Flow::kCommit, static_cast<uint8_t>(Kind::kReply),
                                    sizeof(PhaseReply) + bases.size_bytes(), m.tag);
  PhaseReply answer{};
  answer.sequence = static_cast<uint32_t>(load<CommitRequest>(m.body.data()).sequence);
  answer.phase = static_cast<uint8_t>(phase);
  answer.code = static_cast<uint8_t>(code);
  answer.index = index;
  answer.bases = static_cast<uint8_t>(bases.size() - erased);
  answer.erased = static_cast<uint32_t>(erased);
  answer.holder = holder.bits;
  store(at, answer);
  if (!bases.empty()) std::memcpy(at + sizeof answer, bases.data(), bases.size_bytes());
}

void Participant::on_lock(const Batch& batch, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!batch.ok(m)) continue;
    if (PreparedTxn* record = open_record(m, Origin::kMessage)) lock_keys(m, *record, batch.keys_of(m));
  }
}

WEFT_INLINE void Participant::lock_keys(const Message& m, PreparedTxn& record, std::span<const KeyRef> keys) {
  const Owner owner = owner_of(m);
  std::byte* rest;
  PreparedKeys* part = records_.make_part(keys, 0, &rest);
  std::array<uint64_t, 512> bases;
  WEFT_CHECK(2 * keys.size() <= bases.size(), "an answer has room for two versions of each key");
  size_t words = keys.size();
  for (size_t i = 0; i < keys.size(); ++i) {
    const KeyRef& ref = keys[i];
    PreparedKey& key = part->all()[i];
    LockResult result;
    if (!ref.held || !relock_held(record, ref, owner, &result)) {
      std::optional<Version> expected;
      if (ref.has_version) expected = ref.version;
      result = ref.table->lock(ref.key, owner, ref.write, expected, ref.room);
      key.locked = result.locked;
      key.locked_to_write = installs(ref.write);
    } else {
      key.table = nullptr;  // the lock stays with the part that took it
    }
    ctx_.touch_record();
    if (result.code != Code::kOk) {
      release_part(part, i, owner);
      records_.drop_parts(part);
      const auto request = load<CommitRequest>(m.body.data());
      if ((request.flags & kRefusalIsFinal) != 0) note_outcome(record.incarnation, record.sequence, false);
      reply(m, Phase::kLock, result.code, ref.index, result.holder);
      return;
    }
    bases[i] = result.locked.base.value;
    if (ref.wants_replaced) bases[words++] = result.replaced.value;
  }
  part->next = record.locked;
  record.locked = part;
  const auto reads_only = [&] {
    return std::all_of(keys.begin(), keys.end(), [](const KeyRef& ref) { return ref.write == Write::kNone; });
  };
  if (!ctx_.bugs.has(PlantedBug::kDropReadRecords) || !reads_only()) record.state |= kLocked;
  reply(m, Phase::kLock, Code::kOk, 0, Owner(), {bases.data(), words}, words - keys.size());
}

// A key that was locked while it was read: says what the lock is for. False if there is no such lock.
bool Participant::relock_held(PreparedTxn& record, const KeyRef& ref, Owner owner, LockResult* result) {
  for (PreparedKeys* part = record.locked; part != nullptr; part = part->next) {
    for (PreparedKey& key : part->all()) {
      if (key.index != ref.index || key.table != ref.table) continue;
      WEFT_MARK("lock_taken_while_reading_changes_purpose");
      result->code = key.table->relock(key.key, owner, ref.write, ref.room, &key.locked);
      result->locked = key.locked;
      if (result->code == Code::kOk) {
        key.write = ref.write;
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
    if (!batch.ok(m)) continue;
    Code code = Code::kOk;
    uint8_t index = 0;
    Owner holder;
    for (const KeyRef& ref : batch.keys_of(m)) {
      code = ref.table->validate(ref.key, ref.version, owner_of(m), &holder);
      ctx_.touch_record();
      if (code != Code::kOk) {
        index = ref.index;
        break;
      }
    }
    // Nobody can commit what was refused here: it is not replicated yet.
    if (code != Code::kOk) {
      note_outcome(ctx_.views.incarnation_of(m.source), load<CommitRequest>(m.body.data()).sequence, false);
    }
    reply(m, Phase::kValidate, code, index, holder);
  }
}

void Participant::on_replicate(const Batch& batch, std::span<const Message> run) {
  for (const Message& m : run) {
    if (batch.ok(m)) replicate_keys(batch, m, Origin::kMessage);
  }
}

void Participant::replicate(const Batch& batch, const Message& m, Origin origin) { replicate_keys(batch, m, origin); }

WEFT_INLINE void Participant::replicate_keys(const Batch& batch, const Message& m, Origin origin) {
  const std::span<const KeyRef> keys = batch.keys_of(m);
  if (origin == Origin::kMessage && log_ != nullptr && !predecessors_applied(keys)) {
    log_->defer(m);
    return;
  }
  PreparedTxn* record = open_record(m, origin);
  if (record == nullptr) return;
  size_t undo_bytes = 0;
  for (const KeyRef& ref : keys) {
    const size_t value_max = ref.table->spec().value_bytes_max;
    if (value_max <= kSmallValue) undo_bytes += padded(value_max);
  }
  std::byte* undo_at;
  PreparedKeys* part = records_.make_part(keys, undo_bytes, &undo_at);
  part->next = record->applied;
  record->applied = part;
  for (PreparedKey& key : part->all()) {
    const Placement& placement = ctx_.view().placement(key.key.partition);
    const bool fills = placement.is_catching_up(ctx_.self);
    // A replica that is filling cannot undo: it may not have the old value yet. Nobody reads it, so it waits.
    key.deferred_apply = fills || (key.deferred && placement.primary() != ctx_.self);
    key.late_put = key.deferred_apply && !fills && key.write == Write::kPut;
    if (!key.deferred_apply && placement.primary() != ctx_.self) apply_key(*record, key, &undo_at);
  }
  WEFT_CHECK(undo_at <= reinterpret_cast<std::byte*>(part) + part->block_bytes, "there is room for every old value");
  record->state |= kReplicated;
  if (origin == Origin::kMessage) acknowledge(m, Phase::kReplicate);
}

WEFT_INLINE void Participant::apply_key(PreparedTxn& record, PreparedKey& key, std::byte** undo_at) {
  const bool small = key.table->spec().value_bytes_max <= kSmallValue;
  WEFT_CHECK(!key.applied && key.write != Write::kNone, "a write is applied once");
  WEFT_CHECK(small || ctx_.scratch.size() >= key.table->spec().value_bytes_max, "a value of any table fits");
  std::byte* undo = small ? *undo_at : ctx_.scratch.data();
  const Shown shown = marks_readable_ ? Shown::kWhenMarked : Shown::kAtOnce;
  key.undo = key.ordered ? key.table->apply_unordered(key.key, key.write, key.value, key.version, undo)
                         : key.table->apply(key.key, key.write, key.value, key.version, undo, shown);
  if (small) {
    *undo_at += padded(key.undo.value_bytes);
  } else if (key.undo.value_bytes != 0) {
    PreparedKeys* part = records_.make_part(0, key.undo.value_bytes, &undo);
    std::memcpy(undo, ctx_.scratch.data(), key.undo.value_bytes);
    part->next = record.applied;
    record.applied = part;
  }
  key.old_value = {undo, key.undo.value_bytes};
  key.applied = true;
  ctx_.touch_record();
}

// Whether all that these writes follow is installed at this backup.
bool Participant::predecessors_applied(std::span<const KeyRef> keys) const {
  return std::all_of(keys.begin(), keys.end(), [&](const KeyRef& ref) {
    const Placement& placement = ctx_.view().placement(ref.key.partition);
    if (ref.predecessor_delta == 0 || placement.primary() == ctx_.self || placement.is_catching_up(ctx_.self))
      return true;
    const ReadResult read = ref.table->read(ref.key, nullptr, 0);
    return !read.found || read.word.version().value + ref.predecessor_delta >= ref.version.value;
  });
}

void Participant::on_unlock(const Batch& batch, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!batch.ok(m)) continue;
    const auto request = load<CommitRequest>(m.body.data());
    PreparedTxn& record = records_.at(m.source, static_cast<uint8_t>(m.tag));
    if (static_cast<uint32_t>(record.sequence) != static_cast<uint32_t>(request.sequence) || record.locked == nullptr ||
        (record.state & kCommitted) != 0) {
      ctx_.faults.report(m.source, "an unlock of what is not locked");
      continue;
    }
    const Owner owner = owner_of(m);
    if (request.commit != 0) {
      for (PreparedKeys* part = record.locked; part != nullptr; part = part->next) {
        for (PreparedKey& key : part->all()) commit_key(record, key, owner, batch.keys_of(m));
      }
      record.state |= kCommitted;
      note_outcome(record.incarnation, request.sequence, true);
    } else {
      for (PreparedKeys* part = record.locked; part != nullptr; part = part->next)
        release_part(part, part->keys, owner);
      const uint32_t incarnation = record.incarnation;
      records_.drop(record, false);
      if ((request.flags & kRefusalIsFinal) != 0) {
        note_outcome(incarnation, request.sequence, false);
      } else {
        record.aborted_here = request.sequence;
      }
    }
    if (request.commit != 0 && (request.flags & kPiggybackAck) != 0 && m.source != ctx_.self) {
      unlock_acks_.add(m.source, {static_cast<uint32_t>(request.sequence), m.tag});
    } else {
      acknowledge(m, Phase::kUnlock);
    }
  }
}

void Participant::commit_key(const PreparedTxn& record, PreparedKey& key, Owner owner,
                             std::span<const KeyRef> carried) {
  if (key.table == nullptr) return;
  ctx_.touch_record();
  if (key.has_value || key.write == Write::kErase) {
    key.table->commit(key.key, owner, key.write, key.value, key.locked);
    return;
  }
  const ByteView* value = nullptr;
  for (const KeyRef& ref : carried) {
    if (ref.index == key.index) value = &ref.value;
  }
  if (value == nullptr) {
    if (const PreparedKey* logged = record.find_value(key.index)) value = &logged->value;
  }
  if (value != nullptr && !key.locked_to_write) {
    ctx_.faults.report(owner.node(), "a value for what was not locked to be written");
  } else if (value != nullptr) {
    if (value->size() <= key.room) {
      key.table->commit(key.key, owner, Write::kPut, *value, key.locked);
      return;
    }
    ctx_.faults.report(owner.node(), "a value larger than what was locked for");
  }
  key.table->unlock(key.key, owner, key.locked);  // locked for reading, or for an update that did not come
}

void Participant::on_done(const Batch& batch, std::span<const Message> run) {
  for (const Message& m : run) {
    if (!batch.ok(m)) continue;
    for (const TxnCompleteNotice& notice : NoticeQueue::of(m)) {
      PreparedTxn& record = records_.at(m.source, static_cast<uint8_t>(notice.slot));
      if (record.state != 0 && static_cast<uint32_t>(record.sequence) == notice.sequence) finish_record(record);
    }
  }
}

// At a backup, or at a replica that is filling, where a delete stays as a tombstone until it is whole: so that an older
// copy of the record that comes later is noticed.
WEFT_INLINE void Participant::finish_key(const PreparedKey& key) {
  WEFT_CHECK(!(key.applied && key.deferred_apply) && (key.deferred_apply || !key.late_put),
             "a write is applied, or waits");
  // A tombstone that was applied goes now, whoever may read it.
  if (key.applied && (marks_readable_ || key.write == Write::kErase)) key.table->mark_readable(key.key, key.version);
  if (key.late_put) {
    key.table->apply_late_put(key.key, key.value, key.version, ctx_.scratch.data());
  } else if (key.deferred_apply) {
    key.table->install_if_newer(key.key, key.write, key.value, key.version, ctx_.scratch.data());
  }
  if (!key.applied && !key.deferred_apply) return;
  ctx_.touch_record();
}

WEFT_INLINE void Participant::finish_record(PreparedTxn& record) {
  WEFT_CHECK(record.state != 0, "a record is finished once");
  for (PreparedKeys* part = record.applied; part != nullptr; part = part->next) {
    for (const PreparedKey& key : part->all()) finish_key(key);
  }
  if ((record.state & kCommitted) == 0) note_outcome(record.incarnation, record.sequence, true);
  records_.drop(record, true);
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
      if (key.deferred_apply || !ctx_.bugs.has(PlantedBug::kNoRaiseOnPromotion)) finish_key(key);
    }
  }
}

void Participant::abort_record(PreparedTxn& record, Owner owner) {
  const bool committed = (record.state & kCommitted) != 0;
  if (committed && ctx_.bugs.has(PlantedBug::kOldEpochAccepted))
    return;  // the notes contradict each other, and that is reported
  WEFT_CHECK(!committed, "what was committed anywhere is decided to commit");
  for (PreparedKeys* part = record.locked; part != nullptr; part = part->next) release_part(part, part->keys, owner);
  for (const PreparedKeys* part = record.applied; part != nullptr; part = part->next) {
    for (const PreparedKey& key : part->all()) {
      if (key.applied) key.table->undo(key.key, key.version, key.undo, key.old_value);
    }
  }
}

}  // namespace weft
