#include "weft/bench/crash.h"

#include <gtest/gtest.h>

namespace weft::bench {
namespace {

// Every slot is in use when the node dies, and all that was open comes to an end; the sum and the replicas are checked.
TEST(Crash, WhatIsOpenIsDecided) {
  CrashOptions options;
  options.cluster.nodes = 4;
  options.cluster.replicas = 3;
  options.cluster.workers = 2;
  options.cluster.limits.transactions_in_flight_max = 40;
  options.accounts = 4000;
  options.warmup_ms = 20;
  for (const char* protocol : {"dnl4", "dnl1", "drtmh"}) {
    std::string wrong;
    const auto crash = crash_once(options, protocol, 1, &wrong);
    ASSERT_TRUE(crash) << crash.error().text();
    EXPECT_EQ(wrong, "") << protocol;
    EXPECT_GT(crash->open, 0U);
    EXPECT_LE(crash->open, 4U * 2 * 40);
    EXPECT_LE(crash->committed, crash->interrupted);
    EXPECT_LE(crash->stopped_ms, crash->decided_ms);
    EXPECT_LE(crash->decided_ms, crash->written_ms);
    EXPECT_LE(crash->written_ms, crash->active_ms);
    EXPECT_LE(crash->first_ms, crash->last_first_ms);
  }
}

}  // namespace
}  // namespace weft::bench
