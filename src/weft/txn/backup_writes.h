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

#include "weft/txn/context.h"
#include "weft/txn/prepared_table.h"

namespace weft {

class BackupWrites {
 public:
  // `marks_readable`: backups hide what they apply until the transaction is finished (RowSet::marks_readable).
  BackupWrites(WorkerContext& ctx, PreparedTable& records, bool marks_readable)
      : ctx_(ctx), records_(records), marks_readable_(marks_readable) {}

  // Whether the writes that these ones replace are installed at this backup.
  bool predecessors_applied(std::span<const KeyRef> keys) const;
  // Logs the writes in the record, and applies those that are not deferred. `room`: what is left in the part's block,
  // for old values.
  void add(PreparedTxn& record, PreparedKeys* part, std::span<std::byte> room);
  // The transaction has committed everywhere: installs what was deferred, and makes readable what was applied.
  void finish(const PreparedTxn& record) const;
  void finish_key(const PreparedKey& key) const;
  // The transaction was aborted: restores what was applied.
  static void undo(const PreparedTxn& record);

 private:
  void apply(PreparedTxn& record, PreparedKey& key, std::span<std::byte>* room);

  WorkerContext& ctx_;
  PreparedTable& records_;
  const bool marks_readable_;
};

}  // namespace weft
