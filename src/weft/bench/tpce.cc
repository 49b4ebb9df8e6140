#include "weft/bench/tpce.h"

#include <algorithm>
#include <numeric>

#include "weft/base/check.h"
#include "weft/bench/tpce_rows.h"
#include "weft/bench/tpce_txns.h"

namespace weft::bench {

using namespace tpce;  // NOLINT(google-build-using-namespace): the rows of this workload

namespace {

constexpr TxnKind kMix[] = {{"customer-position", 90}, {"trade-result", 10}};

template <size_t N>
void fill(char (&text)[N], Random& random) {
  for (char& c : text) c = static_cast<char>('a' + random.below(26));
}

// What all that a customer holds is worth, at any moment.
int64_t worth_of(uint32_t customer, uint32_t pairs) {
  int64_t worth = 0;
  for (uint32_t i = 0; i < kPairs; ++i) worth += 2 * kLoadedQuantity * pair_price(pair_of(customer, i, pairs));
  return worth;
}

}  // namespace

TpceCp::TpceCp(uint64_t customers)
    : customers_(static_cast<uint32_t>(customers)), pairs_(static_cast<uint32_t>(customers / 4)) {
  WEFT_CHECK(customers >= kCustomersMin && customers <= kCustomersMax, "make_workload checks it");
}

std::span<const TxnKind> TpceCp::kinds() const { return kMix; }

std::vector<TableSpec> TpceCp::tables() const {
  const auto spec = [](const char* name, size_t value_bytes, uint64_t capacity) {
    TableSpec out;
    out.name = name;
    out.value_bytes_max = static_cast<uint32_t>(value_bytes);
    out.capacity = capacity;
    out.partition = PartitionBy::kPrefix;
    out.prefix_bytes = 4;
    return out;
  };
  const uint64_t accounts = uint64_t{customers_} * kAccounts;
  return {spec("customer", sizeof(Customer), customers_), spec("account", sizeof(Account), accounts),
          spec("holding-summary", sizeof(HoldingSummary), accounts), spec("trade", sizeof(Trade), accounts * kHistory),
          spec("last-trade", sizeof(LastTrade), uint64_t{pairs_} * 2)};
}

std::vector<StoredProcedure> TpceCp::procedures() const {  // in the order of Kind
  return {{.name = "customer-position",
           .keys = position_keys,
           .execute = position_step,
           .reply_bytes_max = sizeof(Position)},
          {.name = "trade-result", .keys = trade_keys, .execute = trade_step, .reply_bytes_max = kTooLittle.size()}};
}

Result<void> TpceCp::load(const Put& put, Random& random) {
  for (uint32_t c = 0; c < customers_; ++c) {
    Customer customer{};
    customer.tax_number = random.next();
    fill(customer.last, random);
    fill(customer.first, random);
    fill(customer.email, random);
    customer.tier = static_cast<char>(random.between(1, 3));
    if (auto done = put(kCustomer, customer_key(c), bytes_of(customer)); !done) return done;
    for (uint32_t a = 0; a < kAccounts; ++a) {
      Account account{};
      account.balance = kLoadedBalance;
      fill(account.name, random);
      if (auto done = put(kAccount, account_key(c, a), bytes_of(account)); !done) return done;
      HoldingSummary held{};
      for (uint32_t h = 0; h < kHoldings; ++h) {
        held.holding[h] = {security_of(pair_of(c, a + h / 2, pairs_), h % 2), kLoadedQuantity};
      }
      if (auto done = put(kHoldingSummary, account_key(c, a), bytes_of(held)); !done) return done;
      for (uint32_t n = 0; n < kHistory; ++n) {
        if (auto done = put(kTrade, trade_key(c, a, n), bytes_of(Trade{})); !done) return done;
      }
    }
  }
  for (uint32_t pair = 0; pair < pairs_; ++pair) {
    const auto price = static_cast<int64_t>(random.between(1, static_cast<uint64_t>(pair_price(pair)) - 1));
    const LastTrade first{price, price, 0, 0, 0}, second{pair_price(pair) - price, pair_price(pair) - price, 0, 0, 0};
    if (auto done = put(kLastTrade, uint64_t{security_of(pair, 0)}, bytes_of(first)); !done) return done;
    if (auto done = put(kLastTrade, uint64_t{security_of(pair, 1)}, bytes_of(second)); !done) return done;
  }
  return {};
}

// a[0] where to begin the search for the customer, a[1] whose history, or which pair; the rest is of a trade: a[2] its
// quantity and side, a[3] the move of the price.
Call TpceCp::draw(Random& random) const {
  Call call;
  call.kind = pick_kind(kMix, random.below(100));
  call.a[0] = random.below(customers_);
  if (call.kind == kPosition) {
    call.a[1] = random.below(2) == 0 ? kAccounts : random.below(kAccounts);
    return call;
  }
  call.a[1] = random.below(kPairs);
  call.a[2] = random.between(1, kQuantityMax) << 2 | random.below(4);
  call.a[3] = random.below(2 * kPriceMoveMax + 1);
  return call;
}

// Neighbouring customers are in different partitions.
uint32_t TpceCp::customer_here(const Session& session, uint64_t from) const {
  constexpr uint32_t kTries = 64;
  for (uint32_t i = 0; i < std::min(kTries, customers_); ++i) {
    const auto customer = static_cast<uint32_t>((from + i) % customers_);
    if (session.primary_of(kCustomer, customer_key(customer)) == session.node()) return customer;
  }
  return static_cast<uint32_t>(from);
}

Task<Outcome> TpceCp::attempt(Session& session, const Call& call, Effect& effect) const {
  return call.kind == kPosition ? position(session, call, effect) : trade(session, call, effect);
}

Task<Outcome> TpceCp::position(Session& session, Call call, Effect& effect) const {
  PositionArguments arguments{};
  arguments.customer = customer_here(session, call.a[0]);
  arguments.history_of = static_cast<uint32_t>(call.a[1]);
  std::string reply;
  Task<Outcome> work = session.call(ProcedureId(kPosition), bytes_of(arguments), &reply);
  const Outcome outcome = co_await work;
  if (outcome.committed()) effect.wrong = judge(arguments.customer, reply);
  co_return outcome;
}

Task<Outcome> TpceCp::trade(Session& session, Call call, Effect& effect) const {
  TradeArguments trade{};
  trade.at = session.now_ns();
  trade.customer = customer_here(session, call.a[0]);
  // Both the account of the pair's number and the one before it hold the pair.
  const auto pair = static_cast<uint32_t>(call.a[1]);
  trade.security = security_of(pair_of(trade.customer, pair, pairs_), call.a[2] & 1);
  trade.from = pair;
  trade.to = (pair + kAccounts - 1) % kAccounts;
  if ((call.a[2] & 2) != 0) std::swap(trade.from, trade.to);
  trade.quantity = static_cast<int32_t>(call.a[2] >> 2);
  trade.move = static_cast<int32_t>(call.a[3]) - static_cast<int32_t>(kPriceMoveMax);
  std::string reply;
  Task<Outcome> work = session.call(ProcedureId(kTradeResult), bytes_of(trade), &reply);
  const Outcome outcome = co_await work;
  effect.refused = outcome.committed() && reply == kTooLittle;
  co_return outcome;
}

std::string TpceCp::judge(uint32_t customer, std::string_view reply) const {
  const std::string of = "tpce-cp: the position of customer " + std::to_string(customer);
  if (reply.size() != sizeof(Position)) return of + " has " + std::to_string(reply.size()) + " bytes";
  const auto position = row_of<Position>(reply);
  const int64_t cash = std::accumulate(position.cash.begin(), position.cash.end(), int64_t{0});
  const int64_t assets = std::accumulate(position.assets.begin(), position.assets.end(), int64_t{0});
  const auto adds_up = [&](const char* what, int64_t is, int64_t should) {
    return of + " is not of one moment: its " + what + " " + std::to_string(is) + ", not " + std::to_string(should);
  };
  if (cash != kAccounts * kLoadedBalance) return adds_up("money is", cash, kAccounts * kLoadedBalance);
  if (assets != worth_of(customer, pairs_)) return adds_up("holdings are worth", assets, worth_of(customer, pairs_));
  if (position.uneven != 0) return adds_up("securities of another number are", position.uneven, 0);
  if (position.gaps != 0) return adds_up("gaps in the history are", position.gaps, 0);
  return {};
}

}  // namespace weft::bench
