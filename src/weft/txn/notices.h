// NoticeQueue: short notices about transactions. They ride on commit messages to the same node, and are sent alone when
// a millisecond has passed. There are two kinds:
// - a transaction is finished everywhere (Kind::kDone): the receiver marks readable and truncates;
// - a transaction is unlocked here (Kind::kUnlocked), in rows that acknowledge it passively: its client has its outcome
//   already, so only its slot waits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/fabric/message.h"
#include "weft/txn/context.h"
#include "weft/txn/messages.h"

namespace weft {

class NoticeQueue {
 public:
  static constexpr uint64_t kRideAlongNs = 1'000'000;

  NoticeQueue(WorkerContext& ctx, Kind kind, size_t slots);

  void add(NodeId to, TxnCompleteNotice notice);
  bool empty() const { return queued_ == 0; }
  // Sends what can ride along or is due; everything if `at_once`. sent(notice) is called for each that leaves.
  template <class F>
  bool send(bool at_once, F sent) {
    const uint32_t before = queued_;
    for (int n = 0; n < ctx_.nodes; ++n) {
      const NodeId node(static_cast<uint8_t>(n));
      Queue& queue = queues_[node.value];
      if (queue.items.empty() || !leaves(node, queue, at_once)) continue;
      send_to(node, queue);
      for (const TxnCompleteNotice& notice : queue.items) sent(notice);
      queue.items.clear();
    }
    return queued_ != before;
  }
  void clear();
  uint64_t deadline_ns() const;

  static std::span<const TxnCompleteNotice> of(const Message& message) {
    return {reinterpret_cast<const TxnCompleteNotice*>(message.body.data()),
            message.body.size() / sizeof(TxnCompleteNotice)};
  }

 private:
  struct Queue {
    std::vector<TxnCompleteNotice> items;
    uint64_t oldest_ns = 0;
  };
  bool leaves(NodeId node, const Queue& queue, bool at_once) const;
  void send_to(NodeId node, const Queue& queue);

  WorkerContext& ctx_;
  const Kind kind_;
  std::vector<Queue> queues_;  // by node
  uint32_t queued_ = 0;
};

}  // namespace weft
