#include "weft/txn/message_transport.h"

#include "weft/base/check.h"
#include "weft/base/inline.h"
#include "weft/txn/key_part.h"
#include "weft/txn/messages.h"
#include "weft/txn/plan.h"

namespace weft {

namespace {

constexpr Kind kKindOf[] = {Kind::kGet, Kind::kLock, Kind::kValidate, Kind::kReplicate, Kind::kUnlock};

bool carries_values(const TxnSlot& slot, Phase phase) {
  return phase == Phase::kLock ? slot.lock_brings_values : phase == Phase::kReplicate || phase == Phase::kUnlock;
}

WEFT_INLINE KeyPart part_of(const Entry& e, uint8_t index, Phase phase, bool with_value) {
  KeyPart part{};
  if (phase == Phase::kReplicate) {
    part.version = e.base.value + 1;
    part.flags = e.flags & (kOrdered | kDeferred);
    // Backups ignore it.
    if ((e.by_verb & kLocksByVerb) != 0) part.flags |= kByVerb;
    if ((e.flags & kOrdered) != 0) {
      if (e.write == Write::kErase) part.predecessor_delta = static_cast<uint32_t>(part.version - e.replaced.value);
      if (e.write == Write::kPut && !e.read) part.predecessor_delta = 1;
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
  if (phase == Phase::kLock) part.flags |= (e.flags & kWantsReplaced) | (e.locked ? kHeld : 0);
  if (with_value) part.flags |= kHasValue;
  return part;
}

WEFT_INLINE size_t bytes_of(const TxnSlot& slot, Phase phase, NodeId node) {
  const bool values = carries_values(slot, phase);
  const uint16_t count = phase != Phase::kUnlock || slot.stage == TxnStage::kCommitting ? slot.count : 0;
  size_t bytes = sizeof(CommitRequest);
  for (uint16_t i = 0; i < count; ++i) {
    const Entry& e = slot.entry(i);
    if ((e.at[index_of(phase)] >> node.value & 1U) == 0) continue;
    bytes += sizeof(KeyPart) + padded(e.key.bytes.size()) + (values && installs(e.write) ? padded(e.new_bytes) : 0);
  }
  return bytes;
}

WEFT_INLINE void encode(std::byte* to, const TxnSlot& slot, Phase phase, NodeId node) {
  const bool values = carries_values(slot, phase);
  const uint16_t count = phase != Phase::kUnlock || slot.stage == TxnStage::kCommitting ? slot.count : 0;
  CommitRequest request{};
  request.sequence = slot.sequence;
  request.participants = slot.participants & ~slot.nonvoting_nodes;
  request.incarnation = slot.incarnation;
  request.flags = slot.flags;
  request.writes = slot.writes;
  request.commit = slot.stage == TxnStage::kCommitting;
  std::byte* const start = to;
  to += sizeof request;
  for (uint16_t i = 0; i < count; ++i) {
    const Entry& e = slot.entry(i);
    if ((e.at[index_of(phase)] >> node.value & 1U) == 0) continue;
    ++request.keys;
    const KeyPart part = part_of(e, static_cast<uint8_t>(i), phase, values && installs(e.write));
    to = put_key(to, part, e.key.bytes.data(), e.new_value);
  }
  store(start, request);
}

}  // namespace

KeyPart MessageTransport::key_part(const TxnSlot& slot, const Entry& entry, uint8_t index, Phase phase) {
  return part_of(entry, index, phase, carries_values(slot, phase) && installs(entry.write));
}

size_t MessageTransport::phase_bytes(const TxnSlot& slot, Phase phase, NodeId node) {
  return bytes_of(slot, phase, node);
}

void MessageTransport::encode_phase(std::byte* to, const TxnSlot& slot, Phase phase, NodeId node) {
  encode(to, slot, phase, node);
}

template <Phase kPhase>
void MessageTransport::send_phase(const TxnSlot& slot, uint64_t nodes) {
  for_each_node(nodes, [&](NodeId node) {
    std::byte* to = ctx_.port.reserve(node, Flow::kCommit, static_cast<uint8_t>(kKindOf[index_of(kPhase)]),
                                      bytes_of(slot, kPhase, node), slot.index);
    encode(to, slot, kPhase, node);
    if (node != ctx_.self) ++ctx_.counters.phase_messages[index_of(kPhase)];
  });
}

void MessageTransport::send(const TxnSlot& slot, Phase phase, uint64_t nodes) {
  WEFT_CHECK((nodes & ~slot.participants) == 0, "a commit speaks to its participants only");
  switch (phase) {
    case Phase::kLock:
      return send_phase<Phase::kLock>(slot, nodes);
    case Phase::kValidate:
      return send_phase<Phase::kValidate>(slot, nodes);
    case Phase::kReplicate:
      return send_phase<Phase::kReplicate>(slot, nodes);
    case Phase::kUnlock:
      return send_phase<Phase::kUnlock>(slot, nodes);
    case Phase::kExecute:
    case Phase::kDone:
      WEFT_CHECK(false, "a commit has these phases");
  }
}

void MessageTransport::take_lock_versions(TxnSlot& slot, NodeId node, const PhaseResult& result) {
  const uint64_t bit = uint64_t{1} << node.value;
  const size_t bases = result.versions.size() - result.erased;
  size_t n = 0, erased = bases;
  for (uint16_t i = 0; i < slot.count; ++i) {
    Entry& e = slot.entry(i);
    if ((e.at[index_of(Phase::kLock)] & bit) == 0) continue;
    if (bases != 0 && n >= bases) return;
    const Version base = bases != 0 ? Version(result.versions[n++]) : e.version;
    if (e.write != Write::kNone && e.base != Version() && e.base != base && !e.locked) {
      fail(slot, Code::kVersionMoved, &e, Owner());
    }
    // A primary refuses such a lock itself, unless the key is only read.
    if (base.value >= kVersionMax && e.write != Write::kNone) [[unlikely]]
      fail(slot, Code::kVersionLimit, &e, Owner());
    e.base = base;
    if (e.write == Write::kErase && erased < result.versions.size()) e.replaced = Version(result.versions[erased++]);
  }
}

}  // namespace weft
