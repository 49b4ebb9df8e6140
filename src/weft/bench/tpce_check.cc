// What must hold of the tables of tpce-cp after a run, over the primaries' records.
#include <array>
#include <vector>

#include "weft/bench/tpce.h"
#include "weft/bench/tpce_rows.h"

namespace weft::bench {

using namespace tpce;  // NOLINT(google-build-using-namespace): the rows of this workload

namespace {

struct Owned {
  int64_t cash = 0;
  std::array<int64_t, kSecurities> quantity{};  // by pair and side
  std::array<uint64_t, kAccounts> trades{};
};

class Collector {
 public:
  Collector(const TpceCp::VisitTable& visit_table, uint32_t customers, uint32_t pairs)
      : visit_table_(visit_table), customers_(customers), pairs_(pairs), owned_(customers), prices_(pairs) {}

  // The first thing that is wrong, or nothing.
  std::string collect() {
    collect_customers();
    collect_prices();
    const uint64_t accounts = uint64_t{customers_} * kAccounts;
    if (wrong_.empty() && (rows_ != customers_ + accounts * (2 + kHistory) || securities_ != 2 * pairs_)) {
      wrong_ = "rows that were loaded are missing";
    }
    for (uint32_t c = 0; c < customers_ && wrong_.empty(); ++c) compare(c);
    for (uint32_t p = 0; p < pairs_ && wrong_.empty(); ++p) {
      if (prices_[p] == pair_price(p)) continue;
      wrong_ = "the prices of pair " + std::to_string(p) + " add up to " + std::to_string(prices_[p]) + ", not " +
               std::to_string(pair_price(p));
    }
    return wrong_;
  }
  uint64_t trades() const { return trades_; }
  uint64_t booked() const { return booked_; }  // by accounts: two for a trade

 private:
  template <class F>
  void each(TableId table, const F& row) {
    visit_table_(table, [&](NodeId, bool primary, std::string_view key, std::string_view value, uint64_t) {
      if (primary && wrong_.empty()) row(row_of<uint64_t>(key), value);
    });
  }
  template <class F>
  void each_owned(TableId table, const F& row) {
    each(table, [&](uint64_t key, std::string_view value) {
      ++rows_;
      if (customer_of(key) >= customers_ || account_of(key) >= kAccounts || place_of(key) >= kHistory) {
        wrong_ =
            "a row of customer " + std::to_string(customer_of(key)) + ", account " + std::to_string(account_of(key));
        return;
      }
      row(key, value);
    });
  }

  void collect_customers() {
    each_owned(TpceCp::kCustomer, [](uint64_t, std::string_view) {});
    each_owned(TpceCp::kAccount, [&](uint64_t key, std::string_view value) {
      const auto row = row_of<Account>(value);
      owned_[customer_of(key)].cash += row.balance;
      owned_[customer_of(key)].trades[account_of(key)] = row.trades;
      booked_ += row.trades;
    });
    each_owned(TpceCp::kHoldingSummary, [&](uint64_t key, std::string_view value) {
      for (const Holding& holding : row_of<HoldingSummary>(value).holding) note(customer_of(key), holding);
    });
    each_owned(TpceCp::kTrade, [&](uint64_t key, std::string_view value) {
      const uint64_t trades = owned_[customer_of(key)].trades[account_of(key)];
      if (row_of<Trade>(value).number == newest_at(place_of(key), trades)) return;
      wrong_ = "customer " + std::to_string(customer_of(key)) + ", account " + std::to_string(account_of(key)) +
               " had " + std::to_string(trades) + " trades, but its history has number " +
               std::to_string(row_of<Trade>(value).number) + " in place " + std::to_string(place_of(key));
    });
  }

  void note(uint32_t customer, const Holding& holding) {
    const uint32_t number = (holding.security / 2 + pairs_ - pair_of(customer, 0, pairs_)) % pairs_;
    if (number >= kPairs || holding.quantity < 0) {
      wrong_ = "customer " + std::to_string(customer) + " holds " + std::to_string(holding.quantity) + " of security " +
               std::to_string(holding.security);
      return;
    }
    owned_[customer].quantity[2 * number + holding.security % 2] += holding.quantity;
  }

  void collect_prices() {
    each(TpceCp::kLastTrade, [&](uint64_t key, std::string_view value) {
      const auto row = row_of<LastTrade>(value);
      ++securities_;
      trades_ += row.trades;
      if (key / 2 >= pairs_ || row.price < 1) {
        wrong_ = "security " + std::to_string(key) + " has a price of " + std::to_string(row.price);
        return;
      }
      prices_[key / 2] += row.price;
    });
  }

  void compare(uint32_t customer) {
    const Owned& owned = owned_[customer];
    const std::string name = "customer " + std::to_string(customer);
    if (owned.cash != kAccounts * kLoadedBalance) {
      wrong_ =
          name + " has " + std::to_string(owned.cash) + " cents, not " + std::to_string(kAccounts * kLoadedBalance);
      return;
    }
    for (uint32_t s = 0; s < kSecurities; ++s) {
      if (owned.quantity[s] == 2 * kLoadedQuantity) continue;
      wrong_ = name + " has " + std::to_string(owned.quantity[s]) + " of a security, not " +
               std::to_string(2 * kLoadedQuantity);
      return;
    }
  }

  const TpceCp::VisitTable& visit_table_;
  const uint32_t customers_, pairs_;
  std::vector<Owned> owned_;
  std::vector<int64_t> prices_;  // of both of a pair
  uint64_t rows_ = 0, securities_ = 0, trades_ = 0, booked_ = 0;
  std::string wrong_;
};

}  // namespace

std::string TpceCp::check(const VisitTable& visit_table, const Tally& tally) const {
  Collector collector(visit_table, customers_, pairs_);
  if (const std::string wrong = collector.collect(); !wrong.empty()) return "tpce-cp: " + wrong;
  const uint64_t trades = tally.committed[kTradeResult] - tally.refused[kTradeResult];
  // A transaction whose outcome is not known may have traded.
  if (collector.trades() < trades || collector.trades() > trades + tally.failed) {
    return "tpce-cp: " + std::to_string(trades) + " trades were committed and " + std::to_string(tally.failed) +
           " transactions had no outcome, the securities count " + std::to_string(collector.trades());
  }
  if (collector.booked() != 2 * collector.trades()) {
    return "tpce-cp: the accounts count " + std::to_string(collector.booked()) + " trades, the securities " +
           std::to_string(collector.trades()) + ", each of which has two";
  }
  return {};
}

}  // namespace weft::bench
