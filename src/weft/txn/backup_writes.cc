#include "weft/txn/backup_writes.h"

#include <algorithm>
#include <cstring>

#include "weft/base/check.h"
#include "weft/base/inline.h"

namespace weft {

namespace {

constexpr size_t kLongValue = 64 << 10;  // takes longer to copy once more than to look how long the old one is

}  // namespace

bool BackupWrites::predecessors_applied(std::span<const KeyRef> keys) const {
  return std::all_of(keys.begin(), keys.end(), [&](const KeyRef& ref) {
    if (ref.predecessor_delta == 0 || (role_of(ref) & (kPrimary | kCatchingUp)) != 0) return true;
    const ReadResult read = ref.table->read(ref.key, nullptr, 0);
    return !read.found || read.word.version().value + ref.predecessor_delta >= ref.version.value;
  });
}

// The old value may be too large for what is left of the part: it goes through a buffer into a part of its own, or if
// it is likely long, directly. Its length does not change meanwhile: the primary has the key locked.
void BackupWrites::apply_otherwise(PreparedTxn& record, PreparedKey& key, std::span<std::byte>* room) {
  const bool fits = padded(key.table->spec().value_bytes_max) <= room->size();
  if (!fits && key.value.size() >= kLongValue && !key.has(kOrdered)) return apply_long(record, key);
  std::byte* old = fits ? room->data() : ctx_.scratch.data();
  key.undo = key.has(kOrdered) ? key.table->apply_unordered(key.key, key.write, key.value, key.version, old)
                               : key.table->apply(key.key, key.write, key.value, key.version, old, visibility_);
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
}

void BackupWrites::apply_long(PreparedTxn& record, PreparedKey& key) {
  const uint32_t bytes = key.table->read(key.key, nullptr, 0).value_bytes;
  std::byte* old;
  PreparedKeys* part = records_.make_part(0, bytes, &old);
  key.undo = key.table->apply(key.key, key.write, key.value, key.version, old, visibility_);
  WEFT_CHECK(key.undo.value_bytes <= bytes, "a locked value stays as long as it is");
  key.old_value = old;
  part->next = record.applied;
  record.applied = part;
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
  if (key.applied && needs_mark(key)) key.table->mark_readable(key.key, key.version);
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
