// Mailbox: a bounded queue of calls to a worker. Any thread posts; the worker runs them.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

namespace weft {

class Mailbox {
 public:
  using Call = std::function<void()>;

  explicit Mailbox(size_t capacity) : capacity_(capacity) { calls_.reserve(capacity); }

  // False if the mailbox is full; nothing was posted then.
  bool post(Call call) {
    const std::scoped_lock lock(mutex_);
    if (calls_.size() >= capacity_) return false;
    calls_.push_back(std::move(call));
    count_.store(calls_.size(), std::memory_order_seq_cst);
    return true;
  }

  bool empty() const { return count_.load(std::memory_order_seq_cst) == 0; }

  // Runs what was posted before this call; returns true if there was anything.
  bool drain() {
    if (empty()) return false;
    {
      const std::scoped_lock lock(mutex_);
      taken_.swap(calls_);
      count_.store(0, std::memory_order_seq_cst);
    }
    for (Call& call : taken_) call();
    taken_.clear();
    return true;
  }

 private:
  const size_t capacity_;
  std::mutex mutex_;
  std::vector<Call> calls_;
  std::vector<Call> taken_;
  std::atomic<size_t> count_{0};
};

}  // namespace weft
