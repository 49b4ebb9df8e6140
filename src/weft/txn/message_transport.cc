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

WEFT_INLINE KeyPart part_of(const Entry& e, uint16_t index, Phase phase, bool with_value) {
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
  part.key_bytes = static_cast<uint32_t>(e.key.bytes.size());
  part.write = static_cast<uint8_t>(e.write);
  part.index = index;
  if (phase == Phase::kLock) part.flags |= (e.flags & kWantsReplaced) | (e.locked ? kHeld : 0);
  if (with_value) part.flags |= kHasValue;
  return part;
}

// Writes what a phase says of one key; returns its end.
WEFT_INLINE std::byte* encode_key(std::byte* to, const Entry& e, uint16_t index, Phase phase, bool with_value) {
  const KeyPart part = part_of(e, index, phase, with_value);
  const bool narrow =
      e.narrow_head != 0 && NarrowHead::fits_message(part.flags, part.predecessor_delta, part.value_bytes);
  if (!narrow) [[unlikely]]
    return put_key(to, part, e.key.bytes.data(), e.new_value);
  store(to, e.narrow_head | NarrowHead::of_message(part.version, e.write, part.flags, part.value_bytes));
  store(to + 8, e.integer_key);
  if (!with_value) return to + 16;
  copy_words(to + 16, e.new_value, part.value_bytes);
  return to + 16 + padded(part.value_bytes);
}

// How many keys the phase's message to this node may name. An unlock names keys only where it brings values, and an
// abort none.
uint16_t keys_named(const TxnSlot& slot, Phase phase, NodeId node) {
  const bool names = phase != Phase::kUnlock ||
                     (slot.stage == TxnStage::kCommitting && slot.steps[index_of(phase)].send_to.contains(node));
  return names ? slot.count : 0;
}

WEFT_INLINE size_t bytes_of(const TxnSlot& slot, Phase phase, NodeId node, int nodes) {
  const bool values = carries_values(slot, phase);
  const uint16_t count = keys_named(slot, phase, node);
  size_t bytes = CommitRequest::bytes(nodes);
  for (uint16_t i = 0; i < count; ++i) {
    const Entry& e = slot.entry(i);
    if (!e.at[index_of(phase)].contains(node)) continue;
    bytes += key_part_bytes(part_of(e, i, phase, values && installs(e.write)));
  }
  return bytes;
}

// Returns the end.
WEFT_INLINE std::byte* encode(std::byte* to, const TxnSlot& slot, const CommitRequest& request, Phase phase,
                              NodeId node, int nodes) {
  const bool values = carries_values(slot, phase);
  const uint16_t count = keys_named(slot, phase, node);
  to = request.put(to, nodes);
  for (uint16_t i = 0; i < count; ++i) {
    const Entry& e = slot.entry(i);
    if (!e.at[index_of(phase)].contains(node)) continue;
    to = encode_key(to, e, i, phase, values && installs(e.write));
  }
  return to;
}

}  // namespace

KeyPart MessageTransport::key_part(const TxnSlot& slot, const Entry& entry, uint16_t index, Phase phase) {
  return part_of(entry, index, phase, carries_values(slot, phase) && installs(entry.write));
}

uint32_t MessageTransport::tag(const TxnSlot& slot) const { return request_of(ctx_.self, slot).tag(ctx_.nodes); }

size_t MessageTransport::phase_bytes(const TxnSlot& slot, Phase phase, NodeId node) const {
  return bytes_of(slot, phase, node, ctx_.nodes);
}

void MessageTransport::encode_phase(std::byte* to, const TxnSlot& slot, Phase phase, NodeId node) const {
  encode(to, slot, request_of(ctx_.self, slot), phase, node, ctx_.nodes);
}

template <Phase kPhase>
void MessageTransport::send_phase(const TxnSlot& slot, NodeSet nodes) {
  constexpr auto kKind = static_cast<uint8_t>(kKindOf[index_of(kPhase)]);
  const CommitRequest request = request_of(ctx_.self, slot);
  const uint32_t tag = request.tag(ctx_.nodes);
  const size_t bytes_max = CommitRequest::bytes(ctx_.nodes) + slot.count * kWideHeadBytes + slot.bytes_used;
  for (const NodeId node : nodes) {
    if (std::byte* to = ctx_.port.begin_message(node, Flow::kCommit, bytes_max)) [[likely]] {
      to = encode(to, slot, request, kPhase, node, ctx_.nodes);
      ctx_.port.end_message(node, Flow::kCommit, kKind, tag, to);
    } else {
      // A phase is sent when the one before is answered, so the flows' order does not matter.
      const size_t bytes = bytes_of(slot, kPhase, node, ctx_.nodes);
      to = ctx_.port.reserve(node, bytes <= kPacketBytesMax ? Flow::kCommit : Flow::kExecution, kKind, bytes, tag);
      encode(to, slot, request, kPhase, node, ctx_.nodes);
    }
  }
  ctx_.counters.phase_messages[index_of(kPhase)] += static_cast<uint64_t>((nodes - NodeSet::of(ctx_.self)).size());
}

void MessageTransport::send(const TxnSlot& slot, Phase phase, NodeSet nodes) {
  WEFT_CHECK((nodes - slot.participants).empty(), "a commit speaks to its participants only");
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

}  // namespace weft
