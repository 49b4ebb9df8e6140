#include "weft/redis/password_throttle.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace weft {
namespace {

constexpr uint64_t kLeak = PasswordThrottle::kLeakNs;

TEST(PasswordThrottle, TheDelayGrowsToItsLimit) {
  EXPECT_EQ(PasswordThrottle::delay_ns(0), 0U);
  uint64_t before = 0;
  for (uint32_t n = 1; n < 100; ++n) {
    const uint64_t delay = PasswordThrottle::delay_ns(n);
    EXPECT_TRUE(delay > before || delay == PasswordThrottle::kDelayNsMax) << n;
    EXPECT_LE(delay, PasswordThrottle::kDelayNsMax);
    before = delay;
  }
  EXPECT_EQ(PasswordThrottle::delay_ns(UINT32_MAX), PasswordThrottle::kDelayNsMax);
}

TEST(PasswordThrottle, AFewCostNothingAndTimeForgives) {
  PasswordThrottle guesses;
  const uint64_t now = 100 * kLeak;
  for (uint32_t n = 0; n < PasswordThrottle::kFree; ++n) {
    guesses.wrong(1, now);
    EXPECT_EQ(guesses.delay_of(1, now), 0U) << n;
  }
  guesses.wrong(1, now);
  EXPECT_EQ(guesses.delay_of(1, now), PasswordThrottle::kDelayNs);
  guesses.wrong(1, now);
  EXPECT_EQ(guesses.delay_of(1, now), 2 * PasswordThrottle::kDelayNs);
  EXPECT_EQ(guesses.delay_of(2, now), 0U);
  EXPECT_EQ(guesses.delay_of(1, now + kLeak), PasswordThrottle::kDelayNs);
  EXPECT_EQ(guesses.delay_of(1, now + 2 * kLeak), 0U);
  // However many there were.
  for (int n = 0; n < 10'000; ++n) guesses.wrong(1, now);
  EXPECT_EQ(guesses.delay_of(1, now), PasswordThrottle::kDelayNsMax);
  EXPECT_EQ(guesses.delay_of(1, now + PasswordThrottle::kFull * kLeak), 0U);
}

// A program with an old password that retries every second.
TEST(PasswordThrottle, WhoTriesOnceASecondSlowsNobodyDown) {
  PasswordThrottle guesses;
  for (uint64_t second = 1; second < 1000; ++second) {
    guesses.wrong(1, second * kLeak);
    EXPECT_EQ(guesses.delay_of(1, second * kLeak), 0U);
  }
}

// Sources beyond the table's size replace those with few wrong passwords.
TEST(PasswordThrottle, ManySourcesDoNotHideTheWorst) {
  PasswordThrottle guesses;
  const uint64_t now = 100 * kLeak;
  for (int n = 0; n < 100; ++n) guesses.wrong(1, now);
  for (uint64_t source = 2; source < 100'000; ++source) guesses.wrong(source, now);
  EXPECT_EQ(guesses.delay_of(1, now), PasswordThrottle::kDelayNsMax);
}

}  // namespace
}  // namespace weft
