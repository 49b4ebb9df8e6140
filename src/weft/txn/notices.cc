#include "weft/txn/notices.h"

#include <algorithm>
#include <cstring>

#include "weft/base/marks.h"
#include "weft/txn/protocol.h"

namespace weft {

NoticeQueue::NoticeQueue(WorkerContext& ctx, Kind kind, size_t slots)
    : ctx_(ctx), kind_(kind), queues_(static_cast<size_t>(ctx.nodes)) {
  for (Queue& queue : queues_) queue.items.reserve(slots);
}

void NoticeQueue::add(NodeId to, TxnCompleteNotice notice) {
  Queue& queue = queues_[to.value];
  if (queue.items.empty()) queue.oldest_ns = ctx_.now_ns();
  queue.items.push_back(notice);
  ++queued_;
}

void NoticeQueue::clear() {
  for (Queue& queue : queues_) queue.items.clear();
  queued_ = 0;
}

uint64_t NoticeQueue::deadline_ns() const {
  if (queued_ == 0) return UINT64_MAX;
  uint64_t deadline = UINT64_MAX;
  for (const Queue& queue : queues_) {
    if (!queue.items.empty()) deadline = std::min(deadline, queue.oldest_ns + kRideAlongNs);
  }
  return deadline;
}

bool NoticeQueue::leaves(NodeId node, const Queue& queue, bool at_once) const {
  if (node == ctx_.self) return true;
  const bool rides = ctx_.port.has_open(node, Flow::kCommit);
  if (!at_once && !rides && ctx_.now_ns() < queue.oldest_ns + kRideAlongNs) return false;
  if (!rides) WEFT_MARK("notice_goes_alone");
  return true;
}

void NoticeQueue::send_to(NodeId node, const Queue& queue) {
  const size_t bytes = queue.items.size() * sizeof(TxnCompleteNotice);
  std::memcpy(ctx_.port.reserve(node, Flow::kCommit, static_cast<uint8_t>(kind_), bytes), queue.items.data(), bytes);
  if (node != ctx_.self) ++ctx_.counters.phase_messages[static_cast<int>(Phase::kUnlock)];
  queued_ -= static_cast<uint32_t>(queue.items.size());
}

}  // namespace weft
