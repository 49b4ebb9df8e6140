// The initial contents of TPC-C's tables (clause 4.3.3.1).
#pragma once

#include <vector>

#include "weft/base/random.h"
#include "weft/bench/tpcc_rows.h"
#include "weft/bench/workload.h"

namespace weft::bench::tpcc {

TableSpec table_of(const char* name, size_t value_bytes, uint64_t capacity);  // partitioned by warehouse
std::vector<TableSpec> base_tables(const Sizes& sizes);                       // those of new-order

// Warehouses, districts, customers and stocks. `full`: customers by name too, and orders that load_orders adds.
Result<void> load_places(const Workload::Put& put, const Sizes& sizes, bool full, Random& random);
// Orders with their lines and the history: one of each for every customer. The newest three orders of ten are not
// delivered.
Result<void> load_orders(const Workload::Put& put, const Sizes& sizes, Random& random);
// Orders of a district that are loaded as delivered.
constexpr uint32_t loaded_delivered(uint32_t customers) { return customers * 7 / 10; }

// The last name of a customer: the first thousand have one each.
uint32_t last_name_number(uint32_t customer, Random& random);

}  // namespace weft::bench::tpcc
