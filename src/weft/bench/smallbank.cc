#include "weft/bench/smallbank.h"

#include <algorithm>
#include <cstring>

#include "weft/base/check.h"

namespace weft::bench {
namespace {

constexpr TxnKind kMix[] = {{"amalgamate", 15},   {"balance", 15},          {"deposit-checking", 15},
                            {"send-payment", 25}, {"transact-savings", 15}, {"write-check", 15}};

constexpr int64_t kPayment = 500;  // send-payment and write-check, in cents
constexpr int64_t kDeposit = 130;  // deposit-checking
constexpr int64_t kSavingsDeposit = 2020;
constexpr int64_t kOverdraft = kPayment - 100;  // what an uncovered check takes, as in the published code
constexpr int64_t kFirstBalanceMin = 1'000'000;
constexpr int64_t kFirstBalanceMax = 5'000'000;

constexpr TableId kSavings = SmallBank::kSavings;
constexpr TableId kChecking = SmallBank::kChecking;

// A balance is stored as 8 bytes.
int64_t cents_of(std::string_view bytes) {
  int64_t cents = 0;
  std::memcpy(&cents, bytes.data(), std::min(bytes.size(), sizeof cents));
  return cents;
}

struct Balance {
  explicit Balance(int64_t amount) : cents(amount) {}
  operator std::string_view() const {  // NOLINT(google-explicit-constructor)
    return {reinterpret_cast<const char*>(&cents), sizeof cents};
  }
  int64_t cents;
};

Call call_of(std::string_view arguments) {
  Call call;
  std::memcpy(&call, arguments.data(), std::min(arguments.size(), sizeof call));
  return call;
}

// Accounts are never deleted: a missing one was lost, and the outcome says so.
Code all_found(std::span<const Value> values) {
  for (const Value& value : values) {
    if (value.code != Code::kOk) return value.code;
    if (!value.found) return Code::kNotFound;
  }
  return Code::kOk;
}

void amalgamate_keys(std::string_view arguments, StoredProcedure::Keys& keys) {
  const Call call = call_of(arguments);
  keys.add(kSavings, call.a[0], Intent::kUpdate);
  keys.add(kChecking, call.a[0], Intent::kUpdate);
  keys.add(kChecking, call.a[1], Intent::kUpdate);
}

Code amalgamate_step(std::string_view arguments, std::span<const Value> values, StoredProcedure::Writes& writes) {
  if (const Code code = all_found(values); code != Code::kOk) return code;
  const Call call = call_of(arguments);
  const int64_t all = cents_of(values[0].bytes) + cents_of(values[1].bytes);
  const int64_t other = cents_of(values[2].bytes);
  writes.put(kSavings, call.a[0], Balance(0));
  writes.put(kChecking, call.a[0], Balance(0));
  writes.put(kChecking, call.a[1], Balance(other + all));
  return Code::kOk;
}

void balance_keys(std::string_view arguments, StoredProcedure::Keys& keys) {
  const Call call = call_of(arguments);
  keys.add(kSavings, call.a[0]);
  keys.add(kChecking, call.a[0]);
}

Code balance_step(std::string_view, std::span<const Value> values, StoredProcedure::Writes&) {
  return all_found(values);
}

void deposit_checking_keys(std::string_view arguments, StoredProcedure::Keys& keys) {
  keys.add(kChecking, call_of(arguments).a[0], Intent::kUpdate);
}

Code deposit_checking_step(std::string_view arguments, std::span<const Value> values, StoredProcedure::Writes& writes) {
  if (const Code code = all_found(values); code != Code::kOk) return code;
  writes.put(kChecking, call_of(arguments).a[0], Balance(cents_of(values[0].bytes) + kDeposit));
  return Code::kOk;
}

void send_payment_keys(std::string_view arguments, StoredProcedure::Keys& keys) {
  const Call call = call_of(arguments);
  keys.add(kChecking, call.a[0], Intent::kUpdate);
  keys.add(kChecking, call.a[1], Intent::kUpdate);
}

// Without enough money it commits the two reads and writes nothing: the total does not change either way.
Code send_payment_step(std::string_view arguments, std::span<const Value> values, StoredProcedure::Writes& writes) {
  if (const Code code = all_found(values); code != Code::kOk) return code;
  const Call call = call_of(arguments);
  const int64_t from = cents_of(values[0].bytes);
  const int64_t to = cents_of(values[1].bytes);
  if (from < kPayment) return Code::kOk;
  writes.put(kChecking, call.a[0], Balance(from - kPayment));
  writes.put(kChecking, call.a[1], Balance(to + kPayment));
  return Code::kOk;
}

void transact_savings_keys(std::string_view arguments, StoredProcedure::Keys& keys) {
  keys.add(kSavings, call_of(arguments).a[0], Intent::kUpdate);
}

Code transact_savings_step(std::string_view arguments, std::span<const Value> values, StoredProcedure::Writes& writes) {
  if (const Code code = all_found(values); code != Code::kOk) return code;
  writes.put(kSavings, call_of(arguments).a[0], Balance(cents_of(values[0].bytes) + kSavingsDeposit));
  return Code::kOk;
}

// Interactive, because the caller must know whether the check was covered: a stored procedure does not return that.
Task<Outcome> write_check(Session& session, uint64_t account, Effect& effect) {
  Txn txn = co_await session.begin();
  const ReadHandle savings_read = txn.get_async(kSavings, account);
  const ReadHandle checking_read = txn.get_async(kChecking, account, Intent::kUpdate);
  co_await txn.wait_all();
  const Value values[] = {txn.value(savings_read), txn.value(checking_read)};
  if (const Code code = all_found(values); code != Code::kOk) {
    Outcome outcome;
    outcome.kind = OutcomeKind::kAborted;
    outcome.code = code;
    outcome.id = txn.id();
    txn.abort();
    co_return outcome;
  }
  const int64_t checking = cents_of(values[1].bytes);
  const bool covered = cents_of(values[0].bytes) + checking >= kPayment;
  effect.net = covered ? -kPayment : -kOverdraft;
  txn.put(kChecking, account, Balance(checking + effect.net));
  co_return co_await txn.commit();
}

}  // namespace

SmallBank::SmallBank(uint64_t accounts, Skew skew)
    : accounts_(accounts), skew_(skew), hot_(std::max<uint64_t>(2, accounts * kHotAccounts / 100)) {
  WEFT_CHECK(accounts_ >= 2, "two accounts for a payment");
}

std::span<const TxnKind> SmallBank::kinds() const { return kMix; }

std::vector<TableSpec> SmallBank::tables() const {
  TableSpec spec;
  spec.value_bytes_max = sizeof(int64_t);
  spec.capacity = accounts_;
  spec.name = "savings";
  std::vector<TableSpec> specs{spec};
  spec.name = "checking";
  specs.push_back(spec);
  return specs;
}

// In the order of Kind; write-check is the last kind and has no procedure.
std::vector<StoredProcedure> SmallBank::procedures() const {
  return {{"amalgamate", amalgamate_keys, amalgamate_step},
          {"balance", balance_keys, balance_step},
          {"deposit-checking", deposit_checking_keys, deposit_checking_step},
          {"send-payment", send_payment_keys, send_payment_step},
          {"transact-savings", transact_savings_keys, transact_savings_step}};
}

Result<void> SmallBank::load(const Put& put, Random& random) {
  for (const TableId table : {kSavings, kChecking}) {
    for (uint64_t account = 0; account < accounts_; ++account) {
      const int64_t cents = static_cast<int64_t>(random.between(kFirstBalanceMin, kFirstBalanceMax));
      if (auto done = put(table, account, Balance(cents)); !done) return done;
      loaded_cents_ += cents;
    }
  }
  return {};
}

Call SmallBank::draw(Random& random) const {
  Call call;
  call.kind = pick_kind(kMix, random.below(100));
  const uint64_t among = skew_ == Skew::kHot && random.chance(kHotTransactions) ? hot_ : accounts_;
  call.a[0] = random.below(among);
  do {
    call.a[1] = random.below(among);
  } while (call.a[1] == call.a[0]);
  return call;
}

Task<Outcome> SmallBank::attempt(Session& session, const Call& call, Effect& effect) const {
  if (call.kind == kWriteCheck) return write_check(session, call.a[0], effect);
  effect.net = call.kind == kDepositChecking ? kDeposit : call.kind == kTransactSavings ? kSavingsDeposit : 0;
  return session.call(ProcedureId(static_cast<uint16_t>(call.kind)),
                      {reinterpret_cast<const char*>(&call), sizeof call});
}

std::string SmallBank::check(const VisitTable& visit_table, const Tally& tally) const {
  int64_t cents = 0;
  uint64_t records = 0;
  for (const TableId table : {kSavings, kChecking}) {
    visit_table(table, [&](NodeId, bool primary, std::string_view, std::string_view value, uint64_t) {
      if (!primary) return;
      cents += cents_of(value);
      ++records;
    });
  }
  if (records != 2 * accounts_) {
    return "smallbank: " + std::to_string(2 * accounts_) + " balances were loaded, " + std::to_string(records) +
           " are there";
  }
  const int64_t expected = loaded_cents_ + tally.net;
  if (cents != expected) {
    return "smallbank: the balances add up to " + std::to_string(cents) + " cents, loaded and committed were " +
           std::to_string(expected) + ": " + std::to_string(cents - expected) + " too much";
  }
  return {};
}

}  // namespace weft::bench
