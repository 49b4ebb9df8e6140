#include "weft/redis/write_window.h"

#include <gtest/gtest.h>

#include <list>
#include <string>

#include "weft/run/no_tasks_testing.h"
#include "weft/run/owned_task.h"

namespace weft {
namespace {

constexpr size_t kTxnKeysMax = 100;

class WriteWindowTest : public testing::Test {
 protected:
  class StillClock final : public Clock {
   public:
    uint64_t now_ns() override { return 1; }
  };
  WriteWindowTest() { worker_.set_tasks(&no_tasks_); }

  Task<void> enters(std::string name, size_t keys) {
    co_await window_.enter(keys);
    entered_ += name;
  }
  void start(const std::string& name, size_t keys) {
    tasks_.push_back(OwnedTask::of(enters(name, keys)));
    tasks_.back().start();
  }
  // Those for whom there is room now.
  void resume() { worker_.step(); }
  void shrink_to(size_t keys) {
    while (window_.keys() > keys) window_.conflicted(0);
  }

  StillClock clock_;
  NoTasks no_tasks_;
  Worker worker_{&clock_, nullptr, 8, 8};
  WriteWindow window_{kTxnKeysMax, &worker_};
  std::string entered_;
  std::list<OwnedTask> tasks_;
};

TEST_F(WriteWindowTest, StartsAsLargeAsTransactionsMayBe) {
  EXPECT_EQ(window_.batch_keys_max(), kTxnKeysMax);
  for (const char* name : {"a", "b", "c", "d"}) start(name, kTxnKeysMax);
  EXPECT_EQ(entered_, "abcd");
}

TEST_F(WriteWindowTest, FirstComeFirstServed) {
  shrink_to(32);
  start("a", 20);
  start("b", 20);
  start("c", 1);  // it would fit, but b was first
  EXPECT_EQ(entered_, "a");
  EXPECT_EQ(window_.waiting(), 2U);
  window_.leave(20);
  resume();
  EXPECT_EQ(entered_, "abc");
  EXPECT_EQ(window_.in_progress(), 21U);
}

TEST_F(WriteWindowTest, WhatIsLargerThanTheWindowEntersAlone) {
  shrink_to(32);
  start("a", 90);
  start("b", 1);
  EXPECT_EQ(entered_, "a");
  window_.leave(90);
  resume();
  EXPECT_EQ(entered_, "ab");
  start("c", 90);
  EXPECT_EQ(entered_, "ab");
  window_.leave(1);
  resume();
  EXPECT_EQ(entered_, "abc");
}

TEST_F(WriteWindowTest, ConflictsShrinkItFromWhatIsUsed) {
  start("a", 30);
  start("b", 30);
  window_.conflicted(30);
  EXPECT_EQ(window_.keys(), 175U);  // seven eighths of half of it: it was not full
  EXPECT_EQ(window_.batch_keys_max(), 43U);
  window_.conflicted(30);
  EXPECT_EQ(window_.keys(), 105U);  // seven eighths of 4 * 30
  EXPECT_EQ(window_.batch_keys_max(), 26U);
  for (int i = 0; i < 100; ++i) window_.conflicted(30);
  EXPECT_EQ(window_.keys(), 32U);
  EXPECT_EQ(window_.batch_keys_max(), 8U);
}

TEST_F(WriteWindowTest, CommitsGrowItIfItWasNeeded) {
  shrink_to(64);
  const size_t before = window_.keys();
  start("a", 2);
  window_.committed(2);
  EXPECT_EQ(window_.keys(), before);
  window_.committed(window_.batch_keys_max());
  EXPECT_EQ(window_.keys(), before + 2);
  for (int i = 0; i < 1000; ++i) window_.committed(window_.batch_keys_max());
  EXPECT_EQ(window_.batch_keys_max(), kTxnKeysMax);
}

}  // namespace
}  // namespace weft
