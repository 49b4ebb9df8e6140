#include "weft/bench/smallbank.h"

#include <gtest/gtest.h>

#include <array>
#include <map>

namespace weft::bench {
namespace {

constexpr int kDraws = 200'000;

// A share of kDraws, to within one per cent of all: more than six standard deviations.
void expect_share(int count, double percent) { EXPECT_NEAR(100.0 * count / kDraws, percent, 1.0); }

TEST(SmallBank, DrawsTheMix) {
  const SmallBank bank(10'000, Skew::kHot);
  Random random(1);
  std::array<int, 6> seen{};
  for (int i = 0; i < kDraws; ++i) ++seen[bank.draw(random).kind];
  expect_share(seen[SmallBank::kAmalgamate], 15);
  expect_share(seen[SmallBank::kBalance], 15);
  expect_share(seen[SmallBank::kDepositChecking], 15);
  expect_share(seen[SmallBank::kSendPayment], 25);
  expect_share(seen[SmallBank::kTransactSavings], 15);
  expect_share(seen[SmallBank::kWriteCheck], 15);
}

// One published code base has the skew inverted: 90 % of its transactions go to all accounts.
TEST(SmallBank, NineInTenTransactionsAreOnTheHotAccounts) {
  const SmallBank bank(100'000, Skew::kHot);
  EXPECT_EQ(bank.hot(), 4'000U);
  Random random(2);
  int hot = 0;
  for (int i = 0; i < kDraws; ++i) hot += bank.draw(random).a[0] < bank.hot() ? 1 : 0;
  expect_share(hot, 90 + 10 * 0.04);
}

TEST(SmallBank, HotOrNotIsDrawnOncePerTransaction) {
  const SmallBank bank(100'000, Skew::kHot);
  Random random(3);
  int mixed = 0;
  for (int i = 0; i < kDraws; ++i) {
    const Call call = bank.draw(random);
    mixed += (call.a[0] < bank.hot()) != (call.a[1] < bank.hot()) ? 1 : 0;
  }
  // Only among the 10 % that draw from all accounts: one of the two is a hot one by chance.
  expect_share(mixed, 10 * 2 * 0.04 * 0.96);
}

TEST(SmallBank, WithoutSkewAllAccountsAreAlike) {
  const SmallBank bank(1'000, Skew::kNone);
  Random random(4);
  int low = 0;
  for (int i = 0; i < kDraws; ++i) low += bank.draw(random).a[0] < 500 ? 1 : 0;
  expect_share(low, 50);
}

TEST(SmallBank, TheTwoAccountsDiffer) {
  const SmallBank bank(2, Skew::kHot);
  Random random(5);
  for (int i = 0; i < 1'000; ++i) {
    const Call call = bank.draw(random);
    ASSERT_NE(call.a[0], call.a[1]);
    ASSERT_LT(std::max(call.a[0], call.a[1]), 2U);
  }
}

// A bank in a map, for check() to read.
struct Ledger {
  std::map<std::pair<uint16_t, uint64_t>, std::string> rows;
  Workload::Put put() {
    return [this](TableId table, Key key, std::string_view value) {
      uint64_t id = 0;
      std::memcpy(&id, key.data(), sizeof id);
      rows[{table.value, id}] = value;
      return Result<void>();
    };
  }
  Workload::VisitTable visit_table() {
    return [this](TableId table, const Cluster::Visit& visit) {
      for (const auto& [key, value] : rows) {
        if (key.first != table.value) continue;
        const std::string_view bytes(reinterpret_cast<const char*>(&key.second), sizeof key.second);
        visit(NodeId(0), true, bytes, value, 1);
        visit(NodeId(1), false, bytes, "a backup is not counted", 1);
      }
    };
  }
};

TEST(SmallBank, CheckFindsAMissingCent) {
  SmallBank bank(100, Skew::kHot);
  Ledger ledger;
  Random random(6);
  ASSERT_TRUE(bank.load(ledger.put(), random));
  ASSERT_EQ(ledger.rows.size(), 200U);
  Tally tally;
  EXPECT_EQ(bank.check(ledger.visit_table(), tally), "");
  tally.net = 1;
  EXPECT_NE(bank.check(ledger.visit_table(), tally), "");
  tally.net = 0;
  ledger.rows.erase(ledger.rows.begin());
  EXPECT_NE(bank.check(ledger.visit_table(), tally), "");
}

}  // namespace
}  // namespace weft::bench
