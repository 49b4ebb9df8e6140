// Worker: one event loop. step() is one iteration, in a fixed order; a Thread (thread.h) or the simulator calls it.
//
// Only the caller of step() uses anything but the mailbox.
#pragma once

#include <algorithm>
#include <coroutine>
#include <cstdint>
#include <vector>

#include "weft/base/clock.h"
#include "weft/run/coroutine_frames.h"
#include "weft/run/mailbox.h"
#include "weft/run/timers.h"

namespace weft {

// What a worker does besides running client code. Each call returns true if it did something.
class WorkerTasks {
 public:
  virtual ~WorkerTasks() = default;
  virtual void begin_step() {}                  // the step's clock has just been read
  virtual bool table_batch() = 0;               // prefetches all waiting keys, then executes all
  virtual bool commit_steps() = 0;              // commit steps that are due without a reply
  virtual bool flush() = 0;                     // hands packets to the wire
  virtual bool poll() = 0;                      // delivers received messages
  virtual void between_steps() = 0;             // no reference into a table is held
  virtual void before_sleep() = 0;              // this worker will not access its tables until the next step
  virtual void after_sleep() = 0;               // it will again
  virtual bool pending() const = 0;             // a step now would do something
  virtual uint64_t deadline_ns() const = 0;     // the latest time of the next step
  virtual bool waits() const { return false; }  // for replies, which will come soon
};

// Client connections that a worker serves itself. Their requests run as coroutines of the worker.
class ConnectionPoller {
 public:
  virtual ~ConnectionPoller() = default;
  virtual bool poll() = 0;                                     // reads what has arrived; true if there was anything
  virtual bool flush() = 0;                                    // writes the replies
  virtual uint64_t deadline_ns() const { return UINT64_MAX; }  // the latest time of the next poll()
};

class Worker {
 public:
  Worker(Clock* clock, CostModel* cost_model, size_t coroutines_max, size_t mailbox_capacity)
      : clock_(clock), cost_model_(cost_model), timers_(coroutines_max), mailbox_(mailbox_capacity) {
    ready_.reserve(coroutines_max);
    running_.reserve(coroutines_max);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void set_tasks(WorkerTasks* tasks) { tasks_ = tasks; }
  void set_clients(ConnectionPoller* clients) { clients_ = clients; }

  // One iteration of the loop: client code, table batch, commit steps, flush, poll. True if anything was done.
  bool step();

  // Resumes a coroutine in the next step's client code.
  void ready(std::coroutine_handle<> coroutine) { ready_.push_back(coroutine); }
  void sleep_until(uint64_t deadline_ns, std::coroutine_handle<> coroutine) { timers_.set(deadline_ns, coroutine); }

  Mailbox& mailbox() { return mailbox_; }
  FramePool& frames() { return frames_; }
  uint64_t now_ns() const { return now_ns_; }  // of the current step
  uint64_t clock_ns() const { return clock_->now_ns(); }
  CostModel* cost_model() const { return cost_model_; }

  bool pending() const { return !ready_.empty() || !mailbox_.empty() || tasks_->pending(); }
  uint64_t deadline_ns() const {
    const uint64_t clients_ns = clients_ != nullptr ? clients_->deadline_ns() : UINT64_MAX;
    return std::min({timers_.next_ns(), tasks_->deadline_ns(), clients_ns});
  }
  // Worth spinning for, unlike timers: replies that will come soon; and more of what arrived since the last sleep.
  bool awaits_replies() const { return tasks_->waits(); }
  bool heard() const { return heard_; }
  // The caller will not call step() for a while; the next step() ends this.
  void before_sleep() {
    asleep_ = true;
    heard_ = false;
    tasks_->before_sleep();
  }
  uint64_t steps() const { return steps_; }

 private:
  bool run_client_code();

  Clock* const clock_;
  CostModel* const cost_model_;
  WorkerTasks* tasks_ = nullptr;
  ConnectionPoller* clients_ = nullptr;
  uint64_t now_ns_ = 0;
  uint64_t steps_ = 0;
  bool asleep_ = false;
  bool heard_ = false;
  std::vector<std::coroutine_handle<>> ready_;
  std::vector<std::coroutine_handle<>> running_;
  Timers timers_;
  Mailbox mailbox_;
  FramePool frames_;
};

}  // namespace weft
