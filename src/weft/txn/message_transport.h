// MessageTransport: sends the phases of a commit as messages, one for each node (rule K1), as the plan says.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/base/inline.h"
#include "weft/txn/context.h"
#include "weft/txn/messages.h"
#include "weft/txn/participant.h"
#include "weft/txn/slot.h"

namespace weft {

class MessageTransport {
 public:
  explicit MessageTransport(WorkerContext& ctx) : ctx_(ctx) {}

  void send(const TxnSlot& slot, Phase phase, NodeSet nodes);

  // What a phase says of one key, by whichever transport.
  static KeyPart key_part(const TxnSlot& slot, const Entry& entry, uint16_t index, Phase phase);
  // What it says to one node: the tag, the number of bytes, and the bytes.
  uint32_t tag(const TxnSlot& slot) const;
  size_t phase_bytes(const TxnSlot& slot, Phase phase, NodeId node) const;
  void encode_phase(std::byte* to, const TxnSlot& slot, Phase phase, NodeId node) const;
  static uint8_t flags_of(const TxnSlot& slot) {
    return static_cast<uint8_t>(slot.flags | (slot.stage == TxnStage::kCommitting ? kCommits : 0));
  }

  // What starts every message of the slot's commit.
  static CommitRequest request_of(NodeId coordinator, const TxnSlot& slot) {
    return {.coordinator = coordinator,
            .slot = slot.index,
            .flags = flags_of(slot),
            .writes = slot.writes,
            .sequence = slot.sequence,
            .participants = slot.participants - slot.nonvoting_nodes};
  }

  // A node has locked all its keys: takes their versions from its answer. A key that was written blindly, and locked at
  // several replicas, must have the same version at all of them.
  static void take_lock_versions(TxnSlot& slot, NodeId node, const PhaseResult& result);

 private:
  template <Phase kPhase>
  void send_phase(const TxnSlot& slot, NodeSet nodes);

  WorkerContext& ctx_;
};

WEFT_INLINE inline void MessageTransport::take_lock_versions(TxnSlot& slot, NodeId node, const PhaseResult& result) {
  const size_t bases = result.versions.size() - result.erased;
  size_t n = 0, erased = bases;
  for (uint16_t i = 0; i < slot.count; ++i) {
    Entry& e = slot.entry(i);
    if (!e.at[index_of(Phase::kLock)].contains(node)) continue;
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
