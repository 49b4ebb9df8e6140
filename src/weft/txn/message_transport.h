// MessageTransport: sends the phases of a commit as messages, one for each node (rule K1), as the plan says.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/txn/context.h"
#include "weft/txn/slot.h"

namespace weft {

class MessageTransport {
 public:
  explicit MessageTransport(WorkerContext& ctx) : ctx_(ctx) {}

  void send(const TxnSlot& slot, Phase phase, uint64_t nodes);

  // What a phase says to one node, wherever it is written: how many bytes, and these bytes.
  size_t phase_bytes(const TxnSlot& slot, Phase phase, NodeId node) const;
  void encode_phase(std::byte* to, const TxnSlot& slot, Phase phase, NodeId node) const;

 private:
  static bool carries_values(const TxnSlot& slot, Phase phase) {
    return phase == Phase::kLock ? slot.lock_brings_values : phase == Phase::kReplicate || phase == Phase::kUnlock;
  }
  static std::byte* encode_key(std::byte* to, const Entry& entry, uint8_t index, Phase phase, bool with_value);

  WorkerContext& ctx_;
};

}  // namespace weft
