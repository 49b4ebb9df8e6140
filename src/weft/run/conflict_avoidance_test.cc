#include "weft/run/conflict_avoidance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace weft {
namespace {

constexpr uint64_t kUnitNs = 2'700;

ConflictAvoidanceOptions all_on(uint32_t depth = 8) {
  return {.depth = depth, .unit_ns = kUnitNs, .backoff = true, .backoff_limit = true, .coroutine_credit = true};
}

// One worker's, in virtual time.
class ConflictAvoidanceTest : public testing::Test {
 protected:
  void make(const ConflictAvoidanceOptions& options) {
    avoidance_ = ConflictAvoidance(options);
    avoidance_.step(now_ns_);
  }

  // A millisecond in which this many attempts conflicted and operations ended, then its evaluation.
  bool epoch(int retries, int operations) {
    for (int i = 0; i < retries; ++i) avoidance_.count_retry();
    for (int i = 0; i < operations; ++i) avoidance_.count_operation();
    now_ns_ += ConflictAvoidance::kEpochNs;
    return avoidance_.step(now_ns_);
  }

  uint64_t delay(uint32_t retry) { return avoidance_.delay_ns(retry, now_ns_, random_); }

  uint64_t now_ns_ = 5'000'000'000;
  Random random_{1};
  ConflictAvoidance avoidance_;
};

TEST_F(ConflictAvoidanceTest, TheDelayDoublesUpToTheLimit) {
  make({.depth = 8, .unit_ns = kUnitNs, .backoff = true, .backoff_limit = false, .coroutine_credit = true});
  EXPECT_EQ(avoidance_.limit_ns(), 32 * kUnitNs);
  for (uint32_t retry = 0; retry < 100; ++retry) {
    const uint64_t base_ns = kUnitNs << std::min(retry, 5U);
    uint64_t low = UINT64_MAX, high = 0;
    for (int i = 0; i < 500; ++i) {
      const uint64_t ns = delay(retry);
      low = std::min(low, ns);
      high = std::max(high, ns);
    }
    EXPECT_GE(low, base_ns);
    EXPECT_LE(high, base_ns + kUnitNs);
    // Rand(t0) reaches both ends of its range, or nearly.
    EXPECT_LE(low, base_ns + kUnitNs / 20);
    EXPECT_GE(high, base_ns + kUnitNs - kUnitNs / 20);
  }
}

TEST_F(ConflictAvoidanceTest, TheSeedDecidesTheDelays) {
  make(all_on());
  std::vector<uint64_t> first, second;
  for (std::vector<uint64_t>* all : {&first, &second}) {
    random_ = Random(7);
    for (int i = 0; i < 20; ++i) all->push_back(delay(0));
  }
  EXPECT_EQ(first, second);
}

TEST_F(ConflictAvoidanceTest, ManyRetriesHalveTheCreditThenDoubleTheLimit) {
  make(all_on());
  std::vector<uint32_t> credits;
  std::vector<uint64_t> limits;
  for (int i = 0; i < 15; ++i) {
    EXPECT_FALSE(epoch(51, 49));
    credits.push_back(avoidance_.credit());
    limits.push_back(avoidance_.limit_ns() / kUnitNs);
  }
  EXPECT_EQ(credits, (std::vector<uint32_t>{4, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(limits, (std::vector<uint64_t>{1, 1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024}));
  EXPECT_EQ(avoidance_.limit_ns(), avoidance_.longest_limit_ns());
}

TEST_F(ConflictAvoidanceTest, FewRetriesDoubleTheCreditThenHalveTheLimit) {
  make(all_on());
  for (int i = 0; i < 5; ++i) epoch(1, 0);
  ASSERT_EQ(avoidance_.credit(), 1U);
  ASSERT_EQ(avoidance_.limit_ns(), 4 * kUnitNs);
  std::vector<uint32_t> credits;
  std::vector<uint64_t> limits;
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(epoch(9, 91), i < 3) << "true when more may begin than before";
    credits.push_back(avoidance_.credit());
    limits.push_back(avoidance_.limit_ns() / kUnitNs);
  }
  EXPECT_EQ(credits, (std::vector<uint32_t>{2, 4, 8, 8, 8, 8}));
  EXPECT_EQ(limits, (std::vector<uint64_t>{4, 4, 4, 2, 1, 1}));
}

TEST_F(ConflictAvoidanceTest, BetweenTheMarksNothingChanges) {
  make(all_on());
  for (int i = 0; i < 2; ++i) epoch(1, 0);
  for (const auto& [retries, operations] : {std::pair{1, 1}, {1, 9}, {50, 50}, {10, 90}, {3, 7}}) {
    epoch(retries, operations);
    EXPECT_EQ(avoidance_.credit(), 2U) << retries;
    EXPECT_EQ(avoidance_.limit_ns(), kUnitNs) << retries;
  }
}

TEST_F(ConflictAvoidanceTest, ADepthThatIsNoPowerOfTwoIsReachedAndNotExceeded) {
  make(all_on(50));
  std::vector<uint32_t> credits;
  for (int i = 0; i < 6; ++i) epoch(1, 0), credits.push_back(avoidance_.credit());
  for (int i = 0; i < 6; ++i) epoch(0, 1), credits.push_back(avoidance_.credit());
  EXPECT_EQ(credits, (std::vector<uint32_t>{25, 12, 6, 3, 1, 1, 2, 4, 8, 16, 32, 50}));
}

// I1, I2 and I3, whatever happens.
TEST_F(ConflictAvoidanceTest, OneStepChangesOneOfThemByAFactorOfTwo) {
  make(all_on(13));
  Random draws(3);
  for (int i = 0; i < 20'000; ++i) {
    const uint32_t credit = avoidance_.credit();
    const uint64_t limit_ns = avoidance_.limit_ns();
    // Phases of contention and of calm, so that both ends are reached.
    const bool hot = i / 40 % 2 == 0;
    epoch(static_cast<int>(draws.below(hot ? 30 : 2)), static_cast<int>(draws.below(hot ? 10 : 30)));
    EXPECT_FALSE(avoidance_.credit() != credit && avoidance_.limit_ns() != limit_ns);
    EXPECT_GE(avoidance_.credit(), std::max(credit / 2, 1U));
    EXPECT_LE(avoidance_.credit(), std::min(credit * 2 + 1, 13U));
    EXPECT_GE(avoidance_.limit_ns(), std::max(limit_ns / 2, kUnitNs));
    EXPECT_LE(avoidance_.limit_ns(), std::min(limit_ns * 2, 1024 * kUnitNs));
  }
}

TEST_F(ConflictAvoidanceTest, OneEvaluationAMillisecond) {
  make(all_on());
  for (int i = 0; i < 10; ++i) {
    avoidance_.count_retry();
    now_ns_ += ConflictAvoidance::kEpochNs / 10 - 1;
    EXPECT_FALSE(avoidance_.step(now_ns_));
    EXPECT_EQ(avoidance_.credit(), 8U);
  }
  now_ns_ += 10;
  EXPECT_EQ(now_ns_, avoidance_.due_ns());
  avoidance_.step(now_ns_);
  EXPECT_EQ(avoidance_.credit(), 4U);
}

// I4.
TEST_F(ConflictAvoidanceTest, AnIdleWorkerFindsItsCreditAgain) {
  make(all_on());
  for (int i = 0; i < 5; ++i) epoch(1, 0);
  now_ns_ += 100 * ConflictAvoidance::kEpochNs;
  EXPECT_TRUE(avoidance_.step(now_ns_)) << "in one call: nobody wakes an idle worker";
  EXPECT_EQ(avoidance_.credit(), 8U);
  EXPECT_EQ(avoidance_.limit_ns(), kUnitNs);
  EXPECT_GT(avoidance_.due_ns(), now_ns_);
  EXPECT_LE(avoidance_.due_ns(), now_ns_ + ConflictAvoidance::kEpochNs);
}

TEST_F(ConflictAvoidanceTest, WhileNothingEndsNothingIsDecided) {
  make(all_on());
  for (int i = 0; i < 5; ++i) epoch(1, 0);
  avoidance_.begin();
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(epoch(0, 0));
  EXPECT_EQ(avoidance_.credit(), 1U) << "one is in progress";
  avoidance_.end();
  const uint64_t until_ns = now_ns_ + avoidance_.delay_ns(10, now_ns_, random_);
  while (now_ns_ + ConflictAvoidance::kEpochNs < until_ns) EXPECT_FALSE(epoch(0, 0));
  EXPECT_EQ(avoidance_.credit(), 1U) << "one backs off";
  EXPECT_TRUE(epoch(0, 0));
  EXPECT_EQ(avoidance_.credit(), 2U);
}

TEST_F(ConflictAvoidanceTest, CreditBoundsWhatIsInProgress) {
  make(all_on(4));
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(avoidance_.may_begin());
    avoidance_.begin();
  }
  EXPECT_FALSE(avoidance_.may_begin());
  epoch(1, 0);  // two more than there may be: they go on, and nobody begins
  avoidance_.end();
  avoidance_.end();
  EXPECT_FALSE(avoidance_.may_begin());
  avoidance_.end();
  EXPECT_TRUE(avoidance_.may_begin());
}

TEST_F(ConflictAvoidanceTest, EachPartCanBeOff) {
  ConflictAvoidanceOptions options = all_on();
  options.coroutine_credit = false;
  make(options);
  epoch(1, 0);
  EXPECT_EQ(avoidance_.credit(), 8U);
  EXPECT_EQ(avoidance_.limit_ns(), 2 * kUnitNs) << "without credit the limit follows the rate at once";
  epoch(0, 1);
  EXPECT_EQ(avoidance_.limit_ns(), kUnitNs);

  options = all_on();
  options.backoff_limit = false;
  make(options);
  for (int i = 0; i < 9; ++i) epoch(1, 0);
  EXPECT_EQ(avoidance_.credit(), 1U);
  EXPECT_EQ(avoidance_.limit_ns(), 32 * kUnitNs);

  options = all_on();
  options.backoff = false;
  make(options);
  epoch(1, 0);
  EXPECT_EQ(avoidance_.credit(), 4U);
  EXPECT_EQ(delay(3), 0U);

  make({.depth = 8});
  EXPECT_EQ(avoidance_.due_ns(), UINT64_MAX);
  epoch(1, 0);
  EXPECT_EQ(avoidance_.credit(), 8U);
  EXPECT_EQ(delay(0), 0U);
}

TEST_F(ConflictAvoidanceTest, TheUnitIsTheShortestRoundTripOfTheLastSecond) {
  ConflictAvoidanceOptions options = all_on();
  options.unit_ns = 0;
  make(options);
  ASSERT_TRUE(avoidance_.measures());
  EXPECT_EQ(avoidance_.unit_ns(), ConflictAvoidance::kUnknownUnitNs);
  avoidance_.note_round_trip(now_ns_ - 9'000, now_ns_);
  avoidance_.note_round_trip(now_ns_ - 31'000, now_ns_);
  avoidance_.note_round_trip(now_ns_, now_ns_);  // within one step: not measured
  for (int i = 0; i < 5; ++i) epoch(1, 0);
  EXPECT_EQ(avoidance_.unit_ns(), 9'000U);
  EXPECT_EQ(avoidance_.limit_ns(), 36'000U) << "the limit is a multiple of the unit";
  for (int ms = 0; ms < 1'100; ++ms) {
    avoidance_.note_round_trip(now_ns_ - 20'000, now_ns_);
    epoch(1, 2);
    if (ms < 800) {
      EXPECT_EQ(avoidance_.unit_ns(), 9'000U);
    }
  }
  EXPECT_EQ(avoidance_.unit_ns(), 20'000U);
  EXPECT_EQ(avoidance_.limit_ns(), 80'000U);
  now_ns_ += 5'000'000'000;
  epoch(1, 2);
  EXPECT_EQ(avoidance_.unit_ns(), 20'000U) << "without a round trip the last one stands";
}

TEST_F(ConflictAvoidanceTest, AMeasuredUnitHasBounds) {
  ConflictAvoidanceOptions options = all_on();
  options.unit_ns = 0;
  make(options);
  avoidance_.note_round_trip(now_ns_ - 3, now_ns_);
  epoch(0, 1);
  EXPECT_EQ(avoidance_.unit_ns(), ConflictAvoidance::kUnitNsMin);
  now_ns_ += 2'000'000'000;
  avoidance_.note_round_trip(now_ns_ - 800'000'000, now_ns_);
  epoch(0, 1);
  EXPECT_EQ(avoidance_.unit_ns(), ConflictAvoidance::kUnitNsMax);
}

TEST(RoundTrips, AgreesWithAllThatWereMeasured) {
  RoundTrips trips;
  struct Trip {
    uint64_t at_ns, ns;
  };
  std::vector<Trip> all;
  Random random(1);
  uint64_t now_ns = 10'000'000'000;
  for (int i = 0; i < 5'000; ++i) {
    now_ns += random.below(i % 500 == 0 ? 3'000'000'000 : 30'000'000);
    const uint64_t ns = 1 + random.below(50'000);
    trips.note(ns, now_ns);
    all.push_back({now_ns, ns});
    uint64_t sure_ns = UINT64_MAX, possible_ns = UINT64_MAX;  // of 0.9 s, and of 1 s
    for (const Trip& trip : all) {
      if (trip.at_ns + 900'000'000 >= now_ns) sure_ns = std::min(sure_ns, trip.ns);
      if (trip.at_ns + 1'000'000'000 >= now_ns) possible_ns = std::min(possible_ns, trip.ns);
    }
    EXPECT_LE(trips.shortest_ns(now_ns), sure_ns);
    EXPECT_GE(trips.shortest_ns(now_ns), possible_ns);
  }
  EXPECT_EQ(trips.shortest_ns(now_ns + 1'000'000'000), UINT64_MAX);
}

}  // namespace
}  // namespace weft
