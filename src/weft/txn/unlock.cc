// Unlocking: installs and releases (commit), or releases and forgets (abort). The record of a commit stays until the
// coordinator's notice that every participant has acknowledged (rule K4); that notice also raises the readable flag of
// what was applied here as a backup (rule G4).
#include "weft/base/inline.h"
#include "weft/txn/participant.h"

namespace weft {

void Engine::on_unlock(std::span<const Message> run) {
  for (const Message& m : run) {
    if (!parsed(m).ok) continue;
    const auto request = load<CommitRequest>(m.body.data());
    LogRecord& record = log_.at(m.source, static_cast<uint8_t>(m.spare));
    if (static_cast<uint32_t>(record.sequence) != static_cast<uint32_t>(request.sequence) || record.locked == nullptr ||
        (record.state & kLogCommitted) != 0) {
      bad_message(m.source, "an unlock of what is not locked");
      continue;
    }
    const Owner owner = owner_of(m);
    if (request.commit != 0) {
      for (LogPart* part = record.locked; part != nullptr; part = part->next) {
        for (LogKey& key : part->all()) commit_key(record, key, owner, keys_of(m));
      }
      record.state |= kLogCommitted;
      note_outcome(record.incarnation, request.sequence, true);
    } else {
      for (LogPart* part = record.locked; part != nullptr; part = part->next) release_part(part, part->keys, owner);
      const uint32_t incarnation = record.incarnation;
      log_.drop(record, false);
      if (row_->locks_backups()) {
        record.aborted_here = request.sequence;
      } else {
        note_outcome(incarnation, request.sequence, false);
      }
    }
    if (request.commit != 0 && row_->passive_ack && passive_acks_ && m.source != self_) {
      unlocked_.add(m.source, {static_cast<uint32_t>(request.sequence), m.spare}, worker_->now_ns());
    } else {
      acknowledge(m, Phase::kUnlock);
    }
  }
}

void Engine::commit_key(const LogRecord& record, LogKey& key, Owner owner, std::span<const KeyRef> carried) {
  if (key.table == nullptr) return;
  ++counters_.records_touched;
  charge(Step::kLookup, 1);
  if (key.has_value || key.write == Write::kErase) {
    key.table->commit(key.key, owner, key.write, key.value, key.locked);
    return;
  }
  const ByteView* value = nullptr;
  for (const KeyRef& ref : carried) {
    if (ref.index == key.index) value = &ref.value;
  }
  if (value == nullptr) {
    if (const LogKey* logged = record.find_value(key.index)) value = &logged->value;
  }
  if (value != nullptr) {
    if (value->size() <= key.room) {
      key.table->commit(key.key, owner, Write::kPut, *value, key.locked);
      return;
    }
    bad_message(owner.node(), "a value larger than what was locked for");
  }
  key.table->unlock(key.key, owner, key.locked);  // locked for reading, or for an update that did not come
}

void Engine::on_done(std::span<const Message> run) {
  for (const Message& m : run) {
    if (!parsed(m).ok) continue;
    for (const DoneNotice& notice : notices_of(m)) {
      LogRecord& record = log_.at(m.source, static_cast<uint8_t>(notice.slot));
      if (record.state != 0 && static_cast<uint32_t>(record.sequence) == notice.sequence) finish_record(record);
    }
  }
}

// At a backup, or at a replica that is filling, where a delete stays as a tombstone until it is whole: so that an older
// copy of the record that comes later is noticed.
WEFT_INLINE void Engine::finish_key(const LogKey& key) {
  if (key.applied) key.table->raise(key.key, key.version);
  if (key.lags) {
    key.table->overwrite(key.key, key.value, key.version, scratch_.data());
  } else if (key.staged) {
    key.table->install(key.key, key.write, key.value, key.version, scratch_.data());
  }
  if (!key.applied && !key.staged) return;
  ++counters_.records_touched;
  charge(Step::kLookup, 1);
}

WEFT_INLINE void Engine::finish_record(LogRecord& record) {
  for (LogPart* part = record.applied; part != nullptr; part = part->next) {
    for (const LogKey& key : part->all()) finish_key(key);
  }
  if ((record.state & kLogCommitted) == 0) note_outcome(record.incarnation, record.sequence, true);
  log_.drop(record, true);
}

}  // namespace weft
