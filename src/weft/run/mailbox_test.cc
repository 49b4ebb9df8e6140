#include "weft/run/mailbox.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace weft {
namespace {

TEST(Mailbox, RunsCallsInOrder) {
  Mailbox mailbox(8);
  std::vector<int> ran;
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(mailbox.post([&ran, i] { ran.push_back(i); }));
  EXPECT_FALSE(mailbox.empty());
  EXPECT_TRUE(mailbox.drain());
  EXPECT_EQ(ran, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(mailbox.empty());
  EXPECT_FALSE(mailbox.drain());
}

TEST(Mailbox, RefusesWhenFullAndTakesAgainAfterwards) {
  Mailbox mailbox(2);
  int ran = 0;
  EXPECT_TRUE(mailbox.post([&] { ++ran; }));
  EXPECT_TRUE(mailbox.post([&] { ++ran; }));
  EXPECT_FALSE(mailbox.post([&] { ran += 100; }));
  mailbox.drain();
  EXPECT_EQ(ran, 2) << "what was refused is not run";
  EXPECT_TRUE(mailbox.post([&] { ++ran; }));
  mailbox.drain();
  EXPECT_EQ(ran, 3);
}

TEST(Mailbox, ACallMayPostAndItsPostWaitsForTheNextDrain) {
  Mailbox mailbox(2);
  int ran = 0;
  ASSERT_TRUE(mailbox.post([&] {
    ++ran;
    EXPECT_TRUE(mailbox.post([&] { ran += 10; }));
  }));
  mailbox.drain();
  EXPECT_EQ(ran, 1);
  EXPECT_FALSE(mailbox.empty());
  mailbox.drain();
  EXPECT_EQ(ran, 11);
}

TEST(Mailbox, ManyThreadsLoseNothingAndKeepTheirOwnOrder) {
  constexpr int kThreads = 4;
  constexpr int kEach = 5000;
  Mailbox mailbox(16);
  std::vector<int> next(kThreads, 0);
  int out_of_order = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const auto call = [&, t, i] { out_of_order += next[static_cast<size_t>(t)]++ != i ? 1 : 0; };
        while (!mailbox.post(call)) std::this_thread::yield();
      }
    });
  }
  int done = 0;
  while (done < kThreads * kEach) {
    if (!mailbox.drain()) std::this_thread::yield();
    done = 0;
    for (const int n : next) done += n;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, kThreads * kEach);
  EXPECT_EQ(out_of_order, 0);
  EXPECT_TRUE(mailbox.empty());
}

}  // namespace
}  // namespace weft
