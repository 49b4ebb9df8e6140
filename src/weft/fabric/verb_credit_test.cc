// VerbCredit in virtual time: what Algorithm 1 says, what it leaves open, and a NIC whose throughput is best at one
// limit.
#include "weft/fabric/verb_credit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace weft {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kPeriod = 8 * kMs;
constexpr uint64_t kEpoch = 65 * kPeriod;

// Completes as many verbs as `per_period` says for the limit in force, once per period; one waits for credit.
template <class F>
std::vector<uint32_t> limits_of_an_epoch(VerbCredit& credit, uint64_t begin_ns, F per_period, bool waits = true) {
  std::vector<uint32_t> limits;
  for (uint64_t period = 0; period < 65; ++period) {
    credit.step(begin_ns + period * kPeriod);
    limits.push_back(credit.limit());
    const uint64_t completions = per_period(credit.limit());
    credit.take(completions);
    credit.give_back(completions, true);
    if (waits) credit.note_shortage();
  }
  return limits;
}

TEST(VerbCredit, AnEpochMeasuresEachLimitForAPeriodAndKeepsTheBestForSixty) {
  VerbCredit credit{VerbCreditOptions()};
  const auto best_at_8 = [](uint32_t limit) { return limit == 8 ? 2000U : 1500U; };
  std::vector<uint32_t> expected = {4, 6, 8, 10, 12};
  expected.resize(65, 8);
  EXPECT_EQ(limits_of_an_epoch(credit, kMs, best_at_8), expected);
  const auto best_at_4 = [](uint32_t limit) { return 3000 - limit; };
  std::fill(expected.begin() + 5, expected.end(), 4);
  EXPECT_EQ(limits_of_an_epoch(credit, kMs + kEpoch, best_at_4), expected);
}

TEST(VerbCredit, OfEqualLimitsTheLowestIsKept) {
  VerbCredit credit{VerbCreditOptions()};
  EXPECT_EQ(limits_of_an_epoch(credit, 0, [](uint32_t limit) { return limit == 12 ? 1500U : 2000U; }).back(), 4U);
}

TEST(VerbCredit, AnIdleWorkerDecidesNothing) {
  VerbCredit credit{VerbCreditOptions()};
  limits_of_an_epoch(credit, 0, [](uint32_t limit) { return limit == 6 ? 2000U : 1500U; });
  // Too few verbs to tell.
  const auto few = limits_of_an_epoch(credit, kEpoch, [](uint32_t limit) { return limit == 12 ? 999U : 998U; });
  EXPECT_EQ(few[4], 12U);
  EXPECT_EQ(few[5], 6U);
  EXPECT_EQ(few.back(), 6U);
  // Nothing to do at all: the other limits are not measured.
  const auto idle = limits_of_an_epoch(
      credit, 2 * kEpoch, [](uint32_t) { return 0U; }, false);
  EXPECT_EQ(idle[0], 4U);
  EXPECT_EQ(idle[1], 6U);
  EXPECT_EQ(idle.back(), 6U);
}

TEST(VerbCredit, ALimitThatLetsFewCompleteIsNotIdleness) {
  VerbCredit credit{VerbCreditOptions()};
  EXPECT_EQ(limits_of_an_epoch(credit, 0, [](uint32_t limit) { return limit == 4 ? 2000U : 10U; }).back(), 4U);
}

TEST(VerbCredit, AWorkerWhoseVerbsNeverWaitDecidesNothing) {
  VerbCredit credit{VerbCreditOptions()};
  EXPECT_EQ(limits_of_an_epoch(
                credit, 0, [](uint32_t limit) { return 2000U - limit; }, false)
                .back(),
            12U);
}

TEST(VerbCredit, APeriodThatEndsLateCountsByItsRate) {
  VerbCredit credit{VerbCreditOptions()};
  uint64_t now_ns = 0;
  const auto period = [&](uint64_t completions, uint64_t lasts) {
    credit.step(now_ns);
    credit.take(completions);
    credit.give_back(completions, true);
    credit.note_shortage();
    now_ns += lasts;
  };
  period(2000, kPeriod);
  period(3000, 2 * kPeriod);  // the worker slept
  period(2100, kPeriod);
  period(1500, kPeriod);
  period(1500, kPeriod);
  credit.step(now_ns);
  EXPECT_EQ(credit.limit(), 8U);
}

TEST(VerbCredit, WhatWasRefusedOrGivenUpIsNotThroughput) {
  VerbCredit credit{VerbCreditOptions()};
  const auto refused_at_4 = [&](uint32_t limit) {
    credit.take(5000);
    credit.give_back(5000, limit != 4);
    return limit == 4 ? 2000U : 0U;
  };
  EXPECT_EQ(limits_of_an_epoch(credit, 0, refused_at_4).back(), 6U);
}

TEST(VerbCredit, ALowerLimitLetsNothingBePostedUntilEnoughIsComplete) {
  VerbCreditOptions options;
  VerbCredit credit(options);
  credit.take(12);
  EXPECT_FALSE(credit.allows(0, 1, false));
  credit.step(0);
  ASSERT_EQ(credit.limit(), 4U);
  for (; credit.in_flight() > 4; credit.give_back(1, true)) {
    EXPECT_FALSE(credit.allows(0, 1, false));
    EXPECT_FALSE(credit.allows(0, 1, true)) << "not even urgent ones";
  }
  EXPECT_FALSE(credit.allows(0, 1, false));
  EXPECT_TRUE(credit.allows(0, 32, true)) << "these overdraw by a batch";
  credit.give_back(1, true);
  EXPECT_TRUE(credit.allows(0, 1, false));
  EXPECT_FALSE(credit.allows(1, 1, false));
}

TEST(VerbCredit, AFixedLimitStays) {
  VerbCredit credit(VerbCreditOptions{.limit = 3});
  EXPECT_EQ(limits_of_an_epoch(credit, 0, [](uint32_t) { return 5000U; }), std::vector<uint32_t>(65, 3));
  EXPECT_TRUE(credit.allows(0, 9, false)) << "more than may ever be in flight goes when nothing is";
  EXPECT_FALSE(credit.allows(1, 9, false));
}

// Workers that always have something to post, and the NIC that they share. It completes more the more is in flight, up
// to what it caches; beyond that every miss costs it time.
class Nic {
 public:
  static constexpr size_t kWorkers = 4;
  static constexpr uint64_t kTickNs = 1000;

  void run(uint64_t until_ns, uint32_t cached_a_worker) {
    for (; now_ns_ < until_ns; now_ns_ += kTickNs) {
      size_t in_flight = 0;
      for (const VerbCredit& credit : credits_) in_flight += credit.in_flight();
      const size_t cached = cached_a_worker * kWorkers;
      // In thousandths of a verb per tick.
      work_ += std::min(in_flight, cached) * 60 - (in_flight > cached ? (in_flight - cached) * 20 : 0);
      for (; work_ >= 1000 && in_flight != 0; work_ -= 1000, --in_flight) complete_one();
      for (VerbCredit& credit : credits_) {
        credit.step(now_ns_);
        while (credit.allows(0, 1, false)) credit.take(1);
        credit.note_shortage();
      }
    }
  }
  uint32_t limit(size_t worker) const { return credits_[worker].limit(); }

 private:
  void complete_one() {
    do next_ = (next_ + 1) % kWorkers;
    while (credits_[next_].in_flight() == 0);
    credits_[next_].give_back(1, true);
  }

  std::vector<VerbCredit> credits_ = std::vector<VerbCredit>(kWorkers, VerbCredit(VerbCreditOptions()));
  uint64_t now_ns_ = 0;
  uint64_t work_ = 0;
  size_t next_ = 0;
};

TEST(VerbCredit, FindsTheBestLimitAndFollowsTheLoadWithinAnEpoch) {
  for (const uint32_t best : VerbCredit::kLimits) {
    Nic nic;
    nic.run(6 * kPeriod, best);
    for (size_t w = 0; w < Nic::kWorkers; ++w) EXPECT_EQ(nic.limit(w), best);
    const uint32_t later = best == 4 ? 12 : 4;
    nic.run(40 * kPeriod, later);
    for (size_t w = 0; w < Nic::kWorkers; ++w) EXPECT_EQ(nic.limit(w), best) << "it is stable for 60 periods";
    nic.run(kEpoch + 6 * kPeriod, later);
    for (size_t w = 0; w < Nic::kWorkers; ++w) EXPECT_EQ(nic.limit(w), later);
  }
}

}  // namespace
}  // namespace weft
