// The rows of TPC-C's tables that new-order touches, their keys, and what is drawn for one order: plain data.
//
// A key is a number of 8 bytes; its highest two are the warehouse, by which all tables are partitioned:
//
//   byte    7   6   5   4   3   2   1   0
//         [ ware. ][d] [ number        ][n]     d district, n line of an order
//
// number: of the customer, the item or the order. Money is whole cents, rates are ten-thousandths.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "weft/bench/rows.h"
#include "weft/bench/workload.h"

namespace weft::bench::tpcc {

inline constexpr uint32_t kDistricts = 10;  // of a warehouse, 1 .. 10
inline constexpr uint32_t kLinesMin = 5;    // of an order
inline constexpr uint32_t kLinesMax = 15;
inline constexpr uint32_t kQuantityMax = 10;  // of a line, from 1
inline constexpr uint32_t kWarehousesMax = 65'535;

// How much of everything there is. Tests have less of it.
struct Sizes {
  uint32_t warehouses = 1;
  uint32_t items = 100'000;
  uint32_t customers = 3'000;   // of a district
  uint32_t orders_max = 3'000;  // of a district, for which there is room
};

// So many orders, of all districts alike, and never less than `least` a district. A table has some room in addition,
// for districts that get more than others.
constexpr uint32_t kOrdersRoomMax = (1U << 24) - 2;  // numbers of orders have 24 bits in the indexes of tpcc
constexpr uint32_t room_for(uint64_t orders, uint32_t warehouses, uint32_t least) {
  const uint64_t districts = uint64_t{warehouses} * kDistricts;
  const uint64_t each = orders / districts + (orders % districts != 0 ? 1 : 0);
  return each < least ? least : each > kOrdersRoomMax ? kOrdersRoomMax : static_cast<uint32_t>(each);
}

constexpr uint64_t key_of(uint32_t warehouse, uint32_t district, uint32_t number, uint32_t line = 0) {
  return uint64_t{warehouse} << 48 | uint64_t{district} << 40 | uint64_t{number} << 8 | line;
}
constexpr uint32_t warehouse_of(uint64_t key) { return static_cast<uint32_t>(key >> 48); }
constexpr uint32_t district_of(uint64_t key) { return key >> 40 & 0xff; }
constexpr uint32_t line_of(uint64_t key) { return key & 0xff; }
constexpr uint32_t number_of(uint64_t key) { return static_cast<uint32_t>(key >> 8); }
static_assert(number_of(key_of(7, 10, 3'000, 15)) == 3'000 && line_of(key_of(7, 10, 3'000, 15)) == 15);

struct Warehouse {
  int64_t ytd;
  uint32_t tax;
  char name[10], street_1[20], street_2[20], city[20], state[2], zip[9];
  char spare[3];
};
static_assert(sizeof(Warehouse) == 96);

struct District {
  int64_t ytd;
  uint32_t tax;
  uint32_t next_order;
  char name[10], street_1[20], street_2[20], city[20], state[2], zip[9];
  char spare[7];
};
static_assert(sizeof(District) == 104);

struct Customer {
  int64_t balance, ytd_payment, credit_limit;
  uint32_t discount;
  uint16_t payments, deliveries;
  uint64_t since;
  char credit[2], first[16], middle[2], last[16];
  char street_1[20], street_2[20], city[20], state[2], zip[9], phone[16];
  char data[500];
  char spare[1];
};
static_assert(sizeof(Customer) == 664);

struct Stock {
  uint64_t ytd;
  uint32_t orders, remote_orders;
  int32_t quantity;
  std::array<char, 24> district_info[kDistricts];
  char data[50];
  char spare[2];
};
static_assert(sizeof(Stock) == 312);

struct Order {
  uint64_t entered;  // when, in nanoseconds of the coordinator's clock
  uint32_t customer;
  uint8_t carrier;  // 0: not delivered
  uint8_t lines;
  uint8_t all_local;
  uint8_t spare;
};
static_assert(sizeof(Order) == 16);

struct NewOrder {
  uint64_t order;
};
static_assert(sizeof(NewOrder) == 8);

struct OrderLine {
  uint32_t item;
  uint16_t supplier;
  uint8_t quantity;
  uint8_t spare;
  int64_t amount;
  uint64_t delivered;  // 0: not yet
  std::array<char, 24> district_info;
};
static_assert(sizeof(OrderLine) == 48);

// Item rows never change and every node has all of them, so they are computed from the item's number.
constexpr int64_t price_of(uint32_t item) {
  return 100 + static_cast<int64_t>((item * uint64_t{2'654'435'761}) % 9'901);
}

// The first warehouse from this one on whose primary is the session's node; this one if there is none.
uint32_t warehouse_here(const Session& session, uint32_t warehouses, uint32_t from);

// A name of three syllables for a number below 1,000.
std::string_view last_name(uint32_t number, std::array<char, 16>* room);
inline constexpr uint32_t kLastNames = 1'000;

// The benchmark's NURand: a number of this range, some more often than others.
uint32_t draw_unevenly(Random& random, uint64_t spread, uint64_t shift, uint32_t from, uint32_t to);
uint32_t draw_customer(Random& random, uint32_t customers);
uint32_t draw_item(Random& random, uint32_t items);

}  // namespace weft::bench::tpcc
