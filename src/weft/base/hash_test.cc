#include "weft/base/hash.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "weft/base/random.h"

namespace weft {
namespace {

TEST(Hash, EachBitMovesHalfOfTheOthers) {
  Random random(1);
  constexpr int kSamples = 2000;
  for (int bit = 0; bit < 64; ++bit) {
    int flipped = 0;
    for (int i = 0; i < kSamples; ++i) {
      const uint64_t key = random.next();
      flipped += std::popcount(hash_u64(key, 7) ^ hash_u64(key ^ (uint64_t{1} << bit), 7));
    }
    EXPECT_NEAR(flipped / static_cast<double>(kSamples), 32.0, 1.0) << "bit " << bit;
  }
}

// Keys are often 0, 1, 2, ...: their bins must not be.
TEST(Hash, SequentialKeysSpread) {
  constexpr uint32_t kBins = 1024;
  constexpr uint32_t kKeys = kBins * 64;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{0x123456789abcdef}}) {
    std::vector<int> bins(kBins);
    for (uint64_t key = 0; key < kKeys; ++key) {
      const uint32_t bin = reduce(hash_u64(key, seed), kBins);
      ASSERT_LT(bin, kBins);
      ++bins[bin];
    }
    double chi_squared = 0;
    for (const int n : bins) chi_squared += (n - 64.0) * (n - 64.0) / 64.0;
    // 1023 degrees of freedom: mean 1023, deviation 45; far above means a bad spread.
    EXPECT_LT(chi_squared, 1023 + 6 * 45.0) << "seed " << seed;
  }
}

TEST(Hash, SeedsAndLengthsMatter) {
  EXPECT_NE(hash_u64(1, 1), hash_u64(1, 2));
  const std::string text(100, 'x');
  EXPECT_NE(hash_bytes(text.data(), 10, 1), hash_bytes(text.data(), 10, 2));
  EXPECT_NE(hash_bytes(text.data(), 10, 1), hash_bytes(text.data(), 11, 1));
  EXPECT_EQ(hash_bytes(text.data(), 10, 1), hash_bytes(text.data() + 50, 10, 1));
}

// Nodes of one cluster place keys alike, whatever they were built with: the values are part of the wire format.
TEST(Hash, ValuesAreFixed) {
  EXPECT_EQ(mix64(0), 0U);
  EXPECT_EQ(mix64(1), 0x4179b061e0c0e0d0U);
  EXPECT_EQ(hash_bytes("weft", 4, 1), 4258571893682056697U);
}

TEST(Hash, ReduceStaysBelow) {
  EXPECT_EQ(reduce(~uint64_t{0}, 7), 6U);
  EXPECT_EQ(reduce(0, 7), 0U);
  EXPECT_EQ(reduce(~uint64_t{0}, 1), 0U);
}

}  // namespace
}  // namespace weft
