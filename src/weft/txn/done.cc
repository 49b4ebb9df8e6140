// Notices that ride on commit messages which go to that node anyway, and go alone when a millisecond has passed:
// - that a transaction is finished everywhere; also when slots run short. At the other side they raise and truncate
//   (unlock.cc);
// - that a transaction is unlocked here, in rows that acknowledge it passively: its client was told before, so nobody
//   but its slot waits.
#include <algorithm>
#include <cstring>

#include "weft/base/marks.h"
#include "weft/txn/engine.h"

namespace weft {

void Engine::Notices::add(NodeId to, DoneNotice notice, uint64_t now_ns) {
  Queue& queue = queues[to.value];
  if (queue.items.empty()) queue.oldest_ns = now_ns;
  queue.items.push_back(notice);
  ++queued;
}

void Engine::Notices::clear() {
  for (Queue& queue : queues) queue.items.clear();
  queued = 0;
}

uint64_t Engine::Notices::deadline_ns() const {
  uint64_t deadline = UINT64_MAX;
  for (const Queue& queue : queues) {
    if (!queue.items.empty()) deadline = std::min(deadline, queue.oldest_ns + kRideAlongNs);
  }
  return deadline;
}

bool Engine::send_notices(Notices& notices, Kind kind, bool at_once) {
  const uint32_t before = notices.queued;
  for (int n = 0; n < nodes_; ++n) {
    const NodeId node(static_cast<uint8_t>(n));
    Notices::Queue& queue = notices.queues[node.value];
    if (queue.items.empty()) continue;
    const bool rides = port_.has_open(node, Flow::kCommit);
    if (node != self_ && !at_once && !rides && worker_->now_ns() < queue.oldest_ns + kRideAlongNs) continue;
    if (!rides && node != self_) WEFT_MARK("notice_goes_alone");
    const size_t bytes = queue.items.size() * sizeof(DoneNotice);
    std::memcpy(port_.reserve(node, Flow::kCommit, static_cast<uint8_t>(kind), bytes), queue.items.data(), bytes);
    if (node != self_) ++counters_.phase_messages[static_cast<int>(Phase::kUnlock)];
    notices.queued -= static_cast<uint32_t>(queue.items.size());
    if (kind == Kind::kDone) {
      for (const DoneNotice& notice : queue.items) {
        TxnSlot& slot = *slots_[notice.slot];
        --slot.dones_pending;
        maybe_free(slot);
      }
    }
    queue.items.clear();
  }
  return notices.queued != before;
}

void Engine::on_unlocked(std::span<const Message> run) {
  for (const Message& m : run) {
    if (!parsed(m).ok) continue;
    if (m.source != self_) ++counters_.phase_messages[static_cast<int>(Phase::kUnlock)];
    const uint64_t bit = uint64_t{1} << m.source.value;
    for (const DoneNotice& notice : notices_of(m)) {
      TxnSlot& slot = *slots_[notice.slot];
      if (slot.state != SlotState::kCommitting || static_cast<uint32_t>(slot.sequence) != notice.sequence ||
          slot.phase != Phase::kUnlock || (slot.waiting & bit) == 0) {
        continue;
      }
      slot.waiting &= ~bit;
      if (phase_over(slot)) advance(slot);
    }
  }
}

}  // namespace weft
