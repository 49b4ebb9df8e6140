#include "weft/redis/guesses.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace weft {
namespace {

constexpr uint64_t kLeak = Guesses::kLeakNs;

TEST(Guesses, TheDelayGrowsToItsLimit) {
  EXPECT_EQ(Guesses::delay_ns(0), 0U);
  uint64_t before = 0;
  for (uint32_t n = 1; n < 100; ++n) {
    const uint64_t delay = Guesses::delay_ns(n);
    EXPECT_TRUE(delay > before || delay == Guesses::kDelayNsMax) << n;
    EXPECT_LE(delay, Guesses::kDelayNsMax);
    before = delay;
  }
  EXPECT_EQ(Guesses::delay_ns(UINT32_MAX), Guesses::kDelayNsMax);
}

TEST(Guesses, AFewCostNothingAndTimeForgives) {
  Guesses guesses;
  const uint64_t now = 100 * kLeak;
  for (uint32_t n = 0; n < Guesses::kFree; ++n) {
    guesses.wrong(1, now);
    EXPECT_EQ(guesses.delay_of(1, now), 0U) << n;
  }
  guesses.wrong(1, now);
  EXPECT_EQ(guesses.delay_of(1, now), Guesses::kDelayNs);
  guesses.wrong(1, now);
  EXPECT_EQ(guesses.delay_of(1, now), 2 * Guesses::kDelayNs);
  EXPECT_EQ(guesses.delay_of(2, now), 0U);
  EXPECT_EQ(guesses.delay_of(1, now + kLeak), Guesses::kDelayNs);
  EXPECT_EQ(guesses.delay_of(1, now + 2 * kLeak), 0U);
  // However many there were.
  for (int n = 0; n < 10'000; ++n) guesses.wrong(1, now);
  EXPECT_EQ(guesses.delay_of(1, now), Guesses::kDelayNsMax);
  EXPECT_EQ(guesses.delay_of(1, now + Guesses::kFull * kLeak), 0U);
}

// A program with an old password, which tries again every second.
TEST(Guesses, WhoTriesOnceASecondSlowsNobodyDown) {
  Guesses guesses;
  for (uint64_t second = 1; second < 1000; ++second) {
    guesses.wrong(1, second * kLeak);
    EXPECT_EQ(guesses.delay_of(1, second * kLeak), 0U);
  }
}

// Sources beyond what the table holds take the place of those that did little.
TEST(Guesses, ManySourcesDoNotHideTheWorst) {
  Guesses guesses;
  const uint64_t now = 100 * kLeak;
  for (int n = 0; n < 100; ++n) guesses.wrong(1, now);
  for (uint64_t source = 2; source < 100'000; ++source) guesses.wrong(source, now);
  EXPECT_EQ(guesses.delay_of(1, now), Guesses::kDelayNsMax);
}

}  // namespace
}  // namespace weft
