// WriteWindow: how many keys the transactions of a worker's clients write at the same time.
//
// A transaction holds its locks until it has committed, and one that meets a lock is run again. How often that happens
// grows with the keys of a transaction and with the keys that others have locked meanwhile; both are bounded here. The
// window is the number of keys that may be in progress: it shrinks by a part when a transaction conflicts, and grows by
// a little when one commits, if it was needed. A transaction of a pipeline has a quarter of it at most, so that some
// are under way while others wait for their answers. Where nothing conflicts the window has no effect.
//
// Those for whom there is no room wait, first come first served. Who is in the window waits for nobody in line.
#pragma once

#include <algorithm>
#include <coroutine>
#include <cstddef>
#include <deque>

#include "weft/run/worker.h"

namespace weft {

class WriteWindow {
 public:
  // `txn_keys_max` is the limit of a transaction.
  WriteWindow(size_t txn_keys_max, Worker* worker)
      : worker_(worker), most_(txn_keys_max * kTogether), keys_(most_), least_(std::min(kKeysMin, most_)) {}

  // Keys of one transaction that runs several commands.
  size_t batch_keys_max() const { return keys_ / kTogether; }
  size_t keys() const { return keys_; }
  size_t in_progress() const { return in_progress_; }
  size_t waiting() const { return waiting_.size(); }

  struct [[nodiscard]] Enter {
    WriteWindow* window;
    size_t keys;
    bool await_ready() const {
      if (!window->waiting_.empty() || !window->has_room(keys)) return false;
      window->in_progress_ += keys;
      return true;
    }
    void await_suspend(std::coroutine_handle<> h) const { window->waiting_.push_back({h, keys}); }
    void await_resume() const noexcept {}
  };
  // Resumes when there is room for so many keys, or nobody else is in the window.
  Enter enter(size_t keys) { return {this, keys}; }
  void leave(size_t keys) {
    in_progress_ -= keys;
    while (!waiting_.empty() && has_room(waiting_.front().keys)) {
      in_progress_ += waiting_.front().keys;
      worker_->ready(waiting_.front().handle);
      waiting_.pop_front();
    }
  }

  // What became of a transaction of so many keys that is in the window.
  void committed(size_t keys) {
    const bool needed = !waiting_.empty() || 2 * in_progress_ >= keys_ || 2 * keys >= batch_keys_max();
    if (needed) keys_ = std::min(keys_ + kGrowth, most_);
  }
  void conflicted(size_t keys) {
    // A conflict of few keys says little about a window that they do not fill.
    const size_t used = std::clamp(std::max(2 * in_progress_, kTogether * keys), keys_ / 2, keys_);
    keys_ = std::max(used - used / kShrinkage, least_);
  }

 private:
  static constexpr size_t kTogether = 4;   // transactions as large as allowed
  static constexpr size_t kKeysMin = 32;   // of the window
  static constexpr size_t kGrowth = 2;     // keys
  static constexpr size_t kShrinkage = 8;  // an eighth

  bool has_room(size_t keys) const { return in_progress_ == 0 || in_progress_ + keys <= keys_; }

  struct Waiting {
    std::coroutine_handle<> handle;
    size_t keys;
  };
  Worker* const worker_;
  const size_t most_;
  size_t keys_;
  const size_t least_;
  size_t in_progress_ = 0;
  std::deque<Waiting> waiting_;
};

}  // namespace weft
