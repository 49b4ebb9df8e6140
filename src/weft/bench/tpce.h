// TPC-E's customer-position, the transaction by which DrTM+H measures distributed reads, with those trades that change
// what it reads. Both are stored procedures.
//
//   customer-position  90 %   the customer, ten accounts with their holdings, and the last trade of each security that
//                             they hold, which is in the partition of its company; every other time the last ten trades
//                             of an account, too. Reads 41 or 51 rows, 20 of which only the holdings tell.
//   trade-result       10 %   one account of a customer sells to another: two accounts, two holdings, two rows of the
//                             history, and the last trades of the security and of its partner. Answers "no" if the
//                             account has too little.
//
// Sizes are DrTM+H's: 5,000 customers a node, ten accounts each, 500 companies for 1,000 customers, a history of ten
// trades. A company has one security. The customer is one whose primary is the coordinator's node, if there is one.
//
// Trades keep three things as they are, so that the position of one moment is known before it is read: a customer sells
// to himself, which leaves his money and the number of each security he holds; he holds as much of one security of a
// pair as of the other; and prices move in pairs whose sum stays. So all that he has is worth what was loaded,
// although every part of it changes, and a committed position that adds up to anything else was not read at one moment.
//
// The check: that holds of every customer, history and pair at the end, and there are as many trades as were committed.
#pragma once

#include "weft/bench/workload.h"

namespace weft::bench {

class TpceCp final : public Workload {
 public:
  enum Kind : uint64_t { kPosition, kTradeResult };
  static constexpr TableId kCustomer{0}, kAccount{1}, kHoldingSummary{2}, kTrade{3}, kLastTrade{4};
  static constexpr uint64_t kCustomersMin = 40;  // for ten pairs of securities
  static constexpr uint64_t kCustomersMax = uint32_t(-1);

  explicit TpceCp(uint64_t customers);

  std::string name() const override { return "tpce-cp"; }
  std::span<const TxnKind> kinds() const override;
  std::vector<TableSpec> tables() const override;
  std::vector<StoredProcedure> procedures() const override;
  Result<void> load(const Put& put, Random& random) override;
  Call draw(Random& random) const override;
  Task<Outcome> attempt(Session& session, const Call& call, Effect& effect) const override;
  std::string check(const VisitTable& visit_table, const Tally& tally) const override;

  uint32_t pairs() const { return pairs_; }

 private:
  uint32_t customer_here(const Session& session, uint64_t from) const;
  Task<Outcome> position(Session& session, Call call, Effect& effect) const;
  Task<Outcome> trade(Session& session, Call call, Effect& effect) const;
  // What contradicts the rest in this position, or nothing.
  std::string judge(uint32_t customer, std::string_view reply) const;

  const uint32_t customers_, pairs_;
};

}  // namespace weft::bench
