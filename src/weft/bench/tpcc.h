// TPC-C's new-order alone. As DrTM+H runs it, every item comes from another warehouse than the customer's, so that a
// transaction is always distributed; as Xenic does, each from any warehouse, the customer's included. It reads
// warehouse, district and customer, takes an order number from the district, changes the stock of 5 to 15 items, and
// inserts the order, its new-order row and its lines.
//
// The customer's warehouse is one whose primary is the coordinator's node; no order is rolled back on purpose. Tables
// start without orders. All are hash tables, partitioned by warehouse (tpcc_rows.h). The capacity for orders limits how
// long one cluster can run: a run that fills a table ends there (driver.h).
//
// The check: the consistency conditions of the benchmark that new-order can break (3.3.2.1 to 3.3.2.7) hold, every
// line's supplier has booked it, and there is one order for every commit.
#pragma once

#include "weft/bench/tpcc_rows.h"
#include "weft/bench/workload.h"

namespace weft::bench {

class Tpcc final : public Workload {
 public:
  static constexpr TableId kWarehouse{0}, kDistrict{1}, kCustomer{2}, kStock{3}, kOrder{4}, kNewOrder{5}, kOrderLine{6};
  // Tests use fewer items and customers.
  explicit Tpcc(uint32_t warehouses, Suppliers suppliers = Suppliers::kOthers, uint32_t items = tpcc::Sizes().items,
                uint32_t customers = tpcc::Sizes().customers);

  std::string name() const override { return "tpcc-no"; }
  std::span<const TxnKind> kinds() const override;
  std::vector<TableSpec> tables() const override;
  bool make_room(uint64_t transactions) override;
  std::vector<StoredProcedure> procedures() const override;
  Result<void> load(const Put& put, Random& random) override;
  Call draw(Random& random) const override;
  Task<Outcome> attempt(Session& session, const Call& call, Effect& effect) const override;
  std::string check(const VisitTable& visit_table, const Tally& tally) const override;

 private:
  Task<Outcome> new_order(Session& session, Call call) const;

  tpcc::Sizes sizes_;
  const Suppliers suppliers_;
};

}  // namespace weft::bench
