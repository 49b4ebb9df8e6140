#include "weft/bench/tpcc_found.h"

#include <algorithm>
#include <cstring>

#include "weft/bench/tpcc.h"
#include "weft/bench/tpcc_full_rows.h"

namespace weft::bench::tpcc {
namespace {

class Collector {
 public:
  Collector(const Workload::VisitTable& visit_table, const Sizes& sizes, bool full, Found* found)
      : visit_table_(visit_table), sizes_(sizes), full_(full), found_(*found) {}

  void collect() {
    collect_places();
    collect_orders();
    collect_lines();
    if (!full_) return;
    collect_history();
    collect_indexes();
  }

 private:
  template <class F>
  void each(TableId table, const F& row) {
    visit_table_(table, [&](NodeId, bool primary, std::string_view key_bytes, std::string_view value, uint64_t) {
      if (!primary || !found_.wrong.empty()) return;
      const auto key = row_of<uint64_t>(key_bytes);
      const bool in_district = table != kHistory;  // its numbers are the clients'
      if (warehouse_of(key) >= sizes_.warehouses || (in_district && district_of(key) > kDistricts)) {
        found_.wrong = "a row of warehouse " + std::to_string(warehouse_of(key)) + ", district " +
                       std::to_string(district_of(key));
        return;
      }
      row(key, value);
    });
  }
  DistrictSeen& district_at(uint32_t warehouse, uint32_t district) {
    return found_.districts[size_t{warehouse} * kDistricts + std::clamp(district, 1U, kDistricts) - 1];
  }
  DistrictSeen& district(uint64_t key) { return district_at(warehouse_of(key), district_of(key)); }
  // nullptr: there is no such customer, which is wrong.
  CustomerSeen* customer_at(uint32_t warehouse, uint32_t district, uint32_t number) {
    if (warehouse < sizes_.warehouses && number >= 1 && number <= sizes_.customers) {
      return &district_at(warehouse, district).customers[number - 1];
    }
    found_.wrong = "a row of customer " + std::to_string(number) + " of warehouse " + std::to_string(warehouse);
    return nullptr;
  }
  size_t item(uint32_t warehouse, uint32_t number) const {
    return size_t{warehouse} * sizes_.items + std::clamp<uint32_t>(number, 1, sizes_.items) - 1;
  }
  // False: nobody can have given this number, and so many rows are not made.
  bool is_order(uint64_t key, uint32_t number) {
    if (number >= 1 && number <= kOrdersMax) return true;
    found_.wrong = "order " + std::to_string(number) + " in warehouse " + std::to_string(warehouse_of(key));
    return false;
  }

  void collect_places() {
    each(Tpcc::kWarehouse, [&](uint64_t key, std::string_view value) {
      ++found_.warehouses;
      found_.ytd[warehouse_of(key)] = row_of<Warehouse>(value).ytd;
    });
    each(Tpcc::kDistrict, [&](uint64_t key, std::string_view value) {
      const auto row = row_of<District>(value);
      DistrictSeen& seen = district(key);
      seen.there = true;
      seen.ytd = row.ytd;
      seen.next_order = row.next_order;
    });
    each(Tpcc::kCustomer, [&](uint64_t key, std::string_view value) {
      const auto row = row_of<Customer>(value);
      CustomerSeen* seen = customer_at(warehouse_of(key), district_of(key), number_of(key));
      if (seen == nullptr) return;
      ++found_.customers;
      seen->there = true;
      seen->balance = row.balance;
      seen->ytd_payment = row.ytd_payment;
      std::memcpy(seen->first.data(), row.first, sizeof row.first);
      std::memcpy(seen->last.data(), row.last, sizeof row.last);
    });
    each(Tpcc::kStock, [&](uint64_t key, std::string_view value) {
      const auto row = row_of<Stock>(value);
      ++found_.stocks;
      found_.booked[item(warehouse_of(key), number_of(key))] = {row.ytd, row.orders, row.remote_orders};
      if (row.quantity < 10 || row.quantity > 100) found_.wrong = "a stock of " + std::to_string(row.quantity);
    });
  }

  void collect_orders() {
    each(Tpcc::kOrder, [&](uint64_t key, std::string_view value) {
      if (!is_order(key, number_of(key))) return;
      const auto row = row_of<Order>(value);
      OrderSeen& seen = district(key).order(number_of(key));
      seen.order = true;
      seen.carrier = row.carrier;
      seen.lines = row.lines;
      seen.customer = row.customer;
      ++found_.orders;
    });
    each(Tpcc::kNewOrder, [&](uint64_t key, std::string_view) {
      if (is_order(key, number_of(key))) district(key).order(number_of(key)).new_order = true;
    });
  }

  void collect_lines() {
    each(Tpcc::kOrderLine, [&](uint64_t key, std::string_view value) {
      if (!is_order(key, number_of(key))) return;
      const auto row = row_of<OrderLine>(value);
      OrderSeen& seen = district(key).order(number_of(key));
      ++seen.lines_seen;
      if (row.delivered != 0) {
        ++seen.delivered;
        seen.amount += row.amount;
      }
      if (row.supplier >= sizes_.warehouses) {
        found_.wrong = "a line from warehouse " + std::to_string(row.supplier);
        return;
      }
      if (full_ && number_of(key) <= sizes_.customers) return;  // loaded: no stock was taken for it
      StockSeen& stock = found_.ordered[item(row.supplier, row.item)];
      stock.ytd += row.quantity;
      ++stock.orders;
      if (row.supplier != warehouse_of(key)) ++stock.remote_orders;
    });
  }

  void collect_history() {
    each(kHistory, [&](uint64_t key, std::string_view value) {
      const auto row = row_of<History>(value);
      CustomerSeen* customer = customer_at(row.customer_warehouse, row.customer_district, row.customer);
      if (customer == nullptr) return;
      if (row.warehouse != warehouse_of(key)) {
        found_.wrong = "a payment to warehouse " + std::to_string(row.warehouse) + " is at warehouse " +
                       std::to_string(warehouse_of(key));
        return;
      }
      ++found_.payments;
      customer->paid += row.amount;
      district_at(row.warehouse, row.district).paid += row.amount;
    });
  }

  void collect_indexes() {
    each(kCustomerByName, [&](uint64_t key, std::string_view value) {
      CustomerSeen* customer = customer_at(warehouse_of(key), district_of(key), named_customer(key));
      if (customer == nullptr) return;
      std::array<char, 16> room{};
      const std::string_view name = last_name(name_of(key), &room);
      const bool same = std::equal(name.begin(), name.end(), customer->last.begin()) &&
                        std::memcmp(value.data(), customer->first.data(), customer->first.size()) == 0;
      if (!same || customer->named) found_.wrong = "customer-by-name and a customer differ";
      customer->named = true;
    });
    each(kOrderByCustomer, [&](uint64_t key, std::string_view value) {
      if (!is_order(key, order_of(key))) return;
      OrderSeen& seen = district(key).order(order_of(key));
      if (seen.customer_seen != 0 || row_of<NewOrder>(value).order != order_of(key)) {
        found_.wrong = "order " + std::to_string(order_of(key)) + " is in the index of customers twice";
      }
      seen.customer_seen = ordering_customer(key);
    });
  }

  const Workload::VisitTable& visit_table_;
  const Sizes& sizes_;
  const bool full_;
  Found& found_;
};

}  // namespace

Found collect(const Workload::VisitTable& visit_table, const Sizes& sizes, bool full) {
  Found found(sizes);
  Collector(visit_table, sizes, full, &found).collect();
  return found;
}

}  // namespace weft::bench::tpcc
