// Token: N tokens lie on places, at most one on each. A mover erases a token's record and inserts it at another place;
// a reader reads every place in one transaction and must find each token exactly once. This workload tests absence:
// keys come and go all the time.
//
// Single-key reads of places are checked in pairs: where a read found something else than an earlier read of the same
// place (one that had completed before this one was invoked), a move that did not fail must explain the change.
#include <algorithm>
#include <vector>

#include "weft/sim/ordered_keys.h"
#include "weft/sim/workload.h"

namespace weft::sim {

namespace {

class TokenWorkload final : public Workload {
 public:
  explicit TokenWorkload(WorkloadContext* context)
      : Workload(context),
        places_(std::clamp<uint64_t>(context->config.keys, 4, 30)),
        tokens_(places_ / 2),
        keys_{context->config.scan_percent != 0 ? uint64_t{2} : uint64_t{1}},
        peeks_(places_) {}

  void declare(ClusterSpec& spec) override {
    table_ = TableId(static_cast<uint16_t>(spec.tables.size()));
    TableSpec table;
    table.name = "places";
    table.value_bytes_max = 8;
    table.capacity = 256;
    if (scans()) OrderedKeys::make_ordered(table);
    spec.tables.push_back(table);
  }
  void load(const std::vector<std::unique_ptr<Node>>& nodes) override;
  Task<void> run(Client* client, Session session) override;
  Task<void> finish(Client* client, Session session) override;

 private:
  bool scans() const { return context_->config.scan_percent != 0; }
  uint64_t key(uint64_t place) const { return keys_.key(place); }
  Task<void> find(Client* client, Txn* txn, SimTokenMove* record);
  Task<void> count(Client* client, Txn* txn, uint64_t prefix, std::vector<SimTokenAt>* found);
  void finished(SimTokenMove& record, SimOutcome outcome);
  Task<void> move(Client* client, Session session);
  // `until_ns`: the deadline; 0: as short as the seed has drawn it.
  Task<Outcome> look(Client* client, Session session, std::vector<SimTokenAt>* found, uint64_t until_ns = 0);
  Task<void> peek(Client* client, Session session);

  struct Peek {
    uint64_t invoke = 0;
    uint64_t complete = 0;
    uint64_t token = 0;  // 0: none
  };
  bool explained(uint64_t place, const Peek& before, const Peek& after) const;
  void check_peeks();

  const uint64_t places_;
  const uint64_t tokens_;
  const OrderedKeys keys_;
  TableId table_;
  std::vector<SimTokenMove> moves_;       // moves that did not fail
  std::vector<std::vector<Peek>> peeks_;  // by place, in order of completion
};

void TokenWorkload::load(const std::vector<std::unique_ptr<Node>>& nodes) {
  std::vector<SimTokenAt> start;
  for (uint64_t t = 0; t < tokens_; ++t) {
    start.push_back({t + 1, t});
    load_everywhere(nodes, table_, key(t), integer_value(t + 1));
  }
  if (context_->sink() != nullptr) context_->sink()->token_start(start);
}

Task<void> TokenWorkload::move(Client* client, Session session) {
  Random& random = client->random;
  SimTokenMove record;
  record.invoke = context_->stamp();
  record.from = context_->choose(random, places_);
  record.to = context_->choose(random, places_);
  const bool drop = random.chance(context_->config.drop_percent);
  // Erase and insert check presence and absence themselves, so the destination need not be read.
  const bool blind = random.chance(context_->config.blind_percent);
  context_->doing(client, "beginning a move");
  Txn txn = co_await session.begin();
  context_->doing(client, "reading the place of a token");
  if (scans() && !context_->config.scans_read_only && random.chance(context_->config.scan_percent)) {
    Task<void> task = find(client, &txn, &record);
    co_await task;
  } else {
    const Value here = co_await txn.get(table_, key(record.from), random.chance(80) ? Intent::kUpdate : Intent::kRead);
    if (here) record.token = integer_of(here);
  }
  if (record.token == 0 || record.from == record.to) {
    const Outcome outcome = co_await txn.commit();
    context_->count(outcome);
    co_return;
  }
  const uint64_t think_ns = context_->think_ns(random);
  if (think_ns > 0) co_await session.sleep_ns(think_ns);
  if (!blind) {
    const Value there = co_await txn.get(table_, key(record.to), random.chance(50) ? Intent::kUpdate : Intent::kRead);
    if (there.code == Code::kOk && there.found) co_return;
  }
  txn.erase(table_, key(record.from));
  txn.insert(table_, key(record.to), integer_value(record.token));
  if (random.chance(10)) {
    // Move there and back: the precondition of the first write stays, and nothing else changes.
    txn.erase(table_, key(record.to));
    txn.insert(table_, key(record.to), integer_value(record.token));
  }
  SimOutcome result = SimOutcome::kFail;
  struct Unfinished {
    TokenWorkload* workload;
    SimTokenMove* record;
    ~Unfinished() {
      if (record->complete == 0 && workload->context_->crashing) workload->finished(*record, SimOutcome::kInfo);
    }
  };
  const Unfinished unfinished{this, &record};
  if (drop) {
    ++context_->dropped;
  } else {
    context_->doing(client, "committing a move");
    const Outcome outcome = co_await txn.commit();
    result = context_->count(outcome);
  }
  finished(record, result);
}

void TokenWorkload::finished(SimTokenMove& record, SimOutcome outcome) {
  record.complete = context_->stamp();
  record.outcome = outcome;
  if (outcome != SimOutcome::kFail) moves_.push_back(record);
  if (context_->sink() != nullptr) context_->sink()->token_move(record);
}

// Finds a token by a scan of a few places.
Task<void> TokenWorkload::find(Client* client, Txn* txn, SimTokenMove* record) {
  Random& random = client->random;
  context_->doing(client, "scanning for a token");
  const uint64_t from = key(record->from), prefix = from >> OrderedKeys::kLowBits;
  const bool forward = random.chance(50);
  const Scan scan = forward
                        ? co_await txn->scan(table_, from, OrderedKeys::key_at(prefix, places_ + 1), 1)
                        : co_await txn->scan(table_, OrderedKeys::key_at(prefix, 0), from + 1, 1, Direction::kBackward);
  if (!scan || scan.items.empty()) co_return;
  record->from = keys_.number(scan.items[0].integer);
  record->token = integer_of({Code::kOk, true, scan.items[0].value});
}

// The tokens of one prefix: place by place, by one scan, or by several, each of which goes on where the last has ended.
Task<void> TokenWorkload::count(Client* client, Txn* txn, uint64_t prefix, std::vector<SimTokenAt>* found) {
  Random& random = client->random;
  context_->doing(client, "scanning places");
  if (random.chance(25)) {
    for (uint64_t place = prefix; place < places_; place += keys_.prefixes) {
      const Value value = co_await txn->get(table_, key(place));
      if (value) found->push_back({integer_of(value), place});
    }
    co_return;
  }
  const auto limit = random.chance(30) ? static_cast<uint32_t>(random.between(1, 6)) : Txn::kNoLimit;
  const auto direction = random.chance(50) ? Direction::kForward : Direction::kBackward;
  uint64_t from = OrderedKeys::key_at(prefix, 0), to = OrderedKeys::key_at(prefix, places_);
  for (bool more = true; more && from < to;) {
    const Scan scan = co_await txn->scan(table_, from, to, limit, direction);
    if (!scan) co_return;  // commit() says why
    for (const Scan::Item& item : scan.items) {
      found->push_back({integer_of({Code::kOk, true, item.value}), keys_.number(item.integer)});
    }
    more = scan.limited;
    if (!more) break;
    const uint64_t last = scan.items.back().integer;
    (direction == Direction::kForward ? from : to) = last + (direction == Direction::kForward ? 1 : 0);
  }
}

Task<Outcome> TokenWorkload::look(Client* client, Session session, std::vector<SimTokenAt>* found, uint64_t until_ns) {
  found->clear();
  context_->doing(client, "beginning to count");
  Txn txn = co_await session.begin(until_ns);
  if (!scans()) {
    std::vector<ReadHandle> handles;
    for (uint64_t place = 0; place < places_; ++place) handles.push_back(txn.get_async(table_, place));
    context_->doing(client, "reading all places");
    co_await txn.wait_all();
    for (uint64_t place = 0; place < places_; ++place) {
      const Value value = txn.value(handles[place]);
      if (value) found->push_back({integer_of(value), place});
    }
  }
  for (uint64_t prefix = 0; scans() && prefix < keys_.prefixes; ++prefix) {
    Task<void> task = count(client, &txn, prefix, found);
    co_await task;
  }
  context_->doing(client, "committing a count");
  const Outcome outcome = co_await txn.commit();
  co_return outcome;
}

Task<void> TokenWorkload::peek(Client* client, Session session) {
  char room[8] = {};
  Peek record;
  record.invoke = context_->stamp();
  context_->doing(client, "reading one place");
  const RetryPolicy policy{.attempts = 20, .backoff_us = 1};
  const uint64_t place = context_->choose(client->random, places_);
  Task<Session::GetResult> task = session.get_one(table_, key(place), room, policy);
  const Session::GetResult one = co_await task;
  context_->count(one.outcome);
  if (!one.outcome.committed()) co_return;
  record.complete = context_->stamp();
  if (one.found) {
    record.token = integer_of({Code::kOk, true, {room, one.bytes}});
    if (one.bytes != 8 || record.token == 0 || record.token > tokens_) {
      context_->violation("place " + std::to_string(place) + " holds token " + std::to_string(record.token) +
                          ", which is none");
    }
  }
  peeks_[place].push_back(record);
}

// Whether some move of this place can have taken effect after `before` and no later than `after`, and left what `after`
// found.
bool TokenWorkload::explained(uint64_t place, const Peek& before, const Peek& after) const {
  return std::any_of(moves_.begin(), moves_.end(), [&](const SimTokenMove& move) {
    const bool fits = after.token == 0 ? move.from == place : move.to == place && move.token == after.token;
    const bool open = move.outcome == SimOutcome::kInfo;
    return fits && move.invoke < after.complete && (open || move.complete > before.invoke);
  });
}

void TokenWorkload::check_peeks() {
  for (uint64_t place = 0; place < places_; ++place) {
    const std::vector<Peek>& peeks = peeks_[place];
    for (const Peek& after : peeks) {
      for (const Peek& before : peeks) {
        if (before.complete > after.invoke) break;
        if (before.token == after.token || explained(place, before, after)) continue;
        context_->violation("place " + std::to_string(place) + ": token " + std::to_string(before.token) + " at " +
                            std::to_string(before.complete) + ", token " + std::to_string(after.token) + " at " +
                            std::to_string(after.invoke) + " (0 is none), and no move explains it");
        return;
      }
    }
  }
}

Task<void> TokenWorkload::run(Client* client, Session session) {
  for (int i = 0; context_->another(*client, i); ++i) {
    if (client->random.chance(context_->config.single_key_percent)) {
      Task<void> task = peek(client, session);
      co_await task;
    } else if (client->random.chance(context_->config.read_percent / 2)) {
      SimTokenRead read;
      read.invoke = context_->stamp();
      Task<Outcome> task = look(client, session, &read.found);
      const Outcome outcome = co_await task;
      read.complete = context_->stamp();
      if (context_->count(outcome) == SimOutcome::kOk && context_->sink() != nullptr)
        context_->sink()->token_read(read);
    } else {
      Task<void> task = move(client, session);
      co_await task;
    }
    const uint64_t think_ns = context_->think_ns(client->random);
    if (think_ns > 0) co_await session.sleep_ns(think_ns);
  }
}

Task<void> TokenWorkload::finish(Client* client, Session session) {
  if (client->node == NodeId(0)) check_peeks();
  SimTokenRead read;
  Outcome outcome;
  for (uint32_t n = 0; n < kInsist.attempts; ++n) {
    read.invoke = context_->stamp();
    // All places, each by two READs, may take longer than the shortest deadline: then tries that nobody waits for any
    // more would delay the next ones for ever.
    Task<Outcome> task = look(client, session, &read.found, UINT64_MAX);
    outcome = co_await task;
    if (outcome.committed() || outcome.code == Code::kPeerUnreachable) break;
    co_await session.sleep_ns(2000 * (1 + n % 50));
  }
  context_->count(outcome);
  read.complete = context_->stamp();
  if (outcome.code == Code::kPeerUnreachable) co_return;  // the node was removed just now
  if (!outcome.committed()) {
    context_->violation("final count never commits: " + outcome.text());
  } else if (context_->sink() != nullptr) {
    if (client->node == NodeId(0)) {
      context_->sink()->token_end(read.found);
    } else {
      context_->sink()->token_read(read);
    }
  }
}

}  // namespace

std::unique_ptr<Workload> make_token(WorkloadContext* context) { return std::make_unique<TokenWorkload>(context); }

}  // namespace weft::sim
