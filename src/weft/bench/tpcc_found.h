// What TPC-C's tables say together: collected from the primaries' records after a run, compared in tpcc_check.cc.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/bench/tpcc_rows.h"
#include "weft/bench/workload.h"

namespace weft::bench::tpcc {

struct OrderSeen {
  bool order = false, new_order = false;
  uint8_t carrier = 0;
  uint8_t lines = 0;
  uint8_t lines_seen = 0;
  uint8_t delivered = 0;       // lines
  uint32_t customer = 0;       // as the order says
  uint32_t customer_seen = 0;  // as the index says
  int64_t amount = 0;          // of the lines that are delivered
};

struct CustomerSeen {
  bool there = false, named = false;
  int64_t balance = 0, ytd_payment = 0;
  int64_t paid = 0;  // as the history says
  std::array<char, 16> first{}, last{};
};

struct DistrictSeen {
  bool there = false;
  uint32_t next_order = 0;
  int64_t ytd = 0;
  int64_t paid = 0;               // as the history says
  std::vector<OrderSeen> orders;  // by number, from 1
  std::vector<CustomerSeen> customers;

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

struct Found {
  explicit Found(const Sizes& sizes)
      : ytd(sizes.warehouses),
        districts(size_t{sizes.warehouses} * kDistricts),
        booked(size_t{sizes.warehouses} * sizes.items),
        ordered(booked.size()) {
    for (DistrictSeen& district : districts) district.customers.resize(sizes.customers);
  }

  std::vector<int64_t> ytd;  // of warehouses
  std::vector<DistrictSeen> districts;
  std::vector<StockSeen> booked, ordered;
  uint64_t warehouses = 0, customers = 0, stocks = 0, orders = 0, payments = 0;
  std::string wrong;  // the first row that cannot be
};

// `full`: with the tables that only the full workload has.
Found collect(const Workload::VisitTable& visit_table, const Sizes& sizes, bool full);

// The first condition that does not hold, or nothing.
std::string compare(const Found& found, const Sizes& sizes, bool full);

}  // namespace weft::bench::tpcc
