// TPC-C's stock-level: how many of the items of a district's last orders are low in stock.
#include <algorithm>
#include <vector>

#include "weft/bench/tpcc.h"
#include "weft/bench/tpcc_txns.h"

namespace weft::bench::tpcc {
namespace {

constexpr uint32_t kLastOrders = 20;
constexpr uint64_t kThresholdMin = 10, kThresholdMax = 20;

}  // namespace

Task<Outcome> stock_level(Session& session, uint32_t warehouse, Random random, Effect& effect) {
  const auto district = static_cast<uint32_t>(random.between(1, kDistricts));
  const auto threshold = static_cast<int32_t>(random.between(kThresholdMin, kThresholdMax));
  Txn txn = co_await session.begin();
  const Value row = co_await txn.get(Tpcc::kDistrict, key_of(warehouse, district, 0));
  if (!row) co_return give_up(txn, row.code);
  const uint32_t next = row_of<District>(row.bytes).next_order;
  const uint32_t first = next > kLastOrders ? next - kLastOrders : 1;
  const Scan lines =
      co_await txn.scan(Tpcc::kOrderLine, key_of(warehouse, district, first), key_of(warehouse, district, next));
  if (!lines) co_return give_up(txn, lines.code);
  std::vector<uint32_t> items;
  uint32_t orders = 0, last = 0;
  for (const Scan::Item& line : lines.items) {
    items.push_back(row_of<OrderLine>(line.value).item);
    orders += number_of(line.integer) != last ? 1 : 0;
    last = number_of(line.integer);
  }
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
  std::vector<ReadHandle> stocks;
  for (const uint32_t item : items) stocks.push_back(txn.get_async(Tpcc::kStock, key_of(warehouse, 0, item)));
  co_await txn.wait_all();
  int64_t low = 0;
  for (const ReadHandle handle : stocks) {
    const Value stock = txn.value(handle);
    if (!stock) co_return give_up(txn, stock.code);
    low += row_of<Stock>(stock.bytes).quantity < threshold ? 1 : 0;
  }
  const Outcome outcome = co_await txn.commit();
  if (outcome.committed() && orders != next - first) {
    effect.wrong = "tpcc: of the orders " + std::to_string(first) + " to " + std::to_string(next - 1) +
                   " of a district, " + std::to_string(orders) + " have lines";
  }
  effect.refused = outcome.committed() && low == 0;
  co_return outcome;
}

}  // namespace weft::bench::tpcc
