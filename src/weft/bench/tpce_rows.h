// The rows of TPC-E's tables that customer-position reads, their keys, and the arguments and replies of the procedures:
// plain data. What a customer owns is in the partition of the customer, and so its keys begin with the customer's
// number, by which these tables are partitioned:
//
//   byte    0   1   2   3   4   5   6   7
//         [ customer      ][a] [t] [      ]      a account, t place of a trade in the account's history
//
// Securities are partitioned by their number. Money is whole cents.
#pragma once

#include <array>
#include <cstdint>

#include "weft/bench/rows.h"
#include "weft/bench/workload.h"

namespace weft::bench::tpce {

inline constexpr uint32_t kAccounts = 10;  // of a customer
inline constexpr uint32_t kHistory = 10;   // trades that an account remembers
inline constexpr uint32_t kPairs = kAccounts;
inline constexpr uint32_t kSecurities = 2 * kPairs;  // that a customer holds
inline constexpr uint32_t kHoldings = 4;             // securities of an account: those of two pairs
inline constexpr uint32_t kQuantityMax = 20;         // of a trade, from 1
inline constexpr int64_t kPriceMoveMax = 50;         // by one trade, up or down
inline constexpr int64_t kLoadedBalance = 10'000'000;
inline constexpr int32_t kLoadedQuantity = 100;

constexpr uint64_t customer_key(uint32_t customer) { return customer; }
constexpr uint64_t account_key(uint32_t customer, uint32_t account) { return customer | uint64_t{account} << 32; }
constexpr uint64_t trade_key(uint32_t customer, uint32_t account, uint64_t number) {
  return account_key(customer, account) | number % kHistory << 40;
}
constexpr uint32_t customer_of(uint64_t key) { return static_cast<uint32_t>(key); }
constexpr uint32_t account_of(uint64_t key) { return key >> 32 & 0xff; }
constexpr uint32_t place_of(uint64_t key) { return key >> 40 & 0xff; }

// The securities 2n and 2n + 1 are a pair: what a trade adds to one price, it takes from the other. Neighbouring
// numbers are in different partitions.
constexpr uint32_t partner_of(uint32_t security) { return security ^ 1; }
constexpr int64_t pair_price(uint32_t pair) { return 5'000 + static_cast<int64_t>(pair % 97) * 100; }
constexpr uint32_t security_of(uint32_t pair, uint32_t side) { return 2 * pair + side; }

// A customer holds as much of each of ten pairs that follow one another, from this one on. Account i has those of the
// pairs i and i + 1 (the last has the last and the first), so that two accounts of a customer hold each pair.
constexpr uint32_t pair_of(uint32_t customer, uint32_t i, uint32_t pairs) {
  return static_cast<uint32_t>((customer * uint64_t{0x9e3779b97f4a7c15U} >> 32) + i % kPairs) % pairs;
}

struct Customer {
  uint64_t tax_number;
  char last[25], first[20], middle, gender, tier;
  char email[48];
};
static_assert(sizeof(Customer) == 104);

struct Account {
  int64_t balance;
  uint64_t trades;  // how many there were; the last of them are in the history
  char name[50];
  uint8_t tax_status;
  char spare[5];
};
static_assert(sizeof(Account) == 72);

struct Holding {
  uint32_t security;
  int32_t quantity;
};
struct HoldingSummary {
  std::array<Holding, kHoldings> holding;
};
static_assert(sizeof(HoldingSummary) == 32);

struct LastTrade {
  int64_t price, open_price;
  uint64_t at;      // when, in nanoseconds of the coordinator's clock
  uint64_t trades;  // of this security
  uint64_t volume;
};
static_assert(sizeof(LastTrade) == 40);

struct Trade {
  uint64_t number;  // of the account's trades, from 1; 0: there was none yet
  uint64_t at;
  int64_t price;
  uint32_t security;
  int32_t quantity;  // what the account got; less than 0: what it gave away
};
static_assert(sizeof(Trade) == 32);

// The newest of an account's trades that has this place in the history; 0: none.
constexpr uint64_t newest_at(uint64_t place, uint64_t trades) {
  const uint64_t later = (trades + kHistory - place) % kHistory;
  return trades > later ? trades - later : 0;
}
static_assert(newest_at(3, 13) == 13 && newest_at(4, 13) == 4 && newest_at(4, 3) == 0 && newest_at(0, 9) == 0);

struct PositionArguments {
  uint32_t customer;
  uint32_t history_of;  // an account, or kAccounts: no history is wanted
};
static_assert(sizeof(PositionArguments) == 8);

// The position of a customer: what is in each account, and what its holdings are worth.
struct Position {
  std::array<int64_t, kAccounts> cash, assets;
  uint32_t uneven;  // securities of which the customer has more or less than was loaded
  uint32_t gaps;    // trades of the history that are not the account's last ones
};
static_assert(sizeof(Position) == 168);

struct TradeArguments {
  uint64_t at;
  uint32_t customer;
  uint32_t security;
  uint32_t from, to;  // accounts
  int32_t quantity;
  int32_t move;  // of the security's price
};
static_assert(sizeof(TradeArguments) == 32);

// The reply of a trade for which the account had too little. Without a reply, it was made.
inline constexpr std::string_view kTooLittle = "too little";

}  // namespace weft::bench::tpce
