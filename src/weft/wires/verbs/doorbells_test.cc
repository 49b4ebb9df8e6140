#include "weft/wires/verbs/doorbells.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace weft {
namespace {

TEST(Doorbells, AreGivenInOrderOfCreation) {
  constexpr DoorbellRegisters kMlx5;
  static_assert(kMlx5.count() == 16);
  static_assert(kMlx5.of(0) == 0 && kMlx5.of(3) == 3, "low latency: one queue pair each");
  static_assert(kMlx5.of(4) == 4 && kMlx5.of(15) == 15 && kMlx5.of(16) == 4 && kMlx5.of(27) == 15 && kMlx5.of(28) == 4);
}

// The outlier of SMART's figures: with 48 threads the two queue pairs of each thread are 48 apart, a multiple of 12,
// and come to the same register; with one thread more or less they do not, and twice as many threads share one.
TEST(Doorbells, ThreadsThatShareOneAsInSmart) {
  for (const auto& [threads, sharing] :
       {std::pair(47U, 8U), std::pair(48U, 4U), std::pair(49U, 8U), std::pair(72U, 6U), std::pair(96U, 8U)}) {
    EXPECT_EQ(threads_on_one_doorbell({}, threads, 2), sharing) << threads << " threads";
  }
}

TEST(Doorbells, FewThreadsShareNothing) {
  EXPECT_EQ(threads_on_one_doorbell({}, 0, 2), 0U);
  EXPECT_EQ(threads_on_one_doorbell({}, 8, 2), 1U) << "16 queue pairs";
  EXPECT_EQ(threads_on_one_doorbell({}, 16, 1), 1U);
  EXPECT_EQ(threads_on_one_doorbell({}, 17, 1), 2U);
  const std::vector<uint32_t> one_thread(100, 7);
  EXPECT_EQ(threads_on_one_doorbell({}, one_thread), 1U);
}

// As a driver that is told to have more of them (MLX5_TOTAL_UUARS).
TEST(Doorbells, MoreRegistersAreSharedByFewer) {
  EXPECT_EQ(threads_on_one_doorbell({.low_latency = 4, .medium = 124}, 96, 2), 2U);
  EXPECT_EQ(threads_on_one_doorbell({.low_latency = 4, .medium = 508}, 96, 2), 1U);
}

}  // namespace
}  // namespace weft
