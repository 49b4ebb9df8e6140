#include <cstring>
#include <numeric>
#include <vector>

#include "weft/bench/tpcc.h"
#include "weft/bench/tpcc_full_rows.h"
#include "weft/bench/tpcc_load.h"

namespace weft::bench::tpcc {
namespace {

constexpr uint64_t kAmountMax = 999'999;  // of a line that is not delivered

// The order of a customer, numbered by `number`.
Result<void> load_order(const Workload::Put& put, const Sizes& sizes, uint32_t w, uint32_t d, uint32_t number,
                        uint32_t customer, Random& random) {
  const bool delivered = number <= loaded_delivered(sizes.customers);
  const uint64_t key = key_of(w, d, number);
  Order order{};
  order.entered = 1;
  order.customer = customer;
  order.carrier = delivered ? static_cast<uint8_t>(random.between(1, kCarriers)) : uint8_t{0};
  order.lines = static_cast<uint8_t>(random.between(kLinesMin, kLinesMax));
  order.all_local = 1;
  if (auto done = put(Tpcc::kOrder, key, bytes_of(order)); !done) return done;
  if (auto done = put(kOrderByCustomer, by_customer_key(w, d, customer, number), bytes_of(NewOrder{number})); !done) {
    return done;
  }
  for (uint32_t n = 1; n <= order.lines; ++n) {
    OrderLine line{};
    line.item = static_cast<uint32_t>(random.between(1, sizes.items));
    line.supplier = static_cast<uint16_t>(w);
    line.quantity = 5;
    line.amount = delivered ? 0 : static_cast<int64_t>(random.between(1, kAmountMax));
    line.delivered = delivered ? order.entered : 0;
    line.district_info.fill('i');
    if (auto done = put(Tpcc::kOrderLine, key_of(w, d, number, n), bytes_of(line)); !done) return done;
  }
  if (delivered) return {};
  return put(Tpcc::kNewOrder, key, bytes_of(NewOrder{number}));
}

Result<void> load_payment(const Workload::Put& put, uint32_t w, uint32_t d, uint32_t customer) {
  History history{};
  history.at = 1;
  history.amount = kLoadedPayment;
  history.customer = customer;
  history.customer_warehouse = history.warehouse = static_cast<uint16_t>(w);
  history.customer_district = history.district = static_cast<uint8_t>(d);
  std::memset(history.data, 'h', sizeof history.data);
  return put(kHistory, history_key(w, kLoadedHistory | uint64_t{d} << 32 | customer), bytes_of(history));
}

}  // namespace

Result<void> load_orders(const Workload::Put& put, const Sizes& sizes, Random& random) {
  std::vector<uint32_t> customers(sizes.customers);
  for (uint32_t w = 0; w < sizes.warehouses; ++w) {
    for (uint32_t d = 1; d <= kDistricts; ++d) {
      std::iota(customers.begin(), customers.end(), 1U);
      for (size_t i = customers.size(); i > 1; --i) std::swap(customers[i - 1], customers[random.below(i)]);
      for (uint32_t c = 1; c <= sizes.customers; ++c) {
        if (auto done = load_order(put, sizes, w, d, c, customers[c - 1], random); !done) return done;
        if (auto done = load_payment(put, w, d, c); !done) return done;
      }
    }
  }
  return {};
}

}  // namespace weft::bench::tpcc
