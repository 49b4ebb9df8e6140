#include "weft/redis/fair_scheduler.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "weft/run/owned_task.h"

namespace weft {
namespace {

constexpr uint64_t kBudgetNs = 100'000;

class StillClock final : public Clock {
 public:
  uint64_t now_ns() override { return now; }
  uint64_t now = 1'000'000;
};

class TurnsTest : public testing::Test {
 protected:
  struct Client {
    std::string name;
    FairScheduler::Share share;
    OwnedTask work;
  };

  // Does that many steps of that much work each, and appends its name to order_ for each.
  Task<void> works(Client* client, int steps, uint64_t ns, FairScheduler::WaitPoint where) {
    for (int i = 0; i < steps; ++i) {
      if (scheduler_.over(client->share)) co_await scheduler_.wait(client->share, where);
      order_ += client->name;
      scheduler_.charge_command(client->share, ns, client->name);
    }
  }
  Client& start(const std::string& name, int steps, uint64_t ns,
                FairScheduler::WaitPoint where = FairScheduler::WaitPoint::kInsideTxn) {
    clients_.push_back(std::make_unique<Client>());
    Client& client = *clients_.back();
    client.name = name;
    client.work = OwnedTask::of(works(&client, steps, ns, where));
    client.work.start();
    return client;
  }
  void turn() {
    order_ += '|';
    scheduler_.begin(clock_.now);
    scheduler_.resume_waiting();
  }

  StillClock clock_;
  Worker worker_{&clock_, nullptr, 8, 8};
  FairScheduler scheduler_{kBudgetNs, 2, &worker_};
  std::string order_;
  std::vector<std::unique_ptr<Client>> clients_;
};

TEST_F(TurnsTest, WhatIsLeftGoesOnNextTurn) {
  scheduler_.begin(clock_.now);
  start("a", 5, kBudgetNs / 2);
  EXPECT_EQ(order_, "aa");
  turn();
  turn();
  EXPECT_EQ(order_, "aa|aa|a");
  EXPECT_FALSE(clients_[0]->work.running());
}

TEST_F(TurnsTest, WhoHadLeastGoesOnFirst) {
  scheduler_.begin(clock_.now);
  start("a", 20, kBudgetNs);
  start("b", 20, kBudgetNs / 2);  // its cost is not known before, so it runs once
  start("c", 20, kBudgetNs / 4);
  for (int i = 0; i < 9; ++i) turn();
  const auto count = [&](char c) { return std::count(order_.begin(), order_.end(), c); };
  // Shares are equal, so a client that asks for less each time runs more often.
  EXPECT_GE(count('b'), 2 * count('a') - 2) << order_;
  EXPECT_GE(count('c'), 2 * count('b') - 3) << order_;
}

TEST_F(TurnsTest, WhoAsksForLittleDoesNotWait) {
  scheduler_.begin(clock_.now);
  start("a", 100, kBudgetNs);
  start("b", 100, kBudgetNs);
  turn();
  EXPECT_GE(scheduler_.spent_ns(), kBudgetNs);
  start("s", 3, 1000);
  EXPECT_EQ(order_.substr(order_.size() - 3), "sss");
  // But not for ever: there is a ceiling.
  start("t", 1000, 1000);
  EXPECT_TRUE(clients_.back()->work.running());
  for (int i = 0; i < 1000; ++i) start("u", 1, 1000);
  EXPECT_LE(scheduler_.spent_ns(), FairScheduler::kCeiling * kBudgetNs);
  EXPECT_TRUE(clients_.back()->work.running());
  for (int i = 0; i < 100; ++i) turn();
  EXPECT_FALSE(clients_.back()->work.running());
}

// No more clients than allowed are inside transactions, where each holds something that others need.
TEST_F(TurnsTest, WhoAsksForMuchWaitsOutside) {
  scheduler_.begin(clock_.now);
  start("a", 10, kBudgetNs);
  start("b", 10, kBudgetNs);
  EXPECT_EQ(scheduler_.inside(), 2U);
  Client large;
  large.share.recent_cost_ns = kBudgetNs;
  EXPECT_TRUE(scheduler_.full(large.share));
  Client small;
  small.share.recent_cost_ns = 1000;
  EXPECT_FALSE(scheduler_.full(small.share));
}

TEST_F(TurnsTest, TheClockCorrectsTheEstimate) {
  scheduler_.begin(clock_.now);
  FairScheduler::Share share;
  clock_.now += 10 * kBudgetNs;
  scheduler_.charge_command(share, 10, "slow", true);
  EXPECT_TRUE(scheduler_.over(share));
  EXPECT_EQ(scheduler_.longest().what, "slow");
  EXPECT_EQ(scheduler_.longest().took_ns, 10 * kBudgetNs);
  EXPECT_EQ(scheduler_.longest().estimated_ns, 10U);
}

// A client that was expensive once, and idle since, does not queue behind those that are expensive now. Waiting counts
// as activity.
TEST_F(TurnsTest, WhatWasAskedForIsForgottenWithTime) {
  scheduler_.begin(clock_.now);
  for (const char* name : {"a", "b"}) start(name, 1000, kBudgetNs);  // they fill the places inside transactions
  FairScheduler::Share idle;
  Client& waits = start("w", 1, kBudgetNs, FairScheduler::WaitPoint::kBeforeTxn);
  waits.share.recent_cost_ns = idle.recent_cost_ns = 64 * FairScheduler::kSmallNs;
  EXPECT_TRUE(scheduler_.over(idle));
  EXPECT_TRUE(scheduler_.full(idle));
  clock_.now += 6 * FairScheduler::kHalfLifeNs;
  turn();
  scheduler_.over(idle);
  EXPECT_FALSE(scheduler_.full(idle));
  EXPECT_TRUE(scheduler_.full(waits.share));
}

}  // namespace
}  // namespace weft
