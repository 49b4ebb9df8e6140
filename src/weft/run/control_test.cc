#include "weft/run/control.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "weft/run/until_testing.h"

namespace weft {
namespace {

TEST(Control, RunsWhatIsPostedInOrder) {
  RealClock clock;
  Control control(&clock);
  control.start();
  std::vector<int> ran;
  std::atomic<int> count{0};
  for (int i = 0; i < 100; ++i) {
    control.post([&, i] {
      ran.push_back(i);
      ++count;
    });
  }
  until([&] { return count == 100; });
  control.stop();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ran[static_cast<size_t>(i)], i);
}

TEST(Control, StopRunsWhatWasPostedBefore) {
  for (int round = 0; round < 50; ++round) {
    RealClock clock;
    Control control(&clock);
    int ran = 0;
    control.start();
    for (int i = 0; i < 10; ++i) control.post([&] { ++ran; });
    control.stop();
    ASSERT_EQ(ran, 10);
    control.stop();
  }
}

TEST(Control, StopsWithoutStartAndStartsAgain) {
  RealClock clock;
  Control control(&clock);
  control.stop();
  for (int round = 0; round < 3; ++round) {
    std::atomic<bool> ran{false};
    control.start();
    control.post([&] { ran = true; });
    until([&] { return ran.load(); });
    control.stop();
  }
}

TEST(Control, PeriodicJobsRunAgainAndAgain) {
  RealClock clock;
  Control control(&clock);
  std::atomic<int> fast{0};
  std::atomic<int> slow{0};
  control.every_ms(1, [&] { ++fast; });
  control.every_ms(7, [&] { ++slow; });
  control.start();
  until([&] { return slow >= 3; });
  control.stop();
  EXPECT_GE(fast, slow.load());
}

// Periodic jobs must not stop because callers keep the control thread busy.
TEST(Control, PeriodicJobsRunAlthoughCallsKeepComing) {
  RealClock clock;
  Control control(&clock);
  std::atomic<int> jobs{0};
  control.every_ms(1, [&] { ++jobs; });
  control.start();
  constexpr int kCalls = 1'000'000;  // each wakes the control thread; together they take far longer than the period
  std::atomic<int> calls{0};
  std::function<void()> chain = [&] {
    if (++calls < kCalls && jobs == 0) control.post(chain);
  };
  control.post(chain);
  until([&] { return jobs > 0 || calls >= kCalls; });
  const int jobs_meanwhile = jobs;
  const int calls_made = calls;
  control.stop();
  EXPECT_GT(jobs_meanwhile, 0) << "no job in the time of " << calls_made << " calls";
}

TEST(Control, ManyThreadsPost) {
  RealClock clock;
  Control control(&clock);
  control.start();
  int ran = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) control.post([&] { ++ran; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  control.stop();
  EXPECT_EQ(ran, 4000);
}

}  // namespace
}  // namespace weft
