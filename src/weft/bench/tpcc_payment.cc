// TPC-C's payment: a customer pays, by its number or by its last name.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "weft/bench/tpcc.h"
#include "weft/bench/tpcc_txns.h"

namespace weft::bench::tpcc {
namespace {

// What is known of a customer with bad credit: the newest payment is written before the older ones.
void note_payment(Customer* customer, const PaymentArguments& payment) {
  std::string note;
  for (const uint64_t each :
       {uint64_t{payment.customer}, uint64_t{payment.customer_district}, uint64_t{payment.customer_warehouse},
        uint64_t{payment.district}, uint64_t{payment.warehouse}, static_cast<uint64_t>(payment.amount)}) {
    note.append(std::to_string(each)).append(" ");
  }
  const size_t bytes = std::min(note.size(), sizeof customer->data);
  std::memmove(customer->data + bytes, customer->data, sizeof customer->data - bytes);
  std::memcpy(customer->data, note.data(), bytes);
}

}  // namespace

Outcome give_up(Txn& txn, Code code) {
  Outcome outcome;
  outcome.kind = OutcomeKind::kAborted;
  outcome.code = code == Code::kOk ? Code::kNotFound : code;
  outcome.id = txn.id();
  txn.abort();
  return outcome;
}

void payment_keys(std::string_view bytes, StoredProcedure::Keys& keys) {
  const auto payment = row_of<PaymentArguments>(bytes);
  keys.add(Tpcc::kWarehouse, key_of(payment.warehouse, 0, 0), Intent::kUpdate);
  keys.add(Tpcc::kDistrict, key_of(payment.warehouse, payment.district, 0), Intent::kUpdate);
  keys.add(Tpcc::kCustomer, key_of(payment.customer_warehouse, payment.customer_district, payment.customer),
           Intent::kUpdate);
  keys.will_write(kHistory, payment.history);
}

Code payment_step(std::string_view bytes, std::span<const Value> values, StoredProcedure::Writes& writes) {
  for (const Value& value : values) {
    if (value.code != Code::kOk) return value.code;
    if (!value.found) return Code::kNotFound;  // none of these rows is ever deleted
  }
  const auto payment = row_of<PaymentArguments>(bytes);
  auto warehouse = row_of<Warehouse>(values[0].bytes);
  auto district = row_of<District>(values[1].bytes);
  auto customer = row_of<Customer>(values[2].bytes);
  warehouse.ytd += payment.amount;
  district.ytd += payment.amount;
  customer.balance -= payment.amount;
  customer.ytd_payment += payment.amount;
  ++customer.payments;
  if (std::memcmp(customer.credit, "BC", sizeof customer.credit) == 0) note_payment(&customer, payment);
  writes.put(Tpcc::kWarehouse, key_of(payment.warehouse, 0, 0), bytes_of(warehouse));
  writes.put(Tpcc::kDistrict, key_of(payment.warehouse, payment.district, 0), bytes_of(district));
  writes.put(Tpcc::kCustomer, key_of(payment.customer_warehouse, payment.customer_district, payment.customer),
             bytes_of(customer));

  History history{};
  history.at = payment.at;
  history.amount = payment.amount;
  history.customer = payment.customer;
  history.customer_warehouse = static_cast<uint16_t>(payment.customer_warehouse);
  history.customer_district = static_cast<uint8_t>(payment.customer_district);
  history.warehouse = static_cast<uint16_t>(payment.warehouse);
  history.district = static_cast<uint8_t>(payment.district);
  constexpr size_t kGap = 4;
  static_assert(sizeof history.data == sizeof warehouse.name + kGap + sizeof district.name);
  std::memset(history.data, ' ', sizeof history.data);
  std::memcpy(history.data, warehouse.name, sizeof warehouse.name);
  std::memcpy(history.data + sizeof warehouse.name + kGap, district.name, sizeof district.name);
  writes.insert(kHistory, payment.history, bytes_of(history));
  return Code::kOk;
}

Task<Code> find_by_name(Txn* txn, uint32_t warehouse, uint32_t district, uint32_t name, uint32_t* customer) {
  const Scan scan = co_await txn->scan(kCustomerByName, by_name_key(warehouse, district, name, 0),
                                       by_name_key(warehouse, district, name + 1, 0));
  if (!scan) co_return scan.code;
  if (scan.items.empty()) co_return Code::kNotFound;  // every name that is drawn is somebody's
  std::vector<std::pair<std::string_view, uint32_t>> found;
  for (const Scan::Item& item : scan.items) found.emplace_back(item.value, named_customer(item.integer));
  std::sort(found.begin(), found.end());
  *customer = found[(found.size() - 1) / 2].second;
  co_return Code::kOk;
}

}  // namespace weft::bench::tpcc
