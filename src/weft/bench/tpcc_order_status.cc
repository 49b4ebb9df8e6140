// TPC-C's order-status: the newest order of a customer. What one moment cannot have is told if it commits.
#include "weft/bench/tpcc.h"
#include "weft/bench/tpcc_txns.h"

namespace weft::bench::tpcc {
namespace {

constexpr uint64_t kByNamePercent = 60;

// The order must be the customer's, have its lines, and be delivered with them or not at all.
std::string judge(uint32_t customer, const Order& order, std::span<const Scan::Item> lines) {
  const std::string of = "tpcc: the newest order of customer " + std::to_string(customer);
  if (order.customer != customer) return of + " is one of customer " + std::to_string(order.customer);
  if (order.lines != lines.size()) {
    return of + " has " + std::to_string(order.lines) + " lines, " + std::to_string(lines.size()) + " were found";
  }
  for (const Scan::Item& line : lines) {
    if ((row_of<OrderLine>(line.value).delivered == 0) != (order.carrier == 0)) {
      return of + " is delivered in part";
    }
  }
  return {};
}

}  // namespace

Task<Outcome> order_status(Session& session, uint32_t warehouse, Random random, uint32_t customers, Effect& effect) {
  const auto district = static_cast<uint32_t>(random.between(1, kDistricts));
  Txn txn = co_await session.begin();
  uint32_t customer = 0;
  if (random.chance(kByNamePercent)) {
    Task<Code> found = find_by_name(&txn, warehouse, district, draw_last_name(random, customers), &customer);
    const Code code = co_await found;
    if (code != Code::kOk) co_return give_up(txn, code);
  } else {
    customer = draw_customer(random, customers);
  }
  const Value row = co_await txn.get(Tpcc::kCustomer, key_of(warehouse, district, customer));
  if (!row) co_return give_up(txn, row.code);
  const Scan newest = co_await txn.scan(kOrderByCustomer, by_customer_key(warehouse, district, customer, kOrdersMax),
                                        by_customer_key(warehouse, district, customer + 1, kOrdersMax), 1);
  if (!newest) co_return give_up(txn, newest.code);
  effect.refused = newest.items.empty();
  std::string wrong;
  if (!effect.refused) {
    const uint32_t number = order_of(newest.items[0].integer);
    const uint64_t key = key_of(warehouse, district, number);
    const ReadHandle read = txn.get_async(Tpcc::kOrder, key);
    const Scan lines = co_await txn.scan(Tpcc::kOrderLine, key, key_of(warehouse, district, number + 1));
    co_await txn.wait(read);
    const Value order = txn.value(read);
    if (!lines || order.code != Code::kOk) co_return give_up(txn, !lines ? lines.code : order.code);
    wrong = order.found ? judge(customer, row_of<Order>(order.bytes), lines.items)
                        : "tpcc: order " + std::to_string(number) + " is in the index of its customer only";
  }
  const Outcome outcome = co_await txn.commit();
  if (outcome.committed()) effect.wrong = wrong;
  co_return outcome;
}

}  // namespace weft::bench::tpcc
