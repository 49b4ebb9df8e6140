// Conditions 1 to 3 of TPC-C while it runs: transactions that only read, and must find them true if they commit. They
// read one thing after the other, so that they would see several moments if they were not validated.
#include <array>

#include "weft/bench/tpcc.h"
#include "weft/bench/tpcc_txns.h"

namespace weft::bench::tpcc {
namespace {

constexpr uint32_t kRowsMax = 2'000;  // of the orders that are not delivered, from the oldest on

std::string name_of_place(uint32_t warehouse, uint32_t district) {
  return "tpcc: while it ran, in warehouse " + std::to_string(warehouse) +
         (district == 0 ? std::string() : ", district " + std::to_string(district));
}

// What was read of a district.
struct Read {
  uint32_t next_order = 0;
  uint32_t newest_order = 0;
  Scan open, newest_open;  // new-order rows: from the oldest on, and the newest
};

std::string judge(const Read& read) {
  if (read.newest_order != read.next_order - 1) {
    return "condition 2: the next order is " + std::to_string(read.next_order) + ", the newest has number " +
           std::to_string(read.newest_order);
  }
  if (read.newest_open.items.empty() != read.open.items.empty()) {
    return "condition 2: new-order has rows from one end only";
  }
  if (read.open.items.empty()) return {};  // all are delivered
  if (number_of(read.newest_open.items[0].integer) != read.newest_order) {
    return "condition 2: the newest order is " + std::to_string(read.newest_order) + ", the newest not delivered " +
           std::to_string(number_of(read.newest_open.items[0].integer));
  }
  const uint32_t oldest = number_of(read.open.items.front().integer), last = number_of(read.open.items.back().integer);
  if (last - oldest + 1 != read.open.items.size() || (!read.open.limited && last != read.newest_order)) {
    return "condition 3: " + std::to_string(read.open.items.size()) + " orders are not delivered, from " +
           std::to_string(oldest) + " to " + std::to_string(last);
  }
  return {};
}

Task<Code> read_next(Txn* txn, uint64_t district, Read* read) {
  const Value value = co_await txn->get(Tpcc::kDistrict, district);
  if (!value) co_return value.code == Code::kOk ? Code::kNotFound : value.code;
  read->next_order = row_of<District>(value.bytes).next_order;
  co_return Code::kOk;
}

}  // namespace

Task<Outcome> audit_warehouse(Session& session, uint32_t warehouse, Effect& effect) {
  Txn txn = co_await session.begin();
  const Value row = co_await txn.get(Tpcc::kWarehouse, key_of(warehouse, 0, 0));
  if (!row) co_return give_up(txn, row.code);
  std::array<ReadHandle, kDistricts> districts;
  for (uint32_t d = 1; d <= kDistricts; ++d) {
    districts[d - 1] = txn.get_async(Tpcc::kDistrict, key_of(warehouse, d, 0));
  }
  co_await txn.wait_all();
  int64_t sum = 0;
  for (const ReadHandle handle : districts) {
    const Value value = txn.value(handle);
    if (!value) co_return give_up(txn, value.code);
    sum += row_of<District>(value.bytes).ytd;
  }
  const int64_t ytd = row_of<Warehouse>(row.bytes).ytd;
  const Outcome outcome = co_await txn.commit();
  if (outcome.committed() && ytd != sum) {
    effect.wrong = name_of_place(warehouse, 0) + ", condition 1: it was paid " + std::to_string(ytd) +
                   ", its districts " + std::to_string(sum);
  }
  co_return outcome;
}

Task<Outcome> audit_district(Session& session, uint32_t warehouse, uint32_t district, bool row_first, Effect& effect) {
  const uint64_t from = key_of(warehouse, district, 0), to = key_of(warehouse, district + 1, 0);
  Txn txn = co_await session.begin();
  Read read;
  if (row_first) {
    Task<Code> next = read_next(&txn, from, &read);
    if (const Code code = co_await next; code != Code::kOk) co_return give_up(txn, code);
  }
  read.open = co_await txn.scan(Tpcc::kNewOrder, from, to, kRowsMax);
  if (!read.open) co_return give_up(txn, read.open.code);
  read.newest_open = co_await txn.scan(Tpcc::kNewOrder, from, to, 1, Direction::kBackward);
  if (!read.newest_open) co_return give_up(txn, read.newest_open.code);
  const Scan line = co_await txn.scan(Tpcc::kOrderLine, from, to, 1, Direction::kBackward);
  if (!line) co_return give_up(txn, line.code);
  if (!line.items.empty()) read.newest_order = number_of(line.items[0].integer);
  if (!row_first) {
    Task<Code> next = read_next(&txn, from, &read);
    if (const Code code = co_await next; code != Code::kOk) co_return give_up(txn, code);
  }
  const std::string wrong = judge(read);  // what it has read belongs to the transaction
  const Outcome outcome = co_await txn.commit();
  if (outcome.committed() && !wrong.empty()) effect.wrong = name_of_place(warehouse, district) + ", " + wrong;
  co_return outcome;
}

}  // namespace weft::bench::tpcc
