#include "weft/bench/workload.h"

#include <gtest/gtest.h>

#include <string>

#include "weft/bench/tpcc.h"

namespace weft::bench {
namespace {

TEST(Workload, NamesAreKnown) {
  for (const char* name :
       {"smallbank", "tatp", "tpce-cp", "retwis", "micro-4-2", "micro-1-0", "micro-0-1", "micro-0-32"}) {
    auto made = make_workload(name, {.keys = 100});
    ASSERT_TRUE(made) << name << ": " << made.error().text();
    EXPECT_EQ((*made)->name(), name);
    EXPECT_GT(default_keys(name), 0U);
    uint32_t percent = 0;
    for (const TxnKind& kind : (*made)->kinds()) percent += kind.percent;
    EXPECT_EQ(percent, 100U);
    EXPECT_LE((*made)->kinds().size(), kKindsOfTxnMax);
  }
}

TEST(Workload, BadNamesSayWhatThereIs) {
  for (const char* name :
       {"", "tpc", "micro", "micro-", "micro-4", "micro-4-", "micro-4-2-", "micro--4-2", "micro-a-b"}) {
    auto made = make_workload(name, {.keys = 100});
    ASSERT_FALSE(made) << name;
    EXPECT_EQ(made.error().code, Code::kBadOption);
    EXPECT_NE(made.error().detail.find("smallbank, tatp, tpcc, tpcc-no, tpce-cp, retwis and micro-G-P"),
              std::string::npos)
        << made.error().detail;
  }
}

TEST(Workload, TooLargeOrTooFewIsRefused) {
  for (const char* name : {"micro-0-0", "micro-33-0", "micro-17-16", "micro-4294967295-1"}) {
    auto made = make_workload(name, {.keys = 100});
    ASSERT_FALSE(made) << name;
    EXPECT_NE(made.error().detail.find("1 to 32"), std::string::npos) << made.error().detail;
  }
  EXPECT_FALSE(make_workload("smallbank", {.keys = 1}));
  EXPECT_FALSE(make_workload("tatp", {.keys = 0}));
  EXPECT_FALSE(make_workload("retwis", {.keys = 9}));
  for (const uint64_t keys : {uint64_t{39}, uint64_t{1} << 32}) {
    auto made = make_workload("tpce-cp", {.keys = keys});
    ASSERT_FALSE(made);
    EXPECT_NE(made.error().detail.find("40 to 4294967295 customers in all, " + std::to_string(keys)), std::string::npos)
        << made.error().detail;
  }
  EXPECT_FALSE(make_workload("micro-1-0", {.keys = 31}));
}

TEST(Workload, OnlySmallBankHasTwoSizes) {
  for (const uint64_t bytes : {0U, 4U, 8U}) {
    auto made = make_workload("smallbank", {.keys = 100, .value_bytes = bytes});
    ASSERT_TRUE(made) << made.error().text();
    EXPECT_EQ((*made)->tables()[0].value_bytes_max, bytes == 4 ? 4U : 8U);
  }
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{5}, uint64_t{16}, uint64_t{1} << 32 | 4}) {
    auto made = make_workload("smallbank", {.keys = 100, .value_bytes = bytes});
    ASSERT_FALSE(made);
    EXPECT_NE(made.error().detail.find("--value-bytes " + std::to_string(bytes) + ": "), std::string::npos);
    EXPECT_NE(made.error().detail.find("8 or 4 bytes"), std::string::npos);
  }
}

TEST(Workload, TablesThatGrowHaveRoomForMoreAndNeverForLess) {
  for (const char* name : {"tpcc", "tpcc-no"}) {
    const auto workload = make_workload(name, {.keys = 2});
    ASSERT_TRUE(workload);
    const auto orders = [&] { return (*workload)->tables()[Tpcc::kOrder.value].capacity; };
    const auto lines = [&] { return (*workload)->tables()[Tpcc::kOrderLine.value].capacity; };
    const uint64_t by_default = orders();
    for (const uint64_t few : {0U, 1U, 1'000U}) {
      EXPECT_TRUE((*workload)->make_room(few));
      EXPECT_EQ(orders(), by_default) << name;
    }
    EXPECT_TRUE((*workload)->make_room(1'000'001));
    EXPECT_GE(orders(), name == std::string("tpcc") ? 560'000U : 1'000'001U) << "half of tpcc are orders";
    EXPECT_EQ(lines(), 10 * orders());
    EXPECT_TRUE((*workload)->make_room(UINT64_MAX / 2)) << "order numbers are limited";
    EXPECT_LT(orders(), uint64_t{20} << 24);
  }
  const auto fixed = make_workload("smallbank", {.keys = 100});
  ASSERT_TRUE(fixed);
  EXPECT_FALSE((*fixed)->make_room(1'000'000));
}

TEST(Workload, KindsFollowTheirShares) {
  constexpr TxnKind kKinds[] = {{"a", 1}, {"b", 0}, {"c", 99}};
  EXPECT_EQ(pick_kind(kKinds, 0), 0U);
  EXPECT_EQ(pick_kind(kKinds, 1), 2U);
  EXPECT_EQ(pick_kind(kKinds, 99), 2U);
}

}  // namespace
}  // namespace weft::bench
