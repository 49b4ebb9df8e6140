// The transactions of the full TPC-C other than new-order.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "weft/base/random.h"
#include "weft/bench/tpcc_full_rows.h"
#include "weft/bench/workload.h"
#include "weft/txn.h"

namespace weft::bench::tpcc {

void payment_keys(std::string_view arguments, StoredProcedure::Keys& keys);
Code payment_step(std::string_view arguments, std::span<const Value> values, StoredProcedure::Writes& writes);
void delivery_keys(std::string_view arguments, StoredProcedure::Keys& keys);
Code delivery_step(std::string_view arguments, std::span<const Value> values, StoredProcedure::Writes& writes);

// Of the customers with this last name, the middle one by first name (clause 2.5.2.2).
Task<Code> find_by_name(Txn* txn, uint32_t warehouse, uint32_t district, uint32_t name, uint32_t* customer);
// The oldest order of the district that is not delivered; 0: there is none. A transaction of its own.
Task<Outcome> find_oldest(Session* session, uint32_t warehouse, uint32_t district, uint32_t* order);

Task<Outcome> order_status(Session& session, uint32_t warehouse, Random random, uint32_t customers, Effect& effect);
Task<Outcome> stock_level(Session& session, uint32_t warehouse, Random random, Effect& effect);
// Condition 1, and the conditions 2 and 3 of a district, as they are now. `row_first`: the district's row is read
// before its orders, else after them: what was inserted meanwhile then contradicts it only if the scans have missed
// that.
Task<Outcome> audit_warehouse(Session& session, uint32_t warehouse, Effect& effect);
Task<Outcome> audit_district(Session& session, uint32_t warehouse, uint32_t district, bool row_first, Effect& effect);

// How a transaction ends whose read failed, or that did not find a row that is always there.
Outcome give_up(Txn& txn, Code code);

}  // namespace weft::bench::tpcc
