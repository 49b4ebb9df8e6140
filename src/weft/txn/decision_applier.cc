#include "weft/txn/decision_applier.h"

#include "weft/base/check.h"

namespace weft {

void DecisionApplier::begin() {
  stage_ = Stage::kBegin;
  table_ = 0;
  piece_ = 0;
}

// Returns true if all workers have come to the step. At the first step all members have stopped: where they use verbs,
// they get access again.
bool DecisionApplier::come_to(WorkerBarrier::Step step) {
  barrier_.arrive(step, ctx_.view().epoch, ctx_.id);
  const bool all = barrier_.all_arrived(step, ctx_.view().epoch);
  if (all && step == WorkerBarrier::Step::kApply && verbs_ != nullptr) verbs_->grant_access(ctx_.view());
  return all;
}

DecisionApplier::Progress DecisionApplier::step() {
  WEFT_CHECK(ctx_.views.recovering(), "decisions are carried out while the worker recovers");
  if (stage_ == Stage::kBegin) {
    if (!come_to(WorkerBarrier::Step::kApply)) return Progress::kWaits;
    apply_decisions(false);
    stage_ = Stage::kAborts;
  }
  if (stage_ == Stage::kAborts) {
    if (verbs_ != nullptr && !come_to(WorkerBarrier::Step::kCommit)) return Progress::kWaits;
    apply_decisions(true);
    stage_ = Stage::kCommits;
  }
  if (!verb_locks_) return Progress::kDone;
  if (stage_ == Stage::kCommits) {
    if (!come_to(WorkerBarrier::Step::kFree)) return Progress::kWaits;
    stage_ = Stage::kLocks;
    piece_ = ctx_.id.value;
  }
  return release_orphaned_locks() ? Progress::kDone : Progress::kGoesOn;
}

void DecisionApplier::apply_decisions(bool commits) {
  for (Decision& decision : decisions_.all()) {
    if (decision.applied || decision.commit != commits) continue;
    decision.applied = true;
    participant_.note_outcome(decision.incarnation, decision.sequence, commits);
    PreparedTxn& record = records_.at(decision.coordinator, decision.slot);
    const bool has_record = record.is(decision.incarnation, decision.sequence);
    const Owner owner = ctx_.owner(decision.coordinator, decision.slot);
    const bool open = has_record && !record.ended;
    if (open && commits) {
      participant_.commit_record(record, owner, decision.keys);
    } else if (open) {
      participant_.abort_record(record, owner);
    }
    if (commits) install(decision.keys, open ? &record : nullptr, owner);
    if (has_record && ctx_.bugs.has(PlantedBug::kNotWritten)) {
      records_.drop(record, commits);
      record.finished = 0;
    }
  }
}

// Installs what the record has not applied here itself. What the record has applied may be outdated already: once the
// primary is unlocked, later transactions change the key, and finish, while this one's last acknowledgement is still in
// flight.
void DecisionApplier::install(const PreparedKeys* part, const PreparedTxn* record, Owner owner) {
  if (part == nullptr) return;
  const std::shared_ptr<const View> before = ctx_.state.views.last_active();
  for (const PreparedKey& key : part->all()) {
    if (record != nullptr && record->covers(key.index)) continue;
    if (record != nullptr && record->locked_by_verb(key.index)) {
      key.table->recovery_commit(key.key, owner, key.value, key.version);
      continue;
    }
    const Placement& now = ctx_.view().placement(key.key.partition);
    const bool catches_up = now.is_catching_up(ctx_.self);
    // A partition that this node has just begun to catch up on gets the write by copying, which comes later.
    const bool was_catching_up = before != nullptr && before->placement(key.key.partition).is_catching_up(ctx_.self);
    if (!now.is_in_sync(ctx_.self) && !(catches_up && was_catching_up)) continue;
    key.table->install_if_newer(key.key, key.write, key.value, key.version, ctx_.scratch.data());
    // Tombstones of partitions that were catching up stay until all workers have applied their decisions
    // (PartitionGc::settle).
    if (!was_catching_up && key.write == Write::kErase) key.table->mark_readable(key.key, key.version);
  }
}

// All workers of the node have applied all decisions, so whatever is still locked here was locked by a verb of a
// transaction that never came to log. The workers share the search: each takes every n-th piece of the tables, one
// piece at a time, so that leases go on. Returns true when no such lock is left.
bool DecisionApplier::release_orphaned_locks() {
  WEFT_CHECK(stage_ == Stage::kLocks, "locks are freed when all is carried out");
  const auto workers = static_cast<uint64_t>(ctx_.workers);
  bool looked = false;
  for (; table_ < ctx_.tables.count(); ++table_, piece_ = ctx_.id.value) {
    Table* table = ctx_.tables.at(TableId(static_cast<uint16_t>(table_)));
    while (piece_ < table->lock_chunks()) {
      if (looked) return false;
      table->release_orphaned_locks(piece_);
      piece_ += workers;
      looked = true;
    }
  }
  return true;
}

}  // namespace weft
