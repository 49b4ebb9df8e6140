#include "weft/bench/smallbank.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

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

// A balance is stored as 8 bytes or as 4, the same in all accounts.
int64_t cents_of(std::string_view bytes) {
  if (bytes.size() == SmallBank::kShortValueBytes) {
    int32_t cents = 0;
    std::memcpy(&cents, bytes.data(), sizeof cents);
    return cents;
  }
  int64_t cents = 0;
  std::memcpy(&cents, bytes.data(), std::min(bytes.size(), sizeof cents));
  return cents;
}

bool fits(int64_t cents, size_t bytes) {
  using Short = std::numeric_limits<int32_t>;
  return bytes != SmallBank::kShortValueBytes || (cents >= Short::min() && cents <= Short::max());
}

// The first bytes of an integer are its lowest: it is shortened by leaving out the others.
static_assert(std::endian::native == std::endian::little);
struct Balance {
  Balance(int64_t amount, size_t width) : cents(amount), bytes(width) {}
  operator std::string_view() const {  // NOLINT(google-explicit-constructor)
    return {reinterpret_cast<const char*>(&cents), bytes};
  }
  int64_t cents;
  size_t bytes;
};

// The reply of a deposit that would exceed what a balance can hold. Without a reply, the money was paid in.
constexpr std::string_view kNoRoom = "no room";

Code deposit(TableId table, uint64_t account, int64_t amount, std::string_view old, StoredProcedure::Writes& writes) {
  const int64_t cents = cents_of(old) + amount;
  if (fits(cents, old.size())) {
    writes.put(table, account, Balance(cents, old.size()));
  } else {
    writes.reply(kNoRoom);
  }
  return Code::kOk;
}

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
  const int64_t sum = cents_of(values[2].bytes) + all;
  const size_t bytes = values[0].bytes.size();
  if (!fits(sum, bytes)) return Code::kOk;
  writes.put(kSavings, call.a[0], Balance(0, bytes));
  writes.put(kChecking, call.a[0], Balance(0, bytes));
  writes.put(kChecking, call.a[1], Balance(sum, bytes));
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
  return deposit(kChecking, call_of(arguments).a[0], kDeposit, values[0].bytes, writes);
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
  const size_t bytes = values[0].bytes.size();
  if (from < kPayment || !fits(to + kPayment, bytes)) return Code::kOk;
  writes.put(kChecking, call.a[0], Balance(from - kPayment, bytes));
  writes.put(kChecking, call.a[1], Balance(to + kPayment, bytes));
  return Code::kOk;
}

void transact_savings_keys(std::string_view arguments, StoredProcedure::Keys& keys) {
  keys.add(kSavings, call_of(arguments).a[0], Intent::kUpdate);
}

Code transact_savings_step(std::string_view arguments, std::span<const Value> values, StoredProcedure::Writes& writes) {
  if (const Code code = all_found(values); code != Code::kOk) return code;
  return deposit(kSavings, call_of(arguments).a[0], kSavingsDeposit, values[0].bytes, writes);
}

// Interactive: the caller must know whether the check was covered.
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
  const size_t bytes = values[1].bytes.size();
  effect.refused = !fits(checking + effect.net, bytes);
  if (effect.refused) {
    effect.net = 0;
  } else {
    txn.put(kChecking, account, Balance(checking + effect.net, bytes));
  }
  co_return co_await txn.commit();
}

Task<Outcome> call_procedure(Session& session, const Call& call, std::string* reply = nullptr) {
  return session.call(ProcedureId(static_cast<uint16_t>(call.kind)),
                      {reinterpret_cast<const char*>(&call), sizeof call}, reply);
}

// A deposit of which the caller must know whether there was room for it.
Task<Outcome> pay_in(Session& session, const Call& call, Effect& effect) {
  std::string reply;
  Task<Outcome> work = call_procedure(session, call, &reply);
  const Outcome outcome = co_await work;
  effect.refused = outcome.committed() && reply == kNoRoom;
  if (effect.refused) effect.net = 0;
  co_return outcome;
}

}  // namespace

SmallBank::SmallBank(uint64_t accounts, Skew skew, uint32_t value_bytes)
    : accounts_(accounts),
      skew_(skew),
      value_bytes_(value_bytes),
      hot_(std::max<uint64_t>(2, accounts * kHotAccounts / 100)) {
  WEFT_CHECK(accounts_ >= 2, "two accounts for a payment");
  WEFT_CHECK(value_bytes_ == kValueBytes || value_bytes_ == kShortValueBytes, "make_workload checks it");
}

std::span<const TxnKind> SmallBank::kinds() const { return kMix; }

std::vector<TableSpec> SmallBank::tables() const {
  TableSpec spec;
  spec.value_bytes_max = value_bytes_;
  spec.capacity = accounts_;
  spec.name = "savings";
  std::vector<TableSpec> specs{spec};
  spec.name = "checking";
  specs.push_back(spec);
  return specs;
}

// In the order of Kind; write-check is the last kind and has no procedure.
std::vector<StoredProcedure> SmallBank::procedures() const {
  std::vector<StoredProcedure> procedures = {{"amalgamate", amalgamate_keys, amalgamate_step},
                                             {"balance", balance_keys, balance_step},
                                             {"deposit-checking", deposit_checking_keys, deposit_checking_step},
                                             {"send-payment", send_payment_keys, send_payment_step},
                                             {"transact-savings", transact_savings_keys, transact_savings_step}};
  if (value_bytes_ == kShortValueBytes) {
    procedures[kDepositChecking].reply_bytes_max = procedures[kTransactSavings].reply_bytes_max =
        static_cast<uint32_t>(kNoRoom.size());
  }
  return procedures;
}

Result<void> SmallBank::load(const Put& put, Random& random) {
  for (const TableId table : {kSavings, kChecking}) {
    for (uint64_t account = 0; account < accounts_; ++account) {
      const int64_t cents = static_cast<int64_t>(random.between(kFirstBalanceMin, kFirstBalanceMax));
      if (auto done = put(table, account, Balance(cents, value_bytes_)); !done) return done;
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
  if (effect.net != 0 && value_bytes_ == kShortValueBytes) return pay_in(session, call, effect);
  return call_procedure(session, call);
}

std::string SmallBank::check(const VisitTable& visit_table, const Tally& tally) const {
  int64_t cents = 0;
  uint64_t records = 0, broken = 0;
  for (const TableId table : {kSavings, kChecking}) {
    visit_table(table, [&](NodeId, bool primary, std::string_view, std::string_view value, uint64_t) {
      if (!primary) return;
      cents += cents_of(value);
      ++records;
      broken += value.size() != value_bytes_ ? 1 : 0;
    });
  }
  if (records != 2 * accounts_) {
    return "smallbank: " + std::to_string(2 * accounts_) + " balances were loaded, " + std::to_string(records) +
           " are there";
  }
  if (broken != 0) {
    return "smallbank: " + std::to_string(broken) + " balances are not of " + std::to_string(value_bytes_) + " bytes";
  }
  const int64_t expected = loaded_cents_ + tally.net;
  if (cents != expected) {
    return "smallbank: the balances add up to " + std::to_string(cents) + " cents, loaded and committed were " +
           std::to_string(expected) + ": " + std::to_string(cents - expected) + " too much";
  }
  return {};
}

}  // namespace weft::bench
