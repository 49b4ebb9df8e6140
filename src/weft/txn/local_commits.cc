#include "weft/txn/local_commits.h"

#include <optional>

#include "weft/base/check.h"
#include "weft/base/inline.h"
#include "weft/txn/scan_checks.h"

namespace weft {

void LocalCommits::begin_batch() {
  ++ctx_.counters.table_batches;
  for (const TxnSlot* slot : queue_) ctx_.counters.table_batched += slot->count;
  if (!ctx_.table_batching) return;
  // Keys that were read in this step have been looked up already.
  for (const TxnSlot* slot : queue_) {
    for (uint16_t i = 0; i < slot->count; ++i) {
      const Entry& e = slot->entry(i);
      if (!e.key.hint) e.table->prefetch_index(e.key.hash);
    }
  }
  for (const TxnSlot* slot : queue_) {
    for (uint16_t i = 0; i < slot->count; ++i) {
      const Entry& e = slot->entry(i);
      if (!e.key.hint) e.table->prefetch_record(e.key);
    }
  }
}

void LocalCommits::commit(TxnSlot& slot) {
  WEFT_CHECK(slot.stage == TxnStage::kAwaitingBatch && slot.phase == Phase::kExecute && slot.outcome.code == Code::kOk,
             "a local commit is done in one call");
  WEFT_CHECK(slot.participants.empty() && slot.locked_nodes.empty(), "a local commit holds neither locks nor credit");
  WEFT_CHECK(slot.count <= locks_.size(), "limits bound a transaction's keys");
  const Owner owner = ctx_.owner(ctx_.self, slot.index);
  const uint16_t locked = lock(slot, owner);
  const bool scans = slot.scans != nullptr && slot.outcome.code == Code::kOk;
  if (scans) scans_->begin(slot);
  if (slot.outcome.code == Code::kOk) validate(slot, owner);
  if (scans && slot.outcome.code == Code::kOk) scans_->check_own(slot);
  const bool commits = slot.outcome.code == Code::kOk;
  slot.enter(commits ? TxnStage::kCommitting : TxnStage::kAborting);
  for (uint16_t i = 0; i < locked; ++i) {
    const Entry& e = slot.entry(i);
    if (e.at[index_of(Phase::kLock)].empty()) continue;
    if (commits) {
      e.table->commit(e.key, owner, e.write, {e.new_value, e.new_bytes}, locks_[i]);
    } else {
      e.table->unlock(e.key, owner, locks_[i]);
    }
    ctx_.touch_record();
  }
  slot.phase = Phase::kUnlock;
}

// Locks all keys, or as many as it can: those before the returned entry.
WEFT_INLINE uint16_t LocalCommits::lock(TxnSlot& slot, Owner owner) {
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if (e.at[index_of(Phase::kLock)].empty()) continue;
    std::optional<Version> expected;
    if (e.read) expected = e.version;
    const LockResult result = e.table->lock(e.key, owner, e.write, expected, e.write == Write::kNone ? 0 : e.new_bytes);
    ctx_.touch_record();
    if (result.code != Code::kOk) {
      fail(slot, result.code, &e, result.holder);
      return i;
    }
    locks_[i] = result.locked;
  }
  return slot.count;
}

WEFT_INLINE void LocalCommits::validate(TxnSlot& slot, Owner owner) {
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if (e.at[index_of(Phase::kValidate)].empty()) continue;
    Owner holder;
    const Code code = e.table->validate(e.key, e.version, owner, &holder);
    ctx_.touch_record();
    if (code != Code::kOk) return fail(slot, code, &e, holder);
  }
}

}  // namespace weft
