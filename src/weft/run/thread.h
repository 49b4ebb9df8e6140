// Thread: runs several workers round-robin. It spins while there is work, and briefly afterwards if replies are
// outstanding, or if requests arrived and the next one is expected before the spin is over (Expectation); then it
// sleeps until a wake(), a wakeup source, or the earliest deadline of its workers. A timer alone is no reason to spin:
// leases and sweeps would cost more in spinning than in work.
//
// A spinning thread yields the core to the thread that it may be waiting for. Where a yield returns at once nobody
// needs the core, and pauses take the place of the next ones: a yield is a system call.
//
// wake() may be called from any thread and costs one load while the thread is awake.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "weft/base/clock.h"
#include "weft/run/worker.h"

namespace weft {

// What ends a thread's sleep besides wake(): a wire between processes, or client connections.
class WakeupSource {
 public:
  virtual ~WakeupSource() = default;
  virtual int fd() const = 0;         // readable when one of the thread's workers has something to do
  virtual void set_sleeping(bool) {}  // called with true before the thread's last check for work
};

// How long a thread will have no work: a moving average of the last times. What a yield gave to other threads does not
// count: nobody spun then.
class Expectation {
 public:
  explicit Expectation(uint64_t spin_ns) : longest_ns_(2 * spin_ns) {}
  void note(uint64_t idle_ns) {
    const auto counted = static_cast<int64_t>(std::min(idle_ns, longest_ns_));
    average_ns_ += (counted - average_ns_) / 4;
  }
  bool within_spin() const { return static_cast<uint64_t>(average_ns_) <= longest_ns_ / 2; }

 private:
  const uint64_t longest_ns_;  // counted as: after two short times the thread spins again
  int64_t average_ns_ = 0;
};

class Thread {
 public:
  explicit Thread(Clock* clock, uint64_t spin_ns = 50'000) : clock_(clock), spin_ns_(spin_ns), expectation_(spin_ns) {}
  ~Thread();
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  void add(Worker* worker) { workers_.push_back(worker); }  // before start
  void add_wakeup_source(WakeupSource* source);             // before start; outlives the thread
  void start(int cpu = -1);                                 // pinned if cpu >= 0
  void stop();                                              // returns when the thread has ended
  void wake();

  uint64_t sleeps() const { return sleeps_.load(std::memory_order_relaxed); }
  uint64_t iterations() const { return iterations_.load(std::memory_order_relaxed); }
  bool asleep() const { return asleep_.load(std::memory_order_relaxed) != 0; }

 private:
  void run(int cpu);
  void sleep(uint64_t deadline_ns);
  void block(uint64_t ns);
  bool any_pending() const;
  bool spins() const;
  uint64_t pause_or_yield(uint64_t now_ns);  // returns how long other threads had the core

  Clock* const clock_;
  const uint64_t spin_ns_;
  Expectation expectation_;
  uint32_t pauses_left_ = 0;  // until the next yield
  std::vector<Worker*> workers_;
  std::vector<WakeupSource*> wakeup_sources_;
  int wakeup_eventfd_ = -1;  // written by wake(), if there are wakeup sources
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<uint32_t> asleep_{0};  // 1 while in sleep(); a futex
  std::atomic<uint64_t> sleeps_{0};
  std::atomic<uint64_t> iterations_{0};
};

}  // namespace weft
