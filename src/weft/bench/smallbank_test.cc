#include "weft/bench/smallbank.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <tuple>

#include "weft/base/clock.h"
#include "weft/bench/driver.h"

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
  for (const uint32_t bytes : {SmallBank::kValueBytes, SmallBank::kShortValueBytes}) {
    SmallBank bank(100, Skew::kHot, bytes);
    Ledger ledger;
    Random random(6);
    ASSERT_TRUE(bank.load(ledger.put(), random));
    ASSERT_EQ(ledger.rows.size(), 200U);
    for (const auto& [key, value] : ledger.rows) ASSERT_EQ(value.size(), bytes);
    Tally tally;
    EXPECT_EQ(bank.check(ledger.visit_table(), tally), "");
    tally.net = 1;
    EXPECT_NE(bank.check(ledger.visit_table(), tally), "");
    tally.net = 0;
    ledger.rows.begin()->second.resize(bytes / 2);
    EXPECT_NE(bank.check(ledger.visit_table(), tally).find("1 balances are not of"), std::string::npos);
    ledger.rows.erase(ledger.rows.begin());
    EXPECT_NE(bank.check(ledger.visit_table(), tally), "");
  }
}

// Balances of 4 bytes near either limit: what does not fit is refused, and the sum stays exact.
class ShortBalances : public testing::TestWithParam<std::tuple<const char*, bool>> {};
INSTANTIATE_TEST_SUITE_P(SmallBank, ShortBalances,
                         testing::Combine(testing::Values("dnl4", "fasst", "hop"), testing::Bool()));

TEST_P(ShortBalances, NeverOverflow) {
  const auto [protocol, high] = GetParam();
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max(), kMin = std::numeric_limits<int32_t>::min();
  SmallBank bank(12, Skew::kNone, SmallBank::kShortValueBytes);
  Options options;
  options.protocol = protocol;
  options.limits.transactions_in_flight_max = 4;
  auto cluster = Cluster::open(options);
  ASSERT_TRUE(cluster) << cluster.error().detail;
  for (const TableSpec& spec : bank.tables()) ASSERT_TRUE((*cluster)->create_table(spec));
  for (const StoredProcedure& procedure : bank.procedures()) ASSERT_TRUE((*cluster)->declare(procedure));
  Tally tally;
  Random random(7);
  const auto put = [&, high = high](TableId table, Key key, std::string_view value) {
    int32_t drawn = 0;
    std::memcpy(&drawn, value.data(), sizeof drawn);
    const auto cents = static_cast<int32_t>(high ? kMax - 100 : kMin + 100);
    tally.net += int64_t{cents} - drawn;  // as if it had been paid in after the load
    return (*cluster)->load(table, key, {reinterpret_cast<const char*>(&cents), sizeof cents});
  };
  ASSERT_TRUE(bank.load(put, random));
  ASSERT_TRUE((*cluster)->start());
  RealClock clock;
  DriveOptions drive_options;
  drive_options.transactions = 1'000;
  const DriveResult result = drive(**cluster, bank, drive_options, clock);
  (*cluster)->stop();
  ASSERT_EQ(result.failure, "");
  tally.add(result.tally);
  const auto& refused = tally.refused;
  if (high) {
    EXPECT_GT(refused[SmallBank::kTransactSavings], 0U);
    EXPECT_GT(refused[SmallBank::kDepositChecking], 0U);
  } else {
    EXPECT_GT(refused[SmallBank::kWriteCheck], 0U);
  }
  const auto visit_table = [&](TableId t, const Cluster::Visit& visit) { (*cluster)->visit(t, visit); };
  EXPECT_EQ(bank.check(visit_table, tally), "");
  EXPECT_EQ((*cluster)->audit(), "");
}

}  // namespace
}  // namespace weft::bench
