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

void Control::run_due_jobs() {
  for (Job& job : jobs_) {
    const uint64_t now_ns = clock_->now_ns();
    if (job.due_ns > now_ns) continue;
    job.due_ns = now_ns + uint64_t{job.period_ms} * 1'000'000;
    job.run();
  }
}

void Control::loop() {
  for (Job& job : jobs_) job.due_ns = clock_->now_ns() + uint64_t{job.period_ms} * 1'000'000;
  std::unique_lock lock(mutex_);
  for (;;) {
    uint64_t due_ns = clock_->now_ns() + 1'000'000'000;
    for (const Job& job : jobs_) due_ns = std::min(due_ns, job.due_ns);
    const uint64_t now_ns = clock_->now_ns();
    changed_.wait_for(lock, std::chrono::nanoseconds(due_ns > now_ns ? due_ns - now_ns : 0),
                      [&] { return stopping_ || !calls_.empty(); });
    std::vector<std::function<void()>> calls;
    calls.swap(calls_);
    const bool last = stopping_;
    lock.unlock();
    for (const auto& call : calls) call();
    run_due_jobs();
    lock.lock();
    if (last && calls_.empty()) return;
  }
}

}  // namespace weft
