#include "weft/bench/tpcc.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

#include "weft/base/clock.h"
#include "weft/bench/driver.h"
#include "weft/bench/tpcc_new_order.h"
#include "weft/bench/tpcc_rows.h"
#include "weft/txn/protocol.h"

namespace weft::bench {
namespace {

using namespace tpcc;  // NOLINT(google-build-using-namespace)

constexpr uint32_t kWarehouses = 6, kFewItems = 200, kFewCustomers = 30;

NewOrderArguments arguments(uint64_t seed) {
  NewOrderArguments out{};
  out.seed = seed;
  out.warehouse = 2;
  out.warehouses = kWarehouses;
  out.items = Sizes().items;
  return out;
}

TEST(Tpcc, LinesFollowFromTheSeed) {
  const DrawnLines a = draw_lines(arguments(7)), b = draw_lines(arguments(7));
  ASSERT_EQ(a.count, b.count);
  for (uint32_t i = 0; i < a.count; ++i) {
    EXPECT_EQ(a.line[i].item, b.line[i].item);
    EXPECT_EQ(a.line[i].supplier, b.line[i].supplier);
    EXPECT_EQ(a.line[i].quantity, b.line[i].quantity);
  }
}

TEST(Tpcc, EveryLineComesFromAnotherWarehouse) {
  std::set<uint32_t> suppliers, counts;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const DrawnLines lines = draw_lines(arguments(seed));
    counts.insert(lines.count);
    std::set<std::pair<uint32_t, uint32_t>> distinct;
    for (uint32_t i = 0; i < lines.count; ++i) {
      const Line& line = lines.line[i];
      EXPECT_NE(line.supplier, 2U);
      EXPECT_TRUE(line.item >= 1 && line.item <= Sizes().items && line.quantity >= 1 && line.quantity <= kQuantityMax);
      suppliers.insert(line.supplier);
      distinct.insert({line.supplier, line.item});
    }
    EXPECT_EQ(distinct.size(), lines.count);
  }
  EXPECT_EQ(suppliers.size(), kWarehouses - 1);
  EXPECT_EQ(counts.size(), kLinesMax - kLinesMin + 1);
}

TEST(Tpcc, LinesMayComeFromAllWarehousesAlike) {
  std::array<int, kWarehouses> suppliers{};
  int all = 0;
  for (uint64_t seed = 0; seed < 2'000; ++seed) {
    NewOrderArguments any = arguments(seed);
    any.suppliers = Suppliers::kAll;
    const DrawnLines lines = draw_lines(any);
    std::set<std::pair<uint32_t, uint32_t>> distinct;
    for (uint32_t i = 0; i < lines.count; ++i) {
      ASSERT_LT(lines.line[i].supplier, kWarehouses);
      ++suppliers[lines.line[i].supplier];
      distinct.insert({lines.line[i].supplier, lines.line[i].item});
      ++all;
    }
    EXPECT_EQ(distinct.size(), lines.count);
  }
  // To within two per cent of all: more than seven standard deviations.
  for (const int lines : suppliers) EXPECT_NEAR(static_cast<double>(lines) / all, 1.0 / kWarehouses, 0.02);
}

TEST(Tpcc, TheOnlyWarehouseSuppliesItself) {
  for (const Suppliers suppliers : {Suppliers::kOthers, Suppliers::kAll}) {
    NewOrderArguments alone = arguments(1);
    alone.warehouse = 0;
    alone.warehouses = 1;
    alone.suppliers = suppliers;
    const DrawnLines lines = draw_lines(alone);
    EXPECT_GE(lines.count, kLinesMin);
    for (uint32_t i = 0; i < lines.count; ++i) EXPECT_EQ(lines.line[i].supplier, 0U);
  }
}

// Condition by condition: the check finds what a broken store would leave behind.
class TpccCheck : public testing::Test {
 protected:
  void SetUp() override {
    Random random(1);
    const Workload::Put put = [this](TableId table, Key key, std::string_view value) {
      rows_[{table.value, row_of<uint64_t>({key.data(), key.size()})}] = value;
      return Result<void>();
    };
    ASSERT_TRUE(tpcc_.load(put, random));
    // One order of one line, as new-order leaves it.
    edit<District>(Tpcc::kDistrict, key_of(1, 3, 0), [](District& row) { row.next_order = 2; });
    Order order{};
    order.lines = 1;
    set(Tpcc::kOrder, key_of(1, 3, 1), order);
    set(Tpcc::kNewOrder, key_of(1, 3, 1), NewOrder{1});
    OrderLine line{};
    line.item = 9;
    line.quantity = 4;
    set(Tpcc::kOrderLine, key_of(1, 3, 1, 1), line);
    edit<Stock>(Tpcc::kStock, key_of(0, 0, 9), [](Stock& row) {
      row.ytd = 4;
      row.orders = row.remote_orders = 1;
    });
    tally_.committed[0] = 1;
  }

  template <class Row>
  void set(TableId table, uint64_t key, const Row& row) {
    rows_[{table.value, key}] = bytes_of(row);
  }
  template <class Row, class F>
  void edit(TableId table, uint64_t key, F f) {
    auto row = row_of<Row>(rows_.at({table.value, key}));
    f(row);
    set(table, key, row);
  }
  void erase(TableId table, uint64_t key) { rows_.erase({table.value, key}); }
  std::string check() const {
    return tpcc_.check(
        [this](TableId table, const Cluster::Visit& visit) {
          for (const auto& [key, value] : rows_) {
            if (key.first == table.value) visit(NodeId(0), true, bytes_of(key.second), value, 1);
          }
        },
        tally_);
  }
  void expect(const std::string& part) const { EXPECT_NE(check().find(part), std::string::npos) << check(); }

  Tpcc tpcc_{2, Suppliers::kOthers, kFewItems, kFewCustomers};
  std::map<std::pair<uint16_t, uint64_t>, std::string> rows_;
  Tally tally_;
};

TEST_F(TpccCheck, HoldsForWhatNewOrderLeaves) { EXPECT_EQ(check(), ""); }

TEST_F(TpccCheck, DistrictsThatDoNotAddUp) {
  edit<District>(Tpcc::kDistrict, key_of(1, 3, 0), [](District& row) { row.ytd += 1; });
  expect("do not add up");
}

TEST_F(TpccCheck, AnOrderNumberGivenTwice) {
  edit<District>(Tpcc::kDistrict, key_of(1, 3, 0), [](District& row) { row.next_order = 1; });
  expect("gives order 1 next, the newest is 1");
}

TEST_F(TpccCheck, AnOrderNumberLeftOut) {
  edit<District>(Tpcc::kDistrict, key_of(1, 3, 0), [](District& row) { row.next_order = 3; });
  expect("gives order 3 next, the newest is 1");
}

TEST_F(TpccCheck, AMissingOrder) {
  erase(Tpcc::kOrder, key_of(1, 3, 1));
  expect("order 1 is missing");
}

TEST_F(TpccCheck, AMissingNewOrderRow) {
  erase(Tpcc::kNewOrder, key_of(1, 3, 1));
  expect("do not agree on its delivery");
}

TEST_F(TpccCheck, AMissingLine) {
  erase(Tpcc::kOrderLine, key_of(1, 3, 1, 1));
  expect("has 1 lines, 0 are there");
}

TEST_F(TpccCheck, AStockThatDoesNotFitTheLines) {
  edit<Stock>(Tpcc::kStock, key_of(0, 0, 9), [](Stock& row) { row.orders = 2; });
  expect("booked 2 orders of item 9, there are 1");
}

TEST_F(TpccCheck, MoreCommitsThanOrders) {
  tally_.committed[0] = 2;
  expect("2 orders were committed, 1 are there");
}

TEST_F(TpccCheck, ALostCustomer) {
  erase(Tpcc::kCustomer, key_of(0, 1, 1));
  expect("rows that were loaded are missing");
}

// On a real cluster.
void run_and_check(const std::string& protocol, Suppliers suppliers) {
  SCOPED_TRACE(protocol);
  Options options;
  options.protocol = protocol;
  options.limits.transactions_in_flight_max = 8;
  auto cluster = Cluster::open(options);
  ASSERT_TRUE(cluster) << cluster.error().detail;
  Tpcc tpcc(kWarehouses, suppliers, kFewItems, kFewCustomers);
  for (const TableSpec& spec : tpcc.tables()) {
    TableSpec small = spec;
    small.capacity = std::min<uint64_t>(spec.capacity, 100'000);
    ASSERT_TRUE((*cluster)->create_table(small));
  }
  for (const StoredProcedure& procedure : tpcc.procedures()) ASSERT_TRUE((*cluster)->declare(procedure));
  Random random(3);
  const auto put = [&](TableId t, Key k, std::string_view v) { return (*cluster)->load(t, k, v); };
  ASSERT_TRUE(tpcc.load(put, random));
  ASSERT_TRUE((*cluster)->start());
  RealClock clock;
  DriveOptions drive_options;
  drive_options.transactions = 200;
  const DriveResult result = drive(**cluster, tpcc, drive_options, clock);
  (*cluster)->stop();
  ASSERT_EQ(result.failure, "");
  const Tally& tally = result.tally;
  EXPECT_GE(tally.committed[0], drive_options.transactions);
  const auto visit_table = [&](TableId t, const Cluster::Visit& visit) { (*cluster)->visit(t, visit); };
  EXPECT_EQ(tpcc.check(visit_table, tally), "");
  EXPECT_EQ((*cluster)->audit(), "");
  uint64_t own = 0;  // lines from the customer's warehouse
  visit_table(Tpcc::kOrderLine, [&](NodeId, bool, std::string_view key, std::string_view value, uint64_t) {
    own += row_of<OrderLine>(value).supplier == warehouse_of(row_of<uint64_t>(key)) ? 1 : 0;
  });
  if (suppliers == Suppliers::kOthers) {
    EXPECT_EQ(own, 0U);
  }
}

TEST(Tpcc, RunsOnEveryProtocol) {  // every row of the table
  for (const Protocol& row : kProtocols) run_and_check(std::string(row.name), Suppliers::kOthers);
}

TEST(Tpcc, RunsWithLinesFromAllWarehouses) {
  for (const char* protocol : {"dnl4", "hop"}) run_and_check(protocol, Suppliers::kAll);
}

}  // namespace
}  // namespace weft::bench
