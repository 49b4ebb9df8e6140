#include "weft/base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include "weft/base/random.h"

namespace weft {
namespace {

TEST(Histogram, EmptyIsZero) {
  const Histogram h;
  EXPECT_EQ(h.count(), 0U);
  EXPECT_EQ(h.max(), 0U);
  EXPECT_EQ(h.mean(), 0.0);
  EXPECT_EQ(h.quantile(0.5), 0U);
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram h;
  for (uint64_t v = 0; v < 128; ++v) h.record(v);
  EXPECT_EQ(h.count(), 128U);
  EXPECT_EQ(h.mean(), 63.5);
  EXPECT_EQ(h.quantile(0), 0U);
  EXPECT_EQ(h.quantile(0.5), 63U);
  EXPECT_EQ(h.quantile(1), 127U);
}

TEST(Histogram, TakesTheWholeRange) {
  Histogram h;
  for (int bit = 0; bit < 64; ++bit) h.record(uint64_t{1} << bit);
  h.record(~uint64_t{0});
  EXPECT_EQ(h.count(), 65U);
  EXPECT_EQ(h.max(), ~uint64_t{0});
  EXPECT_EQ(h.quantile(1), ~uint64_t{0});
}

// The naive model keeps every value and sorts them.
TEST(Histogram, QuantilesAgreeWithSortedValues) {
  Random random(1);
  for (int round = 0; round < 20; ++round) {
    Histogram h;
    std::vector<uint64_t> values;
    const uint64_t n = random.between(1, 5000);
    for (uint64_t i = 0; i < n; ++i) {
      values.push_back(random.next() >> random.between(0, 63));
      h.record(values.back());
    }
    std::sort(values.begin(), values.end());
    for (const double q : {0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0}) {
      const double place = std::ceil(q * static_cast<double>(n));
      const uint64_t exact = values[std::max<uint64_t>(static_cast<uint64_t>(place), 1) - 1];
      const uint64_t got = h.quantile(q);
      EXPECT_GE(got, exact) << "q " << q;
      EXPECT_LE(got - exact, exact / 64) << "q " << q;
    }
    EXPECT_EQ(h.max(), values.back());
  }
}

TEST(Histogram, MergedIsAsIfRecordedTogether) {
  Random random(2);
  Histogram all;
  Histogram parts[3];
  for (int i = 0; i < 30'000; ++i) {
    const uint64_t v = random.below(1'000'000);
    all.record(v);
    parts[i % 3].record(v);
  }
  Histogram merged = parts[0];
  merged.merge(parts[1]);
  merged.merge(parts[2]);
  EXPECT_EQ(merged.count(), all.count());
  EXPECT_EQ(merged.mean(), all.mean());
  EXPECT_EQ(merged.max(), all.max());
  for (int i = 0; i <= 1000; ++i) EXPECT_EQ(merged.quantile(i / 1000.0), all.quantile(i / 1000.0));

  merged = parts[1];
  EXPECT_EQ(merged.count(), parts[1].count());
  merged.clear();
  EXPECT_EQ(merged.count(), 0U);
  EXPECT_EQ(merged.max(), 0U);
}

TEST(Histogram, IsReadWhileOneThreadRecords) {
  constexpr uint64_t kRecords = 200'000;
  Histogram h;
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (uint64_t i = 0; i < kRecords; ++i) h.record(i % 1000);
    done.store(true, std::memory_order_release);
  });
  uint64_t last = 0;
  while (!done.load(std::memory_order_acquire)) {
    Histogram copy;
    copy.merge(h);
    EXPECT_GE(copy.count(), last);
    EXPECT_LT(copy.quantile(0.99), 1000U);
    last = copy.count();
  }
  writer.join();
  EXPECT_EQ(h.count(), kRecords);
}

TEST(Histogram, WhatCameSince) {
  Histogram all;
  for (uint64_t v = 1; v <= 100; ++v) all.record(v);
  const Histogram before = all;
  for (uint64_t v = 1000; v <= 1009; ++v) all.record(v);
  Histogram since = all;
  since.subtract(before);
  EXPECT_EQ(since.count(), 10U);
  EXPECT_GE(since.quantile(0), 1000U);
  EXPECT_EQ(since.sum(), all.sum() - before.sum());
}

TEST(Histogram, CountUpTo) {
  Histogram h;
  for (const uint64_t v : {0U, 1U, 100U, 100U, 5000U}) h.record(v);
  EXPECT_EQ(h.count_upto(0), 1U);
  EXPECT_EQ(h.count_upto(99), 2U);
  EXPECT_EQ(h.count_upto(100), 4U);
  EXPECT_EQ(h.count_upto(~uint64_t{0}), 5U);
}

}  // namespace
}  // namespace weft
