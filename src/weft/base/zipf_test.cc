#include "weft/base/zipf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace weft {
namespace {

constexpr int kZipfDraws = 100'000;
constexpr double kThetas[] = {0, 0.5, 0.99, 1 - 1e-9, 1, 1 + 1e-9, 1.01, 1.5, 2};

// The naive twin: the shares that the formula gives.
std::vector<double> shares(uint64_t n, double theta) {
  std::vector<double> out(n);
  double sum = 0;
  for (uint64_t k = 0; k < n; ++k) sum += out[k] = 1 / std::pow(static_cast<double>(k + 1), theta);
  for (double& share : out) share /= sum;
  return out;
}

// The sum of 1 / k^theta from 1 to n, by Euler and Maclaurin from the hundredth term on.
double zeta(double n, double theta) {
  constexpr int kFirst = 100;
  double sum = 0;
  for (int k = 1; k < kFirst; ++k) sum += std::pow(k, -theta);
  const double power = 1 - theta;
  const double area =
      power == 0 ? std::log(n / kFirst) : (std::pow(n, power) - std::pow(double{kFirst}, power)) / power;
  const double ends = (std::pow(double{kFirst}, -theta) + std::pow(n, -theta)) / 2;
  const double slopes = theta / 12 * (std::pow(double{kFirst}, -theta - 1) - std::pow(n, -theta - 1));
  return sum + area + ends + slopes;
}

// Against the exact distribution function: by Dvoretzky, Kiefer and Wolfowitz, draws that are right stray by more than
// 0.0085 less than once in a million times.
TEST(Zipf, DrawsByTheFormula) {
  for (const uint64_t n : {1U, 2U, 3U, 40U, 1000U}) {
    for (const double theta : kThetas) {
      const Zipf zipf(n, theta);
      Random random(n);
      std::vector<int> seen(n);
      for (int i = 0; i < kZipfDraws; ++i) {
        const uint64_t k = zipf.draw(random);
        ASSERT_LT(k, n);
        ++seen[k];
      }
      const std::vector<double> expected = shares(n, theta);
      double drawn = 0, exact = 0;
      for (uint64_t k = 0; k < n; ++k) {
        drawn += static_cast<double>(seen[k]) / kZipfDraws;
        exact += expected[k];
        ASSERT_NEAR(drawn, exact, 0.0085) << n << " " << theta << " " << k;
      }
    }
  }
}

TEST(Zipf, TheSumByEulerAndMaclaurinIsTheSum) {
  for (const double theta : kThetas) {
    double sum = 0;
    for (int k = 1; k <= 5000; ++k) sum += std::pow(k, -theta);
    EXPECT_NEAR(zeta(5000, theta) / sum, 1, 1e-7) << theta;
  }
}

// Where a table would be large: the first number, and the first ten thousand, have the shares that the formula gives.
TEST(Zipf, ManyNumbers) {
  for (const double n : {1e8, 0x1p36, 0x1p52}) {
    for (const double theta : kThetas) {
      const Zipf zipf(static_cast<uint64_t>(n), theta);
      Random random(1);
      int first = 0, low = 0;
      for (int i = 0; i < kZipfDraws; ++i) {
        const uint64_t k = zipf.draw(random);
        ASSERT_LT(k, static_cast<uint64_t>(n));
        first += k == 0 ? 1 : 0;
        low += k < 10'000 ? 1 : 0;
      }
      const double sum = zeta(n, theta);
      EXPECT_NEAR(static_cast<double>(first) / kZipfDraws, 1 / sum, 0.0085) << n << " " << theta;
      EXPECT_NEAR(static_cast<double>(low) / kZipfDraws, zeta(10'000, theta) / sum, 0.0085) << n << " " << theta;
    }
  }
}

// At theta 0.5 the first quarter of the numbers has half of the draws.
TEST(Zipf, TheTail) {
  constexpr uint64_t kMany = uint64_t{1} << 36;
  const Zipf zipf(kMany, 0.5);
  Random random(1);
  int low = 0;
  for (int i = 0; i < kZipfDraws; ++i) low += zipf.draw(random) < kMany / 4 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(low) / kZipfDraws, 0.5, 0.0085);
}

TEST(Zipf, WhatIsOutOfRangeIsNamed) {
  EXPECT_TRUE(Zipf::create(1, 0));
  EXPECT_TRUE(Zipf::create(Zipf::kNumbersMax, 2));
  for (const double theta : {-0.01, 2.01, std::numeric_limits<double>::infinity(), std::nan("")}) {
    const auto zipf = Zipf::create(10, theta);
    ASSERT_FALSE(zipf);
    EXPECT_EQ(zipf.error().code, Code::kBadOption);
    EXPECT_NE(zipf.error().detail.find("theta is from 0 to 2"), std::string::npos) << zipf.error().detail;
  }
  EXPECT_NE(Zipf::create(10, 2.5).error().detail.find("2.5"), std::string::npos);
  for (const uint64_t n : {uint64_t{0}, Zipf::kNumbersMax + 1}) {
    const auto zipf = Zipf::create(n, 1);
    ASSERT_FALSE(zipf);
    EXPECT_NE(zipf.error().detail.find("of " + std::to_string(n) + " numbers"), std::string::npos);
  }
}

}  // namespace
}  // namespace weft
