// New-order as a stored procedure, the same in tpcc-no and tpcc. What only the full workload has is said by the
// arguments: a row of the index of a customer's orders, and orders that are rolled back.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "weft/bench/workload.h"
#include "weft/txn.h"

namespace weft::bench::tpcc {

// The lines are drawn from the seed, so that `keys` and `execute` see the same.
struct NewOrderArguments {
  uint64_t entered;
  uint64_t seed;
  uint32_t warehouse, district, customer;
  uint32_t warehouses, items;  // how many there are
  Suppliers suppliers;
  bool full;      // of tpcc
  bool rollback;  // the last item is one that nobody has: it is noticed when all else is done
  uint8_t spare;
};
static_assert(sizeof(NewOrderArguments) == 40);

struct Line {
  uint32_t item;
  uint32_t supplier;
  uint32_t quantity;
};

struct DrawnLines {
  uint32_t count = 0;
  std::array<Line, 15> line;
};

DrawnLines draw_lines(const NewOrderArguments& arguments);

// What the customer is told.
struct NewOrderReply {
  uint64_t number;
  int64_t total;  // with taxes and the customer's discount
};

void new_order_keys(std::string_view arguments, StoredProcedure::Keys& keys);
Code new_order_step(std::string_view arguments, std::span<const Value> values, StoredProcedure::Writes& writes);
StoredProcedure new_order_procedure();

}  // namespace weft::bench::tpcc
