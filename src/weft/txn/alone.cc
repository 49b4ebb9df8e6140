// Commits that concern this node alone: all their keys have their primary here, and what they write has no other
// replica, nor one that fills. There is nobody to send a phase to, and nothing to log for: whoever could recover the
// transaction has no copy of its data, and it is open for no longer than one call. So the phases of the row are done
// one after the other, on the tables: lock, validate, install. Commits of one step of the loop share a table batch.
#include "weft/base/inline.h"
#include "weft/txn/engine.h"

namespace weft {

namespace {

constexpr size_t at(Phase phase) { return static_cast<size_t>(phase); }

}  // namespace

// What the row replicates to the primary only is not replicated: the value is there when it is installed.
//
// Rows that tell a commit before it is unlocked have unlocks under way to this node, and whoever was told is not to
// meet them: then the commit queues up behind them, as messages.
bool Engine::is_alone(const TxnSlot& slot, uint64_t nodes) const {
  const uint64_t own = uint64_t{1} << self_.value;
  if (nodes != own || slot.participants != 0 || slot.outcome.code != Code::kOk) return false;
  return told_after(*row_) == Phase::kUnlock || !port_.has_open(self_, Flow::kCommit);
}

bool Engine::commit_alone_ones() {
  ++counters_.table_batches;
  for (const TxnSlot* slot : alone_) counters_.table_batched += slot->count;
  if (table_batching_) {
    // What was read in this step has been looked up already.
    for (const TxnSlot* slot : alone_) {
      for (uint16_t i = 0; i < slot->count; ++i) {
        const Entry& e = slot->entry(i);
        if (!e.key.hint) e.table->prefetch_index(e.key.hash);
      }
    }
    for (const TxnSlot* slot : alone_) {
      for (uint16_t i = 0; i < slot->count; ++i) {
        const Entry& e = slot->entry(i);
        if (!e.key.hint) e.table->prefetch_record(e.key);
      }
    }
  }
  // None of these can make another one: whoever is told goes on in the next step.
  for (TxnSlot* slot : alone_) commit_alone(*slot);
  alone_.clear();
  return true;
}

void Engine::commit_alone(TxnSlot& slot) {
  const Owner owner(self_, id_, slot.index);
  const uint16_t locked = lock_alone(slot, owner);
  if (slot.outcome.code == Code::kOk) validate_alone(slot, owner);
  slot.committing = slot.outcome.code == Code::kOk;
  for (uint16_t i = 0; i < locked; ++i) {
    const Entry& e = slot.entry(i);
    if (e.at[at(Phase::kLock)] == 0) continue;
    if (slot.committing) {
      e.table->commit(e.key, owner, e.write, {e.new_value, e.new_bytes}, alone_locks_[i]);
    } else {
      e.table->unlock(e.key, owner, alone_locks_[i]);
    }
    ++counters_.records_touched;
    charge(Step::kLookup, 1);
  }
  slot.phase = Phase::kUnlock;
  tell(slot);
  finish(slot);
}

// All, or as many as it gets: those before the entry that is returned.
WEFT_INLINE uint16_t Engine::lock_alone(TxnSlot& slot, Owner owner) {
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if (e.at[at(Phase::kLock)] == 0) continue;
    std::optional<Version> expected;
    if (e.read) expected = e.version;
    const LockResult result = e.table->lock(e.key, owner, e.write, expected, e.write == Write::kNone ? 0 : e.new_bytes);
    ++counters_.records_touched;
    charge(Step::kLookup, 1);
    if (result.code != Code::kOk) {
      fail(slot, result.code, &e, result.holder);
      return i;
    }
    alone_locks_[i] = result.locked;
  }
  return slot.count;
}

WEFT_INLINE void Engine::validate_alone(TxnSlot& slot, Owner owner) {
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if (e.at[at(Phase::kValidate)] == 0) continue;
    Owner holder;
    const Code code = e.table->validate(e.key, e.version, owner, &holder);
    ++counters_.records_touched;
    charge(Step::kLookup, 1);
    if (code != Code::kOk) return fail(slot, code, &e, holder);
  }
}

}  // namespace weft
