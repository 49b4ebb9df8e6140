#include "weft/bench/tpcc_new_order.h"

#include <algorithm>

#include "weft/bench/tpcc.h"
#include "weft/bench/tpcc_full_rows.h"
#include "weft/bench/tpcc_rows.h"

namespace weft::bench::tpcc {
namespace {

constexpr uint64_t kRemotePercent = 1;  // of the lines of tpcc

uint32_t draw_supplier(Random& random, const NewOrderArguments& order) {
  if (order.suppliers == Suppliers::kAll) return static_cast<uint32_t>(random.below(order.warehouses));
  if (order.suppliers == Suppliers::kRarelyOthers && !random.chance(kRemotePercent)) return order.warehouse;
  return another_warehouse(random, order.warehouse, order.warehouses);
}

// Takes the line from its supplier's stock.
void take(const NewOrderArguments& order, const Line& line, Stock stock, StoredProcedure::Writes& writes) {
  stock.quantity -= static_cast<int32_t>(line.quantity);
  if (stock.quantity < 10) stock.quantity += 91;
  stock.ytd += line.quantity;
  ++stock.orders;
  if (line.supplier != order.warehouse) ++stock.remote_orders;
  writes.put(Tpcc::kStock, key_of(line.supplier, 0, line.item), bytes_of(stock));
}

void insert(TableId table, uint64_t key, std::string_view value, StoredProcedure::Writes& writes) {
  writes.will_write(table, key);
  writes.insert(table, key, value);
}

}  // namespace

DrawnLines draw_lines(const NewOrderArguments& arguments) {
  static_assert(std::tuple_size_v<decltype(DrawnLines::line)> == kLinesMax);
  Random random(arguments.seed);
  DrawnLines lines;
  const auto wanted = static_cast<uint32_t>(random.between(kLinesMin, kLinesMax));
  while (lines.count < wanted) {
    Line line{};
    line.item = draw_item(random, arguments.items);
    line.quantity = static_cast<uint32_t>(random.between(1, kQuantityMax));
    line.supplier = draw_supplier(random, arguments);
    const auto end = lines.line.begin() + lines.count;
    const bool twice = std::any_of(lines.line.begin(), end, [&](const Line& other) {
      return other.item == line.item && other.supplier == line.supplier;
    });
    if (!twice) lines.line[lines.count++] = line;
  }
  return lines;
}

void new_order_keys(std::string_view bytes, StoredProcedure::Keys& keys) {
  const auto order = row_of<NewOrderArguments>(bytes);
  keys.add(Tpcc::kWarehouse, key_of(order.warehouse, 0, 0));
  keys.add(Tpcc::kDistrict, key_of(order.warehouse, order.district, 0), Intent::kUpdate);
  keys.add(Tpcc::kCustomer, key_of(order.warehouse, order.district, order.customer));
  const DrawnLines lines = draw_lines(order);
  for (uint32_t i = 0; i < lines.count; ++i) {
    keys.add(Tpcc::kStock, key_of(lines.line[i].supplier, 0, lines.line[i].item), Intent::kUpdate);
  }
}

Code new_order_step(std::string_view bytes, std::span<const Value> values, StoredProcedure::Writes& writes) {
  for (const Value& value : values) {
    if (value.code != Code::kOk) return value.code;
    if (!value.found) return Code::kNotFound;  // none of these rows is ever deleted
  }
  const auto order = row_of<NewOrderArguments>(bytes);
  const auto warehouse = row_of<Warehouse>(values[0].bytes);
  auto district = row_of<District>(values[1].bytes);
  const auto customer = row_of<Customer>(values[2].bytes);
  const DrawnLines lines = draw_lines(order);
  const uint32_t number = district.next_order++;
  writes.put(Tpcc::kDistrict, key_of(order.warehouse, order.district, 0), bytes_of(district));

  Order row{};
  row.entered = order.entered;
  row.customer = order.customer;
  row.lines = static_cast<uint8_t>(lines.count);
  row.all_local = 1;
  int64_t total = 0;
  for (uint32_t i = 0; i < lines.count; ++i) {
    const Line& line = lines.line[i];
    const auto stock = row_of<Stock>(values[3 + i].bytes);
    take(order, line, stock, writes);
    if (line.supplier != order.warehouse) row.all_local = 0;
    OrderLine entry{};
    entry.item = line.item;
    entry.supplier = static_cast<uint16_t>(line.supplier);
    entry.quantity = static_cast<uint8_t>(line.quantity);
    entry.amount = line.quantity * price_of(line.item);
    entry.district_info = stock.district_info[order.district - 1];
    total += entry.amount;
    insert(Tpcc::kOrderLine, key_of(order.warehouse, order.district, number, i + 1), bytes_of(entry), writes);
  }
  const uint64_t key = key_of(order.warehouse, order.district, number);
  insert(Tpcc::kOrder, key, bytes_of(row), writes);
  insert(Tpcc::kNewOrder, key, bytes_of(NewOrder{number}), writes);
  if (order.full) {
    insert(kOrderByCustomer, by_customer_key(order.warehouse, order.district, order.customer, number),
           bytes_of(NewOrder{number}), writes);
  }
  if (order.rollback) return Code::kApplication;
  total = total * (10'000 - customer.discount) / 10'000 * (10'000 + warehouse.tax + district.tax) / 10'000;
  writes.reply(bytes_of(NewOrderReply{number, total}));
  return Code::kOk;
}

StoredProcedure new_order_procedure() {
  return {
      .name = "new-order", .keys = new_order_keys, .execute = new_order_step, .reply_bytes_max = sizeof(NewOrderReply)};
}

}  // namespace weft::bench::tpcc
