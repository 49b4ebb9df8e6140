// What a member does to its tables when recovery has decided (recovery.h): each decision is carried out once, by the
// records that are here and by the values that came with it.
#include "weft/base/check.h"
#include "weft/txn/engine.h"

namespace weft {

// Aborts first: see carry_out_step.
void Engine::carry_out(bool commits) {
  for (Decision& decision : decisions_) {
    if (decision.carried_out || decision.commit != commits) continue;
    decision.carried_out = true;
    note_outcome(decision.incarnation, uint64_t{decision.sequence_high} << 32 | decision.sequence, commits);
    LogRecord& record = log_.at(decision.coordinator, decision.slot);
    const bool has_record = record.is(decision.incarnation, decision.sequence);
    const Owner owner(decision.coordinator, id_, decision.slot);
    const bool open = has_record && !record.ended;
    if (open && commits) {
      commit_record(record, owner, decision.keys);
    } else if (open) {
      abort_record(record, owner);
    }
    if (commits) install_decided(decision.keys, open ? &record : nullptr, owner);
    if (has_record && bugs_.has(Bug::kNotWritten)) {
      log_.drop(record, commits);
      record.finished = 0;
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
  const bool committed = (record.state & kLogCommitted) != 0;
  if (committed && bugs_.has(Bug::kOldEpochAccepted)) return;  // the notes contradict each other, and that is reported
  WEFT_CHECK(!committed, "what was committed anywhere is decided to commit");
  for (LogPart* part = record.locked; part != nullptr; part = part->next) release_part(part, part->keys, owner);
  for (const LogPart* part = record.applied; part != nullptr; part = part->next) {
    for (const LogKey& key : part->all()) {
      if (key.applied) key.table->undo(key.key, key.version, key.undo, key.old_value);
    }
  }
}

// What the record has not brought about here itself. What it has may be history already: once the primary is unlocked,
// later transactions change the key, and finish, while this one's last acknowledgement is still on its way.
void Engine::install_decided(const LogPart* part, const LogRecord* record, Owner owner) {
  if (part == nullptr) return;
  const std::shared_ptr<const View> before = node_->last_active();
  for (const LogKey& key : part->all()) {
    if (record != nullptr && record->covers(key.index)) continue;
    if (record != nullptr && record->locked_by_verb(key.index)) {
      key.table->commit_locked(key.key, owner, key.value, key.version);
      continue;
    }
    const Placement& now = view_->placement(key.key.partition);
    const bool fills = now.filled_at(self_);
    // What it has just begun to fill, it gets by copying, which comes later.
    const bool filled_before = before != nullptr && before->placement(key.key.partition).filled_at(self_);
    if (!now.held_by(self_) && !(fills && filled_before)) continue;
    key.table->install(key.key, key.write, key.value, key.version, scratch_.data());
    // Tombstones of what was filling stay until all workers have brought what they know (settle_tables).
    if (!filled_before && key.write == Write::kErase) key.table->raise(key.key, key.version);
  }
}

}  // namespace weft
