// Replication: a backup applies the write at once, unreadable, and logs what it replaced (undo). A primary that gets
// the values in this phase only logs them; it installs at unlock, under its lock. Rows whose backups lag: see
// onesided_log.cc.
#include <cstring>

#include "weft/base/inline.h"
#include "weft/txn/participant.h"

namespace weft {

void Engine::on_replicate(std::span<const Message> run) {
  for (const Message& m : run) {
    if (!parsed(m).ok) continue;
    const std::span<const KeyRef> keys = keys_of(m);
    if (row_->backups_lag() && !from_ring_ && !follows_in_order(keys)) {
      park(m);
      continue;
    }
    LogRecord* record = open_record(m);
    if (record == nullptr) continue;
    size_t undo_bytes = 0;
    for (const KeyRef& ref : keys) {
      const size_t value_max = ref.table->spec().value_bytes_max;
      if (value_max <= kSmallValue) undo_bytes += padded(value_max);
    }
    std::byte* undo_at;
    LogPart* part = log_.make_part(keys, undo_bytes, &undo_at);
    part->next = record->applied;
    record->applied = part;
    for (LogKey& key : part->all()) {
      const Placement& placement = view_->placement(key.key.partition);
      const bool fills = placement.filled_at(self_);
      // A replica that is filling cannot undo: it may not have the old value yet. Nobody reads it, so it waits.
      key.staged = fills || (row_->backups_lag() && !key.in_order && placement.primary() != self_);
      key.lags = key.staged && !fills && key.write == Write::kPut;
      if (!key.staged && placement.primary() != self_) apply_key(*record, key, &undo_at);
    }
    record->state |= kLogReplicated;
    if (!from_ring_) acknowledge(m, Phase::kReplicate);
  }
}

WEFT_INLINE void Engine::apply_key(LogRecord& record, LogKey& key, std::byte** undo_at) {
  const bool small = key.table->spec().value_bytes_max <= kSmallValue;
  std::byte* undo = small ? *undo_at : scratch_.data();
  key.undo = row_->backups_lag() ? key.table->apply_among_late(key.key, key.write, key.value, key.version, undo)
                                 : key.table->apply(key.key, key.write, key.value, key.version, undo);
  if (small) {
    *undo_at += padded(key.undo.value_bytes);
  } else if (key.undo.value_bytes != 0) {
    LogPart* part = log_.make_part(0, key.undo.value_bytes, &undo);
    std::memcpy(undo, scratch_.data(), key.undo.value_bytes);
    part->next = record.applied;
    record.applied = part;
  }
  key.old_value = {undo, key.undo.value_bytes};
  key.applied = true;
  ++counters_.records_touched;
  charge(Step::kLookup, 1);
}

}  // namespace weft
