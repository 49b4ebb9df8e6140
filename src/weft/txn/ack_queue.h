// AckQueue: a participant's acks of one step, sent as one message to each coordinator. They overtake nothing that a
// coordinator could mind: an ack ends its own transaction's phase only.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/txn/context.h"
#include "weft/txn/messages.h"

namespace weft {

class AckQueue {
 public:
  explicit AckQueue(WorkerContext& ctx) : ctx_(ctx), queues_(static_cast<size_t>(ctx.nodes)) {}

  void add(NodeId to, PhaseAck ack) {
    if (!ctx_.port.batching()) [[unlikely]] {
      store(ctx_.port.reserve(to, Flow::kCommit, static_cast<uint8_t>(Kind::kAck), sizeof ack), ack);
      return;
    }
    Queue& queue = queues_[to.value];
    queue.acks[queue.count++] = ack;
    waiting_.add(to);
    if (queue.count == kMost) flush();
  }
  bool empty() const { return waiting_.empty(); }
  void flush();
  void clear();

 private:
  static constexpr uint32_t kMost = 62;
  struct Queue {
    uint32_t count = 0;
    PhaseAck acks[kMost + 1];
  };

  WorkerContext& ctx_;
  std::vector<Queue> queues_;  // by node
  NodeSet waiting_;            // those for which there are acks
};

}  // namespace weft
