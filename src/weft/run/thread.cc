#include "weft/run/thread.h"

#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

#include "weft/base/check.h"

namespace weft {

namespace {

timespec time_of(uint64_t ns) {
  return {static_cast<time_t>(ns / 1'000'000'000U), static_cast<long>(ns % 1'000'000'000U)};
}

void futex_wait(std::atomic<uint32_t>* word, uint32_t expected, uint64_t timeout_ns) {
  const timespec timeout = time_of(timeout_ns);
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &timeout, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

Thread::~Thread() {
  stop();
  if (wakeup_eventfd_ >= 0) close(wakeup_eventfd_);
}

void Thread::add_wakeup_source(WakeupSource* source) {
  if (wakeup_eventfd_ < 0) wakeup_eventfd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  WEFT_CHECK(wakeup_eventfd_ >= 0, "eventfd");
  wakeup_sources_.push_back(source);
}

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
  // Pairs with sleep(): if this load returns awake, any_pending() sees the work that the caller made visible before it.
  if (asleep_.load(std::memory_order_seq_cst) == 0) return;
  asleep_.store(0, std::memory_order_seq_cst);
  if (wakeup_eventfd_ < 0) return futex_wake(&asleep_);
  const uint64_t one = 1;
  if (write(wakeup_eventfd_, &one, sizeof one) != sizeof one) return;  // it is readable already
}

bool Thread::any_pending() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const Worker* w) { return w->pending(); });
}

bool Thread::spins() const {
  const bool requests = expectation_.within_spin();
  return std::any_of(workers_.begin(), workers_.end(),
                     [&](const Worker* w) { return w->awaits_replies() || (requests && w->heard()); });
}

uint64_t Thread::pause_or_yield(uint64_t now_ns) {
  constexpr uint64_t kAtOnceNs = 2'000;  // a yield to another thread takes longer
  constexpr uint32_t kPauses = 16;
  if (pauses_left_ != 0) {
    --pauses_left_;
    for (int i = 0; i < 16; ++i) __builtin_ia32_pause();
    return 0;
  }
  sched_yield();
  const uint64_t took_ns = clock_->now_ns() - now_ns;
  if (took_ns >= kAtOnceNs) return took_ns;
  pauses_left_ = kPauses;
  return 0;
}

void Thread::block(uint64_t ns) {
  if (wakeup_sources_.empty()) return futex_wait(&asleep_, 1, ns);
  constexpr size_t kFdsMax = 1 + 64;
  pollfd fds[kFdsMax];
  nfds_t count = 0;
  fds[count++] = {wakeup_eventfd_, POLLIN, 0};
  for (const WakeupSource* source : wakeup_sources_) {
    if (count < kFdsMax) fds[count++] = {source->fd(), POLLIN, 0};
  }
  const timespec timeout = time_of(ns);
  ppoll(fds, count, &timeout, nullptr);
  uint64_t rung = 0;
  if ((fds[0].revents & POLLIN) != 0 && read(wakeup_eventfd_, &rung, sizeof rung) != sizeof rung) return;
}

void Thread::sleep(uint64_t deadline_ns) {
  constexpr uint64_t kLongestNs = 1'000'000'000;
  asleep_.store(1, std::memory_order_seq_cst);
  for (WakeupSource* source : wakeup_sources_) source->set_sleeping(true);
  const uint64_t now_ns = clock_->now_ns();
  if (!any_pending() && !stopping_.load() && deadline_ns > now_ns) {
    sleeps_.fetch_add(1, std::memory_order_relaxed);
    block(std::min(deadline_ns - now_ns, kLongestNs));
  }
  for (WakeupSource* source : wakeup_sources_) source->set_sleeping(false);
  asleep_.store(0, std::memory_order_seq_cst);
}

void Thread::run(int cpu) {
  if (cpu >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  }
  uint64_t idle_since_ns = 0;  // 0: there was work in the last iteration
  uint64_t spins_since_ns = 0;
  while (!stopping_.load(std::memory_order_relaxed)) {
    bool busy = false;
    for (Worker* worker : workers_) busy |= worker->step();
    iterations_.store(iterations_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (busy) {
      if (idle_since_ns != 0) expectation_.note(clock_->now_ns() - idle_since_ns);
      idle_since_ns = 0;
      continue;
    }
    const uint64_t now_ns = clock_->now_ns();
    if (idle_since_ns == 0) idle_since_ns = spins_since_ns = now_ns;
    if (now_ns - spins_since_ns < spin_ns_ && spins()) {
      idle_since_ns += pause_or_yield(now_ns);
      continue;
    }
    uint64_t deadline_ns = UINT64_MAX;
    for (Worker* worker : workers_) {
      deadline_ns = std::min(deadline_ns, worker->deadline_ns());
      worker->before_sleep();
    }
    sleep(deadline_ns);
    spins_since_ns = clock_->now_ns();
  }
}

}  // namespace weft
