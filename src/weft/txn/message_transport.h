// MessageTransport: sends the phases of a commit as messages, one for each node (rule K1), as the plan says.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/txn/context.h"
#include "weft/txn/plan.h"
#include "weft/txn/slot.h"

namespace weft {

class MessageTransport {
 public:
  // `lock_carries_value`: the lock message brings the new values.
  MessageTransport(WorkerContext& ctx, const Planner& planner, uint8_t row_index, bool lock_carries_value)
      : ctx_(ctx),
        planner_(planner),
        row_index_(row_index),
        lock_carries_value_(lock_carries_value && !ctx.bugs.has(Bug::kLockWithoutValue)) {}

  void send(const TxnSlot& slot, Phase phase, uint64_t nodes);

  // What a phase says to one node, wherever it is written: how many bytes, and these bytes.
  size_t phase_bytes(const TxnSlot& slot, Phase phase, NodeId node) const;
  void encode_phase(std::byte* to, const TxnSlot& slot, Phase phase, NodeId node) const;

 private:
  bool carries_values(Phase phase) const {
    return phase == Phase::kLock ? lock_carries_value_ : phase == Phase::kReplicate || phase == Phase::kUnlock;
  }
  std::byte* encode_key(std::byte* to, const Entry& entry, uint8_t index, Phase phase, bool with_value) const;

  WorkerContext& ctx_;
  const Planner& planner_;
  const uint8_t row_index_;
  const bool lock_carries_value_;
};

}  // namespace weft
