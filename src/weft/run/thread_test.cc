// Thread and Worker: the order of a step, sleeping and waking, and that an idle thread sleeps. The tasks here are
// minimal; the real ones are tested with the cluster.
#include "weft/run/thread.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <coroutine>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/clock.h"
#include "weft/run/until_testing.h"
#include "weft/run/worker.h"
#include "weft/task.h"

namespace weft {
namespace {

struct FixedClock final : Clock {
  uint64_t now_ns() override { return now; }
  uint64_t now = 1;
};

struct TraceTasks final : WorkerTasks {
  bool table_batch() override { return note("batch"); }
  bool commit_steps() override { return note("commit"); }
  bool flush() override { return note("flush"); }
  bool poll() override { return note("poll"); }
  void between_steps() override { note("between"); }
  void before_sleep() override { note("offline"); }
  void after_sleep() override { note("online"); }
  bool pending() const override { return false; }
  uint64_t deadline_ns() const override { return deadline; }
  bool waits() const override { return waiting; }
  bool note(const char* what) {
    if (trace != nullptr) trace->push_back(what);
    return false;
  }
  std::vector<std::string>* trace = nullptr;
  uint64_t deadline = UINT64_MAX;
  bool waiting = false;
};

struct DetachedTask {
  struct promise_type {
    DetachedTask get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

struct Sleep {
  Worker* worker;
  uint64_t deadline_ns;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) const { worker->sleep_until(deadline_ns, h); }
  void await_resume() const noexcept {}
};

struct Yield {
  Worker* worker;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) const { worker->ready(h); }
  void await_resume() const noexcept {}
};

TEST(Worker, AStepHasItsOrder) {
  FixedClock clock;
  TraceTasks tasks;
  std::vector<std::string> trace;
  tasks.trace = &trace;
  Worker worker(&clock, nullptr, 8, 8);
  worker.set_tasks(&tasks);
  const auto body = [](Worker* w, std::vector<std::string>* t) -> DetachedTask {
    co_await Yield{w};
    t->push_back("client");
  };
  ASSERT_TRUE(worker.mailbox().post([&] {
    trace.push_back("mail");
    body(&worker, &trace);
  }));
  EXPECT_TRUE(worker.pending());
  EXPECT_TRUE(worker.step());
  EXPECT_EQ(trace, (std::vector<std::string>{"mail", "client", "batch", "commit", "flush", "poll", "between"}));
  trace.clear();
  EXPECT_FALSE(worker.step()) << "nothing was done";
  EXPECT_EQ(worker.steps(), 2U);
}

TEST(Worker, TimersWakeInAStepAtTheirTime) {
  FixedClock clock;
  TraceTasks tasks;
  Worker worker(&clock, nullptr, 8, 8);
  worker.set_tasks(&tasks);
  std::vector<int> woke;
  const auto body = [](Worker* w, uint64_t at, int id, std::vector<int>* out) -> DetachedTask {
    co_await Sleep{w, at};
    out->push_back(id);
  };
  body(&worker, 30, 3, &woke);
  body(&worker, 10, 1, &woke);
  body(&worker, 10, 2, &woke);
  EXPECT_EQ(worker.deadline_ns(), 10U);
  clock.now = 9;
  EXPECT_FALSE(worker.step());
  clock.now = 10;
  EXPECT_TRUE(worker.step());
  EXPECT_EQ(woke, (std::vector<int>{1, 2}));
  EXPECT_EQ(worker.deadline_ns(), 30U);
  tasks.deadline = 20;
  EXPECT_EQ(worker.deadline_ns(), 20U) << "the tasks' deadline counts too";
  clock.now = 100;
  worker.step();
  EXPECT_EQ(woke, (std::vector<int>{1, 2, 3}));
}

TEST(Worker, WhatBecomesReadyInAStepRunsInTheNext) {
  FixedClock clock;
  TraceTasks tasks;
  Worker worker(&clock, nullptr, 8, 8);
  worker.set_tasks(&tasks);
  int turns = 0;
  const auto body = [](Worker* w, int* n) -> DetachedTask {
    for (int i = 0; i < 3; ++i) {
      co_await Yield{w};
      ++*n;
    }
  };
  body(&worker, &turns);
  for (int i = 1; i <= 3; ++i) {
    worker.step();
    EXPECT_EQ(turns, i);
  }
  EXPECT_FALSE(worker.pending());
}

struct Running {
  RealClock clock;
  TraceTasks tasks;
  Worker worker{&clock, nullptr, 64, 64};
  Thread thread;
  explicit Running(uint64_t spin_ns = 20'000) : thread(&clock, spin_ns) {
    worker.set_tasks(&tasks);
    thread.add(&worker);
  }
  void post(const std::function<void()>& call) {
    while (!worker.mailbox().post(call)) std::this_thread::yield();
    thread.wake();
  }
};

TEST(Thread, StartsStopsAndStartsAgain) {
  Running r;
  r.thread.stop();
  for (int round = 0; round < 20; ++round) {
    r.thread.start();
    std::atomic<bool> ran{false};
    r.post([&] { ran = true; });
    until([&] { return ran.load(); });
    r.thread.stop();
    r.thread.stop();
  }
}

TEST(Thread, StopsWhileItSleeps) {
  for (int round = 0; round < 50; ++round) {
    Running r;
    r.thread.start();
    until([&] { return r.thread.sleeps() > 0; });
    r.thread.stop();
  }
}

// A post and the decision to sleep race in every round: the posting thread waits for its call, and the spin is as short
// as the time between two posts.
TEST(Thread, NoWakeUpIsLost) {
  Running r;
  r.thread.start();
  std::atomic<int> ran{0};
  for (int i = 1; i <= 3000; ++i) {
    r.post([&] { ++ran; });
    until([&] { return ran >= i; });
    if (i % 50 == 0) until([&] { return r.thread.asleep(); });
  }
  EXPECT_GT(r.thread.sleeps(), 0U);
  r.thread.stop();
}

// A wakeup source like that of a wire: whoever makes work visible notifies it if the thread is marked as sleeping.
struct TestWakeupSource final : WakeupSource {
  const int eventfd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::atomic<bool> sleeping{false};
  ~TestWakeupSource() override { close(eventfd_); }
  int fd() const override { return eventfd_; }
  void set_sleeping(bool now) override {
    sleeping.store(now);
    uint64_t rung = 0;
    if (!now && read(eventfd_, &rung, sizeof rung) != sizeof rung) return;
  }
  void ring() {
    const uint64_t one = 1;
    if (!sleeping.load()) return;
    ASSERT_EQ(write(eventfd_, &one, sizeof one), ssize_t{sizeof one});
  }
};

TEST(Thread, ABellEndsTheSleep) {
  Running r;
  TestWakeupSource sources[2];
  r.thread.add_wakeup_source(&sources[0]);
  r.thread.add_wakeup_source(&sources[1]);
  r.thread.start();
  std::atomic<int> ran{0};
  for (int i = 1; i <= 1000; ++i) {
    if (i % 5 == 0) until([&] { return r.thread.asleep(); });
    if (i % 3 == 0) {
      r.post([&] { ++ran; });  // wake() works beside wakeup sources
    } else {
      while (!r.worker.mailbox().post([&] { ++ran; })) std::this_thread::yield();
      sources[i % 2].ring();
    }
    until([&] { return ran >= i; });
  }
  EXPECT_GT(r.thread.sleeps(), 0U);
  r.thread.stop();
}

TEST(Thread, NoWakeUpIsLostWithManyPosters) {
  Running r;
  r.thread.start();
  constexpr int kThreads = 4;
  constexpr int kEach = 1000;
  std::vector<std::thread> posters;
  for (int t = 0; t < kThreads; ++t) {
    posters.emplace_back([&] {
      std::atomic<int> mine{0};
      for (int i = 1; i <= kEach; ++i) {
        r.post([&] { ++mine; });
        until([&] { return mine >= i; });
      }
    });
  }
  for (std::thread& poster : posters) poster.join();
  r.thread.stop();
}

TEST(Thread, ATimerEndsTheSleep) {
  Running r;
  r.thread.start();
  std::atomic<bool> over{false};
  std::atomic<int> woke{0};
  const auto body = [](Worker* w, std::atomic<bool>* ends, std::atomic<int>* n) -> DetachedTask {
    while (!*ends) {
      co_await Sleep{w, w->now_ns() + 2'000'000};
      ++*n;
    }
    *n = -1;
  };
  r.post([&] { body(&r.worker, &over, &woke); });
  // Nobody calls wake(): only the timer can have ended a sleep that was followed by another.
  until([&] { return r.thread.sleeps() >= 3; });
  const int before = woke;
  until([&] { return woke > before; });
  over = true;
  until([&] { return woke == -1; });
  r.thread.stop();
}

// With a spin that never ends: a thread woken by a timer sleeps again at once; one with requests or outstanding replies
// does not.
TEST(Thread, ATimerAloneIsNoReasonToSpin) {
  constexpr uint64_t kForeverNs = 3'600'000'000'000;
  const auto body = [](Worker* w, const std::atomic<bool>* ends, std::atomic<bool>* ended) -> DetachedTask {
    while (!*ends) co_await Sleep{w, w->now_ns() + 1'000'000};
    *ended = true;
  };
  std::atomic<bool> over{false}, ended{false};
  Running r(kForeverNs);
  body(&r.worker, &over, &ended);
  r.thread.start();
  until([&] { return r.thread.sleeps() >= 3; });
  std::atomic<bool> ran{false};
  r.post([&] { ran = true; });
  until([&] { return ran.load(); });
  const uint64_t sleeps = r.thread.sleeps();
  const uint64_t turns = r.thread.iterations();
  until([&] { return r.thread.iterations() >= turns + 1000; });
  EXPECT_EQ(r.thread.sleeps(), sleeps) << "a request arrived";
  over = true;
  until([&] { return ended.load(); });
  r.thread.stop();
}

TEST(Thread, WhoWaitsForAnswersSpins) {
  Running r(3'600'000'000'000);
  r.tasks.waiting = true;
  r.thread.start();
  until([&] { return r.thread.iterations() >= 1000; });
  EXPECT_EQ(r.thread.sleeps(), 0U);
  r.thread.stop();
}

TEST(Expectation, FollowsTheLastTimes) {
  constexpr uint64_t kSpinNs = 50'000;
  Expectation expectation(kSpinNs);
  EXPECT_TRUE(expectation.within_spin()) << "who knows nothing spins";
  expectation.note(3'600'000'000'000);
  EXPECT_TRUE(expectation.within_spin()) << "one long time is no habit";
  for (int i = 0; i < 100; ++i) expectation.note(3'600'000'000'000);
  EXPECT_FALSE(expectation.within_spin());
  for (int i = 0; i < 3; ++i) expectation.note(0);
  EXPECT_TRUE(expectation.within_spin()) << "nor is a long time remembered for long";
  for (int i = 0; i < 100; ++i) expectation.note(kSpinNs + 1'000);
  EXPECT_FALSE(expectation.within_spin());
  for (int i = 0; i < 100; ++i) expectation.note(kSpinNs - 1'000);
  EXPECT_TRUE(expectation.within_spin());
}

// Requests that come rarely: the thread sleeps between them, and misses none.
TEST(Thread, WhoExpectsRequestsLateSleeps) {
  constexpr uint64_t kSpinNs = 200'000;
  Running r(kSpinNs);
  r.thread.start();
  std::atomic<int> ran{0};
  for (int i = 1; i <= 20; ++i) {
    until([&] { return r.thread.asleep(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    r.post([&] { ++ran; });
    until([&] { return ran >= i; });
  }
  EXPECT_GE(r.thread.sleeps(), 20U);
  r.thread.stop();
}

TEST(Thread, IdleMeansIdle) {
  Running r;
  r.thread.start();
  until([&] { return r.thread.asleep(); });
  const uint64_t turns = r.thread.iterations();
  const uint64_t sleeps = r.thread.sleeps();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  // A thread that does not sleep makes millions of iterations in this time. One that sleeps spins once around each
  // wake-up, and there is at most one per second; the iterations of a spin depend on the machine, so allow one long
  // spin.
  EXPECT_LT(r.thread.sleeps() - sleeps, 5U);
  EXPECT_LT(r.thread.iterations() - turns, 20'000U);
  r.thread.stop();
}

TEST(Thread, SeveralWorkersTakeTurns) {
  RealClock clock;
  TraceTasks tasks;
  std::vector<std::unique_ptr<Worker>> workers;
  Thread thread(&clock);
  for (int i = 0; i < 3; ++i) {
    workers.push_back(std::make_unique<Worker>(&clock, nullptr, 8, 8));
    workers.back()->set_tasks(&tasks);
    thread.add(workers.back().get());
  }
  thread.start();
  std::atomic<int> ran{0};
  for (const auto& worker : workers) {
    ASSERT_TRUE(worker->mailbox().post([&] { ++ran; }));
    thread.wake();
  }
  until([&] { return ran == 3; });
  thread.stop();
  for (const auto& worker : workers) EXPECT_GT(worker->steps(), 0U);
}

TEST(Thread, PinsItselfWhenAsked) {
  Running r;
  r.thread.start(0);
  std::atomic<int> cpus{0};
  r.post([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    cpus = CPU_COUNT(&set);
  });
  until([&] { return cpus != 0; });
  EXPECT_EQ(cpus, 1);
  r.thread.stop();
}

}  // namespace
}  // namespace weft
