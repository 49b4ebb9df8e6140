// List-append: a key's value is the list of all elements ever appended to it, so a read shows everything that happened
// to the key before. Elements are unique in a run, including those of failed attempts.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "weft/sim/list_value.h"
#include "weft/sim/ordered_keys.h"
#include "weft/sim/outcome_oracle.h"
#include "weft/sim/workload.h"
#include "weft/txn/txn_worker.h"

namespace weft::sim {

namespace {

constexpr uint64_t kElementsMax = 150;  // room for appends that were in flight when the key was retired
constexpr uint64_t kDeclaredMax = 3;    // keys of a declared transaction
constexpr uint32_t kReplyBytesMax = kDeclaredMax * list_bytes(kElementsMax, 0);

// Arguments of the stored procedure `append`: the table, then these. It replies what it has found.
struct DeclaredPart {
  uint64_t key;
  uint64_t element;  // 0: it is only read
  uint64_t pad;
};

TableId declared_table(std::string_view arguments) {
  uint64_t table = 0;
  std::memcpy(&table, arguments.data(), 8);
  return TableId(static_cast<uint16_t>(table));
}

DeclaredPart declared_part(std::string_view arguments, size_t i) {
  DeclaredPart part{};
  std::memcpy(&part, arguments.data() + 8 + i * sizeof part, sizeof part);
  return part;
}

size_t declared_parts(std::string_view arguments) { return (arguments.size() - 8) / sizeof(DeclaredPart); }

void append_keys(std::string_view arguments, StoredProcedure::Keys& keys) {
  for (size_t i = 0; i < declared_parts(arguments); ++i) {
    const DeclaredPart part = declared_part(arguments, i);
    keys.add(declared_table(arguments), part.key, part.element != 0 ? Intent::kUpdate : Intent::kRead);
  }
}

Code append_step(std::string_view arguments, std::span<const Value> values, StoredProcedure::Writes& writes) {
  std::string found;
  for (size_t i = 0; i < values.size(); ++i) {
    const DeclaredPart part = declared_part(arguments, i);
    List list;
    if (values[i].code != Code::kOk) return values[i].code;
    if (values[i].found && !decode_list(values[i].bytes, list)) return Code::kApplication;
    if (list.size() >= kElementsMax) return Code::kApplication;
    found += encode_list(list, 0);
    if (part.element == 0) continue;
    list.push_back(part.element);
    const std::string value = encode_list(list, static_cast<uint32_t>(part.pad));
    writes.put(declared_table(arguments), part.key, value);
  }
  writes.reply(found);
  return Code::kOk;
}

// The incarnation of the node that executes or has executed this transaction; 0: it was not shipped.
uint32_t shipped_to(const TxnWorker& worker, const TxnId& id) {
  for (size_t i = 0; i < worker.slots().size(); ++i) {
    const TxnSlot& slot = worker.slots().at(i);
    if (slot.sequence != id.sequence || slot.incarnation != id.incarnation || slot.shipped_to.empty()) continue;
    const Member* const member = worker.view().find(slot.shipped_to.first());
    return member != nullptr ? member->incarnation : 0;
  }
  return 0;
}

class AppendWorkload final : public Workload {
 public:
  explicit AppendWorkload(WorkloadContext* context)
      : Workload(context), outcomes_(context), generation_(context->config.keys), appended_(context->config.keys) {}

  void declare(ClusterSpec& spec) override;
  Task<void> run(Client* client, Session session) override;
  Task<void> finish(Client* client, Session session) override;
  void end() override { outcomes_.end(); }

 private:
  // A range that a transaction is going to read, of one prefix of the ordered table.
  struct Range {
    size_t before = SIZE_MAX;  // the plan that it comes before; SIZE_MAX: none is read
    uint64_t prefix = 0, from = 0, to = 0;
    uint32_t limit = Txn::kNoLimit;
    Direction direction = Direction::kForward;
  };
  // One operation that a transaction is going to do.
  struct Plan {
    uint64_t place = 0;
    uint64_t number = 0;  // the key: place + generation * places
    TableId table;
    std::string bytes;  // the key of the byte table, or empty
    std::string name;   // its name in the history
    bool append = false;
    bool blind = false;   // insert without a read
    bool reread = false;  // read again after the write
    bool head = false;    // its head is read first
    Intent intent = Intent::kRead;
    uint64_t element = 0;
    ReadHandle handle;
    uint64_t stored = 0;  // the key of the integer table
    Key key() const { return bytes.empty() ? Key(stored) : Key(std::string_view(bytes)); }
  };
  struct Attempt {
    SimTxn record;
    std::vector<Plan> plans;
    Range range;
    bool async = false;        // all reads are started before the first is awaited
    uint64_t snapshot_ns = 0;  // a snapshot's longest pause between two reads
    size_t drop_before = SIZE_MAX;
    bool failed = false;  // a read failed, or a value was broken
    bool recorded = false;
    std::optional<size_t> status;  // its entry in outcomes_
    TxnId id;                      // of a declared one; its status begins when it has an outcome, or none
    TxnWorker* worker = nullptr;   // and its worker
    bool committing = false;
  };
  // An attempt whose process ends before its outcome is known. It is recorded when somebody learns the outcome, else as
  // unknown.
  struct Unfinished {
    AppendWorkload* workload;
    Attempt* attempt;
    ~Unfinished() {
      if (attempt->recorded || !workload->context_->crashing) return;
      ++workload->context_->unknown;
      workload->begin_status(*attempt);
      workload->lost(std::move(*attempt));
    }
  };

  Plan plan_for(Random& random, uint64_t place, bool may_append);
  Attempt plan_txn(Client* client);
  uint32_t pad_of(uint64_t number) const {
    return mix64(number * 7 + 3) % 100 < context_->config.large_percent ? context_->config.large_bytes : 0;
  }
  Range range_for(Random& random, const Attempt& attempt) const;
  bool in_integers(uint64_t number) const {
    return !context_->config.byte_keys || number % generation_.size() % 2 == 0;
  }
  Task<void> scan(Client* client, Txn* txn, Attempt* attempt);
  void take_scan(Attempt& attempt, const Scan& found);
  bool read(Attempt& attempt, const Plan& plan, const Value& value, List& list);
  void take_reply(Attempt& attempt, std::string_view reply);
  void write(Attempt& attempt, const Plan& plan, Txn& txn, List& list, bool found);
  void finished(Attempt& attempt, SimOutcome outcome);
  void begin_status(Attempt& attempt);
  void acknowledged(Attempt& attempt, const Outcome& outcome, Session session);
  void lost(Attempt attempt);
  Task<void> interactive(Client* client, Session session);
  Task<void> operations(Client* client, Session session, Txn* txn, Attempt* attempt);
  Task<void> single(Client* client, Session session);
  Task<void> declared(Client* client, Session session);
  Task<void> read_all(Client* client, Session session);
  Task<void> read_one(Client* client, Session session, Plan plan, RetryPolicy policy, bool must);

  bool scans() const { return context_->config.scan_percent != 0; }

  const OrderedKeys keys_{4};
  OutcomeOracle outcomes_;
  TableId integers_, bytes_;
  std::vector<uint64_t> generation_;  // by place
  std::vector<uint64_t> appended_;    // to the place's present key
  uint64_t elements_ = 0;
};

void AppendWorkload::declare(ClusterSpec& spec) {
  integers_ = TableId(static_cast<uint16_t>(spec.tables.size()));
  TableSpec table;
  table.name = "lists";
  table.value_bytes_max = static_cast<uint32_t>(list_bytes(kElementsMax, context_->config.large_bytes));
  table.value_bytes_max = std::min(table.value_bytes_max, spec.options.limits.value_bytes_max);
  table.capacity = context_->config.capacity;
  spec.tables.push_back(table);
  if (scans()) OrderedKeys::make_ordered(spec.tables.back());
  bytes_ = TableId(static_cast<uint16_t>(spec.tables.size()));
  table.name = "named lists";
  table.keys = KeyKind::kBytes;
  spec.tables.push_back(table);
  spec.procedures.push_back(
      {.name = "append", .keys = append_keys, .execute = append_step, .reply_bytes_max = kReplyBytesMax});
}

AppendWorkload::Plan AppendWorkload::plan_for(Random& random, uint64_t place, bool may_append) {
  Plan plan;
  plan.place = place;
  plan.number = place + generation_[place] * generation_.size();
  plan.table = integers_;
  plan.name = std::to_string(plan.number);
  plan.stored = scans() ? keys_.key(plan.number) : plan.number;
  if (context_->config.byte_keys && place % 2 == 1) {
    plan.table = bytes_;
    plan.bytes = "list " + plan.name;
    if (place % 3 == 0) plan.bytes += std::string(10 + plan.number % 300, '.');
  }
  plan.append = may_append && !random.chance(context_->config.read_percent);
  plan.intent = plan.append && !random.chance(20) ? Intent::kUpdate : Intent::kRead;
  plan.blind = plan.append && appended_[place] == 0 && random.chance(context_->config.blind_percent);
  plan.reread = plan.append && random.chance(20);
  plan.head = mix64(plan.number * 5 + 1) % 3 == 0;
  if (plan.append) plan.element = ++elements_;
  return plan;
}

AppendWorkload::Attempt AppendWorkload::plan_txn(Client* client) {
  Random& random = client->random;
  Attempt attempt;
  attempt.record.process = client->id;
  const bool snapshot = context_->config.snapshot_percent != 0 && random.chance(context_->config.snapshot_percent);
  const uint64_t most = std::min<uint64_t>(context_->config.keys_per_txn, context_->config.keys);
  const uint64_t keys =
      snapshot ? std::min<uint64_t>(random.between(2, most + 1), context_->config.keys) : random.between(1, most);
  while (attempt.plans.size() < keys) {
    const uint64_t place = context_->choose(random, generation_.size());
    const auto same = [&](const Plan& plan) { return plan.place == place; };
    // With strong skew all keys of the hot tenth may be in use.
    if (std::any_of(attempt.plans.begin(), attempt.plans.end(), same)) {
      if (random.chance(50)) break;
      continue;
    }
    // A snapshot also looks for keys that do not exist, and are perhaps being inserted.
    const bool next = snapshot && random.chance(20);
    generation_[place] += next ? 1 : 0;
    attempt.plans.push_back(plan_for(random, place, !snapshot));
    generation_[place] -= next ? 1 : 0;
  }
  attempt.async = random.chance(40);
  if (snapshot) attempt.snapshot_ns = random.chance(60) ? random.between(1, 20) * 1000 : 1;
  if (random.chance(context_->config.drop_percent)) attempt.drop_before = random.below(attempt.plans.size() + 1);
  if (scans() && random.chance(context_->config.scan_percent)) attempt.range = range_for(random, attempt);
  return attempt;
}

AppendWorkload::Range AppendWorkload::range_for(Random& random, const Attempt& attempt) const {
  Range range;
  const auto appends = [](const Plan& plan) { return plan.append; };
  const bool writes = std::any_of(attempt.plans.begin(), attempt.plans.end(), appends);
  if (writes && context_->config.scans_read_only) return range;
  const uint64_t last = *std::max_element(generation_.begin(), generation_.end()) + 1;
  const uint64_t lows = generation_.size() * (last + 1) / keys_.prefixes + 1;
  range.before = random.below(attempt.plans.size() + 1);
  range.prefix = random.below(keys_.prefixes);
  range.from = random.below(lows);
  range.to = range.from + random.between(1, 12);
  if (random.chance(40)) range.limit = static_cast<uint32_t>(random.between(1, 4));
  if (random.chance(50)) range.direction = Direction::kBackward;
  return range;
}

Task<void> AppendWorkload::scan(Client* client, Txn* txn, Attempt* attempt) {
  const Range& range = attempt->range;
  context_->doing(client, "scanning");
  const Scan found = co_await txn->scan(integers_, OrderedKeys::key_at(range.prefix, range.from),
                                        OrderedKeys::key_at(range.prefix, range.to), range.limit, range.direction);
  take_scan(*attempt, found);
}

// A scan reads every key of its range, up to where its limit ended it; those that it did not find, as absent.
void AppendWorkload::take_scan(Attempt& attempt, const Scan& found) {
  const Range& range = attempt.range;
  if (found.code != Code::kOk) {
    attempt.failed = true;
    return;
  }
  uint64_t from = OrderedKeys::key_at(range.prefix, range.from), to = OrderedKeys::key_at(range.prefix, range.to);
  if (found.limited) {
    const uint64_t last = found.items.back().integer;
    (range.direction == Direction::kForward ? to : from) = last + (range.direction == Direction::kForward ? 1 : 0);
  }
  std::map<uint64_t, List> lists;
  for (const Scan::Item& item : found.items) {
    List list;
    if (item.integer < from || item.integer >= to || !decode_list(item.value, list) ||
        !lists.emplace(item.integer, list).second) {
      context_->violation("a scan gave key " + std::to_string(item.integer) + " with a value of " +
                          std::to_string(item.value.size()) + " bytes, which is torn, twice, or not in its range");
      attempt.failed = true;
      return;
    }
  }
  for (uint64_t key = from; key < to; ++key) {
    const uint64_t number = keys_.number(key);
    if (!in_integers(number)) continue;
    attempt.record.ops.push_back({false, std::to_string(number), 0, lists[key]});
  }
}

bool AppendWorkload::read(Attempt& attempt, const Plan& plan, const Value& value, List& list) {
  if (value.code != Code::kOk) {
    attempt.failed = true;
    return false;
  }
  if (value.found && !decode_list(value.bytes, list)) {
    context_->violation("torn value: a read of key " + plan.name + " gave " + std::to_string(value.bytes.size()) +
                        " bytes that no transaction wrote");
    attempt.failed = true;
    return false;
  }
  attempt.record.ops.push_back({false, plan.name, 0, list});
  return true;
}

void AppendWorkload::write(Attempt& attempt, const Plan& plan, Txn& txn, List& list, bool found) {
  list.push_back(plan.element);
  const std::string value = encode_list(list, pad_of(plan.number));
  const bool insert = plan.blind || (!found && plan.element % 2 == 0);
  const Code code = insert ? txn.insert(plan.table, plan.key(), value) : txn.put(plan.table, plan.key(), value);
  if (code != Code::kOk) attempt.failed = true;
  attempt.record.ops.push_back({true, plan.name, plan.element, {}});
}

Task<void> AppendWorkload::operations(Client* client, Session session, Txn* txn, Attempt* attempt) {
  if (attempt->async) {
    for (Plan& plan : attempt->plans) {
      if (!plan.blind) plan.handle = txn->get_async(plan.table, plan.key(), plan.intent);
    }
    if (attempt->drop_before == 0) co_return;  // abandoned with reads in flight
    context_->doing(client, "reading several keys");
    co_await txn->wait_all();
  }
  for (size_t i = 0; i <= attempt->plans.size() && i != attempt->drop_before; ++i) {
    if (i == attempt->range.before) {
      Task<void> work = scan(client, txn, attempt);
      co_await work;
      if (attempt->failed) co_return;
    }
    if (i == attempt->plans.size()) break;
    const Plan& plan = attempt->plans[i];
    List list;
    bool found = false;
    if (!plan.blind) {
      context_->doing(client, "reading a key");
      Value head;
      if (!attempt->async && plan.head) head = co_await txn->get(plan.table, plan.key(), Intent::kHead);
      if (!attempt->async) attempt->plans[i].handle = txn->get_async(plan.table, plan.key(), plan.intent);
      co_await txn->wait(plan.handle);
      const Value value = txn->value(plan.handle);
      found = value.found;
      if (!read(*attempt, plan, value, list)) co_return;
      if (head.found && (!found || head.length != value.bytes.size())) {
        context_->violation("a head of key " + plan.name + " said " + std::to_string(head.length) +
                            " bytes, there are " + std::to_string(value.bytes.size()));
      }
    }
    if (plan.append && list.size() < kElementsMax) {
      write(*attempt, plan, *txn, list, found);
      if (attempt->failed) co_return;
      if (plan.reread) {
        const Value value = co_await txn->get(plan.table, plan.key());
        List again;
        if (!read(*attempt, plan, value, again)) co_return;
      }
    }
    context_->doing(client, "thinking");
    uint64_t think_ns = context_->think_ns(client->random);
    if (attempt->snapshot_ns != 0) think_ns += client->random.below(attempt->snapshot_ns);
    if (think_ns > 0) co_await session.sleep_ns(think_ns);
  }
}

void AppendWorkload::finished(Attempt& attempt, SimOutcome outcome) {
  SimTxn& record = attempt.record;
  attempt.recorded = true;
  record.complete = context_->stamp();
  record.outcome = outcome;
  if (outcome != SimOutcome::kOk) std::erase_if(record.ops, [](const SimTxn::Op& op) { return !op.append; });
  if (outcome == SimOutcome::kOk) {
    for (const Plan& plan : attempt.plans) {
      // The key may have been retired meanwhile: then its place has another key.
      if (!plan.append || plan.number != plan.place + generation_[plan.place] * generation_.size()) continue;
      if (++appended_[plan.place] < context_->config.retire_after) continue;
      appended_[plan.place] = 0;
      ++generation_[plan.place];
    }
  }
  if (context_->sink() != nullptr && !record.ops.empty()) context_->sink()->txn(record);
}

void AppendWorkload::acknowledged(Attempt& attempt, const Outcome& outcome, Session session) {
  const SimOutcome counted = context_->count(outcome);
  if (outcome.kind == OutcomeKind::kUnknown) return lost(std::move(attempt));
  if (attempt.status) {
    const auto appends = [](const SimTxn::Op& op) { return op.append; };
    const bool wrote = std::any_of(attempt.record.ops.begin(), attempt.record.ops.end(), appends);
    outcomes_.acknowledged(*attempt.status, outcome, wrote, session);
  }
  finished(attempt, counted);
}

// If the attempt reached its commit, all its reads are known; so if somebody learns that it committed, it counts like
// any other.
void AppendWorkload::lost(Attempt attempt) {
  const auto kept = std::make_shared<Attempt>(std::move(attempt));
  if (!kept->status) return finished(*kept, SimOutcome::kInfo);
  outcomes_.lost(*kept->status, [this, kept](SimOutcome outcome) {
    if (outcome == SimOutcome::kOk && !kept->committing) {
      context_->violation("a transaction counts as committed that its client had not asked to commit");
    }
    finished(*kept, outcome);
  });
}

Task<void> AppendWorkload::interactive(Client* client, Session session) {
  Attempt attempt = plan_txn(client);
  const Unfinished unfinished{this, &attempt};
  attempt.record.invoke = context_->stamp();
  context_->doing(client, "beginning a transaction");
  // Some transactions have one deadline for the whole, others one for each wait.
  Txn txn = co_await session.begin(client->id % 2 == 0 ? session.answer_by_ns() : 0);
  if (txn.refused()) {
    const Outcome refused = co_await txn.commit();
    acknowledged(attempt, refused, session);
    co_return;
  }
  attempt.status = outcomes_.begun(txn.id());
  Task<void> work = operations(client, session, &txn, &attempt);
  co_await work;
  if (attempt.drop_before != SIZE_MAX && !attempt.failed) {
    ++context_->dropped;
    if (client->random.chance(30)) txn.abort();
    Outcome dropped;
    dropped.kind = OutcomeKind::kAborted;
    outcomes_.acknowledged(*attempt.status, dropped, false, session);
    finished(attempt, SimOutcome::kFail);
    co_return;
  }
  context_->doing(client, "committing");
  attempt.committing = true;
  const Outcome outcome = co_await txn.commit();
  if (attempt.failed && outcome.committed()) {
    context_->violation("committed although a read or write had failed: " + outcome.text());
  }
  acknowledged(attempt, outcome, session);
}

Task<void> AppendWorkload::read_one(Client* client, Session session, Plan plan, RetryPolicy policy, bool must) {
  Attempt attempt;
  attempt.record.process = client->id;
  attempt.record.invoke = context_->stamp();
  std::vector<char> room(list_bytes(kElementsMax, context_->config.large_bytes));
  context_->doing(client, "reading one key");
  Task<Session::GetResult> task = session.get_one(plan.table, plan.key(), room, policy, must ? UINT64_MAX : 0);
  const Session::GetResult one = co_await task;
  SimOutcome outcome = context_->count(one.outcome);
  if (one.outcome.committed()) {
    List list;
    const Value value{Code::kOk, one.found, {room.data(), one.bytes}};
    if (!read(attempt, plan, value, list)) outcome = SimOutcome::kFail;
  } else if (must && one.outcome.code != Code::kPeerUnreachable) {  // a node may still be removed now, and start again
    context_->violation("final read of key " + plan.name + " at node " + std::to_string(client->node.value) +
                        " fails: " + one.outcome.text());
  }
  finished(attempt, outcome);
}

Task<void> AppendWorkload::single(Client* client, Session session) {
  Random& random = client->random;
  const uint64_t place = context_->choose(random, generation_.size());
  Plan plan = plan_for(random, place, appended_[place] == 0);
  if (!plan.append) {
    Task<void> task = read_one(client, session, std::move(plan), RetryPolicy{.attempts = 20, .backoff_us = 1}, false);
    co_await task;
    co_return;
  }
  // A blind write knows the list only if the key does not exist.
  Attempt attempt;
  attempt.record.process = client->id;
  attempt.record.invoke = context_->stamp();
  attempt.record.ops.push_back({true, plan.name, plan.element, {}});
  const Unfinished unfinished{this, &attempt};
  const List list{plan.element};
  const std::string value = encode_list(list, pad_of(plan.number));
  context_->doing(client, "inserting one key");
  Task<Outcome> task = session.insert_one(plan.table, plan.key(), value);
  attempt.plans.push_back(plan);
  const Outcome outcome = co_await task;
  finished(attempt, context_->count(outcome));
}

// A declared transaction has read each of its keys before it appended.
void AppendWorkload::take_reply(Attempt& attempt, std::string_view reply) {
  attempt.record.ops.clear();
  for (const Plan& plan : attempt.plans) {
    uint32_t count = 0;
    std::memcpy(&count, reply.data(), std::min(sizeof count, reply.size()));
    List list;
    const size_t bytes = list_bytes(count, 0);
    if (!decode_list(reply.substr(0, bytes), list)) {
      context_->violation("the reply of a declared transaction is broken");
      return;
    }
    reply.remove_prefix(bytes);
    attempt.record.ops.push_back({false, plan.name, 0, list});
    if (plan.append) attempt.record.ops.push_back({true, plan.name, plan.element, {}});
  }
}

// Others ask for the outcome of a declared transaction from now on.
void AppendWorkload::begin_status(Attempt& attempt) {
  if (attempt.status || attempt.id.incarnation == 0) return;
  attempt.status = outcomes_.begun(attempt.id, shipped_to(*attempt.worker, attempt.id));
}

Task<void> AppendWorkload::declared(Client* client, Session session) {
  Random& random = client->random;
  Attempt attempt;
  attempt.record.process = client->id;
  std::string arguments = integer_value(integers_.value);
  const bool reads = context_->config.declared_reads;
  for (uint64_t n = random.between(1, kDeclaredMax); n > 0; --n) {
    const uint64_t place = context_->choose(random, generation_.size());
    const auto same = [&](const Plan& plan) { return plan.place == place; };
    if (std::any_of(attempt.plans.begin(), attempt.plans.end(), same)) continue;
    Plan plan = plan_for(random, place, true);
    if (plan.table != integers_) continue;
    if (!plan.append && !reads) plan.element = ++elements_;
    plan.append |= !reads;
    const DeclaredPart part{plan.stored, plan.append ? plan.element : 0, pad_of(plan.number)};
    arguments.append(reinterpret_cast<const char*>(&part), sizeof part);
    if (plan.append) attempt.record.ops.push_back({true, plan.name, plan.element, {}});
    attempt.plans.push_back(std::move(plan));
  }
  if (attempt.plans.empty()) co_return;
  const Unfinished unfinished{this, &attempt};
  attempt.record.invoke = context_->stamp();
  attempt.worker = session.txn_worker();
  attempt.committing = true;
  context_->doing(client, "in a declared transaction");
  std::string reply;
  Task<Outcome> task = session.call(ProcedureId(0), arguments, &reply, reads ? &attempt.id : nullptr);
  const Outcome outcome = co_await task;
  if (!reads) {
    finished(attempt, context_->count(outcome));
    co_return;
  }
  if (outcome.committed()) take_reply(attempt, reply);
  attempt.id = outcome.id;
  begin_status(attempt);
  acknowledged(attempt, outcome, session);
}

Task<void> AppendWorkload::run(Client* client, Session session) {
  for (int i = 0; context_->another(*client, i); ++i) {
    const bool one = client->random.chance(context_->config.single_key_percent);
    const bool declared_one = client->random.chance(context_->config.declared_percent);
    Task<void> txn = one            ? single(client, session)
                     : declared_one ? declared(client, session)
                                    : interactive(client, session);
    co_await txn;
    if (outcomes_.wants_to_ask(client->random)) {
      Task<void> ask = outcomes_.ask(client, session);
      co_await ask;
    }
    const uint64_t think_ns = context_->think_ns(client->random);
    if (think_ns > 0) co_await session.sleep_ns(think_ns);
  }
}

Task<void> AppendWorkload::read_all(Client* client, Session session) {
  for (uint64_t place = 0; place < generation_.size(); ++place) {
    const uint64_t last = generation_[place];
    for (uint64_t g = 0; g <= last; ++g) {
      generation_[place] = g;
      Attempt attempt;
      attempt.plans.push_back(plan_for(client->random, place, false));
      generation_[place] = last;
      Outcome outcome;
      for (uint32_t n = 0; n < kInsist.attempts; ++n) {
        attempt.record = SimTxn{client->id, context_->stamp(), 0, SimOutcome::kOk, {}};
        attempt.failed = false;
        context_->doing(client, "reading everything at the end");
        Txn txn = co_await session.begin();
        Task<void> work = operations(client, session, &txn, &attempt);
        co_await work;
        outcome = co_await txn.commit();
        if (outcome.committed() || outcome.code == Code::kPeerUnreachable) break;
        co_await session.sleep_ns(2000 * (1 + n % 50));
      }
      if (!outcome.committed() && outcome.code != Code::kPeerUnreachable)
        context_->violation("final read never commits: " + outcome.text());
      finished(attempt, context_->count(outcome));
    }
  }
}

Task<void> AppendWorkload::finish(Client* client, Session session) {
  Task<void> ask = outcomes_.ask_at_end(client, session);
  co_await ask;
  if (client->node == NodeId(0)) {
    Task<void> task = read_all(client, session);
    co_await task;
    co_return;
  }
  for (uint64_t place = 0; place < generation_.size(); ++place) {
    Task<void> task = read_one(client, session, plan_for(client->random, place, false), kInsist, true);
    co_await task;
  }
}

}  // namespace

std::unique_ptr<Workload> make_append(WorkloadContext* context) { return std::make_unique<AppendWorkload>(context); }

}  // namespace weft::sim
