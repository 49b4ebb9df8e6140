#include "weft/bench/tpcc_load.h"

#include <algorithm>
#include <cstring>

#include "weft/bench/tpcc.h"
#include "weft/bench/tpcc_full_rows.h"

namespace weft::bench::tpcc {
namespace {

constexpr uint32_t kTaxMax = 2'000;
constexpr uint32_t kDiscountMax = 5'000;
constexpr uint64_t kBadCreditPercent = 10;
constexpr uint64_t kOriginalPercent = 10;

template <size_t N>
void fill(char (&text)[N], Random& random) {
  for (char& c : text) c = static_cast<char>('a' + random.below(26));
}
template <size_t N>
void fill_digits(char (&text)[N], Random& random) {
  for (char& c : text) c = static_cast<char>('0' + random.below(10));
}
template <size_t N>
void set(char (&text)[N], std::string_view to) {
  std::memcpy(text, to.data(), std::min(N, to.size()));
}

template <class Place>  // a row with an address
void fill_address(Place& row, Random& random) {
  fill(row.street_1, random);
  fill(row.street_2, random);
  fill(row.city, random);
  fill(row.state, random);
  fill_digits(row.zip, random);
  std::memset(row.zip + 4, '1', sizeof row.zip - 4);
}

// One in ten says ORIGINAL somewhere.
void fill_data(char (&data)[50], Random& random) {
  constexpr std::string_view kOriginal = "ORIGINAL";
  fill(data, random);
  if (random.chance(kOriginalPercent)) {
    std::memcpy(data + random.below(sizeof data - kOriginal.size()), kOriginal.data(), kOriginal.size());
  }
}

Customer draw_customer_row(uint32_t name, Random& random) {
  Customer row{};
  row.discount = static_cast<uint32_t>(random.between(0, kDiscountMax));
  row.credit_limit = 5'000'000;
  row.balance = -kLoadedPayment;
  row.ytd_payment = kLoadedPayment;
  row.payments = 1;
  set(row.credit, random.chance(kBadCreditPercent) ? "BC" : "GC");
  fill(row.first, random);
  set(row.middle, "OE");
  std::array<char, 16> room;
  set(row.last, last_name(name, &room));
  fill_address(row, random);
  fill_digits(row.phone, random);
  fill(row.data, random);
  return row;
}

Result<void> load_district(const Workload::Put& put, const Sizes& sizes, uint32_t w, uint32_t d, uint32_t next_order,
                           Random& random) {
  District district{};
  district.ytd = sizes.customers * kLoadedPayment;
  district.tax = static_cast<uint32_t>(random.between(0, kTaxMax));
  district.next_order = next_order;
  fill(district.name, random);
  fill_address(district, random);
  return put(Tpcc::kDistrict, key_of(w, d, 0), bytes_of(district));
}

}  // namespace

TableSpec table_of(const char* name, size_t value_bytes, uint64_t capacity) {
  TableSpec out;
  out.name = name;
  out.value_bytes_max = static_cast<uint32_t>(value_bytes);
  out.capacity = capacity;
  out.partition = PartitionBy::kPrefix;
  out.prefix_bytes = 2;
  out.integer_prefix = IntegerPrefix::kHighBytes;
  return out;
}

std::vector<TableSpec> base_tables(const Sizes& sizes) {
  // Every partition has the same number of warehouses: the bench counts them per node, and a node has one partition.
  const uint64_t warehouses = sizes.warehouses, districts = warehouses * kDistricts;
  const uint64_t orders = districts * sizes.orders_max;
  return {table_of("warehouse", sizeof(Warehouse), warehouses),
          table_of("district", sizeof(District), districts),
          table_of("customer", sizeof(Customer), districts * sizes.customers),
          table_of("stock", sizeof(Stock), warehouses * sizes.items),
          table_of("order", sizeof(Order), orders),
          table_of("new-order", sizeof(NewOrder), orders),
          table_of("order-line", sizeof(OrderLine), orders * (kLinesMin + kLinesMax) / 2)};
}

Result<void> load_places(const Workload::Put& put, const Sizes& sizes, bool full, Random& random) {
  for (uint32_t w = 0; w < sizes.warehouses; ++w) {
    Warehouse warehouse{};
    warehouse.ytd = sizes.customers * kLoadedPayment * kDistricts;
    warehouse.tax = static_cast<uint32_t>(random.between(0, kTaxMax));
    fill(warehouse.name, random);
    fill_address(warehouse, random);
    if (auto done = put(Tpcc::kWarehouse, key_of(w, 0, 0), bytes_of(warehouse)); !done) return done;
    for (uint32_t d = 1; d <= kDistricts; ++d) {
      if (auto done = load_district(put, sizes, w, d, full ? sizes.customers + 1 : 1, random); !done) return done;
      for (uint32_t c = 1; c <= sizes.customers; ++c) {
        const uint32_t name = last_name_number(c, random);
        const Customer customer = draw_customer_row(name, random);
        if (auto done = put(Tpcc::kCustomer, key_of(w, d, c), bytes_of(customer)); !done) return done;
        if (!full) continue;
        NameEntry entry{};
        std::memcpy(entry.first, customer.first, sizeof entry.first);
        if (auto done = put(kCustomerByName, by_name_key(w, d, name, c), bytes_of(entry)); !done) return done;
      }
    }
    Stock stock{};
    for (auto& info : stock.district_info) info.fill(static_cast<char>('a' + random.below(26)));
    for (uint32_t i = 1; i <= sizes.items; ++i) {
      stock.quantity = static_cast<int32_t>(random.between(10, 100));
      fill_data(stock.data, random);
      if (auto done = put(Tpcc::kStock, key_of(w, 0, i), bytes_of(stock)); !done) return done;
    }
  }
  return {};
}

}  // namespace weft::bench::tpcc
