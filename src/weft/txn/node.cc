#include "weft/txn/node.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/base/hash.h"
#include "weft/base/marks.h"
#include "weft/txn/protocol.h"
#include "weft/txn/txn_worker.h"

namespace weft {

namespace {

Error bad(const std::string& what) { return {Code::kBadOption, what}; }

template <class T>
Result<void> in_range(const char* name, T value, T low, T high) {
  if (value >= low && value <= high) return {};
  return bad(std::string(name) + " is " + std::to_string(value) + ", must be " + std::to_string(low) + " to " +
             std::to_string(high));
}

Result<void> check_limits(const Limits& l) {
  const Result<void> checks[] = {
      in_range<uint32_t>("limits.inflight", l.inflight, 1, 200),
      in_range<uint32_t>("limits.key_bytes_max", l.key_bytes_max, 8, kKeyBytesMax),
      in_range<uint32_t>("limits.value_bytes_max", l.value_bytes_max, 1, kTableValueBytesMax),
      in_range<uint32_t>("limits.txn_keys_max", l.txn_keys_max, 1, 250),
      in_range<uint32_t>("limits.txn_bytes_max", l.txn_bytes_max, 1024, 4U << 20),
      in_range<uint32_t>("limits.credit_bytes", l.credit_bytes, 4096, 64U << 20),
      in_range<uint32_t>("limits.fill_bytes", l.fill_bytes, 256, 1U << 20),
      in_range<uint32_t>("limits.mailbox", l.mailbox, 1, 1U << 20),
      in_range<uint32_t>("limits.outcome_bytes", l.outcome_bytes, 64U << 10, 1U << 30),
      in_range<uint32_t>("limits.outcome_wait_ms", l.outcome_wait_ms, 1, 600'000),
      in_range<uint32_t>("limits.answer_ms", l.answer_ms, 1, 600'000),
      in_range<uint32_t>("limits.ring_bytes", l.ring_bytes, 4096, 64U << 20),
      in_range<uint32_t>("limits.location_bytes", l.location_bytes, 0, 1U << 30),
  };
  for (const Result<void>& check : checks) {
    if (!check) return check.error();
  }
  return {};
}

Result<void> check_table(const TableSpec& t, const Limits& limits) {
  if (t.name.empty()) return bad("a table needs a name");
  const std::string name = "table " + t.name + ": ";
  if (t.capacity == 0) return bad(name + "capacity is 0");
  if (t.value_bytes_max == 0 || t.value_bytes_max > limits.value_bytes_max) {
    return bad(name + "value_bytes_max is " + std::to_string(t.value_bytes_max) + ", must be 1 to " +
               std::to_string(limits.value_bytes_max) + " (limits.value_bytes_max)");
  }
  // A transaction of one key must fit into the credit, or it would wait for ever.
  const uint32_t need = t.value_bytes_max + 3 * limits.key_bytes_max + 1024;
  if (need > limits.credit_bytes) {
    return bad(name + "one value needs " + std::to_string(need) + " bytes of credit, limits.credit_bytes is " +
               std::to_string(limits.credit_bytes));
  }
  if (t.partition == PartitionBy::kPrefix && t.prefix_bytes == 0) return bad(name + "prefix_bytes is 0");
  return {};
}

}  // namespace

Result<void> check_spec(const ClusterSpec& spec) {
  const Options& o = spec.options;
  if (auto r = in_range("nodes", o.nodes, 1, kNodesMax); !r) return r;
  if (auto r = in_range("replicas", o.replicas, 1, kReplicasMax); !r) return r;
  if (o.replicas > o.nodes) {
    return bad("replicas is " + std::to_string(o.replicas) + ", but there are only " + std::to_string(o.nodes) +
               " nodes");
  }
  if (auto r = in_range("workers", o.workers, 1, kWorkersMax); !r) return r;
  if (auto r = in_range("threads", o.threads, 0, o.workers); !r) return r;
  if (auto r = in_range("partitions", o.partitions, 0, kPartitionsMax); !r) return r;
  if (find_protocol(o.protocol) == nullptr) {
    std::string names;
    for (const Protocol& row : kProtocols) names += (names.empty() ? "" : ", ") + std::string(row.name);
    return bad("protocol is \"" + o.protocol + "\", must be one of " + names);
  }
  if (o.fabric != "local" && o.fabric != "shm" && o.fabric != "tcp" && o.fabric != "verbs") {
    return bad("fabric is \"" + o.fabric + "\", must be local, shm, tcp or verbs");
  }
  if (auto r = check_limits(o.limits); !r) return r;
  for (size_t i = 0; i < spec.tables.size(); ++i) {
    if (auto r = check_table(spec.tables[i], o.limits); !r) return r;
    for (size_t j = 0; j < i; ++j) {
      if (spec.tables[j].name == spec.tables[i].name) return bad("table " + spec.tables[i].name + " is declared twice");
    }
  }
  return {};
}

Result<void> check_view(const View& view, const Options& options) {
  const auto differs = [](const std::string& what, size_t there, int here) {
    return bad("the view has " + what + " " + std::to_string(there) + ", and here it is " + std::to_string(here));
  };
  if (view.partitions.size() != static_cast<size_t>(options.partition_count())) {
    return differs("cluster.partitions", view.partitions.size(), options.partition_count());
  }
  if (view.replicas != options.replicas) return differs("cluster.replicas", view.replicas, options.replicas);
  for (const Member& member : view.members) {
    if (member.node.value >= options.nodes) {
      return bad("the view has node " + std::to_string(member.node.value) + ", and cluster.nodes is " +
                 std::to_string(options.nodes));
    }
  }
  return {};
}

Result<Node::Tables> Node::make_tables(const ClusterSpec& spec, int partitions, int held) {
  Tables made;
  for (const TableSpec& table_spec : spec.tables) {
    TableOptions options;
    options.spec = table_spec;
    options.partitions = partitions;
    options.partitions_held = spec.recovers ? partitions : std::max(held, 1);
    options.hash_seed = spec.options.hash_seed;
    options.workers = spec.options.workers;
    options.bugs = spec.bugs;
    const RegionSharing sharing = spec.shares_memory ? RegionSharing::kShared : RegionSharing::kPrivate;
    auto region = Region::create(Table::region_bytes(options), RegionKind::kHost, sharing);
    if (!region) return region.error();
    auto table = Table::create(options, region->get());
    if (!table) return table.error();
    made.regions.push_back(std::move(*region));
    made.tables.push_back(std::move(*table));
  }
  return made;
}

Result<std::unique_ptr<Node>> Node::create(NodeId id, const ClusterSpec& spec, const View& view, Environment* env,
                                           bool joins) {
  if (auto r = check_spec(spec); !r) return r.error();
  int held = 0;
  for (const Placement& p : view.partitions) held += p.held_by(id) ? 1 : 0;
  auto tables = make_tables(spec, static_cast<int>(view.partitions.size()), held);
  if (!tables) return tables.error();
  return create(id, spec, view, env, joins, std::move(*tables));
}

Result<std::unique_ptr<Node>> Node::create(NodeId id, const ClusterSpec& spec, const View& view, Environment* env,
                                           bool joins, Tables tables) {
  if (auto r = check_spec(spec); !r) return r.error();
  std::unique_ptr<Node> node(new Node(id, spec, view, joins));
  for (const auto& region : tables.regions) env->regions(id)->add(region.get());
  node->regions_ = env->regions(id);
  node->table_regions_ = std::move(tables.regions);
  node->tables_ = std::move(tables.tables);
  if (auto r = node->make_engines(spec.options, env); !r) return r.error();
  return node;
}

void Node::drop_engines() {
  for (const auto& engine : engines_) last_sequence_ = std::max(last_sequence_, engine->slots().last_sequence());
  engines_.clear();
  workers_.clear();
}

Result<void> Node::make_engines(const Options& options, Environment* env) {
  spec_.options = options;
  protocol_ = find_protocol(options.protocol);
  if (protocol_->verbs()) {
    if (auto made = make_verb_memory(); !made) return made.error();
  }
  own_words_ = protocol_->by.lock == Primitive::kOneSided ? env->own_words(id_) : nullptr;
  for (size_t t = 0; t < tables_.size(); ++t) {
    tables_[t]->set_own_words(own_words_, table_region(TableId(static_cast<uint16_t>(t))));
  }
  // Coroutines that may wait at a time: those in transactions, as many again that wait for one, and new ones.
  const size_t coroutines_max = size_t{options.limits.inflight} * 4 + options.limits.mailbox;
  for (int w = 0; w < options.workers; ++w) {
    const WorkerId worker_id(static_cast<uint8_t>(w));
    workers_.push_back(std::make_unique<Worker>(env->clock(id_), env->charges(id_, worker_id), coroutines_max,
                                                options.limits.mailbox));
    auto engine = TxnWorker::create(this, worker_id, workers_.back().get(), env);
    if (!engine) return engine.error();
    engines_.push_back(std::move(*engine));
  }
  if (protocol_->verbs() && !joins_) grant_access(*view_);
  return {};
}

Node::Node(NodeId id, const ClusterSpec& spec, const View& view, bool joins)
    : id_(id), spec_(spec), view_(std::make_shared<const View>(view)), joins_(joins) {}

Node::~Node() = default;

void Node::publish(std::shared_ptr<const View> view) {
  const uint32_t epoch = view->epoch.value;
  {
    const std::scoped_lock lock(published_mutex_);
    // The view before a node joined says what another one of its name had.
    if (published_ != nullptr || !joins_) note_stale(published_ != nullptr ? *published_ : *view_, *view);
    published_ = std::move(view);
  }
  published_epoch_.store(epoch, std::memory_order_release);
  wake();
}

ViewChange Node::last_change() const {
  ViewChange change;
  for (const auto& engine : engines_) change.add(engine->acks().change().read());
  return change;
}

// A whole replica that is one no more has left, also if it fills now: then a view in between, which this node has not
// seen, was without it.
void Node::note_stale(const View& before, const View& now) {
  stale_.resize(now.partitions.size());
  for (size_t p = 0; p < now.partitions.size(); ++p) {
    const Placement& was = before.partitions[p];
    const Placement& is = now.partitions[p];
    const bool had = was.held_by(id_) || was.filled_at(id_);
    const bool filled = was.filled_at(id_) || spec_.bugs.has(Bug::kFillsStale);
    const bool goes_on = is.held_by(id_) || (is.filled_at(id_) && filled);
    if (was.held_by(id_) && is.filled_at(id_)) WEFT_MARK("a whole replica fills: its node has missed a view");
    if (had && !goes_on) stale_[p] = true;
  }
  stale_count_.store(static_cast<size_t>(std::count(stale_.begin(), stale_.end(), true)), std::memory_order_release);
}

std::vector<bool> Node::stale() const {
  const std::scoped_lock lock(published_mutex_);
  return stale_;
}

void Node::discarded(const std::vector<bool>& partitions) {
  const std::scoped_lock lock(published_mutex_);
  for (size_t p = 0; p < std::min(stale_.size(), partitions.size()); ++p) stale_[p] = stale_[p] && !partitions[p];
  stale_count_.store(static_cast<size_t>(std::count(stale_.begin(), stale_.end(), true)), std::memory_order_release);
}

std::shared_ptr<const View> Node::published() const {
  const std::scoped_lock lock(published_mutex_);
  return published_;
}

Result<void> Node::load(TableId table_id, ByteView key_bytes, ByteView value) {
  Table* t = table(table_id);
  const HashedKey key = t->hashed(key_bytes);
  const Owner loader(id_, WorkerId(0), 0);
  const LockResult lock = t->lock(key, loader, Write::kInsert, std::nullopt, static_cast<uint32_t>(value.size()));
  if (lock.code != Code::kOk) {
    return Error{lock.code, "table " + t->spec().name + ": " + t->limit_text(lock.code)};
  }
  t->commit(key, loader, Write::kInsert, value, lock.locked);
  return {};
}

}  // namespace weft
