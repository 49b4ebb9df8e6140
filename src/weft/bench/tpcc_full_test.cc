#include "weft/bench/tpcc_full.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "weft/base/clock.h"
#include "weft/bench/driver.h"
#include "weft/bench/stepped_testing.h"
#include "weft/bench/tpcc.h"
#include "weft/bench/tpcc_load.h"
#include "weft/bench/tpcc_new_order.h"
#include "weft/txn/protocol.h"

namespace weft::bench::tpcc {
namespace {

constexpr Sizes kTiny{.warehouses = 3, .items = 20, .customers = 20, .orders_max = 2'000};

TEST(TpccFull, DrawsTheMix) {
  const TpccFull full(kTiny);
  constexpr int kTpccDraws = 20'000;
  Random random(1);
  std::array<int, 5> seen{};
  for (int i = 0; i < kTpccDraws; ++i) ++seen[full.draw(random).kind];
  constexpr double kShares[] = {45, 43, 4, 4, 4};
  for (size_t kind = 0; kind < seen.size(); ++kind) EXPECT_NEAR(100.0 * seen[kind] / kTpccDraws, kShares[kind], 2.0);
}

TEST(TpccFull, LastNamesAreOfSyllables) {
  std::array<char, 16> room{};
  EXPECT_EQ(last_name(0, &room), "BARBARBAR");
  EXPECT_EQ(last_name(371, &room), "PRICALLYOUGHT");
  EXPECT_EQ(last_name(999, &room), "EINGEINGEING");
  std::set<std::string> names;
  for (uint32_t n = 0; n < kLastNames; ++n) names.emplace(last_name(n, &room));
  EXPECT_EQ(names.size(), kLastNames);
}

TEST(TpccFull, NamesThatAreDrawnAreSomebodys) {
  Random random(1);
  for (const uint32_t customers : {20U, 999U, 3'000U}) {
    std::set<uint32_t> names;
    for (uint32_t c = 1; c <= customers; ++c) names.insert(last_name_number(c, random));
    EXPECT_EQ(names.size(), last_names(customers));
    for (int i = 0; i < 10'000; ++i) EXPECT_TRUE(names.contains(draw_last_name(random, customers)));
  }
}

// The numbers of a range, some of them more often than others.
TEST(TpccFull, NumbersAreDrawnUnevenly) {
  Random random(1);
  std::map<uint32_t, int> seen;
  constexpr int kNumbers = 300'000;
  for (int i = 0; i < kNumbers; ++i) ++seen[draw_customer(random, 3'000)];
  EXPECT_EQ(seen.begin()->first, 1U);
  EXPECT_EQ(seen.rbegin()->first, 3'000U);
  int most = 0;
  for (const auto& [number, times] : seen) most = std::max(most, times);
  EXPECT_GT(most, 4 * kNumbers / 3'000);
}

TEST(TpccFull, OneLineOfAHundredIsRemote) {
  NewOrderArguments order{};
  order.warehouse = 2;
  order.warehouses = 6;
  order.items = 100'000;
  order.suppliers = Suppliers::kRarelyOthers;
  int lines = 0, remote = 0, orders = 0;
  constexpr int kOrders = 10'000;
  for (order.seed = 0; order.seed < kOrders; ++order.seed) {
    const DrawnLines drawn = draw_lines(order);
    bool all_local = true;
    for (uint32_t i = 0; i < drawn.count; ++i) {
      EXPECT_LT(drawn.line[i].supplier, 6U);
      all_local = all_local && drawn.line[i].supplier == 2;
      remote += drawn.line[i].supplier == 2 ? 0 : 1;
    }
    lines += static_cast<int>(drawn.count);
    orders += all_local ? 0 : 1;
  }
  EXPECT_NEAR(100.0 * remote / lines, 1.0, 0.2);
  EXPECT_NEAR(100.0 * orders / kOrders, 9.5, 1.5);
}

TEST(TpccFull, KeysGoInOrder) {
  EXPECT_LT(key_of(1, 2, 3, 15), key_of(1, 2, 4, 1));
  EXPECT_LT(key_of(1, 2, kOrdersMax, 255), key_of(1, 3, 0));
  EXPECT_LT(by_customer_key(1, 2, 3, 8), by_customer_key(1, 2, 3, 7));
  EXPECT_LT(by_customer_key(1, 2, 3, 0), by_customer_key(1, 2, 4, kOrdersMax));
  EXPECT_LT(by_name_key(1, 2, 3, kCustomersMax), by_name_key(1, 2, 4, 1));
}

// Condition by condition: the check finds what a broken store would leave behind.
class TpccFullCheck : public testing::Test {
 protected:
  void SetUp() override {
    Random random(1);
    const Workload::Put put = [this](TableId table, Key key, std::string_view value) {
      const bool fresh = rows_.try_emplace({table.value, row_of<uint64_t>({key.data(), key.size()})}, value).second;
      EXPECT_TRUE(fresh) << "table " << table.value;
      return Result<void>();
    };
    ASSERT_TRUE(full_.load(put, random));
  }
  template <class Row, class F>
  void edit(TableId table, uint64_t key, F f) {
    auto row = row_of<Row>(rows_.at({table.value, key}));
    f(row);
    rows_[{table.value, key}] = bytes_of(row);
  }
  void erase(TableId table, uint64_t key) { ASSERT_EQ(rows_.erase({table.value, key}), 1U); }
  uint32_t customer_of(uint32_t w, uint32_t d, uint32_t order) const {
    return row_of<Order>(rows_.at({Tpcc::kOrder.value, key_of(w, d, order)})).customer;
  }
  std::string check() const {
    return full_.check(
        [this](TableId table, const Cluster::Visit& visit) {
          for (const auto& [key, value] : rows_) {
            if (key.first == table.value) visit(NodeId(0), true, bytes_of(key.second), value, 1);
          }
        },
        tally_);
  }
  void expect(const std::string& part) const { EXPECT_NE(check().find(part), std::string::npos) << check(); }

  TpccFull full_{kTiny};
  std::map<std::pair<uint16_t, uint64_t>, std::string> rows_;
  Tally tally_;
};

TEST_F(TpccFullCheck, HoldsForWhatIsLoaded) {
  EXPECT_EQ(check(), "");
  // What clause 4.3.3.1 says of a district, and one row of the history for each customer.
  std::map<uint16_t, size_t> rows;
  for (const auto& [key, value] : rows_) ++rows[key.first];
  constexpr size_t kAll = size_t{3} * kDistricts * 20;
  EXPECT_EQ(rows[Tpcc::kCustomer.value], kAll);
  EXPECT_EQ(rows[Tpcc::kOrder.value], kAll);
  EXPECT_EQ(rows[Tpcc::kNewOrder.value], kAll * 3 / 10);
  EXPECT_EQ(rows[kHistory.value], kAll);
  EXPECT_EQ(rows[kCustomerByName.value], kAll);
  EXPECT_EQ(rows[kOrderByCustomer.value], kAll);
}

TEST_F(TpccFullCheck, Condition1) {
  edit<Warehouse>(Tpcc::kWarehouse, key_of(1, 0, 0), [](Warehouse& row) { ++row.ytd; });
  expect("the districts of warehouse 1 do not add up");
}

TEST_F(TpccFullCheck, Condition2) {
  edit<District>(Tpcc::kDistrict, key_of(1, 3, 0), [](District& row) { ++row.next_order; });
  expect("warehouse 1, district 3: gives order 22 next, the newest is 20");
}

TEST_F(TpccFullCheck, Condition5) {
  erase(Tpcc::kNewOrder, key_of(1, 3, 20));
  expect("order 20 and its new-order row do not agree on its delivery");
}

TEST_F(TpccFullCheck, Condition3) {
  erase(Tpcc::kNewOrder, key_of(1, 3, 18));
  edit<Order>(Tpcc::kOrder, key_of(1, 3, 18), [](Order& row) { row.carrier = 1; });
  const auto lines = row_of<Order>(rows_.at({Tpcc::kOrder.value, key_of(1, 3, 18)})).lines;
  for (uint32_t n = 1; n <= lines; ++n) {
    edit<OrderLine>(Tpcc::kOrderLine, key_of(1, 3, 18, n), [](OrderLine& row) { row.delivered = 9; });
  }
  expect("order 18 is delivered before an older one");
}

TEST_F(TpccFullCheck, Condition4And6) {
  erase(Tpcc::kOrderLine, key_of(1, 3, 20, 5));
  expect("order 20 has");
}

TEST_F(TpccFullCheck, Condition7) {
  edit<OrderLine>(Tpcc::kOrderLine, key_of(1, 3, 1, 5), [](OrderLine& row) { row.delivered = 0; });
  expect("order 1 and its lines do not agree on its delivery");
}

TEST_F(TpccFullCheck, Condition8And9) {
  erase(kHistory, history_key(2, kLoadedHistory | uint64_t{4} << 32 | 7));
  expect("warehouse 2, district 4: was paid, by the history, 19000, not 20000");
}

TEST_F(TpccFullCheck, Condition10) {
  edit<Customer>(Tpcc::kCustomer, key_of(2, 4, 7), [](Customer& row) { ++row.balance; });
  expect("customer 7 has a balance of -999, not -1000");
}

TEST_F(TpccFullCheck, Condition11) {
  tally_.net = 1;
  tally_.failed = 1;  // what was told is there, whatever else may have happened
  expect("1 deliveries were committed, 0 are there");
}

TEST_F(TpccFullCheck, Condition12) {
  edit<Customer>(Tpcc::kCustomer, key_of(2, 4, 7), [](Customer& row) { ++row.ytd_payment; });
  expect("customer 7 has balance and payments of 1, not 0");
}

TEST_F(TpccFullCheck, ACustomerWithoutAName) {
  erase(kCustomerByName, by_name_key(2, 4, 6, 7));
  expect("customer 7 is not in the index by name");
}

TEST_F(TpccFullCheck, ANameOfAnother) {
  const std::string value = rows_.at({kCustomerByName.value, by_name_key(2, 4, 6, 7)});
  erase(kCustomerByName, by_name_key(2, 4, 6, 7));
  rows_[{kCustomerByName.value, by_name_key(2, 4, 5, 7)}] = value;
  expect("customer-by-name and a customer differ");
}

TEST_F(TpccFullCheck, AnOrderThatItsCustomerDoesNotFind) {
  erase(kOrderByCustomer, by_customer_key(2, 4, customer_of(2, 4, 7), 7));
  expect("order 7 is of a customer whose number is, by the index, 0");
}

TEST_F(TpccFullCheck, AnIndexRowWithoutAnOrder) {
  rows_[{kOrderByCustomer.value, by_customer_key(2, 4, 7, 21)}] = bytes_of(NewOrder{21});
  expect("gives order 21 next, the newest is 21");
}

TEST_F(TpccFullCheck, AStockThatDoesNotFitTheLines) {
  edit<Stock>(Tpcc::kStock, key_of(0, 0, 9), [](Stock& row) { row.orders = 2; });
  expect("warehouse 0 booked 2 orders of item 9, there are 0");
}

TEST_F(TpccFullCheck, MoreCommitsThanRows) {
  tally_.committed[TpccFull::kNewOrder] = 2;
  expect("2 orders were committed, 0 are there");
  tally_.committed[TpccFull::kNewOrder] = 0;
  tally_.committed[TpccFull::kPayment] = 1;
  expect("1 payments were committed, 0 are there");
}

SteppedRun run_tiny(const char* protocol, uint64_t bugs = 0, int replicas = 3) {
  TpccFull full(kTiny);
  SteppedOptions options;
  options.cluster.protocol = protocol;
  options.cluster.replicas = replicas;
  options.bugs.mask = bugs;
  options.transactions = 60;
  return run_stepped(full, options);
}

// Tables so small that everybody meets everybody: all twelve conditions at the end, and three while it runs.
TEST(TpccFull, HoldsUnderEveryProtocol) {
  for (const Protocol& row : kProtocols) {
    const SteppedRun run = run_tiny(std::string(row.name).c_str());
    EXPECT_EQ(run.failure, "") << row.name;
    EXPECT_EQ(run.wrong, "") << row.name;
    EXPECT_GT(run.tally.audits, 0U) << row.name;
    EXPECT_GT(run.tally.net, 0) << row.name;
    for (uint64_t kind = 0; kind < 5; ++kind) EXPECT_GT(run.tally.committed[kind], 0U) << row.name << " " << kind;
    EXPECT_GT(run.tally.refused[TpccFull::kNewOrder], 0U) << row.name << ": orders that are rolled back";
  }
}

TEST(TpccFull, OrdersAndPaymentsAreShipped) { EXPECT_GT(run_tiny("hop").shipped, 0U); }

TEST(TpccFull, ALostUpdateIsFound) {
  EXPECT_NE(run_tiny("dnl4", static_cast<uint64_t>(PlantedBug::kIgnoreVersion)).wrong, "");
}

// Nothing at the end shows it: only who reads a warehouse while it runs does.
TEST(TpccFull, ASkippedValidationIsFoundWhileItRuns) {
  for (const int replicas : {1, 3}) {
    EXPECT_EQ(run_tiny("dnl4", 0, replicas).wrong, "");
    const SteppedRun run = run_tiny("dnl4", static_cast<uint64_t>(PlantedBug::kSkipValidation), replicas);
    EXPECT_NE(run.tally.wrong.find("while it ran"), std::string::npos) << run.wrong;
  }
}

// New rows behind the last one that a scan has found.
TEST(TpccFull, AMissedPhantomIsFoundWhileItRuns) {
  const SteppedRun run = run_tiny("dnl4", static_cast<uint64_t>(PlantedBug::kScanWithoutBound));
  EXPECT_NE(run.tally.wrong.find("condition"), std::string::npos) << run.wrong;
}

// With threads.
TEST(TpccFull, RunsInRealTime) {
  for (const char* protocol : {"dnl4", "hop", "drtmh"}) {
    SCOPED_TRACE(protocol);
    Options options;
    options.protocol = protocol;
    options.limits.transactions_in_flight_max = 8;
    auto cluster = Cluster::open(options);
    ASSERT_TRUE(cluster) << cluster.error().detail;
    TpccFull full(kTiny);
    for (const TableSpec& spec : full.tables()) ASSERT_TRUE((*cluster)->create_table(spec));
    for (const StoredProcedure& procedure : full.procedures()) ASSERT_TRUE((*cluster)->declare(procedure));
    Random random(3);
    const auto put = [&](TableId t, Key k, std::string_view v) { return (*cluster)->load(t, k, v); };
    ASSERT_TRUE(full.load(put, random));
    ASSERT_TRUE((*cluster)->start());
    RealClock clock;
    DriveOptions drive_options;
    drive_options.transactions = 600;
    const DriveResult result = drive(**cluster, full, drive_options, clock);
    (*cluster)->stop();
    EXPECT_EQ(result.failure, "");
    EXPECT_EQ(result.tally.wrong, "");
    const auto visit_table = [&](TableId t, const Cluster::Visit& visit) { (*cluster)->visit(t, visit); };
    EXPECT_EQ(full.check(visit_table, result.tally), "");
    EXPECT_EQ((*cluster)->audit(), "");
  }
}

}  // namespace
}  // namespace weft::bench::tpcc
