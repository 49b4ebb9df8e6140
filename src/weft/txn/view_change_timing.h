// When a worker went through its last change of the view, by its clock. The worker writes, any thread reads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace weft {

struct ViewChange {
  uint32_t epoch = 0;            // 0: there was none
  uint32_t open = 0;             // transactions in flight when it came
  uint64_t adopted_ns = 0;       // the worker stopped; the first time, if several views came in a row
  uint64_t active_ns = 0;        // the worker went on; 0: not yet
  uint64_t acknowledged_ns = 0;  // the first outcome acknowledged under a lease of the new view; 0: none yet

  // Combines all workers of a node: from the first that stopped to the last that went on.
  void add(const ViewChange& worker) {
    if (worker.epoch == 0) return;
    const bool first = epoch == 0;
    active_ns = first || (active_ns != 0 && worker.active_ns != 0) ? std::max(active_ns, worker.active_ns) : 0;
    adopted_ns = first ? worker.adopted_ns : std::min(adopted_ns, worker.adopted_ns);
    if (acknowledged_ns == 0 || (worker.acknowledged_ns != 0 && worker.acknowledged_ns < acknowledged_ns))
      acknowledged_ns = worker.acknowledged_ns;
    epoch = std::max(epoch, worker.epoch);
    open += worker.open;
  }
};

class ViewChangeTiming {
 public:
  void adopted(uint32_t epoch, uint32_t open, uint64_t now_ns) {
    epoch_.store(epoch, std::memory_order_relaxed);
    acknowledged_ns_.store(0, std::memory_order_relaxed);
    unacknowledged_ = false;
    if (adopted_ns_.load(std::memory_order_relaxed) != 0 && active_ns_.load(std::memory_order_relaxed) == 0) return;
    active_ns_.store(0, std::memory_order_relaxed);
    adopted_ns_.store(now_ns, std::memory_order_relaxed);
    open_.store(open, std::memory_order_relaxed);
  }
  void active(uint64_t now_ns) {
    active_ns_.store(now_ns, std::memory_order_relaxed);
    unacknowledged_ = true;
  }
  void acknowledged(uint64_t now_ns) {
    if (!unacknowledged_) return;
    unacknowledged_ = false;
    acknowledged_ns_.store(now_ns, std::memory_order_relaxed);
  }
  ViewChange read() const {
    return {epoch_.load(std::memory_order_relaxed), open_.load(std::memory_order_relaxed),
            adopted_ns_.load(std::memory_order_relaxed), active_ns_.load(std::memory_order_relaxed),
            acknowledged_ns_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<uint32_t> epoch_{0};
  std::atomic<uint32_t> open_{0};
  std::atomic<uint64_t> adopted_ns_{0};
  std::atomic<uint64_t> active_ns_{0};
  std::atomic<uint64_t> acknowledged_ns_{0};
  bool unacknowledged_ = false;
};

}  // namespace weft
