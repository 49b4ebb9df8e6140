// A small SmallBank: two tables of balances in cents, the usual mix. The bank's total at the end must be the total at
// the start plus what committed transactions brought in. In a conserving run nothing comes in, and every reader of all
// accounts must find the same total.
#include <algorithm>
#include <array>
#include <cstring>

#include "weft/base/check.h"
#include "weft/sim/workload.h"

namespace weft::sim {

namespace {

constexpr int64_t kStartCents = 2'000;  // small, so that overdrafts happen
constexpr int64_t kDepositCents = 130;
constexpr int64_t kPaymentCents = 500;
constexpr int64_t kSavingsCents = 2'020;

enum class Kind : uint8_t { kAmalgamate, kBalance, kDeposit, kPayment, kSavings, kCheck };
struct Share {
  Kind kind;
  uint32_t percent;
  bool conserving;
};
constexpr std::array<Share, 6> kMix{{{Kind::kAmalgamate, 15, true},
                                     {Kind::kBalance, 15, true},
                                     {Kind::kDeposit, 15, false},
                                     {Kind::kPayment, 25, true},
                                     {Kind::kSavings, 15, false},
                                     {Kind::kCheck, 15, false}}};

int64_t cents(const Value& value) { return static_cast<int64_t>(integer_of(value)); }
std::string balance(int64_t amount) { return integer_value(static_cast<uint64_t>(amount)); }

// Arguments of the stored procedure `payment`.
struct Payment {
  uint64_t table;
  uint64_t from;
  uint64_t to;
};

Payment payment_of(std::string_view arguments) {
  Payment payment{};
  std::memcpy(&payment, arguments.data(), std::min(sizeof payment, arguments.size()));
  return payment;
}

void payment_keys(std::string_view arguments, StoredProcedure::Keys& keys) {
  const Payment payment = payment_of(arguments);
  const TableId table(static_cast<uint16_t>(payment.table));
  keys.add(table, payment.from, Intent::kUpdate);
  keys.add(table, payment.to, Intent::kUpdate);
}

Code payment_step(std::string_view arguments, std::span<const Value> values, StoredProcedure::Writes& writes) {
  const Payment payment = payment_of(arguments);
  const TableId table(static_cast<uint16_t>(payment.table));
  for (const Value& value : values) {
    if (value.code != Code::kOk) return value.code;
    if (!value.found) return Code::kNotFound;
  }
  if (cents(values[0]) < kPaymentCents) return Code::kApplication;
  const std::string less = balance(cents(values[0]) - kPaymentCents);
  const std::string more = balance(cents(values[1]) + kPaymentCents);
  writes.put(table, payment.from, less);
  writes.put(table, payment.to, more);
  return Code::kOk;
}

class SmallBank final : public Workload {
 public:
  explicit SmallBank(WorkloadContext* context)
      : Workload(context), accounts_(std::clamp<uint64_t>(context->config.keys, 2, 30)) {}

  void declare(ClusterSpec& spec) override;
  void load(const std::vector<std::unique_ptr<Node>>& nodes) override;
  Task<void> run(Client* client, Session session) override;
  Task<void> finish(Client* client, Session session) override;

 private:
  // What was drawn for one transaction, and what it brings in.
  struct Order {
    Kind kind = Kind::kBalance;
    uint64_t a = 0, b = 0;
    uint64_t think_ns = 0;
    int64_t brings = 0;
  };
  Order draw(Client* client);
  Task<Code> body(Session session, Txn* txn, Order* order);
  Task<Code> amalgamate(Txn* txn, Order* order);
  Task<Code> payment(Session session, Txn* txn, Order* order);
  Task<Code> write_check(Txn* txn, Order* order);
  Task<Code> add(Txn* txn, TableId table, Order* order, int64_t amount);
  Task<Code> sum(Txn* txn, int64_t* total);
  Task<void> audit(Client* client, Session session, RetryPolicy policy, bool must);
  void check_total(int64_t total, const char* when);

  const uint64_t accounts_;
  TableId savings_, checking_;
  int64_t total_ = 0;  // according to what has committed
};

void SmallBank::declare(ClusterSpec& spec) {
  TableSpec table;
  table.value_bytes_max = 8;
  table.capacity = 256;
  savings_ = TableId(static_cast<uint16_t>(spec.tables.size()));
  table.name = "savings";
  spec.tables.push_back(table);
  checking_ = TableId(static_cast<uint16_t>(spec.tables.size()));
  table.name = "checking";
  spec.tables.push_back(table);
  spec.procedures.push_back({"payment", payment_keys, payment_step});
}

void SmallBank::load(const std::vector<std::unique_ptr<Node>>& nodes) {
  for (uint64_t account = 0; account < accounts_; ++account) {
    load_everywhere(nodes, savings_, account, balance(kStartCents));
    load_everywhere(nodes, checking_, account, balance(kStartCents));
    total_ += 2 * kStartCents;
  }
}

SmallBank::Order SmallBank::draw(Client* client) {
  Random& random = client->random;
  Order order;
  for (bool chosen = false; !chosen;) {
    uint64_t dice = random.below(100);
    for (const Share& share : kMix) {
      if (dice < share.percent) {
        order.kind = share.kind;
        chosen = share.conserving || !context_->config.conserving;
        break;
      }
      dice -= share.percent;
    }
  }
  order.a = context_->choose(random, accounts_);
  do {
    order.b = random.below(accounts_);
  } while (order.b == order.a);
  order.think_ns = context_->think_ns(random);
  return order;
}

Task<Code> SmallBank::add(Txn* txn, TableId table, Order* order, int64_t amount) {
  const Value value = co_await txn->get(table, order->a, Intent::kUpdate);
  if (!value) co_return value.code == Code::kOk ? Code::kNotFound : value.code;
  if (cents(value) + amount < 0) co_return Code::kApplication;
  txn->put(table, order->a, balance(cents(value) + amount));
  order->brings = amount;
  co_return Code::kOk;
}

Task<Code> SmallBank::amalgamate(Txn* txn, Order* order) {
  const ReadHandle savings = txn->get_async(savings_, order->a, Intent::kUpdate);
  const ReadHandle checking = txn->get_async(checking_, order->a, Intent::kUpdate);
  const ReadHandle other = txn->get_async(checking_, order->b, Intent::kUpdate);
  co_await txn->wait_all();
  for (const ReadHandle handle : {savings, checking, other}) {
    const Value value = txn->value(handle);
    if (!value) co_return value.code == Code::kOk ? Code::kNotFound : value.code;
  }
  const int64_t all = cents(txn->value(savings)) + cents(txn->value(checking)) + cents(txn->value(other));
  txn->put(savings_, order->a, balance(0));
  txn->put(checking_, order->a, balance(0));
  txn->put(checking_, order->b, balance(all));
  co_return Code::kOk;
}

Task<Code> SmallBank::payment(Session session, Txn* txn, Order* order) {
  const Value from = co_await txn->get(checking_, order->a, Intent::kUpdate);
  if (!from) co_return from.code == Code::kOk ? Code::kNotFound : from.code;
  const int64_t left = cents(from) - kPaymentCents;
  if (left < 0) co_return Code::kApplication;
  if (order->think_ns > 0) co_await session.sleep_ns(order->think_ns);
  const Value to = co_await txn->get(checking_, order->b, Intent::kUpdate);
  if (!to) co_return to.code == Code::kOk ? Code::kNotFound : to.code;
  txn->put(checking_, order->a, balance(left));
  txn->put(checking_, order->b, balance(cents(to) + kPaymentCents));
  co_return Code::kOk;
}

Task<Code> SmallBank::write_check(Txn* txn, Order* order) {
  const ReadHandle savings = txn->get_async(savings_, order->a);
  const ReadHandle checking = txn->get_async(checking_, order->a, Intent::kUpdate);
  co_await txn->wait_all();
  const Value saved = txn->value(savings);
  const Value value = txn->value(checking);
  if (!saved) co_return saved.code == Code::kOk ? Code::kNotFound : saved.code;
  if (!value) co_return value.code == Code::kOk ? Code::kNotFound : value.code;
  const bool overdraft = cents(saved) + cents(value) < kPaymentCents;
  order->brings = overdraft ? -(kPaymentCents - 1) : -kPaymentCents;
  txn->put(checking_, order->a, balance(cents(value) + order->brings));
  co_return Code::kOk;
}

Task<Code> SmallBank::sum(Txn* txn, int64_t* total) {
  std::vector<ReadHandle> handles;
  for (uint64_t account = 0; account < accounts_; ++account) {
    handles.push_back(txn->get_async(savings_, account));
    handles.push_back(txn->get_async(checking_, account));
  }
  co_await txn->wait_all();
  *total = 0;
  for (const ReadHandle handle : handles) {
    const Value value = txn->value(handle);
    if (!value) co_return value.code == Code::kOk ? Code::kNotFound : value.code;
    *total += cents(value);
  }
  co_return Code::kOk;
}

Task<Code> SmallBank::body(Session session, Txn* txn, Order* order) {
  order->brings = 0;
  switch (order->kind) {
    case Kind::kAmalgamate:
      return amalgamate(txn, order);
    case Kind::kDeposit:
      return add(txn, checking_, order, kDepositCents);
    case Kind::kPayment:
      return payment(session, txn, order);
    case Kind::kSavings:
      return add(txn, savings_, order, order->b % 2 == 0 ? kSavingsCents : -kSavingsCents);
    case Kind::kCheck:
      return write_check(txn, order);
    case Kind::kBalance:
      break;
  }
  WEFT_CHECK(false, "a balance is read by audit()");
}

void SmallBank::check_total(int64_t total, const char* when) {
  if (total == total_) return;
  context_->violation("the bank's total is " + std::to_string(total) + " cents " + when + ", it should be " +
                      std::to_string(total_));
}

// The balance transaction, over all accounts.
Task<void> SmallBank::audit(Client* client, Session session, RetryPolicy policy, bool must) {
  int64_t total = 0;
  auto work = [this, &total](Txn& txn) { return sum(&txn, &total); };
  context_->doing(client, "reading all accounts");
  Task<Outcome> task = session.run(policy, work, must ? UINT64_MAX : 0);
  const Outcome outcome = co_await task;
  context_->count(outcome);
  if (outcome.committed() && context_->config.conserving) check_total(total, "in a reader");
  if (!must || outcome.code == Code::kPeerUnreachable) co_return;  // the node was removed just now
  if (!outcome.committed()) context_->violation("final sum never commits: " + outcome.text());
  if (outcome.committed() && context_->unknown == 0) check_total(total, "at the end");
}

Task<void> SmallBank::run(Client* client, Session session) {
  const RetryPolicy policy{.attempts = 20, .backoff_us = 1, .backoff_us_max = 100};
  for (int i = 0; context_->another(*client, i); ++i) {
    Order order = draw(client);
    if (order.kind == Kind::kBalance) {
      Task<void> task = audit(client, session, policy, false);
      co_await task;
      continue;
    }
    Outcome outcome;
    if (order.kind == Kind::kPayment && client->random.chance(context_->config.declared_percent)) {
      const Payment payment_arguments{checking_.value, order.a, order.b};
      const std::string arguments(reinterpret_cast<const char*>(&payment_arguments), sizeof payment_arguments);
      context_->doing(client, "in a declared payment");
      Task<Outcome> task = session.call(ProcedureId(0), arguments);
      outcome = co_await task;
    } else {
      auto work = [this, session, &order](Txn& txn) { return body(session, &txn, &order); };
      context_->doing(client, "in a bank transaction");
      Task<Outcome> task = session.run(policy, work);
      outcome = co_await task;
    }
    if (context_->count(outcome) == SimOutcome::kOk) total_ += order.brings;
  }
}

Task<void> SmallBank::finish(Client* client, Session session) {
  Task<void> task = audit(client, session, kInsist, true);
  co_await task;
}

}  // namespace

std::unique_ptr<Workload> make_smallbank(WorkloadContext* context) { return std::make_unique<SmallBank>(context); }

}  // namespace weft::sim
