#include "weft/bench/tpce.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <span>
#include <utility>

#include "weft/bench/bench.h"
#include "weft/bench/stepped_testing.h"
#include "weft/bench/tpce_rows.h"
#include "weft/txn/protocol.h"

namespace weft::bench::tpce {
namespace {

constexpr uint32_t kInvestors = 60;

TEST(TpceCp, DrawsTheMix) {
  const TpceCp tpce(1'000);
  constexpr int kTpceDraws = 20'000;
  Random random(1);
  int trades = 0, histories = 0;
  std::set<uint64_t> sides, moves, quantities;
  for (int i = 0; i < kTpceDraws; ++i) {
    const Call call = tpce.draw(random);
    EXPECT_LT(call.a[0], 1'000U);
    if (call.kind == TpceCp::kPosition) {
      histories += call.a[1] == kAccounts ? 0 : 1;
      continue;
    }
    ++trades;
    sides.insert(call.a[2] & 3);
    quantities.insert(call.a[2] >> 2);
    moves.insert(call.a[3]);
  }
  EXPECT_NEAR(100.0 * trades / kTpceDraws, 10, 1.5);
  EXPECT_NEAR(100.0 * histories / (kTpceDraws - trades), 50, 2.5);
  EXPECT_EQ(sides.size(), 4U);
  EXPECT_EQ(quantities.size(), kQuantityMax);
  EXPECT_EQ(moves.size(), 2 * kPriceMoveMax + 1);
}

// Rule of the workload: two accounts of a customer hold each pair, and no pair twice.
TEST(TpceCp, AccountsHoldPairsByTwos) {
  TpceCp tpce(kInvestors);
  std::map<uint32_t, std::map<uint32_t, int>> held;  // by customer and security
  Random random(1);
  const Workload::Put put = [&](TableId table, Key key, std::string_view value) {
    if (table != TpceCp::kHoldingSummary) return Result<void>();
    const auto owner = row_of<uint64_t>({key.data(), key.size()});
    for (const Holding& holding : row_of<HoldingSummary>(value).holding) {
      EXPECT_LT(holding.security, 2 * tpce.pairs());
      ++held[customer_of(owner)][holding.security];
    }
    return Result<void>();
  };
  ASSERT_TRUE(tpce.load(put, random));
  EXPECT_EQ(held.size(), kInvestors);
  for (const auto& [customer, securities] : held) {
    EXPECT_EQ(securities.size(), kSecurities) << customer;
    for (const auto& [security, accounts] : securities) {
      EXPECT_EQ(accounts, 2) << customer;
      EXPECT_TRUE(securities.contains(partner_of(security)));
    }
  }
}

// What the check finds in tables that a broken store would leave behind.
class TpceCheck : public testing::Test {
 protected:
  void SetUp() override {
    Random random(1);
    const Workload::Put put = [this](TableId table, Key key, std::string_view value) {
      rows_[{table.value, row_of<uint64_t>({key.data(), key.size()})}] = value;
      return Result<void>();
    };
    ASSERT_TRUE(tpce_.load(put, random));
    // One trade, as a transaction leaves it: account 1 of customer 5 sells 3 to account 0.
    const uint32_t security = security_of(pair_of(5, 1, tpce_.pairs()), 0);
    edit<LastTrade>(TpceCp::kLastTrade, security, [](LastTrade& row) { ++row.trades; });
    book(1, security, -3);
    book(0, security, 3);
    tally_.committed[TpceCp::kTradeResult] = 2;
    tally_.refused[TpceCp::kTradeResult] = 1;
  }
  void book(uint32_t account, uint32_t security, int32_t quantity) {
    edit<Account>(TpceCp::kAccount, account_key(5, account), [&](Account& row) {
      row.balance -= quantity * 70;
      ++row.trades;
    });
    edit<HoldingSummary>(TpceCp::kHoldingSummary, account_key(5, account), [&](HoldingSummary& row) {
      for (Holding& holding : row.holding) holding.quantity += holding.security == security ? quantity : 0;
    });
    edit<Trade>(TpceCp::kTrade, trade_key(5, account, 1), [&](Trade& row) { row.number = 1; });
  }
  template <class Row, class F>
  void edit(TableId table, uint64_t key, F f) {
    auto row = row_of<Row>(rows_.at({table.value, key}));
    f(row);
    rows_[{table.value, key}] = bytes_of(row);
  }
  std::string check() const {
    return tpce_.check(
        [this](TableId table, const Cluster::Visit& visit) {
          for (const auto& [key, value] : rows_) {
            if (key.first != table.value) continue;
            visit(NodeId(0), true, bytes_of(key.second), value, 1);
            visit(NodeId(1), false, bytes_of(key.second), "a backup is not counted", 1);
          }
        },
        tally_);
  }
  void expect(const std::string& part) const { EXPECT_NE(check().find(part), std::string::npos) << check(); }

  TpceCp tpce_{kInvestors};
  std::map<std::pair<uint16_t, uint64_t>, std::string> rows_;
  Tally tally_;
};

TEST_F(TpceCheck, HoldsForWhatTransactionsLeave) { EXPECT_EQ(check(), ""); }

TEST_F(TpceCheck, AMissingRow) {
  rows_.erase({TpceCp::kTrade.value, trade_key(7, 3, 9)});
  expect("rows that were loaded are missing");
}

TEST_F(TpceCheck, LostMoney) {
  edit<Account>(TpceCp::kAccount, account_key(8, 2), [](Account& row) { --row.balance; });
  expect("customer 8 has 99999999 cents, not 100000000");
}

TEST_F(TpceCheck, LostSecurities) {
  edit<HoldingSummary>(TpceCp::kHoldingSummary, account_key(8, 2),
                       [](HoldingSummary& row) { ++row.holding[1].quantity; });
  expect("customer 8 has 201 of a security, not 200");
}

TEST_F(TpceCheck, ASecurityThatTheCustomerNeverHad) {
  edit<HoldingSummary>(TpceCp::kHoldingSummary, account_key(8, 2),
                       [](HoldingSummary& row) { row.holding[1].security ^= 1U << 20; });
  expect("customer 8 holds 100 of security");
}

TEST_F(TpceCheck, APriceWithoutItsPartner) {
  edit<LastTrade>(TpceCp::kLastTrade, 4, [](LastTrade& row) { ++row.price; });
  expect("the prices of pair 2 add up to 5201, not 5200");
}

TEST_F(TpceCheck, AGapInTheHistory) {
  edit<Trade>(TpceCp::kTrade, trade_key(5, 0, 1), [](Trade& row) { row.number = 0; });
  expect("customer 5, account 0 had 1 trades, but its history has number 0 in place 1");
}

TEST_F(TpceCheck, ATradeThatNobodyCommitted) {
  tally_.refused[TpceCp::kTradeResult] = 2;
  expect("0 trades were committed and 0 transactions had no outcome, the securities count 1");
  tally_.failed = 1;
  EXPECT_EQ(check(), "");
}

TEST_F(TpceCheck, ALostTrade) {
  ++tally_.committed[TpceCp::kTradeResult];
  expect("2 trades were committed and 0 transactions had no outcome, the securities count 1");
}

TEST_F(TpceCheck, ATradeThatOneAccountHasNotBooked) {
  edit<Account>(TpceCp::kAccount, account_key(5, 0), [](Account& row) { row.trades = 0; });
  edit<Trade>(TpceCp::kTrade, trade_key(5, 0, 1), [](Trade& row) { row.number = 0; });
  expect("the accounts count 1 trades, the securities 1");
}

// Few customers, so that what is read together is often written meanwhile.
TEST(TpceCp, RunsOnEveryProtocol) {
  BenchOptions options;
  options.workload = "tpce-cp";
  options.keys_per_node = kInvestors;
  options.cluster.limits.transactions_in_flight_max = 8;
  auto opened = Bench::open(options, nullptr);
  ASSERT_TRUE(opened) << opened.error().text();
  Bench& bench = **opened;
  DriveOptions drive_options;
  drive_options.transactions = 400;
  for (const Protocol& row : kProtocols) {
    options.cluster.protocol = row.name;
    ASSERT_TRUE(bench.change(options.cluster));
    const auto report = bench.run(drive_options);
    ASSERT_TRUE(report) << report.error().text();
    EXPECT_GE(report->committed, drive_options.transactions) << row.name;
    EXPECT_EQ(bench.check(), "") << row.name;
  }
  for (const uint64_t committed : std::span(bench.tally().committed).first(2)) EXPECT_GT(committed, 0U);
}

SteppedRun run_broken(const char* protocol, uint64_t bugs) {
  TpceCp tpce(kInvestors);
  SteppedOptions options;
  options.cluster.protocol = protocol;
  options.bugs.mask = bugs;
  return run_stepped(tpce, options);
}

// Positions that are not validated are of two moments now and then, and the workload says so; nothing else is wrong.
TEST(TpceCp, ASkippedValidationIsFound) {
  for (const char* protocol : {"dnl4", "dnl2"}) {
    SteppedRun run = run_broken(protocol, 0);
    EXPECT_EQ(run.failure, "");
    EXPECT_EQ(run.wrong, "") << protocol;
    EXPECT_GT(run.tally.committed[TpceCp::kTradeResult], 0U);
    run = run_broken(protocol, static_cast<uint64_t>(PlantedBug::kSkipValidation));
    EXPECT_NE(run.tally.wrong.find("is not of one moment"), std::string::npos) << protocol << ": " << run.wrong;
  }
}

TEST(TpceCp, ALostUpdateIsFound) {
  const SteppedRun run = run_broken("dnl4", static_cast<uint64_t>(PlantedBug::kIgnoreVersion));
  EXPECT_NE(run.wrong, "");
}

// Keys of a trade that are at one other node, and the caller's own: the row hop ships them.
TEST(TpceCp, TradesAreShipped) {
  TpceCp tpce(kInvestors);
  SteppedOptions options;
  options.cluster.protocol = "hop";
  const SteppedRun run = run_stepped(tpce, options);
  EXPECT_EQ(run.failure, "");
  EXPECT_EQ(run.wrong, "");
  EXPECT_GT(run.shipped, 0U);
}

}  // namespace
}  // namespace weft::bench::tpce
