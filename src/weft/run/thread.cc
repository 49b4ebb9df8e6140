#include "weft/run/thread.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace weft {

namespace {

void futex_wait(std::atomic<uint32_t>* word, uint32_t expected, uint64_t timeout_ns) {
  timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000U), static_cast<long>(timeout_ns % 1'000'000'000U)};
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &timeout, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

void Thread::start(int cpu) {
  stopping_.store(false);
  thread_ = std::thread([this, cpu] { run(cpu); });
}

void Thread::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  wake();
  thread_.join();
}

void Thread::wake() {
  // Pairs with sleep(): whoever made work visible before this load is seen by any_pending() if the load says awake.
  if (asleep_.load(std::memory_order_seq_cst) == 0) return;
  asleep_.store(0, std::memory_order_seq_cst);
  futex_wake(&asleep_);
}

bool Thread::any_pending() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const Worker* w) { return w->pending(); });
}

void Thread::sleep(uint64_t deadline_ns) {
  constexpr uint64_t kLongestNs = 1'000'000'000;
  asleep_.store(1, std::memory_order_seq_cst);
  const uint64_t now_ns = clock_->now_ns();
  if (!any_pending() && !stopping_.load() && deadline_ns > now_ns) {
    sleeps_.fetch_add(1, std::memory_order_relaxed);
    futex_wait(&asleep_, 1, std::min(deadline_ns - now_ns, kLongestNs));
  }
  asleep_.store(0, std::memory_order_seq_cst);
}

void Thread::run(int cpu) {
  if (cpu >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  }
  uint64_t idle_since_ns = 0;
  while (!stopping_.load(std::memory_order_relaxed)) {
    bool busy = false;
    for (Worker* worker : workers_) busy |= worker->step();
    turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (busy) {
      idle_since_ns = 0;
      continue;
    }
    const uint64_t now_ns = clock_->now_ns();
    if (idle_since_ns == 0) idle_since_ns = now_ns;
    if (now_ns - idle_since_ns < spin_ns_) {
      __builtin_ia32_pause();
      continue;
    }
    uint64_t deadline_ns = UINT64_MAX;
    for (Worker* worker : workers_) {
      deadline_ns = std::min(deadline_ns, worker->deadline_ns());
      worker->before_sleep();
    }
    sleep(deadline_ns);
    idle_since_ns = 0;
  }
}

}  // namespace weft
