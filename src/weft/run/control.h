// Control: a thread beside the workers that runs functions which other threads post to it, and periodic jobs. The
// embedded cluster and the ZooKeeper client have one each; a server's control thread is its main thread
// (server/server.cc). It reaches workers only through their mailboxes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "weft/base/clock.h"

namespace weft {

class Control {
 public:
  explicit Control(Clock* clock) : clock_(clock) {}
  ~Control() { stop(); }
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // Before start. Jobs run one after another on the control thread.
  void every_ms(uint32_t period_ms, std::function<void()> job) { jobs_.push_back({period_ms, 0, std::move(job)}); }

  void start();
  void stop();  // idempotent; runs what was posted before
  void post(std::function<void()> call);

 private:
  struct Job {
    uint32_t period_ms;
    uint64_t due_ns;
    std::function<void()> run;
  };
  void loop();

  void run_due_jobs();

  Clock* const clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> calls_;
  std::vector<Job> jobs_;
  std::thread thread_;
  bool stopping_ = false;
};

}  // namespace weft
