// TPC-C's delivery, of one district: its oldest order gets a carrier, and the customer's balance what it costs.
#include "weft/bench/tpcc.h"
#include "weft/bench/tpcc_txns.h"

namespace weft::bench::tpcc {

Task<Outcome> find_oldest(Session* session, uint32_t warehouse, uint32_t district, uint32_t* order) {
  Txn txn = co_await session->begin();
  const Scan scan =
      co_await txn.scan(Tpcc::kNewOrder, key_of(warehouse, district, 0), key_of(warehouse, district + 1, 0), 1);
  if (!scan) co_return give_up(txn, scan.code);
  *order = scan.items.empty() ? 0 : number_of(scan.items[0].integer);
  co_return co_await txn.commit();
}

void delivery_keys(std::string_view bytes, StoredProcedure::Keys& keys) {
  const auto delivery = row_of<DeliveryArguments>(bytes);
  const uint64_t key = key_of(delivery.warehouse, delivery.district, delivery.order);
  keys.add(Tpcc::kNewOrder, key, Intent::kUpdate);
  keys.add(Tpcc::kOrder, key, Intent::kUpdate);
}

// The customer and the number of lines are known when the order was read.
Code delivery_step(std::string_view bytes, std::span<const Value> values, StoredProcedure::Writes& writes) {
  constexpr size_t kAnnounced = 2, kFirstLine = 3;
  for (const Value& value : values) {
    if (value.code != Code::kOk) return value.code;
  }
  if (!values[0].found) {
    writes.reply(kGone);
    return Code::kOk;
  }
  for (const Value& value : values) {
    if (!value.found) return Code::kNotFound;  // an order that can be delivered is whole
  }
  const auto delivery = row_of<DeliveryArguments>(bytes);
  auto order = row_of<Order>(values[1].bytes);
  const uint64_t key = key_of(delivery.warehouse, delivery.district, delivery.order);
  const uint64_t customer_key = key_of(delivery.warehouse, delivery.district, order.customer);
  const auto line_key = [&](uint32_t n) { return key_of(delivery.warehouse, delivery.district, delivery.order, n); };
  if (values.size() == kAnnounced) {
    writes.read_more(Tpcc::kCustomer, customer_key, Intent::kUpdate);
    for (uint32_t n = 1; n <= order.lines; ++n) writes.read_more(Tpcc::kOrderLine, line_key(n), Intent::kUpdate);
    return Code::kOk;
  }
  if (values.size() != kFirstLine + order.lines) return Code::kVersionMoved;  // another order than at first
  auto customer = row_of<Customer>(values[kAnnounced].bytes);
  for (uint32_t n = 1; n <= order.lines; ++n) {
    auto line = row_of<OrderLine>(values[kFirstLine + n - 1].bytes);
    customer.balance += line.amount;
    line.delivered = delivery.at;
    writes.put(Tpcc::kOrderLine, line_key(n), bytes_of(line));
  }
  ++customer.deliveries;
  order.carrier = static_cast<uint8_t>(delivery.carrier);
  writes.put(Tpcc::kCustomer, customer_key, bytes_of(customer));
  writes.put(Tpcc::kOrder, key, bytes_of(order));
  writes.erase(Tpcc::kNewOrder, key);
  return Code::kOk;
}

}  // namespace weft::bench::tpcc
