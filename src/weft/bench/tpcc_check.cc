// TPC-C's consistency conditions (clause 3.3.2), over the primaries' records after a run, and ours.
#include <algorithm>
#include <numeric>
#include <vector>

#include "weft/bench/tpcc.h"
#include "weft/bench/tpcc_found.h"
#include "weft/bench/tpcc_full.h"
#include "weft/bench/tpcc_load.h"

namespace weft::bench {

using namespace tpcc;  // NOLINT(google-build-using-namespace): the rows of this workload

namespace {

std::string place(uint32_t warehouse, uint32_t district) {
  return "warehouse " + std::to_string(warehouse) + ", district " + std::to_string(district);
}

std::string differs(std::string what, int64_t is, int64_t should) {
  what.append(" ").append(std::to_string(is)).append(", not ").append(std::to_string(should));
  return what;
}

// Conditions 5, 6 and 7 for one order, and that it and its row of the index are there.
std::string wrong_with_order(const OrderSeen& order, bool full) {
  if (!order.order) return "is missing";
  if (order.new_order != (order.carrier == 0)) return "and its new-order row do not agree on its delivery";
  if (order.lines != order.lines_seen) {
    return "has " + std::to_string(order.lines) + " lines, " + std::to_string(order.lines_seen) + " are there";
  }
  if (order.delivered != (order.carrier == 0 ? 0 : order.lines)) return "and its lines do not agree on its delivery";
  if (full && order.customer != order.customer_seen) {
    return differs("is of a customer whose number is, by the index,", order.customer_seen, order.customer);
  }
  return {};
}

// Conditions 2 to 7 for one district, and that no order number is missing. Empty if they hold.
std::string wrong_with(const DistrictSeen& district, bool full) {
  if (!district.there) return "has no row";
  const auto newest = static_cast<uint32_t>(std::max<size_t>(district.orders.size(), 1) - 1);
  if (district.next_order != newest + 1) {
    return "gives order " + std::to_string(district.next_order) + " next, the newest is " + std::to_string(newest);
  }
  uint64_t lines = 0, lines_seen = 0;
  bool open = false;  // an order that is not delivered was met
  for (uint32_t number = 1; number <= newest; ++number) {
    const OrderSeen& order = district.orders[number];
    std::string name = "order " + std::to_string(number);
    if (const std::string wrong = wrong_with_order(order, full); !wrong.empty()) {
      return name.append(" ").append(wrong);
    }
    if (open && !order.new_order) return name + " is delivered before an older one";
    open = order.new_order;
    lines += order.lines;
    lines_seen += order.lines_seen;
  }
  if (lines != lines_seen) return differs("has order lines", static_cast<int64_t>(lines_seen), int64_t(lines));
  return {};
}

// Conditions 10 and 12, and that the index has all customers; condition 9 for the district.
std::string wrong_with_money(const DistrictSeen& district) {
  if (district.ytd != district.paid) return differs("was paid, by the history,", district.paid, district.ytd);
  std::vector<int64_t> delivered(district.customers.size());
  for (const OrderSeen& order : district.orders) {
    if (order.customer >= 1 && order.customer <= delivered.size()) delivered[order.customer - 1] += order.amount;
  }
  for (size_t i = 0; i < delivered.size(); ++i) {
    const CustomerSeen& customer = district.customers[i];
    const std::string name = "customer " + std::to_string(i + 1);
    if (!customer.named) return name + " is not in the index by name";
    if (customer.balance != delivered[i] - customer.paid) {
      return differs(name + " has a balance of", customer.balance, delivered[i] - customer.paid);
    }
    if (customer.balance + customer.ytd_payment != delivered[i]) {
      return differs(name + " has balance and payments of", customer.balance + customer.ytd_payment, delivered[i]);
    }
  }
  return {};
}

std::string between(const char* what, uint64_t is, uint64_t least, uint64_t more) {
  if (is >= least && is <= least + more) return {};
  return std::to_string(least) + " " + what + " were committed, " + std::to_string(is) + " are there";
}

}  // namespace

std::string tpcc::compare(const Found& found, const Sizes& sizes, bool full) {
  if (!found.wrong.empty()) return found.wrong;
  if (found.warehouses != sizes.warehouses || found.stocks != found.booked.size() ||
      found.customers != uint64_t{sizes.warehouses} * kDistricts * sizes.customers) {
    return "rows that were loaded are missing";
  }
  for (uint32_t w = 0; w < sizes.warehouses; ++w) {
    int64_t ytd = 0, paid = 0;
    for (uint32_t d = 1; d <= kDistricts; ++d) {
      const DistrictSeen& district = found.districts[size_t{w} * kDistricts + d - 1];
      std::string wrong = wrong_with(district, full);
      if (wrong.empty() && full) wrong = wrong_with_money(district);
      if (!wrong.empty()) return place(w, d) + ": " + wrong;
      ytd += district.ytd;
      paid += district.paid;
    }
    if (found.ytd[w] != ytd) return "the districts of warehouse " + std::to_string(w) + " do not add up to it";
    if (full && ytd != paid) return differs("warehouse " + std::to_string(w) + " was paid, by the history,", paid, ytd);
  }
  const auto [at, other] = std::mismatch(found.booked.begin(), found.booked.end(), found.ordered.begin());
  if (at == found.booked.end()) return {};
  const auto index = static_cast<size_t>(at - found.booked.begin());
  return "warehouse " + std::to_string(index / sizes.items) + " booked " + std::to_string(at->orders) +
         " orders of item " + std::to_string(index % sizes.items + 1) + ", there are " + std::to_string(other->orders);
}

std::string Tpcc::check(const VisitTable& visit_table, const Tally& tally) const {
  const Found found = collect(visit_table, sizes_, false);
  std::string wrong = compare(found, sizes_, false);
  if (wrong.empty()) wrong = between("orders", found.orders, tally.committed[0], tally.failed);
  return wrong.empty() ? wrong : "tpcc-no: " + wrong;
}

// A transaction whose outcome is not known may have happened: of those of one kind, each for itself.
std::string TpccFull::check(const VisitTable& visit_table, const Tally& tally) const {
  const Found found = collect(visit_table, sizes_, true);
  std::string wrong = compare(found, sizes_, true);
  const uint64_t districts = uint64_t{sizes_.warehouses} * kDistricts, loaded = districts * sizes_.customers;
  uint64_t open = 0;
  for (const DistrictSeen& district : found.districts) {
    open += static_cast<uint64_t>(std::count_if(district.orders.begin(), district.orders.end(),
                                                [](const OrderSeen& order) { return order.new_order; }));
  }
  if (wrong.empty()) wrong = between("orders", found.orders - loaded, tally.committed[kNewOrder], tally.failed);
  if (wrong.empty()) wrong = between("payments", found.payments - loaded, tally.committed[kPayment], tally.failed);
  if (wrong.empty()) {  // condition 11
    const uint64_t delivered = found.orders - open - districts * loaded_delivered(sizes_.customers);
    wrong = between("deliveries", delivered, static_cast<uint64_t>(tally.net), tally.failed * kDistricts);
  }
  return wrong.empty() ? wrong : "tpcc: " + wrong;
}

}  // namespace weft::bench
