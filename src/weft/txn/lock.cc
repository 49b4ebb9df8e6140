// Locking: all of a transaction's keys at this node, or none, without waiting (no-wait). The answer carries each key's
// base, so that a coordinator that wrote blindly learns the version to replicate.
#include <algorithm>
#include <array>
#include <cstring>

#include "weft/base/inline.h"
#include "weft/base/marks.h"
#include "weft/txn/participant.h"

namespace weft {

void Engine::reply(const Message& m, Phase phase, Code code, uint8_t index, Owner holder,
                   std::span<const uint64_t> bases, size_t erased) {
  std::byte* at = port_.reserve(m.source, Flow::kCommit, static_cast<uint8_t>(Kind::kReply),
                                sizeof(PhaseReply) + bases.size_bytes(), m.spare);
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

void Engine::on_lock(std::span<const Message> run) {
  for (const Message& m : run) {
    if (!parsed(m).ok) continue;
    if (LogRecord* record = open_record(m)) lock_keys(m, *record, keys_of(m));
  }
}

WEFT_INLINE void Engine::lock_keys(const Message& m, LogRecord& record, std::span<const KeyRef> keys) {
  const Owner owner = owner_of(m);
  std::byte* rest;
  LogPart* part = log_.make_part(keys, 0, &rest);
  std::array<uint64_t, 512> bases;
  size_t words = keys.size();
  for (size_t i = 0; i < keys.size(); ++i) {
    const KeyRef& ref = keys[i];
    LogKey& key = part->all()[i];
    LockResult result;
    if (!ref.held || !relock_held(record, ref, owner, &result)) {
      std::optional<Version> expected;
      if (ref.has_version) expected = ref.version;
      result = ref.table->lock(ref.key, owner, ref.write, expected, ref.room);
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
      reply(m, Phase::kLock, result.code, ref.index, result.holder);
      return;
    }
    bases[i] = result.locked.base.value;
    // Where backups lag, a delete says there which version it replaces.
    if (row_->backups_lag() && ref.write == Write::kErase) bases[words++] = result.replaced.value;
  }
  part->next = record.locked;
  record.locked = part;
  const auto reads_only = [&] {
    return std::all_of(keys.begin(), keys.end(), [](const KeyRef& ref) { return ref.write == Write::kNone; });
  };
  if (!bugs_.has(Bug::kDropReadRecords) || !reads_only()) record.state |= kLogLocked;
  reply(m, Phase::kLock, Code::kOk, 0, Owner(), {bases.data(), words}, words - keys.size());
}

// A key that was locked while it was read: says what the lock is for. False if there is no such lock.
bool Engine::relock_held(LogRecord& record, const KeyRef& ref, Owner owner, LockResult* result) {
  for (LogPart* part = record.locked; part != nullptr; part = part->next) {
    for (LogKey& key : part->all()) {
      if (key.index != ref.index || key.table != ref.table) continue;
      WEFT_MARK("lock_taken_while_reading_changes_purpose");
      result->code = key.table->relock(key.key, owner, ref.write, ref.room, &key.locked);
      result->locked = key.locked;
      if (result->code == Code::kOk) key.write = ref.write;
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
