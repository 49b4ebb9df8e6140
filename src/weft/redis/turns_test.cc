#include "weft/redis/turns.h"

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
    Turns::Share share;
    OwnedTask work;
  };

  // Does so many steps of so much work each, and notes itself in order_ for each.
  Task<void> works(Client* client, int steps, uint64_t ns, Turns::Where where) {
    for (int i = 0; i < steps; ++i) {
      if (turns_.over(client->share)) co_await turns_.wait(client->share, where);
      order_ += client->name;
      turns_.charge_command(client->share, ns, client->name);
    }
  }
  Client& start(const std::string& name, int steps, uint64_t ns, Turns::Where where = Turns::Where::kInside) {
    clients_.push_back(std::make_unique<Client>());
    Client& client = *clients_.back();
    client.name = name;
    client.work = OwnedTask::of(works(&client, steps, ns, where));
    client.work.start();
    return client;
  }
  void turn() {
    order_ += '|';
    turns_.begin(clock_.now);
    turns_.go_on();
  }

  StillClock clock_;
  Worker worker_{&clock_, nullptr, 8, 8};
  Turns turns_{kBudgetNs, 2, &worker_};
  std::string order_;
  std::vector<std::unique_ptr<Client>> clients_;
};

TEST_F(TurnsTest, WhatIsLeftGoesOnNextTurn) {
  turns_.begin(clock_.now);
  start("a", 5, kBudgetNs / 2);
  EXPECT_EQ(order_, "aa");
  turn();
  turn();
  EXPECT_EQ(order_, "aa|aa|a");
  EXPECT_FALSE(clients_[0]->work.running());
}

TEST_F(TurnsTest, WhoHadLeastGoesOnFirst) {
  turns_.begin(clock_.now);
  start("a", 20, kBudgetNs);
  start("b", 20, kBudgetNs / 2);  // what it costs is not known before, so it goes on once
  start("c", 20, kBudgetNs / 4);
  for (int i = 0; i < 9; ++i) turn();
  const auto count = [&](char c) { return std::count(order_.begin(), order_.end(), c); };
  // Shares are equal, so who asks for less each time has more turns.
  EXPECT_GE(count('b'), 2 * count('a') - 2) << order_;
  EXPECT_GE(count('c'), 2 * count('b') - 3) << order_;
}

TEST_F(TurnsTest, WhoAsksForLittleDoesNotWait) {
  turns_.begin(clock_.now);
  start("a", 100, kBudgetNs);
  start("b", 100, kBudgetNs);
  turn();
  EXPECT_GE(turns_.spent_ns(), kBudgetNs);
  start("s", 3, 1000);
  EXPECT_EQ(order_.substr(order_.size() - 3), "sss");
  // But not for ever: there is a ceiling.
  start("t", 1000, 1000);
  EXPECT_TRUE(clients_.back()->work.running());
  for (int i = 0; i < 1000; ++i) start("u", 1, 1000);
  EXPECT_LE(turns_.spent_ns(), Turns::kCeiling * kBudgetNs);
  EXPECT_TRUE(clients_.back()->work.running());
  for (int i = 0; i < 100; ++i) turn();
  EXPECT_FALSE(clients_.back()->work.running());
}

// No more are inside, each with something that others need, than there may be.
TEST_F(TurnsTest, WhoAsksForMuchWaitsOutside) {
  turns_.begin(clock_.now);
  start("a", 10, kBudgetNs);
  start("b", 10, kBudgetNs);
  EXPECT_EQ(turns_.inside(), 2U);
  Client large;
  large.share.lately_ns = kBudgetNs;
  EXPECT_TRUE(turns_.full(large.share));
  Client small;
  small.share.lately_ns = 1000;
  EXPECT_FALSE(turns_.full(small.share));
}

TEST_F(TurnsTest, TheClockCorrectsTheEstimate) {
  turns_.begin(clock_.now);
  Turns::Share share;
  clock_.now += 10 * kBudgetNs;
  turns_.charge_command(share, 10, "slow", true);
  EXPECT_TRUE(turns_.over(share));
  EXPECT_EQ(turns_.longest().what, "slow");
  EXPECT_EQ(turns_.longest().took_ns, 10 * kBudgetNs);
  EXPECT_EQ(turns_.longest().estimated_ns, 10U);
}

// Who once asked for much, and for nothing since, does not queue up behind those who do now. To wait is to ask.
TEST_F(TurnsTest, WhatWasAskedForIsForgottenWithTime) {
  turns_.begin(clock_.now);
  for (const char* name : {"a", "b"}) start(name, 1000, kBudgetNs);  // they fill the places inside
  Turns::Share idle;
  Client& waits = start("w", 1, kBudgetNs, Turns::Where::kOutside);
  waits.share.lately_ns = idle.lately_ns = 64 * Turns::kSmallNs;
  EXPECT_TRUE(turns_.over(idle));
  EXPECT_TRUE(turns_.full(idle));
  clock_.now += 6 * Turns::kForgetNs;
  turn();
  turns_.over(idle);
  EXPECT_FALSE(turns_.full(idle));
  EXPECT_TRUE(turns_.full(waits.share));
}

}  // namespace
}  // namespace weft
