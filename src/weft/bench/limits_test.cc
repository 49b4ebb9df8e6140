#include "weft/bench/limits.h"

#include <gtest/gtest.h>

namespace weft::bench {
namespace {

TEST(Limits, EveryCostIsMeasured) {
  RealClock clock;
  const auto workload = make_workload("smallbank", {.keys = 1000});
  ASSERT_TRUE(workload);
  const MachineLimits limits = measure_limits(**workload, 4 << 20, 1, clock);
  EXPECT_EQ(limits.memory_bytes, uint64_t{4} << 20);
  EXPECT_GT(limits.message_ns, 0);
  EXPECT_GT(limits.touch_ns, 0);
  EXPECT_GT(limits.client_ns, 0);
}

Report counted() {
  Report report;
  report.workload = "micro-2-1";
  report.nodes = 5;
  report.replicas = 3;
  report.messages_per_txn = 10;
  report.touches_per_txn = 8;
  report.threads = 2;
  report.tps_median = 2 * 960'000;
  return report;
}

TEST(Limits, ThePossibleRateIsTheSumOfTheCosts) {
  const MachineLimits limits{.threads = 2, .memory_bytes = 1, .message_ns = 10, .touch_ns = 50, .client_ns = 20};
  const Attainable p = attainable(limits, counted());
  EXPECT_FALSE(p.needs.fixed);
  EXPECT_DOUBLE_EQ(p.ns, 100 + 400 + 20);
  EXPECT_DOUBLE_EQ(p.tps_per_core, 1e9 / 520);
  EXPECT_NEAR(p.reached, 0.4992, 1e-9);
}

TEST(Limits, WhatTheEngineSavesDoesNotMoveTheLimitOfThePage) {
  Report report = counted();
  report.workload = "smallbank";
  const Needs needs = needs_of(report);
  EXPECT_TRUE(needs.fixed);
  report.messages_per_txn = report.touches_per_txn = 1;
  EXPECT_EQ(needs_of(report).messages, needs.messages);
  EXPECT_EQ(needs_of(report).touches, needs.touches);
  report.replicas = 2;
  EXPECT_EQ(needs_of(report).messages, 1) << "another cluster needs something else";
}

}  // namespace
}  // namespace weft::bench
