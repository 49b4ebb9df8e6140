// A small TATP: subscribers, a secondary index by their number, access info, special facilities and call forwarding, in
// the usual mix. In the benchmark facilities are never deleted; here they are, with all that forwards from them, so
// that the referential rules can be broken:
//   R1  a call forwarding belongs to a facility that exists;
//   R2  every subscriber is found by its number, under its own id.
// Every committed transaction that sees both sides of a rule checks it, and so does a reader of everything at the end.
#include <algorithm>
#include <vector>

#include "weft/sim/workload.h"

namespace weft::sim {

namespace {

constexpr uint64_t kTypes = 4;  // of access info and facilities
constexpr uint64_t kStartTimes = 3;

enum class Kind : uint8_t {
  kSubscriber,
  kAccess,
  kDestination,
  kUpdateSubscriber,
  kUpdateLocation,
  kInsertForwarding,
  kDeleteForwarding,
  kFacility,  // adds a facility, or removes it with all that forwards from it
};

class Tatp final : public Workload {
 public:
  explicit Tatp(WorkloadContext* context)
      : Workload(context), subscribers_(std::clamp<uint64_t>(context->config.keys, 1, 12)) {}

  void declare(ClusterSpec& spec) override;
  void load(const std::vector<std::unique_ptr<Node>>& nodes) override;
  Task<void> run(Client* client, Session session) override;
  Task<void> finish(Client* client, Session session) override;

 private:
  struct Order {
    Kind kind = Kind::kSubscriber;
    uint64_t subscriber = 0;
    uint64_t type = 0;  // 0 .. kTypes - 1
    uint64_t time = 0;  // 0 .. kStartTimes - 1
    uint64_t location = 0;
    uint64_t think_ns = 0;
    bool dangling = false;  // saw a call forwarding without its facility
    bool stray = false;     // saw a number that leads to another subscriber
  };
  uint64_t facility(const Order& order) const { return order.subscriber * kTypes + order.type; }
  uint64_t forwarding(const Order& order, uint64_t time) const { return facility(order) * kStartTimes + time; }
  static std::string number(uint64_t subscriber) {
    std::string digits = std::to_string(subscriber);
    return std::string(15 - digits.size(), '0') + digits;
  }

  Order draw(Client* client);
  Task<Code> body(Session session, Txn* txn, Order* order);
  Task<Code> by_number(Txn* txn, Order* order);
  Task<Code> destination(Txn* txn, Order* order);
  Task<Code> update_subscriber(Txn* txn, Order* order);
  Task<Code> update_location(Txn* txn, Order* order);
  Task<Code> insert_forwarding(Session session, Txn* txn, Order* order);
  Task<Code> delete_forwarding(Txn* txn, Order* order);
  Task<Code> change_facility(Session session, Txn* txn, Order* order);
  Task<void> one(Client* client, Session session, Order order);
  void judge(const Outcome& outcome, const Order& order);

  const uint64_t subscribers_;
  TableId subscriber_, number_, access_, facility_, forwarding_;
};

void Tatp::declare(ClusterSpec& spec) {
  const auto add = [&](const char* name, uint32_t bytes, KeyKind keys = KeyKind::kInteger) {
    TableSpec table;
    table.name = name;
    table.value_bytes_max = bytes;
    table.capacity = 512;
    table.keys = keys;
    spec.tables.push_back(table);
    return TableId(static_cast<uint16_t>(spec.tables.size() - 1));
  };
  subscriber_ = add("subscriber", 40);
  number_ = add("number", 8, KeyKind::kBytes);
  access_ = add("access info", 16);
  facility_ = add("special facility", 8);
  forwarding_ = add("call forwarding", 16);
}

void Tatp::load(const std::vector<std::unique_ptr<Node>>& nodes) {
  for (uint64_t s = 0; s < subscribers_; ++s) {
    load_everywhere(nodes, subscriber_, s, std::string(40, 's'));
    const std::string digits = number(s);
    load_everywhere(nodes, number_, std::string_view(digits), integer_value(s));
    for (uint64_t t = 0; t < kTypes; ++t) {
      // 2.5 of 4 on average, as in the benchmark.
      if ((s + t) % 8 < 5) load_everywhere(nodes, access_, s * kTypes + t, std::string(16, 'a'));
      if ((s + t) % 8 < 5) load_everywhere(nodes, facility_, s * kTypes + t, integer_value(0));
    }
  }
}

Tatp::Order Tatp::draw(Client* client) {
  Random& random = client->random;
  Order order;
  const uint64_t dice = random.below(110);
  order.kind = dice < 35   ? Kind::kSubscriber
               : dice < 45 ? Kind::kAccess
               : dice < 60 ? Kind::kDestination
               : dice < 64 ? Kind::kUpdateSubscriber
               : dice < 74 ? Kind::kUpdateLocation
               : dice < 89 ? Kind::kInsertForwarding
               : dice < 96 ? Kind::kDeleteForwarding
                           : Kind::kFacility;
  order.subscriber = context_->choose(random, subscribers_);
  order.type = random.below(kTypes);
  order.time = random.below(kStartTimes);
  order.location = random.next();
  order.think_ns = context_->think_ns(random);
  return order;
}

// The subscriber's id by its number (rule R2).
Task<Code> Tatp::by_number(Txn* txn, Order* order) {
  const std::string digits = number(order->subscriber);
  const Value value = co_await txn->get(number_, std::string_view(digits));
  if (value.code != Code::kOk) co_return value.code;
  order->stray = !value.found || integer_of(value) != order->subscriber;
  co_return Code::kOk;
}

Task<Code> Tatp::destination(Txn* txn, Order* order) {
  const ReadHandle at = txn->get_async(facility_, facility(*order));
  ReadHandle forwards[kStartTimes];
  for (uint64_t t = 0; t < kStartTimes; ++t) forwards[t] = txn->get_async(forwarding_, forwarding(*order, t));
  co_await txn->wait_all();
  const Value here = txn->value(at);
  if (here.code != Code::kOk) co_return here.code;
  for (const ReadHandle handle : forwards) {
    const Value value = txn->value(handle);
    if (value.code != Code::kOk) co_return value.code;
    if (value.found && !here.found) order->dangling = true;
  }
  co_return Code::kOk;
}

Task<Code> Tatp::update_subscriber(Txn* txn, Order* order) {
  const Value at = co_await txn->get(facility_, facility(*order), Intent::kUpdate);
  if (!at) co_return at.code == Code::kOk ? Code::kApplication : at.code;
  const uint64_t updates = integer_of(at) + 1;
  const Value subscriber = co_await txn->get(subscriber_, order->subscriber, Intent::kUpdate);
  if (!subscriber) co_return subscriber.code == Code::kOk ? Code::kNotFound : subscriber.code;
  std::string bits(subscriber.bytes);
  bits[0] = static_cast<char>(bits[0] ^ 1);
  txn->put(subscriber_, order->subscriber, bits);
  txn->put(facility_, facility(*order), integer_value(updates));
  co_return Code::kOk;
}

Task<Code> Tatp::update_location(Txn* txn, Order* order) {
  Task<Code> found = by_number(txn, order);
  const Code code = co_await found;
  if (code != Code::kOk) co_return code;
  const Value subscriber = co_await txn->get(subscriber_, order->subscriber, Intent::kUpdate);
  if (!subscriber) co_return subscriber.code == Code::kOk ? Code::kNotFound : subscriber.code;
  std::string record(subscriber.bytes);
  record.replace(8, 8, integer_value(order->location));
  txn->put(subscriber_, order->subscriber, record);
  co_return Code::kOk;
}

Task<Code> Tatp::insert_forwarding(Session session, Txn* txn, Order* order) {
  Task<Code> found = by_number(txn, order);
  const Code code = co_await found;
  if (code != Code::kOk) co_return code;
  const Value at = co_await txn->get(facility_, facility(*order));
  if (!at) co_return at.code == Code::kOk ? Code::kApplication : at.code;
  if (order->think_ns > 0) co_await session.sleep_ns(order->think_ns);
  txn->insert(forwarding_, forwarding(*order, order->time), std::string(16, 'f'));
  co_return Code::kOk;
}

Task<Code> Tatp::delete_forwarding(Txn* txn, Order* order) {
  Task<Code> found = by_number(txn, order);
  const Code code = co_await found;
  if (code != Code::kOk) co_return code;
  txn->erase(forwarding_, forwarding(*order, order->time));
  co_return Code::kOk;
}

Task<Code> Tatp::change_facility(Session session, Txn* txn, Order* order) {
  const Value at = co_await txn->get(facility_, facility(*order), Intent::kUpdate);
  if (at.code != Code::kOk) co_return at.code;
  if (!at.found) {
    txn->insert(facility_, facility(*order), integer_value(0));
    co_return Code::kOk;
  }
  for (uint64_t t = 0; t < kStartTimes; ++t) {
    const Value value = co_await txn->get(forwarding_, forwarding(*order, t), Intent::kUpdate);
    if (value.code != Code::kOk) co_return value.code;
    if (value.found) txn->erase(forwarding_, forwarding(*order, t));
  }
  if (order->think_ns > 0) co_await session.sleep_ns(order->think_ns);
  txn->erase(facility_, facility(*order));
  co_return Code::kOk;
}

Task<Code> Tatp::body(Session session, Txn* txn, Order* order) {
  order->dangling = false;
  order->stray = false;
  switch (order->kind) {
    case Kind::kUpdateSubscriber:
      return update_subscriber(txn, order);
    case Kind::kUpdateLocation:
      return update_location(txn, order);
    case Kind::kInsertForwarding:
      return insert_forwarding(session, txn, order);
    case Kind::kDeleteForwarding:
      return delete_forwarding(txn, order);
    case Kind::kFacility:
      return change_facility(session, txn, order);
    case Kind::kSubscriber:
    case Kind::kAccess:
    case Kind::kDestination:
      break;
  }
  return destination(txn, order);
}

// getSubscriber and getAccess are single-key reads.
Task<void> Tatp::one(Client* client, Session session, Order order) {
  char room[40] = {};
  const bool subscriber = order.kind == Kind::kSubscriber;
  const RetryPolicy policy{.attempts = 50, .backoff_us = 1};
  context_->doing(client, "reading one record");
  const TableId table = subscriber ? subscriber_ : access_;
  const uint64_t key = subscriber ? order.subscriber : facility(order);
  Task<Session::GetResult> task = session.get_one(table, key, room, policy);
  const Session::GetResult result = co_await task;
  context_->count(result.outcome);
  if (!result.outcome.committed()) co_return;
  const bool expected = subscriber || (order.subscriber + order.type) % 8 < 5;
  const uint32_t bytes = !expected ? 0 : subscriber ? 40 : 16;
  if (result.found != expected || result.bytes != bytes) {
    context_->violation(std::string(subscriber ? "subscriber " : "access info ") + std::to_string(key) + " has " +
                        std::to_string(result.bytes) + " bytes, not " + std::to_string(bytes));
  }
}

void Tatp::judge(const Outcome& outcome, const Order& order) {
  if (context_->count(outcome) != SimOutcome::kOk) return;
  if (order.dangling) {
    context_->violation("a committed reader saw call forwarding of facility " + std::to_string(facility(order)) +
                        ", which is not there");
  }
  if (order.stray) {
    context_->violation("the number of subscriber " + std::to_string(order.subscriber) + " leads elsewhere");
  }
}

Task<void> Tatp::run(Client* client, Session session) {
  const RetryPolicy policy{.attempts = 20, .backoff_us = 1, .backoff_us_max = 100};
  for (int i = 0; context_->another(*client, i); ++i) {
    Order order = draw(client);
    if (order.kind == Kind::kSubscriber || order.kind == Kind::kAccess) {
      Task<void> task = one(client, session, order);
      co_await task;
      continue;
    }
    auto work = [this, session, &order](Txn& txn) { return body(session, &txn, &order); };
    context_->doing(client, "in a subscriber transaction");
    Task<Outcome> task = session.run(policy, work);
    const Outcome outcome = co_await task;
    judge(outcome, order);
  }
}

Task<void> Tatp::finish(Client* client, Session session) {
  Order order;
  order.kind = Kind::kDestination;
  for (order.subscriber = 0; order.subscriber < subscribers_; ++order.subscriber) {
    for (order.type = 0; order.type < kTypes; ++order.type) {
      auto work = [this, session, &order](Txn& txn) { return body(session, &txn, &order); };
      context_->doing(client, "reading everything at the end");
      Task<Outcome> task = session.run(kInsist, work, UINT64_MAX);
      const Outcome outcome = co_await task;
      judge(outcome, order);
      if (outcome.code == Code::kPeerUnreachable) co_return;  // the node was removed just now
      if (!outcome.committed()) context_->violation("final read never commits: " + outcome.text());
    }
  }
}

}  // namespace

std::unique_ptr<Workload> make_tatp(WorkloadContext* context) { return std::make_unique<Tatp>(context); }

}  // namespace weft::sim
