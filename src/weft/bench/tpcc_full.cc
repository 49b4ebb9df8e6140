#include "weft/bench/tpcc_full.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/bench/tpcc.h"
#include "weft/bench/tpcc_load.h"
#include "weft/bench/tpcc_new_order.h"
#include "weft/bench/tpcc_txns.h"

namespace weft::bench {

using namespace tpcc;  // NOLINT(google-build-using-namespace): the rows of this workload

namespace {

constexpr TxnKind kMix[] = {
    {"new-order", 45}, {"payment", 43}, {"order-status", 4}, {"delivery", 4}, {"stock-level", 4}};
constexpr ProcedureId kNewOrderProcedure{0}, kPaymentProcedure{1}, kDeliveryProcedure{2};

constexpr uint64_t kRollbackPercent = 1;
constexpr uint64_t kRemotePaymentPercent = 15;
constexpr uint64_t kByNamePercent = 60;
constexpr uint64_t kPaymentMin = 100, kPaymentMax = 500'000;
// A district whose order is delivered by others again and again is left to them.
constexpr uint32_t kTriesMax = 1'000;
constexpr uint64_t kBusyWaitNs = 1'000;  // before a try after kBusy

}  // namespace

TpccFull::TpccFull(const Sizes& sizes) : sizes_(sizes) {
  WEFT_CHECK(sizes_.warehouses >= 1 && sizes_.warehouses <= kWarehousesMax && sizes_.items >= kLinesMax &&
                 sizes_.customers >= 1 && sizes_.customers <= kCustomersMax && sizes_.orders_max < kOrdersMax,
             "make_workload checks it");
}

std::span<const TxnKind> TpccFull::kinds() const { return kMix; }

std::vector<TableSpec> TpccFull::tables() const {
  std::vector<TableSpec> specs = base_tables(sizes_);
  const uint64_t districts = uint64_t{sizes_.warehouses} * kDistricts, orders = districts * sizes_.orders_max;
  specs.push_back(table_of("history", sizeof(History), orders));
  specs.push_back(table_of("customer-by-name", sizeof(NameEntry), districts * sizes_.customers));
  specs.push_back(table_of("order-by-customer", sizeof(tpcc::NewOrder), orders));
  for (const TableId id : {Tpcc::kNewOrder, Tpcc::kOrderLine, kCustomerByName, kOrderByCustomer}) {
    specs[id.value].ordered = true;
  }
  return specs;
}

// Less than half of the transactions are orders, less than half are payments with a row of history each; one of either
// is there for every customer at the beginning.
bool TpccFull::make_room(uint64_t transactions) {
  const uint64_t loaded = uint64_t{sizes_.warehouses} * kDistricts * sizes_.customers;
  sizes_.orders_max = room_for(loaded + transactions / 2, sizes_.warehouses, kOrdersRoom);
  return true;
}

std::vector<StoredProcedure> TpccFull::procedures() const {
  return {new_order_procedure(),
          {.name = "payment", .keys = payment_keys, .execute = payment_step},
          {.name = "delivery", .keys = delivery_keys, .execute = delivery_step, .reply_bytes_max = kGone.size()}};
}

Result<void> TpccFull::load(const Put& put, Random& random) {
  if (auto done = load_places(put, sizes_, true, random); !done) return done;
  return load_orders(put, sizes_, random);
}

// a[0] where to begin the search for the warehouse, a[1] seed of all that a transaction draws.
Call TpccFull::draw(Random& random) const {
  Call call;
  call.kind = pick_kind(kMix, random.below(100));
  call.a[0] = random.below(sizes_.warehouses);
  call.a[1] = random.next();
  return call;
}

Task<Outcome> TpccFull::attempt(Session& session, const Call& call, Effect& effect) const {
  const uint32_t warehouse = warehouse_here(session, sizes_.warehouses, static_cast<uint32_t>(call.a[0]));
  const Random random(call.a[1]);
  switch (static_cast<Kind>(call.kind)) {
    case kNewOrder:
      return new_order(session, warehouse, random, effect);
    case kPayment:
      return payment(session, warehouse, random);
    case kOrderStatus:
      return order_status(session, warehouse, random, sizes_.customers, effect);
    case kDelivery:
      return delivery(session, warehouse, random, effect);
    case kStockLevel:
      break;
  }
  return stock_level(session, warehouse, random, effect);
}

Task<Outcome> TpccFull::audit(Session& session, uint64_t seed, Effect& effect) const {
  Random random(seed);
  const auto warehouse = static_cast<uint32_t>(random.below(sizes_.warehouses));
  const auto district = static_cast<uint32_t>(random.between(1, kDistricts));
  const bool row_first = random.chance(50);
  if (random.chance(50)) return audit_warehouse(session, warehouse, effect);
  return audit_district(session, warehouse, district, row_first, effect);
}

Task<Outcome> TpccFull::new_order(Session& session, uint32_t warehouse, Random random, Effect& effect) const {
  NewOrderArguments order{};
  order.entered = session.now_ns();
  order.warehouse = warehouse;
  order.district = static_cast<uint32_t>(random.between(1, kDistricts));
  order.customer = draw_customer(random, sizes_.customers);
  order.warehouses = sizes_.warehouses;
  order.items = sizes_.items;
  order.suppliers = Suppliers::kRarelyOthers;
  order.full = true;
  order.rollback = random.chance(kRollbackPercent);
  order.seed = random.next();
  effect.refused = order.rollback;
  Task<Outcome> work = session.call(kNewOrderProcedure, bytes_of(order));
  co_return co_await work;
}

Task<Outcome> TpccFull::payment(Session& session, uint32_t warehouse, Random random) const {
  PaymentArguments payment{};
  payment.at = session.now_ns();
  payment.history = history_key(warehouse, payments_.fetch_add(1, std::memory_order_relaxed));
  payment.amount = static_cast<int64_t>(random.between(kPaymentMin, kPaymentMax));
  payment.warehouse = payment.customer_warehouse = warehouse;
  payment.district = payment.customer_district = static_cast<uint32_t>(random.between(1, kDistricts));
  if (random.chance(kRemotePaymentPercent)) {
    payment.customer_warehouse = another_warehouse(random, warehouse, sizes_.warehouses);
    payment.customer_district = static_cast<uint32_t>(random.between(1, kDistricts));
  }
  if (random.chance(kByNamePercent)) {
    const uint32_t name = draw_last_name(random, sizes_.customers);
    Txn txn = co_await session.begin();
    Task<Code> find =
        find_by_name(&txn, payment.customer_warehouse, payment.customer_district, name, &payment.customer);
    const Code code = co_await find;
    if (code != Code::kOk) co_return give_up(txn, code);
    const Outcome looked = co_await txn.commit();
    if (!looked.committed()) co_return looked;
  } else {
    payment.customer = draw_customer(random, sizes_.customers);
  }
  Task<Outcome> work = session.call(kPaymentProcedure, bytes_of(payment));
  co_return co_await work;
}

// Each district is tried again by itself: what is delivered stays so.
Task<Outcome> TpccFull::delivery(Session& session, uint32_t warehouse, Random random, Effect& effect) const {
  constexpr RetryPolicy kPolicy{.attempts = kTriesMax, .backoff_us = 1, .backoff_us_max = 128};
  DeliveryArguments delivery{};
  delivery.at = std::max<uint64_t>(session.now_ns(), 1);  // 0 is: not yet
  delivery.warehouse = warehouse;
  delivery.carrier = static_cast<uint32_t>(random.between(1, kCarriers));
  Outcome outcome;
  uint32_t attempt = 0;
  for (delivery.district = 1; delivery.district <= kDistricts;) {
    const uint64_t began_ns = session.now_ns();
    Task<Outcome> find = find_oldest(&session, warehouse, delivery.district, &delivery.order);
    outcome = co_await find;
    bool done = outcome.committed() && delivery.order == 0;  // all are delivered
    if (outcome.committed() && !done) {
      std::string reply;
      Task<Outcome> work = session.call(kDeliveryProcedure, bytes_of(delivery), &reply);
      outcome = co_await work;
      done = outcome.committed() && reply.empty();
      effect.net += done ? 1 : 0;
    }
    ++attempt;
    if (done || (outcome.committed() && attempt == kTriesMax)) {
      ++delivery.district;
      attempt = 0;
      continue;
    }
    uint64_t wait_ns = kBusyWaitNs;
    const bool busy = outcome.kind == OutcomeKind::kRejected && code_retryable(outcome.code);
    if (!outcome.committed() && !busy && !session.should_retry(outcome, kPolicy, attempt, began_ns, &wait_ns)) break;
    if (wait_ns > 0) co_await session.sleep_ns(wait_ns);
  }
  co_return outcome;
}

}  // namespace weft::bench
