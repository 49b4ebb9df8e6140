// Planner: turns a protocol's row and the keys of one transaction into a plan, as data: which phase of which key goes
// to which nodes, by which transport, and after which phase the client may be acknowledged. Computed once when the
// commit starts; the coordinator and the transports only read it. It sends nothing and reads no table.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/base/bugs.h"
#include "weft/txn/messages.h"
#include "weft/txn/protocol.h"
#include "weft/txn/row_set.h"
#include "weft/txn/slot.h"

namespace weft {

// Entry::by_verb of keys that are locked and committed, or validated, by one-sided verbs at their primary.
inline constexpr uint8_t kLocksByVerb = 1U << static_cast<int>(Phase::kLock) | 1U << static_cast<int>(Phase::kUnlock);
inline constexpr uint8_t kCheckedByVerb = 1U << static_cast<int>(Phase::kValidate);

class Planner {
 public:
  // `verbs_lock`: verbs that swap words are atomic with the swaps of the target node's processors.
  Planner(const RowSet& rows, NodeId self, PlantedBugs bugs, bool verbs_lock)
      : rows_(rows), instances_(instances_of(rows)), self_(self), bugs_(bugs), verbs_lock_(verbs_lock) {}

  // Plans the commit of a transaction whose reads have all been answered. Returns the nodes it involves, in addition to
  // those that take part already. If what was read violates a precondition, the slot has failed.
  NodeSet plan(TxnSlot& slot) const;
  // The same by the code for rows that are not known when it is compiled. plan() has instances for those that clusters
  // serve; a test compares them.
  NodeSet plan_by_pointer(TxnSlot& slot) const;

  // What the row means for the participants of a commit (CommitFlags).
  uint8_t commit_flags(const TxnSlot& slot) const { return flags_of(rows_.at(slot.row)); }

  // How the transaction executes the reads that no local replica answers.
  struct ReadPlan {
    bool lock_for_update;  // a get with intent update locks the key at its primary
    bool at_once;          // a stored procedure's keys at a node are locked and read by one message
    bool ships;            // a stored procedure may be executed at the primary of its keys
    bool remembered;       // READ the record, if its location is remembered
    bool through_index;    // READ the index bin that leads to it, if it is not
  };
  ReadPlan plan_reads(const TxnSlot& slot) const {
    const Protocol& row = rows_.at(slot.row);
    return {row.lock_while_reading, row.execute_at_once, row.ships_procedures, row.location_cache,
            row.by.execute == Primitive::kOneSided};
  }

 private:
  enum class Instance : uint8_t { kAny, kOfDnl4, kOfDnl2, kOfDnl1, kOfFasst, kOfHop };
  static std::vector<Instance> instances_of(const RowSet& rows);
  static bool begin(TxnSlot& slot);
  static constexpr uint8_t flags_of(const Protocol& row) {
    return static_cast<uint8_t>((row.commits == CommitRule::kUnanimous ? kUnanimous : 0) |
                                (row.refusal == Refusal::kFinal ? kRefusalIsFinal : 0) |
                                (row.unlock_ack == UnlockAck::kPiggybacked ? kPiggybackAck : 0));
  }
  template <class Row>
  NodeSet plan_keys(TxnSlot& slot, Row of, bool several_primaries) const;
  static void resolve_write(TxnSlot& slot, Entry& entry);
  NodeSet plan_key(TxnSlot& slot, Entry& entry, const Protocol& row, bool several_primaries) const;
  void plan_write(Entry& entry, const Protocol& row, bool several_primaries) const;
  void plan_read(const TxnSlot& slot, Entry& entry, const Protocol& row) const;
  static uint8_t key_flags(const Entry& entry, const Protocol& row);
  Phase ack_after(const TxnSlot& slot, const Protocol& row) const;
  bool locks_by_verb(const Entry& entry, const Protocol& row) const;

  const RowSet& rows_;
  const std::vector<Instance> instances_;  // by row
  const NodeId self_;
  const PlantedBugs bugs_;
  const bool verbs_lock_;
};

}  // namespace weft
