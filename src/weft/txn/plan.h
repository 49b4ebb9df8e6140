// Planner: what a protocol's row means for the keys of one transaction, as data: which phase of which key goes to which
// nodes, by which transport, and after which phase the client may be told. Computed once when the commit starts; the
// coordinator and the transports only look at it. It sends nothing and reads no table.
#pragma once

#include <cstdint>

#include "weft/base/bugs.h"
#include "weft/txn/protocol.h"
#include "weft/txn/slot.h"

namespace weft {

// Entry::by_verb of keys that are locked and committed, or validated, by one-sided verbs at their primary.
inline constexpr uint8_t kLocksByVerb = 1U << static_cast<int>(Phase::kLock) | 1U << static_cast<int>(Phase::kUnlock);
inline constexpr uint8_t kCheckedByVerb = 1U << static_cast<int>(Phase::kValidate);

class Planner {
 public:
  // `verbs_lock`: verbs that swap words exclude the processors of the node whose words they are.
  Planner(const Protocol& row, NodeId self, Bugs bugs, bool verbs_lock)
      : row_(row), self_(self), bugs_(bugs), verbs_lock_(verbs_lock) {}

  // Plans the commit of a transaction whose reads are all in. Returns the nodes it involves, in addition to those that
  // take part already. If what was read contradicts what is demanded, the slot has failed.
  uint64_t plan(TxnSlot& slot) const;

  // Whether a write is applied at backups as it arrives, after its predecessor: in rows whose backups apply when the
  // transaction is finished, what is not a put of something that was there. So a later put always finds the record. An
  // earlier one may be late: Table::overwrite.
  bool in_order(const Entry& entry) const {
    return row_.backups_lag() && entry.write != Write::kNone &&
           !(entry.write == Write::kPut && entry.read && entry.found);
  }

 private:
  static void resolve_write(TxnSlot& slot, Entry& entry);
  uint64_t plan_key(TxnSlot& slot, Entry& entry, const Protocol& row, bool several_primaries) const;
  void plan_write(Entry& entry, const Protocol& row, bool several_primaries) const;
  void plan_read(Entry& entry, const Protocol& row) const;
  Phase ack_phase(const TxnSlot& slot, const Protocol& row) const;
  bool locks_by_verb(const Entry& entry) const;
  bool checked_by_verb(const Entry& entry) const;

  const Protocol& row_;
  const NodeId self_;
  const Bugs bugs_;
  const bool verbs_lock_;
};

}  // namespace weft
