// What the full TPC-C has beside the rows of new-order (tpcc_rows.h): the history, two indexes in order, and the
// arguments of payment and delivery. Plain data.
//
//   byte                 7   6   5   4   3   2   1   0
//   customer-by-name   [ ware. ][d] [ name  ][ customer  ]     name: the number of the last name (last_name)
//   order-by-customer  [ ware. ][d] [ cust. ][ ~order    ]     the newest first
//   history            [ ware. ][ a number of the client's   ]
#pragma once

#include <array>
#include <cstdint>

#include "weft/base/random.h"
#include "weft/bench/rows.h"
#include "weft/bench/tpcc_rows.h"
#include "weft/types.h"

namespace weft::bench::tpcc {

inline constexpr TableId kHistory{7}, kCustomerByName{8}, kOrderByCustomer{9};
inline constexpr uint32_t kCustomersMax = 65'535;       // of a district
inline constexpr uint32_t kOrdersMax = (1U << 24) - 1;  // likewise
inline constexpr int64_t kLoadedPayment = 1'000;        // of each customer
inline constexpr uint32_t kCarriers = 10;

constexpr uint64_t by_name_key(uint32_t warehouse, uint32_t district, uint32_t name, uint32_t customer) {
  return uint64_t{warehouse} << 48 | uint64_t{district} << 40 | uint64_t{name} << 24 | customer;
}
constexpr uint32_t name_of(uint64_t by_name) { return by_name >> 24 & 0xffff; }
constexpr uint32_t named_customer(uint64_t by_name) { return by_name & 0xff'ffff; }

constexpr uint64_t by_customer_key(uint32_t warehouse, uint32_t district, uint32_t customer, uint32_t order) {
  return uint64_t{warehouse} << 48 | uint64_t{district} << 40 | uint64_t{customer} << 24 | (kOrdersMax - order);
}
constexpr uint32_t ordering_customer(uint64_t by_customer) { return by_customer >> 24 & 0xffff; }
constexpr uint32_t order_of(uint64_t by_customer) { return kOrdersMax - (by_customer & 0xff'ffff); }
static_assert(order_of(by_customer_key(7, 10, 3'000, 9)) == 9 &&
              ordering_customer(by_customer_key(7, 10, 3'000, 9)) == 3'000);

inline constexpr uint64_t kLoadedHistory = uint64_t{1} << 47;  // the numbers of a run are below
constexpr uint64_t history_key(uint32_t warehouse, uint64_t number) {
  return uint64_t{warehouse} << 48 | (number & 0xffff'ffff'ffffU);
}

struct History {
  uint64_t at;
  int64_t amount;
  uint32_t customer;
  uint16_t customer_warehouse, warehouse;
  uint8_t customer_district, district;
  char data[24];
  char spare[6];
};
static_assert(sizeof(History) == 56);

struct NameEntry {  // the customer's first name, by which those of one last name are sorted
  char first[16];
};

struct PaymentArguments {
  uint64_t at;
  uint64_t history;  // its key
  int64_t amount;
  uint32_t warehouse, district;
  uint32_t customer_warehouse, customer_district, customer;
  uint32_t spare;
};
static_assert(sizeof(PaymentArguments) == 48);

struct DeliveryArguments {
  uint64_t at;
  uint32_t warehouse, district, order, carrier;
};
static_assert(sizeof(DeliveryArguments) == 24);

// The reply of a delivery that came too late: another one has delivered the order.
inline constexpr std::string_view kGone = "gone";

// Another than this one, if there is one.
uint32_t another_warehouse(Random& random, uint32_t warehouse, uint32_t warehouses);
// The number of a last name that some customer of a district has.
uint32_t draw_last_name(Random& random, uint32_t customers);
constexpr uint32_t last_names(uint32_t customers) { return customers < kLastNames ? customers : kLastNames; }

}  // namespace weft::bench::tpcc
