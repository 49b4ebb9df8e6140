#include "weft/txn/ack_queue.h"

#include <cstring>

namespace weft {

void AckQueue::flush() {
  for (const NodeId node : waiting_) {
    Queue& queue = queues_[node.value];
    const size_t bytes = queue.count * sizeof(PhaseAck);
    std::memcpy(ctx_.port.reserve(node, Flow::kCommit, static_cast<uint8_t>(Kind::kAck), bytes), queue.acks, bytes);
    queue.count = 0;
  }
  waiting_ = {};
}

void AckQueue::clear() {
  for (Queue& queue : queues_) queue.count = 0;
  waiting_ = {};
}

}  // namespace weft
