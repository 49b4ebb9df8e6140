#include "weft/bench/tpcc.h"

#include "weft/base/check.h"
#include "weft/bench/tpcc_load.h"
#include "weft/bench/tpcc_new_order.h"
#include "weft/bench/tpcc_rows.h"

namespace weft::bench {

using namespace tpcc;  // NOLINT(google-build-using-namespace): the rows of this workload

namespace {

constexpr TxnKind kMix[] = {{"new-order", 100}};

}  // namespace

Tpcc::Tpcc(uint32_t warehouses, Suppliers suppliers, uint32_t items, uint32_t customers)
    : sizes_{.warehouses = warehouses, .items = items, .customers = customers}, suppliers_(suppliers) {
  WEFT_CHECK(warehouses >= 1 && warehouses <= kWarehousesMax && items >= kLinesMax && customers >= 1,
             "make_workload checks it");
}

std::span<const TxnKind> Tpcc::kinds() const { return kMix; }

std::vector<TableSpec> Tpcc::tables() const { return base_tables(sizes_); }

bool Tpcc::make_room(uint64_t transactions) {
  sizes_.orders_max = room_for(transactions, sizes_.warehouses, Sizes().orders_max);
  return true;
}

std::vector<StoredProcedure> Tpcc::procedures() const { return {new_order_procedure()}; }

Result<void> Tpcc::load(const Put& put, Random& random) { return load_places(put, sizes_, false, random); }

// a[0] where to begin the search for the warehouse, a[1] district, a[2] customer, a[3] seed of the lines.
Call Tpcc::draw(Random& random) const {
  Call call;
  call.a = {random.below(sizes_.warehouses), random.between(1, kDistricts), draw_customer(random, sizes_.customers),
            random.next()};
  return call;
}

Task<Outcome> Tpcc::attempt(Session& session, const Call& call, Effect&) const { return new_order(session, call); }

Task<Outcome> Tpcc::new_order(Session& session, Call call) const {
  NewOrderArguments order{};
  order.warehouse = warehouse_here(session, sizes_.warehouses, static_cast<uint32_t>(call.a[0]));
  order.entered = session.now_ns();
  order.seed = call.a[3];
  order.district = static_cast<uint32_t>(call.a[1]);
  order.customer = static_cast<uint32_t>(call.a[2]);
  order.warehouses = sizes_.warehouses;
  order.items = sizes_.items;
  order.suppliers = suppliers_;
  Task<Outcome> work = session.call(ProcedureId(0), bytes_of(order));
  co_return co_await work;
}

}  // namespace weft::bench
