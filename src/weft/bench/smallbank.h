// SmallBank: accounts with a savings and a checking balance. Six kinds of transactions, in the mix of FaSST, DrTM+H,
// FORD and SMART; by default 90 % of them touch only the hot 4 % of the accounts.
//
// Money is whole cents, so the check is exact: the sum of all balances is what was loaded plus what the committed
// transactions brought in, less what they took out.
//
// A balance has 8 bytes, or 4 as in Xenic (with 2.4 million accounts a node). One of 4 bytes has a limit, which
// amalgamations reach in a long run: a transaction that would exceed it writes nothing, as a payment without money.
#pragma once

#include "weft/bench/workload.h"

namespace weft::bench {

class SmallBank final : public Workload {
 public:
  enum Kind : uint64_t { kAmalgamate, kBalance, kDepositChecking, kSendPayment, kTransactSavings, kWriteCheck };
  static constexpr TableId kSavings{0};
  static constexpr TableId kChecking{1};
  static constexpr uint32_t kHotTransactions = 90;  // per cent of the transactions ...
  static constexpr uint32_t kHotAccounts = 4;       // ... are on this per cent of the accounts

  static constexpr uint32_t kValueBytes = 8, kShortValueBytes = 4;

  SmallBank(uint64_t accounts, Skew skew, uint32_t value_bytes = kValueBytes);

  std::string name() const override { return "smallbank"; }
  std::span<const TxnKind> kinds() const override;
  std::vector<TableSpec> tables() const override;
  std::vector<StoredProcedure> procedures() const override;
  Result<void> load(const Put& put, Random& random) override;
  Call draw(Random& random) const override;
  Task<Outcome> attempt(Session& session, const Call& call, Effect& effect) const override;
  std::string check(const VisitTable& visit_table, const Tally& tally) const override;

  uint64_t hot() const { return hot_; }

 private:
  const uint64_t accounts_;
  const Skew skew_;
  const uint32_t value_bytes_;
  const uint64_t hot_;  // accounts 0 .. hot_ - 1 are the hot ones; the hash spreads them over the nodes
  int64_t loaded_cents_ = 0;
};

}  // namespace weft::bench
