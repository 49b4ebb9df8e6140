#include "weft/bench/limits.h"

#include <gtest/gtest.h>

namespace weft::bench {
namespace {

TEST(Limits, EveryCostIsMeasured) {
  RealClock clock;
  const MachineLimits limits = measure_limits(4 << 20, 1, clock);
  EXPECT_EQ(limits.memory_bytes, uint64_t{4} << 20);
  EXPECT_GT(limits.message_ns, 0);
  EXPECT_GT(limits.touch_ns, 0);
  EXPECT_GT(limits.switch_ns, 0);
}

TEST(Limits, ThePossibleRateIsTheSumOfTheCosts) {
  const MachineLimits limits{.threads = 2, .memory_bytes = 1, .message_ns = 10, .touch_ns = 50, .switch_ns = 5};
  Report report;
  report.messages_per_txn = 10;
  report.touches_per_txn = 8;
  report.attempts_per_txn = 1;
  report.threads = 2;
  report.tps_median = 2 * 960'000;
  const Attainable p = attainable(limits, report);
  EXPECT_DOUBLE_EQ(p.ns, 100 + 400 + 4 * 5);
  EXPECT_DOUBLE_EQ(p.tps_per_core, 1e9 / 520);
  EXPECT_NEAR(p.reached, 0.4992, 1e-9);
}

}  // namespace
}  // namespace weft::bench
