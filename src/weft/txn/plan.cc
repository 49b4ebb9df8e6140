#include "weft/txn/plan.h"

#include <algorithm>

#include "weft/base/inline.h"
#include "weft/fabric/wire.h"
#include "weft/txn/messages.h"

namespace weft {

namespace {

// A row that is known when the plan is compiled, and one that is not.
template <const Protocol* kRow>
struct CompiledRow {
  static constexpr const Protocol& get() { return *kRow; }
};
struct AnyRow {
  const Protocol* row;
  const Protocol& get() const { return *row; }
};

}  // namespace

NodeSet Planner::plan(TxnSlot& slot) const {
  const bool several_primaries = begin(slot);
  if (slot.read_only) return plan_keys(slot, CompiledRow<&kReadOnly>(), several_primaries);
  const Protocol& row = rows_.at(slot.row);
  switch (instances_[slot.row]) {
    case Instance::kOfDnl4:
      return plan_keys(slot, CompiledRow<&kDnl4>(), several_primaries);
    case Instance::kOfDnl2:
      return plan_keys(slot, CompiledRow<&kDnl2>(), several_primaries);
    case Instance::kOfDnl1:
      return plan_keys(slot, CompiledRow<&kDnl1>(), several_primaries);
    case Instance::kOfFasst:
      return plan_keys(slot, CompiledRow<&kFasst>(), several_primaries);
    case Instance::kOfHop:
      return plan_keys(slot, CompiledRow<&kHop>(), several_primaries);
    case Instance::kAny:
      break;
  }
  return plan_keys(slot, AnyRow{&row}, several_primaries);
}

NodeSet Planner::plan_by_pointer(TxnSlot& slot) const {
  const bool several_primaries = begin(slot);
  return plan_keys(slot, AnyRow{slot.read_only ? &kReadOnly : &rows_.at(slot.row)}, several_primaries);
}

std::vector<Planner::Instance> Planner::instances_of(const RowSet& rows) {
  std::vector<Instance> out;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Protocol& row = rows.at(i);
    out.push_back(row == kDnl4    ? Instance::kOfDnl4
                  : row == kDnl2  ? Instance::kOfDnl2
                  : row == kDnl1  ? Instance::kOfDnl1
                  : row == kFasst ? Instance::kOfFasst
                  : row == kHop   ? Instance::kOfHop
                                  : Instance::kAny);
  }
  return out;
}

// Resolves what is to be written, and returns whether it has several primaries.
WEFT_INLINE bool Planner::begin(TxnSlot& slot) {
  slot.writes = 0;
  NodeSet primaries;
  for (uint16_t i = 0; i < slot.count; ++i) {
    Entry& e = slot.entry(i);
    resolve_write(slot, e);
    if (e.write == Write::kNone) continue;
    ++slot.writes;
    primaries.add(e.placement->primary());
  }
  slot.read_only = slot.writes == 0 && slot.locked_nodes.empty();
  return primaries.size() > 1;
}

template <class Row>
WEFT_INLINE NodeSet Planner::plan_keys(TxnSlot& slot, Row of, bool several_primaries) const {
  const Protocol& row = of.get();
  slot.unanimous = row.commits == CommitRule::kUnanimous;
  slot.lock_brings_values = row.lock_carries_value && !bugs_.has(PlantedBug::kLockWithoutValue);
  slot.flags = flags_of(row);
  slot.steps = {};
  slot.catching_up_nodes = {};
  NodeSet nodes = slot.participants;
  NodeSet voters = nodes;
  for (uint16_t i = 0; i < slot.count; ++i) {
    Entry& e = slot.entry(i);
    const NodeSet catching_up = e.write != Write::kNone ? e.placement->catching_up : NodeSet{};
    const NodeSet of_key = plan_key(slot, e, row, several_primaries);
    nodes |= of_key;
    voters |= of_key - catching_up;
    slot.catching_up_nodes |= catching_up;
  }
  // Every node that is sent to answers for itself.
  for (PlanStep& step : slot.steps) step.await_from = step.send_to;
  slot.nonvoting_nodes = slot.catching_up_nodes - voters;
  slot.ack_after = ack_after(slot, row);
  return nodes;
}

// Combines the intended state of the key, its precondition and what was read of it into what is to be done.
WEFT_INLINE void Planner::resolve_write(TxnSlot& slot, Entry& e) {
  if (e.write == Write::kNone) return;
  if (e.read) {
    if (e.precondition == Precondition::kAbsent && e.found) fail(slot, Code::kExists, &e, Owner());
    if (e.precondition == Precondition::kPresent && !e.found) fail(slot, Code::kNotFound, &e, Owner());
    if (e.write == Write::kErase && !e.found) e.write = Write::kNone;  // it never existed, and does not exist now
  }
  if (e.write == Write::kPut && e.precondition == Precondition::kAbsent) e.write = Write::kInsert;
}

// Returns the nodes this key involves.
WEFT_INLINE NodeSet Planner::plan_key(TxnSlot& slot, Entry& e, const Protocol& row, bool several_primaries) const {
  e.at = {};
  e.by_verb = 0;
  e.flags = 0;
  if (e.write != Write::kNone) {
    plan_write(e, row, several_primaries);
  } else if (e.read && !e.locked && !e.unvalidated) {
    plan_read(slot, e, row);
  }
  NodeSet nodes = e.by_verb != 0 ? NodeSet::of(e.placement->primary()) : NodeSet{};
  for (const Phase phase : {Phase::kLock, Phase::kValidate, Phase::kReplicate, Phase::kUnlock}) {
    slot.steps[index_of(phase)].send_to |= e.at[index_of(phase)];
    nodes |= e.at[index_of(phase)];
  }
  return nodes;
}

WEFT_INLINE void Planner::plan_write(Entry& e, const Protocol& row, bool several_primaries) const {
  const Placement& replicas = *e.placement;
  const NodeSet primary = NodeSet::of(replicas.primary());
  const NodeSet lock_at = row.locks_backups() ? replicas.in_sync : primary;
  const bool by_verb = locks_by_verb(e, row);
  e.flags = key_flags(e, row);
  // A lock taken while reading is enough, but an erase needs more of it, and so does a long value.
  if (!by_verb && (!e.locked || e.write == Write::kErase || e.new_bytes > kHeldRoom))
    e.at[index_of(Phase::kLock)] = lock_at;
  if (row.replicates()) {
    NodeSet to = replicas.in_sync - primary;
    // K2: a lock that does not carry the value leaves it at the backups and the coordinator; if the coordinator is
    // one of the backups, these are not more than f nodes, and the primary gets it too. It also does if there is
    // another primary: once that one is unlocked the commit is seen, and coordinator and backups may be lost together
    // while this primary stays.
    const bool counted_twice = to.contains(self_);
    const bool lock_misses_it = !row.lock_carries_value && (counted_twice || several_primaries);
    if (row.replicates_to_primary() || lock_misses_it) to |= primary;
    if (by_verb && bugs_.has(PlantedBug::kLogMissesPrimary)) to -= primary;
    e.at[index_of(Phase::kReplicate)] = to;
  }
  // Replicas that are catching up get the write in any row, before anybody sees it.
  e.at[index_of(Phase::kReplicate)] |= replicas.catching_up;
  // The unlock brings the value to nodes that lock and have not received it.
  const bool lock_brought_it = row.lock_carries_value && !bugs_.has(PlantedBug::kLockWithoutValue);
  if (e.write != Write::kErase && !lock_brought_it)
    e.at[index_of(Phase::kUnlock)] = lock_at - e.at[index_of(Phase::kReplicate)];
  if (by_verb) {
    e.by_verb = kLocksByVerb;
    e.at[index_of(Phase::kUnlock)] = {};
  }
}

WEFT_INLINE void Planner::plan_read(const TxnSlot& slot, Entry& e, const Protocol& row) const {
  const NodeSet primary = NodeSet::of(e.placement->primary());
  if (row.locks_reads()) e.at[index_of(Phase::kLock)] = row.locks_backups() ? e.placement->in_sync : primary;
  if (!row.validate || bugs_.has(PlantedBug::kSkipValidation)) return;
  const bool reads_word = rows_.at(slot.row).by.validate == Primitive::kOneSided && e.found && e.where &&
                          !e.partial;  // the meta word is made of the whole value
  if (reads_word && e.placement->primary() != self_) {
    e.by_verb = kCheckedByVerb;
  } else {
    e.at[index_of(Phase::kValidate)] = primary;
  }
}

// The next view may declare a catching-up replica in sync: what is acknowledged, or seen by others, must have reached
// it.
WEFT_INLINE Phase Planner::ack_after(const TxnSlot& slot, const Protocol& row) const {
  if (bugs_.has(PlantedBug::kToldEarly) && slot.writes != 0) return Phase::kValidate;
  const Phase phase = ack_phase(row);
  return slot.catching_up_nodes.empty() ? phase : std::max(phase, Phase::kReplicate);
}

WEFT_INLINE bool Planner::locks_by_verb(const Entry& entry, const Protocol& row) const {
  return row.by.lock == Primitive::kOneSided && entry.write == Write::kPut && entry.read && entry.found &&
         entry.where && !entry.partial && !entry.locked && entry.placement->primary() != self_ && verbs_lock_ &&
         entry.version.value < kVersionMax &&
         record_bytes(entry.key.bytes.size(), entry.new_bytes) <= std::min(entry.where.bytes(), kVerbBytesMax);
}

// Where backups apply when the transaction is finished, in any order, a put of an existing record is deferred until
// then. Any other write is applied on arrival, after its predecessor, so a later put always finds the record. An
// earlier put may be late: Table::apply_late_put.
WEFT_INLINE uint8_t Planner::key_flags(const Entry& e, const Protocol& row) {
  if (!row.lazy_backups()) return 0;
  if (e.write == Write::kErase) return kOrdered | kWantsReplaced;
  return e.write == Write::kPut && e.read && e.found ? kDeferred : kOrdered;
}

}  // namespace weft
