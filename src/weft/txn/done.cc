// Notices that a transaction is finished everywhere: they ride on commit messages that go to that node anyway, and go
// alone when a millisecond has passed, or when slots run short. At the other side they raise and truncate (unlock.cc).
#include <cstring>

#include "weft/base/marks.h"
#include "weft/txn/engine.h"

namespace weft {

bool Engine::send_dones() {
  const uint32_t before = dones_queued_;
  const bool short_of_slots = free_slots_.size() < slots_.size() / 8 + 1;
  for (int n = 0; n < nodes_; ++n) {
    const NodeId node(static_cast<uint8_t>(n));
    const DoneQueue& queue = dones_[node.value];
    if (queue.items.empty()) continue;
    if (node == self_ || short_of_slots || port_.has_open(node, Flow::kCommit) ||
        worker_->now_ns() >= queue.oldest_ns + kRideAlongNs) {
      if (!port_.has_open(node, Flow::kCommit) && node != self_) WEFT_MARK("notice_goes_alone");
      send_dones_to(node);
    }
  }
  return dones_queued_ != before;
}

void Engine::send_dones_to(NodeId node) {
  DoneQueue& queue = dones_[node.value];
  const size_t bytes = queue.items.size() * sizeof(DoneNotice);
  std::byte* at = port_.reserve(node, Flow::kCommit, static_cast<uint8_t>(Kind::kDone), bytes);
  std::memcpy(at, queue.items.data(), bytes);
  if (node != self_) ++counters_.phase_messages[static_cast<int>(Phase::kUnlock)];
  dones_queued_ -= static_cast<uint32_t>(queue.items.size());
  for (const DoneNotice& notice : queue.items) {
    TxnSlot& slot = *slots_[notice.slot];
    --slot.dones_pending;
    maybe_free(slot);
  }
  queue.items.clear();
}

}  // namespace weft
