// Locking: all of a transaction's keys at this node, or none, without waiting (no-wait). The answer carries each key's
// base, so that a coordinator that wrote blindly learns the version to replicate.
#include <array>
#include <cstring>

#include "weft/base/marks.h"
#include "weft/txn/engine.h"

namespace weft {

// The record for this message's transaction; nullptr (and the peer is closed) if the slot's last one is still there.
LogRecord* Engine::open_record(const Message& m) {
  const auto request = load<CommitRequest>(m.body.data());
  LogRecord& record = log_.at(m.source, static_cast<uint8_t>(m.spare));
  if (record.state != 0 && static_cast<uint32_t>(record.sequence) != static_cast<uint32_t>(request.sequence)) {
    bad_message(m.source, "a slot is used again before its record was truncated");
    return nullptr;
  }
  if (record.aborted_here != 0) [[unlikely]]
    note_aborted_here(record);  // the slot is used again: it is over everywhere
  record.sequence = request.sequence;
  record.participants = request.participants;
  record.incarnation = incarnation_of(m.source);
  record.row = request.row;
  record.entries = request.entries;
  record.writes = request.writes;
  return &record;
}

// Copies keys and the values that came with them; `undo_bytes` more are left at `*rest`.
LogPart* Engine::log_part(std::span<const KeyRef> keys, size_t undo_bytes, std::byte** rest) {
  size_t bytes = undo_bytes;
  for (const KeyRef& ref : keys) bytes += padded(ref.key.bytes.size()) + padded(ref.value.size());
  std::byte* at;
  LogPart* part = log_.make_part(static_cast<uint32_t>(keys.size()), bytes, &at);
  for (size_t i = 0; i < keys.size(); ++i) {
    const KeyRef& ref = keys[i];
    LogKey& key = part->all()[i];
    key.key = ref.key;
    copy_words(at, ref.key.bytes.data(), ref.key.bytes.size());
    key.key.bytes = {at, ref.key.bytes.size()};
    at += padded(ref.key.bytes.size());
    copy_words(at, ref.value.data(), ref.value.size());
    key.value = {at, ref.value.size()};
    at += padded(ref.value.size());
    key.table = ref.table;
    key.table_id = ref.table_id;
    key.write = static_cast<Write>(ref.part->write);
    key.index = ref.part->index;
    key.has_value = (ref.part->flags & kHasValue) != 0;
    key.room = ref.part->value_bytes;
  }
  *rest = at;
  return part;
}

void Engine::reply(const Message& m, Phase phase, Code code, uint8_t index, Owner holder,
                   std::span<const uint64_t> bases) {
  std::byte* at = port_.reserve(m.source, Flow::kCommit, static_cast<uint8_t>(Kind::kReply),
                                sizeof(PhaseReply) + bases.size_bytes(), m.spare);
  PhaseReply answer{};
  answer.sequence = static_cast<uint32_t>(load<CommitRequest>(m.body.data()).sequence);
  answer.phase = static_cast<uint8_t>(phase);
  answer.code = static_cast<uint8_t>(code);
  answer.index = index;
  answer.bases = static_cast<uint8_t>(bases.size());
  answer.holder = holder.bits;
  store(at, answer);
  if (!bases.empty()) std::memcpy(at + sizeof answer, bases.data(), bases.size_bytes());
}

void Engine::on_lock(std::span<const Message> run) {
  for (const Message& m : run) {
    if (!parsed(m).ok) continue;
    if (LogRecord* record = open_record(m)) lock_keys(m, *record, keys_of(m));
  }
}

void Engine::lock_keys(const Message& m, LogRecord& record, std::span<const KeyRef> keys) {
  const Owner owner = owner_of(m);
  std::byte* rest;
  LogPart* part = log_part(keys, 0, &rest);
  std::array<uint64_t, 256> bases;
  for (size_t i = 0; i < keys.size(); ++i) {
    const KeyRef& ref = keys[i];
    LogKey& key = part->all()[i];
    LockResult result;
    if ((ref.part->flags & kHeld) == 0 || !relock_held(record, ref, owner, &result)) {
      std::optional<Version> expected;
      if ((ref.part->flags & kHasVersion) != 0) expected = Version(ref.part->version);
      result = ref.table->lock(ref.key, owner, key.write, expected, ref.part->value_bytes);
      key.locked = result.locked;
    } else {
      key.table = nullptr;  // the lock stays with the part that took it
    }
    ++counters_.records_touched;
    charge(Step::kLookup, 1);
    if (result.code != Code::kOk) {
      release_part(part, i, owner);
      log_.drop_parts(part);
      if (!row_->locks_backups()) note_outcome(record.incarnation, record.sequence, false);
      reply(m, Phase::kLock, result.code, ref.part->index, result.holder);
      return;
    }
    bases[i] = result.locked.base.value;
  }
  part->next = record.locked;
  record.locked = part;
  const bool reads_only = [&] {
    for (const KeyRef& ref : keys) {
      if (static_cast<Write>(ref.part->write) != Write::kNone) return false;
    }
    return true;
  }();
  if (!(bugs_.has(Bug::kDropReadRecords) && reads_only)) record.state |= kLogLocked;
  reply(m, Phase::kLock, Code::kOk, 0, Owner(), {bases.data(), keys.size()});
}

// A key that was locked while it was read: says what the lock is for. False if there is no such lock.
bool Engine::relock_held(LogRecord& record, const KeyRef& ref, Owner owner, LockResult* result) {
  for (LogPart* part = record.locked; part != nullptr; part = part->next) {
    for (LogKey& key : part->all()) {
      if (key.index != ref.part->index || key.table != ref.table) continue;
      WEFT_MARK("lock_taken_while_reading_changes_purpose");
      result->code =
          key.table->relock(key.key, owner, static_cast<Write>(ref.part->write), ref.part->value_bytes, &key.locked);
      result->locked = key.locked;
      if (result->code == Code::kOk) key.write = static_cast<Write>(ref.part->write);
      return true;
    }
  }
  return false;
}

void Engine::release_part(LogPart* part, size_t keys, Owner owner) {
  for (size_t i = keys; i > 0; --i) {
    LogKey& key = part->all()[i - 1];
    if (key.table != nullptr) key.table->unlock(key.key, owner, key.locked);
  }
}

}  // namespace weft
