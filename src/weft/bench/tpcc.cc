#include "weft/bench/tpcc.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/bench/tpcc_rows.h"

namespace weft::bench {

using namespace tpcc;  // NOLINT(google-build-using-namespace): the rows of this workload

namespace {

constexpr TxnKind kMix[] = {{"new-order", 100}};

constexpr uint64_t kCustomerSpread = 1'023, kCustomerShift = 259;
constexpr uint64_t kItemSpread = 8'191, kItemShift = 7'911;
constexpr int64_t kDistrictYtd = 3'000'000;  // a warehouse has the sum over its districts
constexpr uint32_t kTaxMax = 2'000;
constexpr uint32_t kDiscountMax = 5'000;

// From 1 to n, some more often than others.
uint32_t draw_unevenly(Random& random, uint64_t spread, uint64_t shift, uint32_t n) {
  return static_cast<uint32_t>(((random.between(0, spread) | random.between(1, n)) + shift) % n + 1);
}

template <size_t N>
void fill(char (&text)[N], Random& random) {
  for (char& c : text) c = static_cast<char>('a' + random.below(26));
}

template <class Place>  // a row with an address
void fill_address(Place& row, Random& random) {
  fill(row.street_1, random);
  fill(row.street_2, random);
  fill(row.city, random);
  fill(row.state, random);
  fill(row.zip, random);
}

void new_order_keys(std::string_view bytes, StoredProcedure::Keys& keys) {
  const auto order = row_of<Arguments>(bytes);
  keys.add(Tpcc::kWarehouse, key_of(order.warehouse, 0, 0));
  keys.add(Tpcc::kDistrict, key_of(order.warehouse, order.district, 0), Intent::kUpdate);
  keys.add(Tpcc::kCustomer, key_of(order.warehouse, order.district, order.customer));
  const DrawnLines lines = draw_lines(order);
  for (uint32_t i = 0; i < lines.count; ++i) {
    keys.add(Tpcc::kStock, key_of(lines.line[i].supplier, 0, lines.line[i].item), Intent::kUpdate);
  }
}

// The price of a line, with taxes and the customer's discount.
int64_t amount_of(const Line& line, uint32_t taxes, uint32_t discount) {
  const int64_t plain = line.quantity * price_of(line.item);
  return plain * (10'000 + taxes) / 10'000 * (10'000 - discount) / 10'000;
}

Code new_order_step(std::string_view bytes, std::span<const Value> values, StoredProcedure::Writes& writes) {
  for (const Value& value : values) {
    if (value.code != Code::kOk) return value.code;
    if (!value.found) return Code::kNotFound;  // none of these rows is ever deleted
  }
  const auto order = row_of<Arguments>(bytes);
  const auto warehouse = row_of<Warehouse>(values[0].bytes);
  auto district = row_of<District>(values[1].bytes);
  const auto customer = row_of<Customer>(values[2].bytes);
  const DrawnLines lines = draw_lines(order);
  const uint32_t number = district.next_order++;
  writes.put(Tpcc::kDistrict, key_of(order.warehouse, order.district, 0), bytes_of(district));

  bool all_local = true;
  for (uint32_t i = 0; i < lines.count; ++i) {
    const Line& line = lines.line[i];
    const bool remote = line.supplier != order.warehouse;
    auto stock = row_of<Stock>(values[3 + i].bytes);
    stock.quantity -= static_cast<int32_t>(line.quantity);
    if (stock.quantity < 10) stock.quantity += 91;
    stock.ytd += line.quantity;
    ++stock.orders;
    if (remote) ++stock.remote_orders;
    all_local = all_local && !remote;
    writes.put(Tpcc::kStock, key_of(line.supplier, 0, line.item), bytes_of(stock));

    OrderLine row{};
    row.item = line.item;
    row.supplier = static_cast<uint16_t>(line.supplier);
    row.quantity = static_cast<uint8_t>(line.quantity);
    row.amount = amount_of(line, warehouse.tax + district.tax, customer.discount);
    row.district_info = stock.district_info[order.district - 1];
    const uint64_t key = key_of(order.warehouse, order.district, number, i + 1);
    writes.will_write(Tpcc::kOrderLine, key);
    writes.insert(Tpcc::kOrderLine, key, bytes_of(row));
  }
  Order row{};
  row.entered = order.entered;
  row.customer = order.customer;
  row.lines = static_cast<uint8_t>(lines.count);
  row.all_local = all_local ? 1 : 0;
  const uint64_t key = key_of(order.warehouse, order.district, number);
  writes.will_write(Tpcc::kOrder, key);
  writes.insert(Tpcc::kOrder, key, bytes_of(row));
  writes.will_write(Tpcc::kNewOrder, key);
  writes.insert(Tpcc::kNewOrder, key, bytes_of(NewOrder{number}));
  return Code::kOk;
}

}  // namespace

DrawnLines tpcc::draw_lines(const Arguments& arguments) {
  Random random(arguments.seed);
  DrawnLines lines;
  const auto wanted = static_cast<uint32_t>(random.between(kLinesMin, kLinesMax));
  while (lines.count < wanted) {
    Line line{};
    line.item = Tpcc::draw_item(random, arguments.items);
    line.quantity = static_cast<uint32_t>(random.between(1, kQuantityMax));
    line.supplier = arguments.warehouse;
    if (arguments.suppliers == Suppliers::kAll) {
      line.supplier = static_cast<uint32_t>(random.below(arguments.warehouses));
    } else if (arguments.warehouses > 1) {  // any but the customer's
      line.supplier = static_cast<uint32_t>(random.below(arguments.warehouses - 1));
      if (line.supplier >= arguments.warehouse) ++line.supplier;
    }
    const auto end = lines.line.begin() + lines.count;
    const bool twice = std::any_of(lines.line.begin(), end, [&](const Line& other) {
      return other.item == line.item && other.supplier == line.supplier;
    });
    if (!twice) lines.line[lines.count++] = line;
  }
  return lines;
}

Tpcc::Tpcc(uint32_t warehouses, Suppliers suppliers, uint32_t items, uint32_t customers)
    : warehouses_(warehouses), items_(items), customers_(customers), suppliers_(suppliers) {
  WEFT_CHECK(warehouses_ >= 1 && warehouses_ <= kWarehousesMax && items_ >= kLinesMax && customers_ >= 1,
             "make_workload checks it");
}

std::span<const TxnKind> Tpcc::kinds() const { return kMix; }

std::vector<TableSpec> Tpcc::tables() const {
  const auto spec = [](const char* name, size_t value_bytes, uint64_t capacity) {
    TableSpec out;
    out.name = name;
    out.value_bytes_max = static_cast<uint32_t>(value_bytes);
    out.capacity = capacity;
    out.partition = PartitionBy::kPrefix;
    out.prefix_bytes = 2;
    return out;
  };
  // Every partition has the same number of warehouses: the bench counts them per node, and a node has one partition.
  const uint64_t warehouses = warehouses_, districts = warehouses * kDistricts, orders = districts * kOrders;
  return {spec("warehouse", sizeof(Warehouse), warehouses),
          spec("district", sizeof(District), districts),
          spec("customer", sizeof(Customer), districts * customers_),
          spec("stock", sizeof(Stock), warehouses * items_),
          spec("order", sizeof(Order), orders),
          spec("new-order", sizeof(NewOrder), orders),
          spec("order-line", sizeof(OrderLine), orders * (kLinesMin + kLinesMax) / 2)};
}

std::vector<StoredProcedure> Tpcc::procedures() const { return {{"new-order", new_order_keys, new_order_step}}; }

Result<void> Tpcc::load(const Put& put, Random& random) {
  for (uint32_t w = 0; w < warehouses_; ++w) {
    Warehouse warehouse{};
    warehouse.ytd = kDistrictYtd * kDistricts;
    warehouse.tax = static_cast<uint32_t>(random.between(0, kTaxMax));
    fill(warehouse.name, random);
    fill_address(warehouse, random);
    if (auto done = put(kWarehouse, key_of(w, 0, 0), bytes_of(warehouse)); !done) return done;
    for (uint32_t d = 1; d <= kDistricts; ++d) {
      District district{};
      district.ytd = kDistrictYtd;
      district.tax = static_cast<uint32_t>(random.between(0, kTaxMax));
      district.next_order = 1;
      fill(district.name, random);
      fill_address(district, random);
      if (auto done = put(kDistrict, key_of(w, d, 0), bytes_of(district)); !done) return done;
      for (uint32_t c = 1; c <= customers_; ++c) {
        Customer customer{};
        customer.discount = static_cast<uint32_t>(random.between(0, kDiscountMax));
        customer.credit_limit = 5'000'000;
        customer.balance = -1'000;
        fill(customer.last, random);
        fill_address(customer, random);
        if (auto done = put(kCustomer, key_of(w, d, c), bytes_of(customer)); !done) return done;
      }
    }
    Stock stock{};
    for (auto& info : stock.district_info) info.fill(static_cast<char>('a' + random.below(26)));
    for (uint32_t i = 1; i <= items_; ++i) {
      stock.quantity = static_cast<int32_t>(random.between(10, 100));
      if (auto done = put(kStock, key_of(w, 0, i), bytes_of(stock)); !done) return done;
    }
  }
  return {};
}

uint32_t Tpcc::draw_customer(Random& random) const {
  return draw_unevenly(random, kCustomerSpread, kCustomerShift, customers_);
}

uint32_t Tpcc::draw_item(Random& random, uint32_t items) {
  return draw_unevenly(random, kItemSpread, kItemShift, items);
}

// a[0] where to begin the search for the warehouse, a[1] district, a[2] customer, a[3] seed of the lines.
Call Tpcc::draw(Random& random) const {
  Call call;
  call.a = {random.below(warehouses_), random.between(1, kDistricts), draw_customer(random), random.next()};
  return call;
}

Task<Outcome> Tpcc::attempt(Session& session, const Call& call, Effect&) const { return new_order(session, call); }

Task<Outcome> Tpcc::new_order(Session& session, Call call) const {
  Arguments order{};
  order.warehouse = static_cast<uint32_t>(call.a[0]);
  for (uint32_t i = 0; i < warehouses_; ++i) {
    const auto w = static_cast<uint32_t>((call.a[0] + i) % warehouses_);
    if (session.primary_of(kWarehouse, key_of(w, 0, 0)) != session.node()) continue;
    order.warehouse = w;
    break;
  }
  order.entered = session.now_ns();
  order.seed = call.a[3];
  order.district = static_cast<uint32_t>(call.a[1]);
  order.customer = static_cast<uint32_t>(call.a[2]);
  order.warehouses = warehouses_;
  order.items = items_;
  order.suppliers = suppliers_;
  Task<Outcome> work = session.call(ProcedureId(0), bytes_of(order));
  co_return co_await work;
}

}  // namespace weft::bench
