// TPC-C's consistency conditions, over the primaries' records after a run.
#include <algorithm>
#include <vector>

#include "weft/bench/tpcc.h"
#include "weft/bench/tpcc_rows.h"

namespace weft::bench {

using namespace tpcc;  // NOLINT(google-build-using-namespace): the rows of this workload

namespace {

struct OrderSeen {
  bool order = false, new_order = false;
  uint8_t carrier = 0;
  uint8_t lines = 0;
  uint8_t lines_seen = 0;
  uint8_t delivered = 0;  // lines
};

struct DistrictSeen {
  bool there = false;
  uint32_t next_order = 0;
  std::vector<OrderSeen> orders;  // by number, from 1

  OrderSeen& order(uint32_t number) {
    if (orders.size() <= number) orders.resize(number + 1);
    return orders[number];
  }
};

struct StockSeen {
  uint64_t ytd = 0;
  uint32_t orders = 0, remote_orders = 0;
  friend bool operator==(const StockSeen&, const StockSeen&) = default;
};

std::string place(uint32_t warehouse, uint32_t district) {
  return "warehouse " + std::to_string(warehouse) + ", district " + std::to_string(district);
}

// Checks conditions 2, 3, 5, 6 and 7 for one district, and that no order number is missing. Empty if they hold.
std::string wrong_with(const DistrictSeen& district) {
  if (!district.there) return "has no row";
  const auto newest = static_cast<uint32_t>(std::max<size_t>(district.orders.size(), 1) - 1);
  if (district.next_order != newest + 1) {
    return "gives order " + std::to_string(district.next_order) + " next, the newest is " + std::to_string(newest);
  }
  for (uint32_t number = 1; number <= newest; ++number) {
    const OrderSeen& order = district.orders[number];
    const std::string name = "order " + std::to_string(number);
    if (!order.order) return name + " is missing";
    if (order.new_order != (order.carrier == 0)) return name + " and its new-order row do not agree on its delivery";
    if (order.lines != order.lines_seen) {
      return name + " has " + std::to_string(order.lines) + " lines, " + std::to_string(order.lines_seen) +
             " are there";
    }
    if ((order.carrier == 0) != (order.delivered == 0)) return name + " and its lines do not agree on its delivery";
  }
  return {};
}

// What was found in all tables.
struct Found {
  Found(uint32_t warehouse_count, uint32_t items)
      : ytd(warehouse_count),
        districts(size_t{warehouse_count} * kDistricts),
        booked(size_t{warehouse_count} * items),
        ordered(booked.size()) {}

  std::vector<int64_t> ytd;  // the warehouse's, less those of its districts
  std::vector<DistrictSeen> districts;
  std::vector<StockSeen> booked, ordered;
  uint64_t warehouses = 0, customers = 0, stocks = 0, orders = 0;
};

// Returns the first contradiction, or nothing.
std::string compare(const Found& found, uint32_t warehouse_count, uint32_t items) {
  for (uint32_t w = 0; w < warehouse_count; ++w) {
    if (found.ytd[w] != 0) return "tpcc-no: the districts of warehouse " + std::to_string(w) + " do not add up to it";
    for (uint32_t d = 1; d <= kDistricts; ++d) {
      const std::string text = wrong_with(found.districts[size_t{w} * kDistricts + d - 1]);
      if (!text.empty()) return "tpcc-no: " + place(w, d) + ": " + text;
    }
  }
  const auto [at, other] = std::mismatch(found.booked.begin(), found.booked.end(), found.ordered.begin());
  if (at == found.booked.end()) return {};
  const auto index = static_cast<size_t>(at - found.booked.begin());
  return "tpcc-no: warehouse " + std::to_string(index / items) + " booked " + std::to_string(at->orders) +
         " orders of item " + std::to_string(index % items + 1) + ", there are " + std::to_string(other->orders);
}

// Goes through the rows of all tables, and collects what they say together.
class Collector {
 public:
  Collector(const Tpcc::VisitTable& visit_table, uint32_t warehouses, uint32_t items)
      : visit_table_(visit_table), warehouses_(warehouses), items_(items), found_(warehouses, items) {}

  void collect() {
    collect_loaded();
    collect_orders();
  }
  const Found& found() const { return found_; }
  const std::string& wrong() const { return wrong_; }  // the first row that cannot be, or empty

 private:
  template <class F>
  void each(TableId table, const F& row) {
    visit_table_(table, [&](NodeId, bool primary, std::string_view key_bytes, std::string_view value, uint64_t) {
      if (!primary || !wrong_.empty()) return;
      const auto key = row_of<uint64_t>(key_bytes);
      if (warehouse_of(key) >= warehouses_ || district_of(key) > kDistricts) {
        wrong_ = "tpcc-no: a row of " + place(warehouse_of(key), district_of(key));
        return;
      }
      row(key, value);
    });
  }
  DistrictSeen& district(uint64_t key) {
    return found_.districts[size_t{warehouse_of(key)} * kDistricts + std::max(1U, district_of(key)) - 1];
  }
  size_t item(uint32_t warehouse, uint32_t number) const {
    return size_t{warehouse} * items_ + std::clamp<uint32_t>(number, 1, items_) - 1;
  }

  // The tables whose rows are all loaded at the start.
  void collect_loaded() {
    each(Tpcc::kWarehouse, [&](uint64_t key, std::string_view value) {
      ++found_.warehouses;
      found_.ytd[warehouse_of(key)] += row_of<Warehouse>(value).ytd;
    });
    each(Tpcc::kDistrict, [&](uint64_t key, std::string_view value) {
      const auto row = row_of<District>(value);
      found_.ytd[warehouse_of(key)] -= row.ytd;
      district(key).there = true;
      district(key).next_order = row.next_order;
    });
    each(Tpcc::kCustomer, [&](uint64_t, std::string_view) { ++found_.customers; });
    each(Tpcc::kStock, [&](uint64_t key, std::string_view value) {
      const auto row = row_of<Stock>(value);
      ++found_.stocks;
      found_.booked[item(warehouse_of(key), number_of(key))] = {row.ytd, row.orders, row.remote_orders};
      if (row.quantity < 10 || row.quantity > 100) wrong_ = "tpcc-no: a stock of " + std::to_string(row.quantity);
    });
  }

  // The tables that transactions insert into.
  void collect_orders() {
    each(Tpcc::kOrder, [&](uint64_t key, std::string_view value) {
      const auto row = row_of<Order>(value);
      OrderSeen& seen = district(key).order(number_of(key));
      seen.order = true;
      seen.carrier = row.carrier;
      seen.lines = row.lines;
      ++found_.orders;
    });
    each(Tpcc::kNewOrder,
         [&](uint64_t key, std::string_view) { district(key).order(number_of(key)).new_order = true; });
    each(Tpcc::kOrderLine, [&](uint64_t key, std::string_view value) {
      const auto row = row_of<OrderLine>(value);
      OrderSeen& seen = district(key).order(number_of(key));
      ++seen.lines_seen;
      if (row.delivered != 0) ++seen.delivered;
      if (row.supplier >= warehouses_) {
        wrong_ = "tpcc-no: a line from warehouse " + std::to_string(row.supplier);
        return;
      }
      StockSeen& stock = found_.ordered[item(row.supplier, row.item)];
      stock.ytd += row.quantity;
      ++stock.orders;
      if (row.supplier != warehouse_of(key)) ++stock.remote_orders;
    });
  }

  const Tpcc::VisitTable& visit_table_;
  const uint32_t warehouses_, items_;
  Found found_;
  std::string wrong_;
};

}  // namespace

std::string Tpcc::check(const VisitTable& visit_table, const Tally& tally) const {
  Collector collector(visit_table, warehouses_, items_);
  collector.collect();
  if (!collector.wrong().empty()) return collector.wrong();
  const Found& found = collector.found();
  if (found.warehouses != warehouses_ || found.customers != uint64_t{warehouses_} * kDistricts * customers_ ||
      found.stocks != found.booked.size()) {
    return "tpcc-no: rows that were loaded are missing";
  }
  if (std::string text = compare(found, warehouses_, items_); !text.empty()) return text;
  if (found.orders != tally.committed[0]) {
    return "tpcc-no: " + std::to_string(tally.committed[0]) + " orders were committed, " +
           std::to_string(found.orders) + " are there";
  }
  return {};
}

}  // namespace weft::bench
