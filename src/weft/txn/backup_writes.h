// BackupWrites: the writes that replication brings to this replica, from the log entry until the transaction is
// finished.
//
// A backup applies a write at once, unreadable, and logs what it replaced (undo). A primary that gets the values in
// this phase only logs them: it installs them when it unlocks, under its lock. A replica that is catching up cannot
// undo, because it may not have the old value yet; nobody reads it, so it installs the write when the transaction is
// finished.
//
// Lazy backups redo: they keep the writes in their record and install them when the transaction is finished. These
// installs come in any order, so a put only replaces an older version of an existing record and does not bring back a
// deleted one. Every other write (an insert, a delete, a blind put) comes by message. It is applied before it is
// acknowledged, with an undo log as elsewhere, and after the write that it replaces has been installed here.
#pragma once

#include <cstddef>
#include <span>

#include "weft/base/check.h"
#include "weft/base/inline.h"
#include "weft/store/table_in_place.h"
#include "weft/txn/context.h"
#include "weft/txn/prepared_table.h"

namespace weft {

class BackupWrites {
 public:
  // `marks_readable`: backups hide what they apply until the transaction is finished (RowSet::marks_readable).
  BackupWrites(WorkerContext& ctx, PreparedTable& records, bool marks_readable)
      : ctx_(ctx),
        records_(records),
        roles_(ctx.views.roles()),
        visibility_(marks_readable ? Visibility::kWhenMarked : Visibility::kImmediate) {}

  // Whether the writes that these ones replace are installed at this backup.
  bool predecessors_applied(std::span<const KeyRef> keys) const;
  // Logs the writes in the record, and applies those that are not deferred. `room`: what is left in the part's block,
  // for old values.
  void add(PreparedTxn& record, PreparedKeys* part, std::span<std::byte> room);
  // The same for one key of a part that is in the record; `role` is what this node was for it when the log entry came.
  void add_key(PreparedTxn& record, PreparedKey& key, uint8_t role, std::span<std::byte>* room);
  uint8_t role_of(const KeyRef& key) const { return roles_[key.key.partition.value]; }
  // The transaction has committed everywhere: installs what was deferred, and makes readable what was applied.
  void finish(const PreparedTxn& record) const;
  void finish_key(const PreparedKey& key) const;
  // The transaction was aborted: restores what was applied.
  static void undo(const PreparedTxn& record);

 private:
  // Whether the write becomes readable, or disappears, only when the transaction is finished.
  bool needs_mark(const KeyRef& key) const {
    return visibility_ == Visibility::kWhenMarked || key.write == Write::kErase;
  }
  void apply(PreparedTxn& record, PreparedKey& key, std::span<std::byte>* room);
  void apply_otherwise(PreparedTxn& record, PreparedKey& key, std::span<std::byte>* room);
  void apply_long(PreparedTxn& record, PreparedKey& key);

  WorkerContext& ctx_;
  PreparedTable& records_;
  const uint8_t* const roles_;   // of this node, by partition (view_state.h)
  const Visibility visibility_;  // of what is applied
};

WEFT_INLINE inline void BackupWrites::add(PreparedTxn& record, PreparedKeys* part, std::span<std::byte> room) {
  part->next = record.applied;
  record.applied = part;
  for (PreparedKey& key : part->all()) add_key(record, key, role_of(key), &room);
}

WEFT_INLINE inline void BackupWrites::add_key(PreparedTxn& record, PreparedKey& key, uint8_t role,
                                              std::span<std::byte>* room) {
  if ((role & (kPrimary | kCatchingUp)) == 0 && !key.has(kDeferred)) [[likely]] {
    apply(record, key, room);
    if (needs_mark(key)) record.ends_quietly = false;
    return;
  }
  key.deferred_apply = (role & kPrimary) == 0 || (role & kCatchingUp) != 0;
  key.late_put = key.deferred_apply && (role & kCatchingUp) == 0 && key.write == Write::kPut;
  if (key.deferred_apply) record.ends_quietly = false;
}

// An old value of the new one's size stays beside it.
WEFT_INLINE inline void BackupWrites::apply(PreparedTxn& record, PreparedKey& key, std::span<std::byte>* room) {
  WEFT_CHECK(!key.applied && key.write != Write::kNone, "a write is applied once");
  const size_t old_bytes = padded(key.value.size());
  if (key.write == Write::kPut && !key.has(kOrdered) && old_bytes <= room->size() &&
      key.table->apply_in_place(key.key, key.value, key.version, room->data(), visibility_, &key.undo)) [[likely]] {
    key.old_value = room->data();
    *room = room->subspan(old_bytes);
  } else {
    apply_otherwise(record, key, room);
  }
  key.applied = true;
  ctx_.touch_record();
}

}  // namespace weft
