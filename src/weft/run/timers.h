// Timers of one worker: a binary heap of deadlines. Ties fire in the order they were set. Sized for the transactions in
// flight; it grows if an application puts more coroutines to sleep.
#pragma once

#include <algorithm>
#include <coroutine>
#include <cstdint>
#include <vector>

namespace weft {

class Timers {
 public:
  explicit Timers(size_t capacity) { heap_.reserve(capacity); }

  void set(uint64_t deadline_ns, std::coroutine_handle<> waiter) {
    heap_.push_back({deadline_ns, ++count_, waiter});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  // The earliest deadline, or UINT64_MAX.
  uint64_t next_ns() const { return heap_.empty() ? UINT64_MAX : heap_.front().deadline_ns; }

  // Takes one timer that is due, if there is one.
  std::coroutine_handle<> take_due(uint64_t now_ns) {
    if (heap_.empty() || heap_.front().deadline_ns > now_ns) return {};
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const std::coroutine_handle<> waiter = heap_.back().waiter;
    heap_.pop_back();
    return waiter;
  }

 private:
  struct Timer {
    uint64_t deadline_ns;
    uint64_t order;
    std::coroutine_handle<> waiter;
  };
  static bool later(const Timer& a, const Timer& b) {
    return a.deadline_ns != b.deadline_ns ? a.deadline_ns > b.deadline_ns : a.order > b.order;
  }
  std::vector<Timer> heap_;
  uint64_t count_ = 0;
};

}  // namespace weft
