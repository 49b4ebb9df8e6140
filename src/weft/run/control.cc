#include "weft/run/control.h"

#include <algorithm>
#include <chrono>

namespace weft {

void Control::start() {
  stopping_ = false;
  thread_ = std::thread([this] { loop(); });
}

void Control::stop() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Control::post(std::function<void()> call) {
  const std::scoped_lock lock(mutex_);
  calls_.push_back(std::move(call));
  changed_.notify_all();
}

void Control::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    uint32_t wait_ms = 1000;
    for (const Job& job : jobs_) wait_ms = std::min(wait_ms, job.left_ms);
    const bool woken =
        changed_.wait_for(lock, std::chrono::milliseconds(wait_ms), [&] { return stopping_ || !calls_.empty(); });
    std::vector<std::function<void()>> calls;
    calls.swap(calls_);
    const bool last = stopping_;
    lock.unlock();
    for (const auto& call : calls) call();
    if (!woken) {
      for (Job& job : jobs_) {
        job.left_ms -= std::min(job.left_ms, wait_ms);
        if (job.left_ms != 0) continue;
        job.left_ms = job.period_ms;
        job.run();
      }
    }
    lock.lock();
    if (last && calls_.empty()) return;
  }
}

}  // namespace weft
