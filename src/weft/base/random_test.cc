#include "weft/base/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace weft {
namespace {

// A failing run is repeated from its seed, so the sequence may never change.
TEST(Random, SameSeedSameSequenceForEver) {
  Random a(42);
  Random b(42);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(a.next(), b.next());
  Random fixed(1);
  EXPECT_EQ(fixed.next(), 12966619160104079557U);
  EXPECT_EQ(fixed.next(), 9600361134598540522U);
}

TEST(Random, NeighbouringSeedsDiffer) {
  Random a(0);
  Random b(1);
  int equal = 0;
  for (int i = 0; i < 1000; ++i) equal += a.next() == b.next();
  EXPECT_EQ(equal, 0);
}

TEST(Random, BelowIsUniform) {
  Random random(3);
  constexpr int kDraws = 100'000;
  std::array<int, 10> counts{};
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t v = random.below(counts.size());
    ASSERT_LT(v, counts.size());
    ++counts[v];
  }
  for (const int n : counts) EXPECT_NEAR(n, kDraws / 10.0, 600);  // six deviations
  for (int i = 0; i < 100; ++i) EXPECT_EQ(random.below(1), 0U);
}

TEST(Random, BetweenIncludesBothEnds) {
  Random random(4);
  std::array<bool, 3> seen{};
  for (int i = 0; i < 200; ++i) {
    const uint64_t v = random.between(5, 7);
    ASSERT_GE(v, 5U);
    ASSERT_LE(v, 7U);
    seen[v - 5] = true;
  }
  EXPECT_TRUE(seen[0] && seen[1] && seen[2]);
  EXPECT_EQ(random.between(9, 9), 9U);
}

TEST(Random, ChanceAndUnit) {
  Random random(5);
  int hits = 0;
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    EXPECT_FALSE(random.chance(0));
    EXPECT_TRUE(random.chance(100));
    hits += random.chance(30);
    const double u = random.unit();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
  }
  EXPECT_NEAR(hits, 30'000, 900);
  EXPECT_NEAR(sum / 100'000, 0.5, 0.006);
}

}  // namespace
}  // namespace weft
