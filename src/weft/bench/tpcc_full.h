// The whole TPC-C: five transactions in their mix, on nine tables, of which eight are stored.
//
//   new-order     45 %   a stored procedure (tpcc_new_order.h). One line of a hundred comes from another warehouse,
//   which
//                        is one order of ten; one order of a hundred is rolled back when all else is done.
//   payment       43 %   a stored procedure. 15 % are of a customer of another warehouse; 60 % name the customer by
//   last
//                        name, which is looked up before.
//   order-status   4 %   the newest order of a customer with its lines: two or three scans. Reads only.
//   delivery       4 %   one transaction for each of the ten districts, as clause 2.7.2 allows: the oldest order
//   without
//                        a carrier is found by a scan, and a stored procedure delivers it if it still is one.
//   stock-level    4 %   the stocks of what the last 20 orders of a district took: one scan and up to 300 gets. Reads
//                        only.
//
// No transaction that writes has a scan, so that every row of the protocol table can run all of it, also those that
// lock what they read. Nothing is lost by that: last names never change, and no order older than the oldest ever comes,
// so that what a scan has found holds when the procedure that relies on it finds the row.
//
// Stored are warehouse, district, customer, stock, order, new-order, order-line and history. Item is not: its rows
// never change and every node would have all of them, so they follow from the item's number (price_of). New-order and
// order-line are in order, and so are two indexes beside the nine tables: customers by last name, orders by customer.
// All are partitioned by warehouse, so that a warehouse with all that belongs to it is at one node; only stocks
// (new-order) and customers (payment) are reached from elsewhere. The customer's warehouse is one whose primary is the
// coordinator's node.
//
// The check: the twelve consistency conditions of clause 3.3.2; every stock against its lines; every row of an index
// against the row it leads to, and the reverse; and orders, payments and deliveries against what was committed
// (tpcc_check.cc). Conditions 1 to 3 are checked while it runs, too, by a client that does nothing else.
#pragma once

#include <atomic>

#include "weft/bench/tpcc_full_rows.h"
#include "weft/bench/tpcc_rows.h"
#include "weft/bench/workload.h"

namespace weft::bench {

class TpccFull final : public Workload {
 public:
  enum Kind : uint64_t { kNewOrder, kPayment, kOrderStatus, kDelivery, kStockLevel };
  static constexpr uint32_t kOrdersRoom = 12'000;  // of a district, at least; there are 3,000 at the beginning

  explicit TpccFull(const tpcc::Sizes& sizes);

  std::string name() const override { return "tpcc"; }
  std::span<const TxnKind> kinds() const override;
  std::vector<TableSpec> tables() const override;
  bool make_room(uint64_t transactions) override;
  std::vector<StoredProcedure> procedures() const override;
  Result<void> load(const Put& put, Random& random) override;
  Call draw(Random& random) const override;
  Task<Outcome> attempt(Session& session, const Call& call, Effect& effect) const override;
  bool audits() const override { return true; }
  Task<Outcome> audit(Session& session, uint64_t seed, Effect& effect) const override;
  std::string check(const VisitTable& visit_table, const Tally& tally) const override;

  const tpcc::Sizes& sizes() const { return sizes_; }

 private:
  Task<Outcome> new_order(Session& session, uint32_t warehouse, Random random, Effect& effect) const;
  Task<Outcome> payment(Session& session, uint32_t warehouse, Random random) const;
  Task<Outcome> delivery(Session& session, uint32_t warehouse, Random random, Effect& effect) const;

  tpcc::Sizes sizes_;
  mutable std::atomic<uint64_t> payments_{0};  // their numbers in the history
};

}  // namespace weft::bench
