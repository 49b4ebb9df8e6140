// The plan: what a protocol's row means for the keys of one transaction. Computed once when the commit starts; the
// driver and the messages only look at it.
#include "weft/base/inline.h"
#include "weft/txn/engine.h"

namespace weft {

namespace {

constexpr Kind kKindOf[] = {Kind::kGet, Kind::kLock, Kind::kValidate, Kind::kReplicate, Kind::kUnlock};

constexpr size_t at(Phase phase) { return static_cast<size_t>(phase); }

}  // namespace

void Engine::plan(TxnSlot& slot) {
  slot.writes = 0;
  uint64_t primaries = 0;
  for (uint16_t i = 0; i < slot.count; ++i) {
    Entry& e = slot.entry(i);
    settle(slot, e);
    if (e.write == Write::kNone) continue;
    ++slot.writes;
    primaries |= uint64_t{1} << e.placement->primary().value;
  }
  const bool several_primaries = (primaries & (primaries - 1)) != 0;
  slot.row = slot.writes == 0 && slot.locked_nodes == 0 ? &kReadOnly : row_;
  slot.targets = {};
  slot.fill_nodes = 0;
  uint64_t nodes = slot.participants;
  uint64_t voters = nodes;
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    const uint64_t filling = e.write != Write::kNone ? e.placement->filling : 0;
    const uint64_t of_key = plan_key(slot, slot.entry(i), several_primaries);
    nodes |= of_key;
    voters |= of_key & ~filling;
    slot.fill_nodes |= filling;
  }
  slot.alone = is_alone(slot, nodes);
  if (slot.alone) return;
  slot.fill_only = slot.fill_nodes & ~voters;
  for_each_node(nodes & ~slot.participants, [&](NodeId n) { slot.credit[n.value] = 0; });
  slot.participants = nodes;
  slot.tell_after = tell_phase(slot);
  if (rings_ != nullptr) plan_rings(slot);
  plan_credit(slot);
  if ((nodes & lost_peers_) != 0) fail_for_peer(slot, nullptr, nodes & lost_peers_);
}

// From what the key shall come to, what was demanded of it and what was read of it: what is to be done.
WEFT_INLINE void Engine::settle(TxnSlot& slot, Entry& e) {
  if (e.write == Write::kNone) return;
  if (e.read) {
    if (e.demand == Demand::kAbsent && e.found) fail(slot, Code::kExists, &e, Owner());
    if (e.demand == Demand::kPresent && !e.found) fail(slot, Code::kNotFound, &e, Owner());
    if (e.write == Write::kErase && !e.found) e.write = Write::kNone;  // it never was there, and is not now
  }
  if (e.write == Write::kPut && e.demand == Demand::kAbsent) e.write = Write::kInsert;
}

// Returns the nodes this key involves.
WEFT_INLINE uint64_t Engine::plan_key(TxnSlot& slot, Entry& e, bool several_primaries) {
  const Protocol& row = *slot.row;
  const Placement& replicas = *e.placement;
  const uint64_t primary = uint64_t{1} << replicas.primary().value;
  const uint64_t lock_at = row.locks_backups() ? replicas.mask : primary;
  e.at = {};
  e.by_verb = 0;
  if (e.write != Write::kNone) {
    const bool by_verb = locks_by_verb(e);
    // A lock taken while reading is enough, but an erase needs more of it.
    if (!by_verb && (!e.locked || e.write == Write::kErase)) e.at[at(Phase::kLock)] = lock_at;
    if (row.replicates()) {
      uint64_t to = replicas.mask & ~primary;
      // K2: a lock that does not carry the value leaves it at the backups and the coordinator; if the coordinator is
      // one of the backups, these are not more than f nodes, and the primary gets it too. It also does if there is
      // another primary: once that one is unlocked the commit is seen, and coordinator and backups may be lost together
      // while this primary stays.
      const bool counted_twice = (to >> self_.value & 1U) != 0;
      const bool lock_misses_it = !row.lock_carries_value && (counted_twice || several_primaries);
      if (row.replicates_to_primary() || lock_misses_it) to |= primary;
      if (by_verb && bugs_.has(Bug::kLogMissesPrimary)) to &= ~primary;
      e.at[at(Phase::kReplicate)] = to;
    }
    // Whoever fills gets the write in any row, before anybody sees it.
    e.at[at(Phase::kReplicate)] |= replicas.filling;
    // The unlock brings the value to those who lock and have not got it.
    const bool lock_brought_it = row.lock_carries_value && !bugs_.has(Bug::kLockWithoutValue);
    if (e.write != Write::kErase && !lock_brought_it) e.at[at(Phase::kUnlock)] = lock_at & ~e.at[at(Phase::kReplicate)];
    if (by_verb) {
      e.by_verb = kLocksByVerb;
      e.at[at(Phase::kUnlock)] = 0;
    }
  } else if (e.read && !e.locked) {
    if (row.locks_reads()) e.at[at(Phase::kLock)] = lock_at;
    if (row.validate && !bugs_.has(Bug::kSkipValidation)) {
      if (checked_by_verb(e)) {
        e.by_verb = kCheckedByVerb;
      } else {
        e.at[at(Phase::kValidate)] = primary;
      }
    }
  }
  uint64_t nodes = e.by_verb != 0 ? primary : 0;
  for (size_t p = 0; p < slot.targets.size(); ++p) {
    slot.targets[p] |= e.at[p];
    nodes |= e.at[p];
  }
  return nodes;
}

// What this transaction may have under way with each participant, by the worst case: three messages that name a key,
// one that brings its value, and their answers, each in a packet of its own.
void Engine::plan_credit(TxnSlot& slot) {
  constexpr uint32_t kMessages = 512;
  constexpr uint32_t kKey = 3 * sizeof(KeyPart) + 2 * sizeof(uint64_t);
  for_each_node(slot.participants, [&](NodeId n) { slot.need[n.value] = kMessages; });
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    uint32_t bytes = kKey + 3 * static_cast<uint32_t>(padded(e.key.bytes.size()));
    if (e.write != Write::kNone) bytes += static_cast<uint32_t>(padded(e.new_bytes));
    for_each_node((e.placement->mask | e.placement->filling) & slot.participants,
                  [&](NodeId n) { slot.need[n.value] += bytes; });
  }
}

bool Engine::take_credit(TxnSlot& slot) {
  uint64_t taken = 0;
  bool ok = true;
  for_each_node(slot.participants, [&](NodeId n) {
    if (!ok) return;
    const uint32_t need = slot.need[n.value];
    if (!credit_.fits(need + slot.credit[n.value])) {
      reject(slot, Code::kTxnTooLarge, nullptr, {"limits.credit_bytes", limits_.credit_bytes, need});
    }
    ok = credit_.take(n, need);
    if (!ok) return;
    taken |= uint64_t{1} << n.value;
    slot.credit[n.value] += need;
  });
  if (ok) {
    if (slot.ring_nodes != 0) reserve_rings(slot);
    return true;
  }
  for_each_node(taken, [&](NodeId n) {
    credit_.give(n, slot.need[n.value]);
    slot.credit[n.value] -= slot.need[n.value];
  });
  return false;
}

// Whether a phase brings the new values of what is put.
bool Engine::carries_values(const TxnSlot& slot, Phase phase) const {
  if (phase == Phase::kLock) return slot.row->lock_carries_value && !bugs_.has(Bug::kLockWithoutValue);
  return phase == Phase::kReplicate || phase == Phase::kUnlock;
}

// What a phase says of one key; returns the end of it.
WEFT_INLINE std::byte* Engine::encode_key(std::byte* to, const Entry& e, uint8_t index, Phase phase,
                                          bool with_value) const {
  KeyPart part{};
  if (phase == Phase::kReplicate) {
    part.version = e.base.value + 1;
    // Of no meaning at backups.
    if ((e.by_verb & kLocksByVerb) != 0) part.flags |= kByVerb;
    if (in_order(e)) {
      part.flags |= kInOrder;
      if (e.write == Write::kErase) part.follows = static_cast<uint32_t>(part.version - e.replaced.value);
      if (e.write == Write::kPut && !e.read) part.follows = 1;
    }
  } else if (e.read) {
    part.version = e.version.value;
    part.flags = kHasVersion;
  }
  part.value_bytes = e.write == Write::kNone ? 0 : e.new_bytes;
  part.table = e.table_id.value;
  part.key_bytes = static_cast<uint16_t>(e.key.bytes.size());
  part.write = static_cast<uint8_t>(e.write);
  part.index = index;
  if (phase == Phase::kLock && e.locked) part.flags |= kHeld;
  if (with_value) part.flags |= kHasValue;
  store(to, part);
  to += sizeof part;
  copy_words(to, e.key.bytes.data(), e.key.bytes.size());
  to += padded(e.key.bytes.size());
  if (!with_value) return to;
  copy_words(to, e.new_value, e.new_bytes);
  return to + padded(e.new_bytes);
}

WEFT_INLINE size_t Engine::phase_bytes(const TxnSlot& slot, Phase phase, NodeId node) const {
  const bool values = carries_values(slot, phase);
  const uint16_t count = phase != Phase::kUnlock || slot.committing ? slot.count : 0;
  size_t bytes = sizeof(CommitRequest);
  for (uint16_t i = 0; i < count; ++i) {
    const Entry& e = slot.entry(i);
    if ((e.at[at(phase)] >> node.value & 1U) == 0) continue;
    bytes += sizeof(KeyPart) + padded(e.key.bytes.size()) + (values && installs(e.write) ? padded(e.new_bytes) : 0);
  }
  return bytes;
}

WEFT_INLINE void Engine::encode_phase(std::byte* to, const TxnSlot& slot, Phase phase, NodeId node) const {
  const bool values = carries_values(slot, phase);
  const uint16_t count = phase != Phase::kUnlock || slot.committing ? slot.count : 0;
  CommitRequest request{};
  request.sequence = slot.sequence;
  request.participants = slot.participants & ~slot.fill_only;
  request.incarnation = slot.incarnation;
  request.row = row_index_;
  request.entries = static_cast<uint8_t>(slot.count);
  request.writes = slot.writes;
  request.commit = slot.committing;
  std::byte* const start = to;
  to += sizeof request;
  for (uint16_t i = 0; i < count; ++i) {
    const Entry& e = slot.entry(i);
    if ((e.at[at(phase)] >> node.value & 1U) == 0) continue;
    ++request.keys;
    to = encode_key(to, e, static_cast<uint8_t>(i), phase, values && installs(e.write));
  }
  store(start, request);
}

void Engine::send_phase(TxnSlot& slot, Phase phase, uint64_t nodes) {
  for_each_node(nodes, [&](NodeId node) {
    std::byte* to = port_.reserve(node, Flow::kCommit, static_cast<uint8_t>(kKindOf[at(phase)]),
                                  phase_bytes(slot, phase, node), slot.index);
    encode_phase(to, slot, phase, node);
    if (node != self_) ++counters_.phase_messages[at(phase)];
  });
}

}  // namespace weft
