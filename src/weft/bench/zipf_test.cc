#include "weft/bench/zipf.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft::bench {
namespace {

constexpr int kZipfDraws = 100'000;

// The naive twin: the shares that the formula gives.
std::vector<double> shares(uint64_t n, double alpha) {
  std::vector<double> out(n);
  double sum = 0;
  for (uint64_t k = 0; k < n; ++k) sum += out[k] = 1 / std::pow(static_cast<double>(k + 1), alpha);
  for (double& share : out) share /= sum;
  return out;
}

TEST(Zipf, DrawsByTheFormula) {
  for (const uint64_t n : {1U, 2U, 3U, 40U}) {
    for (const double alpha : {0.0, 0.5, 0.99}) {
      const Zipf zipf(n, alpha);
      Random random(n);
      std::vector<int> seen(n);
      for (int i = 0; i < kZipfDraws; ++i) {
        const uint64_t k = zipf.draw(random);
        ASSERT_LT(k, n);
        ++seen[k];
      }
      const std::vector<double> expected = shares(n, alpha);
      for (uint64_t k = 0; k < n; ++k) {  // to within one per cent of all: more than six standard deviations
        EXPECT_NEAR(static_cast<double>(seen[k]) / kZipfDraws, expected[k], 0.01) << n << " " << alpha << " " << k;
      }
    }
  }
}

// Where a table would be large: at alpha 0.5 the first quarter of the numbers has half of the draws.
TEST(Zipf, ManyNumbers) {
  constexpr uint64_t kMany = uint64_t{1} << 36;
  const Zipf zipf(kMany, 0.5);
  Random random(1);
  int low = 0;
  for (int i = 0; i < kZipfDraws; ++i) {
    const uint64_t k = zipf.draw(random);
    ASSERT_LT(k, kMany);
    low += k < kMany / 4 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(low) / kZipfDraws, 0.5, 0.01);
}

}  // namespace
}  // namespace weft::bench
