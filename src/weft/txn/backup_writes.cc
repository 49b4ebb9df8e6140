#include "weft/txn/backup_writes.h"

#include <algorithm>
#include <cstring>

#include "weft/base/check.h"
#include "weft/base/inline.h"

namespace weft {

bool BackupWrites::predecessors_applied(std::span<const KeyRef> keys) const {
  return std::all_of(keys.begin(), keys.end(), [&](const KeyRef& ref) {
    const Placement& placement = ctx_.view().placement(ref.key.partition);
    if (ref.predecessor_delta == 0 || placement.primary() == ctx_.self || placement.is_catching_up(ctx_.self))
      return true;
    const ReadResult read = ref.table->read(ref.key, nullptr, 0);
    return !read.found || read.word.version().value + ref.predecessor_delta >= ref.version.value;
  });
}

void BackupWrites::add(PreparedTxn& record, PreparedKeys* part, std::span<std::byte> room) {
  part->next = record.applied;
  record.applied = part;
  const View& view = ctx_.view();
  for (PreparedKey& key : part->all()) {
    const Placement& placement = view.placement(key.key.partition);
    const bool catches_up = placement.is_catching_up(ctx_.self);
    const bool primary = placement.primary() == ctx_.self;
    key.deferred_apply = catches_up || (key.has(kDeferred) && !primary);
    key.late_put = key.deferred_apply && !catches_up && key.write == Write::kPut;
    if (!key.deferred_apply && !primary) apply(record, key, &room);
    if (key.deferred_apply || (key.applied && (marks_readable_ || key.write == Write::kErase))) {
      record.ends_quietly = false;
    }
  }
}

// Copies the old value beside the new one if the largest that it can be fits there, and otherwise through a buffer.
WEFT_INLINE void BackupWrites::apply(PreparedTxn& record, PreparedKey& key, std::span<std::byte>* room) {
  const bool fits = padded(key.table->spec().value_bytes_max) <= room->size();
  WEFT_CHECK(!key.applied && key.write != Write::kNone, "a write is applied once");
  std::byte* old = fits ? room->data() : ctx_.scratch.data();
  const Visibility visibility = marks_readable_ ? Visibility::kWhenMarked : Visibility::kImmediate;
  key.undo = key.has(kOrdered) ? key.table->apply_unordered(key.key, key.write, key.value, key.version, old)
                               : key.table->apply(key.key, key.write, key.value, key.version, old, visibility);
  if (fits) {
    *room = room->subspan(padded(key.undo.value_bytes));
  } else if (key.undo.value_bytes != 0) {
    WEFT_CHECK(key.undo.value_bytes <= ctx_.scratch.size(), "a value of any table fits");
    PreparedKeys* part = records_.make_part(0, key.undo.value_bytes, &old);
    std::memcpy(old, ctx_.scratch.data(), key.undo.value_bytes);
    part->next = record.applied;
    record.applied = part;
  }
  key.old_value = old;
  key.applied = true;
  ctx_.touch_record();
}

void BackupWrites::finish(const PreparedTxn& record) const {
  for (const PreparedKeys* part = record.applied; part != nullptr; part = part->next) {
    for (const PreparedKey& key : part->all()) finish_key(key);
  }
}

// At a replica that is catching up, a delete leaves a tombstone until the replica is in sync, so that an older copy of
// the record that arrives later is recognized.
WEFT_INLINE void BackupWrites::finish_key(const PreparedKey& key) const {
  WEFT_CHECK(!(key.applied && key.deferred_apply), "a write is either applied or deferred");
  // An applied tombstone is removed now, whether or not backups mark readable.
  if (key.applied && (marks_readable_ || key.write == Write::kErase)) key.table->mark_readable(key.key, key.version);
  if (key.late_put) {
    key.table->apply_late_put(key.key, key.value, key.version, ctx_.scratch.data());
  } else if (key.deferred_apply) {
    key.table->install_if_newer(key.key, key.write, key.value, key.version, ctx_.scratch.data());
  }
  if (key.applied || key.deferred_apply) ctx_.touch_record();
}

void BackupWrites::undo(const PreparedTxn& record) {
  for (const PreparedKeys* part = record.applied; part != nullptr; part = part->next) {
    for (const PreparedKey& key : part->all()) {
      if (key.applied) key.table->undo(key.key, key.version, key.undo, {key.old_value, key.undo.value_bytes});
    }
  }
}

}  // namespace weft
