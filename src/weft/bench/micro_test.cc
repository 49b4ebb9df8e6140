#include "weft/bench/micro.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace weft::bench {
namespace {

TEST(Micro, KeysAreDistinctInRangeAndTheSameAgain) {
  const Micro micro(4, 2, 40);
  Random random(1);
  std::set<uint64_t> seen;
  for (int i = 0; i < 1'000; ++i) {
    const Call call = micro.draw(random);
    std::array<uint64_t, Micro::kKeysMax> keys{}, again{};
    const uint32_t count = micro.keys_of(call, keys);
    ASSERT_EQ(count, 4U);
    ASSERT_EQ(micro.keys_of(call, again), count);
    EXPECT_TRUE(std::equal(keys.begin(), keys.begin() + count, again.begin()));
    const std::set<uint64_t> distinct(keys.begin(), keys.begin() + count);
    EXPECT_EQ(distinct.size(), count);
    EXPECT_LT(*distinct.rbegin(), 40U);
    seen.insert(distinct.begin(), distinct.end());
  }
  EXPECT_EQ(seen.size(), 40U);
}

TEST(Micro, KeysByZipf) {
  const Micro hot(2, 2, 1'000, 0.99);
  Random random(1);
  int hottest = 0;
  for (int i = 0; i < 1'000; ++i) {
    std::array<uint64_t, Micro::kKeysMax> keys{};
    const uint32_t count = hot.keys_of(hot.draw(random), keys);
    hottest += std::count(keys.begin(), keys.begin() + count, uint64_t{0}) != 0 ? 1 : 0;
  }
  EXPECT_GT(hottest, 150);  // of 2,000 draws 13 %
  EXPECT_LT(hottest, 400);
}

TEST(Micro, CheckComparesVersionsWithPuts) {
  Micro micro(4, 2, 32);
  const auto visit_table = [](uint64_t version, uint64_t counter) {
    return [=](TableId, const Cluster::Visit& visit) {
      for (uint64_t key = 0; key < 32; ++key) {
        const uint64_t record[2] = {key == 0 ? counter : 0, key};
        visit(NodeId(0), true, {reinterpret_cast<const char*>(&key), 8},
              {reinterpret_cast<const char*>(record), sizeof record}, key == 0 ? version : 1);
      }
    };
  };
  Tally tally;
  tally.net = 6;
  EXPECT_EQ(micro.check(visit_table(7, 6), tally), "");
  EXPECT_NE(micro.check(visit_table(6, 6), tally), "");
  EXPECT_NE(micro.check(visit_table(7, 5), tally), "");
}

}  // namespace
}  // namespace weft::bench
