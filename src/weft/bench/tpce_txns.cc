#include "weft/bench/tpce_txns.h"

#include <algorithm>
#include <array>

#include "weft/bench/tpce.h"
#include "weft/bench/tpce_rows.h"

namespace weft::bench::tpce {
namespace {

// Nothing is ever deleted: a row that is not there was lost, and the outcome says so.
Code all_there(std::span<const Value> values) {
  for (const Value& value : values) {
    if (value.code != Code::kOk) return value.code;
    if (!value.found) return Code::kNotFound;
  }
  return Code::kOk;
}

// The values of a position, in the order of its keys.
struct PositionRows {
  static constexpr size_t kOwn = 1 + 2 * kAccounts;
  std::span<const Value> accounts, holdings, history, last_trades;

  PositionRows(std::span<const Value> values, bool with_history) {
    accounts = values.subspan(1, kAccounts);
    holdings = values.subspan(1 + kAccounts, kAccounts);
    history = values.subspan(kOwn, with_history ? kHistory : 0);
    last_trades = values.subspan(kOwn + history.size());
  }
};

// The securities of all accounts, each once, in the order in which they were met.
struct Held {
  uint32_t count = 0;
  std::array<uint32_t, kAccounts * kHoldings> security;
  std::array<int64_t, kAccounts * kHoldings> quantity{};

  uint32_t find_or_add(uint32_t wanted) {
    const auto end = security.begin() + count;
    const auto at = std::find(security.begin(), end, wanted);
    if (at == end) security[count++] = wanted;
    return static_cast<uint32_t>(at - security.begin());
  }
};

// How many trades of the history are not the last ones of their account.
uint32_t gaps_in(std::span<const Value> history, uint64_t trades) {
  uint32_t gaps = 0;
  for (uint64_t n = 0; n < history.size(); ++n) {  // by place
    gaps += row_of<Trade>(history[n].bytes).number != newest_at(n, trades) ? 1 : 0;
  }
  return gaps;
}

// Moves the quantity, or returns false if there is not so much.
bool transfer(HoldingSummary* from, HoldingSummary* to, const TradeArguments& trade) {
  const auto of = [&](HoldingSummary* summary) {
    return std::find_if(summary->holding.begin(), summary->holding.end(),
                        [&](const Holding& holding) { return holding.security == trade.security; });
  };
  const auto giver = of(from), taker = of(to);
  if (giver == from->holding.end() || taker == to->holding.end() || giver->quantity < trade.quantity) return false;
  giver->quantity -= trade.quantity;
  taker->quantity += trade.quantity;
  return true;
}

// One account's side of a trade. The history's place is known only now.
void book(const TradeArguments& trade, uint32_t account, Account row, int32_t quantity, int64_t price,
          StoredProcedure::Writes& writes) {
  row.balance -= quantity * price;
  const Trade entry{++row.trades, trade.at, price, trade.security, quantity};
  writes.put(TpceCp::kAccount, account_key(trade.customer, account), bytes_of(row));
  const uint64_t key = trade_key(trade.customer, account, row.trades);
  writes.will_write(TpceCp::kTrade, key);
  writes.put(TpceCp::kTrade, key, bytes_of(entry));
}

}  // namespace

void position_keys(std::string_view bytes, StoredProcedure::Keys& keys) {
  const auto arguments = row_of<PositionArguments>(bytes);
  keys.add(TpceCp::kCustomer, customer_key(arguments.customer));
  for (uint32_t a = 0; a < kAccounts; ++a) keys.add(TpceCp::kAccount, account_key(arguments.customer, a));
  for (uint32_t a = 0; a < kAccounts; ++a) keys.add(TpceCp::kHoldingSummary, account_key(arguments.customer, a));
  if (arguments.history_of == kAccounts) return;
  for (uint32_t n = 0; n < kHistory; ++n) {
    keys.add(TpceCp::kTrade, trade_key(arguments.customer, arguments.history_of, n));
  }
}

// What was read may be of several moments until it commits, so nothing here judges it: the reply says what it found.
Code position_step(std::string_view bytes, std::span<const Value> values, StoredProcedure::Writes& writes) {
  if (const Code code = all_there(values); code != Code::kOk) return code;
  const auto arguments = row_of<PositionArguments>(bytes);
  const PositionRows rows(values, arguments.history_of != kAccounts);
  Held held;
  Position position{};
  for (uint32_t a = 0; a < kAccounts; ++a) {
    position.cash[a] = row_of<Account>(rows.accounts[a].bytes).balance;
    for (const Holding& holding : row_of<HoldingSummary>(rows.holdings[a].bytes).holding) {
      const uint32_t at = held.find_or_add(holding.security);
      held.quantity[at] += holding.quantity;
      if (at < rows.last_trades.size()) {
        position.assets[a] += holding.quantity * row_of<LastTrade>(rows.last_trades[at].bytes).price;
      }
    }
  }
  if (rows.last_trades.size() != held.count) {
    for (uint32_t i = 0; i < held.count; ++i) writes.read_more(TpceCp::kLastTrade, uint64_t{held.security[i]});
    return Code::kOk;
  }
  for (uint32_t i = 0; i < held.count; ++i) position.uneven += held.quantity[i] != 2 * kLoadedQuantity ? 1 : 0;
  if (!rows.history.empty()) {
    position.gaps = gaps_in(rows.history, row_of<Account>(rows.accounts[arguments.history_of].bytes).trades);
  }
  writes.reply(bytes_of(position));
  return Code::kOk;
}

void trade_keys(std::string_view bytes, StoredProcedure::Keys& keys) {
  const auto trade = row_of<TradeArguments>(bytes);
  for (const uint32_t account : {trade.from, trade.to}) {
    keys.add(TpceCp::kAccount, account_key(trade.customer, account), Intent::kUpdate);
    keys.add(TpceCp::kHoldingSummary, account_key(trade.customer, account), Intent::kUpdate);
  }
  keys.add(TpceCp::kLastTrade, uint64_t{trade.security}, Intent::kUpdate);
  keys.add(TpceCp::kLastTrade, uint64_t{partner_of(trade.security)}, Intent::kUpdate);
}

Code trade_step(std::string_view bytes, std::span<const Value> values, StoredProcedure::Writes& writes) {
  if (const Code code = all_there(values); code != Code::kOk) return code;
  const auto trade = row_of<TradeArguments>(bytes);
  auto given = row_of<HoldingSummary>(values[1].bytes), taken = row_of<HoldingSummary>(values[3].bytes);
  if (!transfer(&given, &taken, trade)) {
    writes.reply(kTooLittle);
    return Code::kOk;
  }
  auto last = row_of<LastTrade>(values[4].bytes), partner = row_of<LastTrade>(values[5].bytes);
  const int64_t move = std::clamp<int64_t>(trade.move, 1 - last.price, partner.price - 1);  // both stay above 0
  last.price += move;
  partner.price -= move;
  last.at = trade.at;
  ++last.trades;
  last.volume += static_cast<uint64_t>(trade.quantity);
  writes.put(TpceCp::kLastTrade, uint64_t{trade.security}, bytes_of(last));
  writes.put(TpceCp::kLastTrade, uint64_t{partner_of(trade.security)}, bytes_of(partner));
  writes.put(TpceCp::kHoldingSummary, account_key(trade.customer, trade.from), bytes_of(given));
  writes.put(TpceCp::kHoldingSummary, account_key(trade.customer, trade.to), bytes_of(taken));
  book(trade, trade.from, row_of<Account>(values[0].bytes), -trade.quantity, last.price, writes);
  book(trade, trade.to, row_of<Account>(values[2].bytes), trade.quantity, last.price, writes);
  return Code::kOk;
}

}  // namespace weft::bench::tpce
