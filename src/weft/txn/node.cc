#include "weft/txn/node.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/store/record.h"
#include "weft/txn/protocol.h"
#include "weft/txn/slot_table.h"
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
      in_range<uint32_t>("limits.transactions_in_flight_max", l.transactions_in_flight_max, 1, 200),
      in_range<uint32_t>("limits.key_bytes_max", l.key_bytes_max, 8, kKeyBytesMax),
      in_range<uint32_t>("limits.value_bytes_max", l.value_bytes_max, 1, kTableValueBytesMax),
      in_range<uint32_t>("limits.txn_keys_max", l.txn_keys_max, 1, TxnSlot::kKeysMax),
      in_range<uint32_t>("limits.txn_bytes_max", l.txn_bytes_max, 1024, 64U << 20),
      in_range<uint32_t>("limits.credit_bytes", l.credit_bytes, 4096, 64U << 20),
      in_range<uint32_t>("limits.transfer_chunk_bytes", l.transfer_chunk_bytes, 256, 1U << 20),
      in_range<uint32_t>("limits.mailbox", l.mailbox, 1, 1U << 20),
      in_range<uint32_t>("limits.outcome_bytes", l.outcome_bytes, 64U << 10, 1U << 30),
      in_range<uint32_t>("limits.outcome_timeout_ms", l.outcome_timeout_ms, 1, 600'000),
      in_range<uint32_t>("limits.answer_ms", l.answer_ms, 1, 600'000),
      in_range<uint32_t>("limits.ring_bytes", l.ring_bytes, 4096, 64U << 20),
      in_range<uint32_t>("limits.location_bytes", l.location_bytes, 0, 1U << 30),
  };
  for (const Result<void>& check : checks) {
    if (!check) return check.error();
  }
  return {};
}

// A scan is in one partition, so that keys that follow one another must be together.
Result<void> check_order(const TableSpec& t, const std::string& name) {
  if (t.partition == PartitionBy::kHash) {
    return bad(name + "ordered, but partitioned by hash; must be by prefix or by the slot of Redis");
  }
  if (t.keys != KeyKind::kInteger) return {};
  if (t.partition != PartitionBy::kPrefix) {
    return bad(name + "ordered, but integer keys are partitioned by the slot of Redis; must be by prefix");
  }
  if (!prefix_is_high(t)) {
    return bad(name + "ordered, but integer_prefix is kLowBytes; must be kHighBytes, which are compared first");
  }
  if (t.prefix_bytes >= sizeof(uint64_t)) {
    return bad(name + "ordered, but prefix_bytes is " + std::to_string(t.prefix_bytes) +
               "; must be less than the 8 bytes of an integer key");
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
  if (t.partition == PartitionBy::kPrefix && t.prefix_bytes == 0) return bad(name + "prefix_bytes is 0");
  if (t.ordered) return check_order(t, name);
  return {};
}

}  // namespace

Result<void> check_spec(const ClusterSpec& spec) {
  const Options& o = spec.options;
  if (auto r = in_range("nodes", o.nodes, 1, kNodesMax); !r) return r;
  if (auto r = in_range("replicas", o.replicas, 1, kReplicasMax); !r) return r;
  if (!o.roles.empty() && o.roles.size() != static_cast<size_t>(o.nodes)) {
    return bad("roles has " + std::to_string(o.roles.size()) + " entries, must be one for each of " +
               std::to_string(o.nodes) + " nodes");
  }
  if (o.replicas > o.data_nodes()) {
    return bad("replicas is " + std::to_string(o.replicas) + ", but there are only " + std::to_string(o.data_nodes()) +
               (o.roles.empty() ? " nodes" : " nodes that hold data"));
  }
  if (!o.roles.empty() && std::none_of(o.roles.begin(), o.roles.end(), runs_transactions)) {
    return bad("roles: no node runs transactions");
  }
  if (auto r = in_range("workers", o.workers, 1, kWorkersMax); !r) return r;
  if (auto r = in_range("threads", o.threads, 0, o.workers); !r) return r;
  if (auto r = in_range("partitions", o.partitions, 0, kPartitionsMax); !r) return r;
  if (auto rows = RowSet::parse(o.protocol, spec.bugs.has(PlantedBug::kUnfitRows)); !rows) return rows.error();
  if (o.fabric != "local" && o.fabric != "shm" && o.fabric != "tcp" && o.fabric != "verbs") {
    return bad("fabric is \"" + o.fabric + "\", must be local, shm, tcp or verbs");
  }
  if (auto r = in_range<uint64_t>("backoff_unit_ns", o.backoff_unit_ns, 0, ConflictAvoidance::kUnitNsMax); !r) return r;
  if (auto credit = verb_credit_of(o); !credit) return credit.error();
  if (auto r = check_limits(o.limits); !r) return r;
  const int slots = SlotTable::slots_for(o.limits);
  if (const int bits = OwnerFormat::bits_for(o.nodes, o.workers, slots); bits > OwnerFormat::kBits) {
    return bad(std::to_string(o.nodes) + " nodes of " + std::to_string(o.workers) + " workers with " +
               std::to_string(slots) + " transactions each (limits.transactions_in_flight_max is " +
               std::to_string(o.limits.transactions_in_flight_max) + ") need " + std::to_string(bits) +
               " bits to name one, and a lock has " + std::to_string(OwnerFormat::kBits));
  }
  for (size_t i = 0; i < spec.tables.size(); ++i) {
    if (auto r = check_table(spec.tables[i], o.limits); !r) return r;
    for (size_t j = 0; j < i; ++j) {
      if (spec.tables[j].name == spec.tables[i].name) return bad("table " + spec.tables[i].name + " is declared twice");
    }
  }
  return {};
}

Result<NodeTables> Node::make_tables(const ClusterSpec& spec, int partitions, int held) {
  NodeTables made;
  for (const TableSpec& table_spec : spec.tables) {
    TableOptions options;
    options.spec = table_spec;
    options.partitions = partitions;
    options.partitions_held = held;
    options.hash_seed = spec.options.hash_seed;
    options.workers = spec.options.workers;
    options.bugs = spec.bugs;
    const RegionSharing sharing = spec.shares_memory ? RegionSharing::kShared : RegionSharing::kPrivate;
    auto region = Region::create(Table::region_bytes(options), RegionKind::kHost, sharing);
    if (!region) return region.error();
    auto table = Table::create(options, region->get());
    if (!table) return table.error();
    made.add(std::move(*region), std::move(*table));
  }
  return made;
}

Result<std::unique_ptr<Node>> Node::create(NodeId id, const ClusterSpec& spec, const View& view, Environment* env,
                                           bool joins) {
  if (auto r = check_spec(spec); !r) return r.error();
  int held = 0;
  for (const Placement& p : view.partitions) held += p.is_in_sync(id) ? 1 : 0;
  if (spec.recovers && holds_data(spec.options.roles_of(id.value))) held = static_cast<int>(view.partitions.size());
  auto tables = make_tables(spec, static_cast<int>(view.partitions.size()), held);
  if (!tables) return tables.error();
  return create(id, spec, view, env, joins, std::move(*tables));
}

Result<std::unique_ptr<Node>> Node::create(NodeId id, const ClusterSpec& spec, const View& view, Environment* env,
                                           bool joins, NodeTables tables) {
  if (auto r = check_spec(spec); !r) return r.error();
  std::unique_ptr<Node> node(new Node(id, spec, view, joins));
  node->regions_ = env->regions(id);
  node->tables_ = std::move(tables);
  node->tables_.register_at(node->regions_);
  if (auto r = node->make_workers(spec.options, env); !r) return r.error();
  return node;
}

Node::Node(NodeId id, const ClusterSpec& spec, const View& view, bool joins)
    : id_(id),
      spec_(spec),
      state_(view, joins, spec.options.workers),
      barrier_(spec.options.workers),
      sweep_(id, spec.bugs) {
  state_.views.set_on_publish([this](const View& before, const View& now) { sweep_.note_view(before, now); });
}

Node::~Node() = default;

void Node::drop_workers() {
  for (const auto& txn_worker : txn_workers_)
    last_sequence_ = std::max(last_sequence_, txn_worker->slots().last_sequence());
  txn_workers_.clear();
  workers_.clear();
}

Result<void> Node::make_workers(const Options& options, Environment* env) {
  WEFT_CHECK(options.workers == spec_.options.workers, "the number of workers stays: tables are made for it");
  spec_.options = options;
  events_ = env->events();
  rows_ = RowSet::of(options);
  if (rows_->uses_verbs()) {
    if (verb_memory_ == nullptr) {
      verb_memory_ =
          std::make_unique<VerbMemory>(options, spec_.bugs, spec_.shares_memory, regions_, tables_.ring_region());
    }
    if (auto made = verb_memory_->make(options); !made) return made.error();
  }
  local_atomics_ = rows_->locks_by_verb() ? env->local_atomics(id_) : nullptr;
  for (size_t t = 0; t < tables_.count(); ++t) {
    const TableId id(static_cast<uint16_t>(t));
    tables_.at(id)->set_local_atomics(local_atomics_, NodeTables::region_of(id));
    tables_.at(id)->set_checksums(rows_->uses_verbs());
  }
  // How many coroutines may wait at a time: those in transactions, as many again that wait for one, and new ones.
  const size_t coroutines_max = size_t{options.limits.transactions_in_flight_max} * 4 + options.limits.mailbox;
  for (int w = 0; w < options.workers; ++w) {
    const WorkerId worker_id(static_cast<uint8_t>(w));
    workers_.push_back(std::make_unique<Worker>(env->clock(id_), env->cost_model(id_, worker_id), coroutines_max,
                                                options.limits.mailbox));
    auto txn_worker = TxnWorker::create(this, worker_id, workers_.back().get(), env);
    if (!txn_worker) return txn_worker.error();
    txn_workers_.push_back(std::move(*txn_worker));
  }
  if (rows_->uses_verbs() && !state_.views.joins()) verb_memory_->grant_access(*state_.views.first());
  return {};
}

ViewChange Node::last_change() const {
  ViewChange change;
  for (const auto& txn_worker : txn_workers_) change.add(txn_worker->acks().change().read());
  return change;
}

Result<void> Node::load(TableId table_id, ByteView key_bytes, ByteView value) {
  Table* t = table(table_id);
  const HashedKey key = t->hashed(key_bytes);
  const Owner loader(1);  // nobody else is there yet
  const LockResult lock = t->lock(key, loader, Write::kInsert, std::nullopt, static_cast<uint32_t>(value.size()));
  if (lock.code != Code::kOk) {
    if (lock.code == Code::kExists) return Error{lock.code, "table " + t->spec().name + ": the key was loaded before"};
    return Error{lock.code, t->limit_text(lock.code)};
  }
  t->commit(key, loader, Write::kInsert, value, lock.locked);
  return {};
}

}  // namespace weft
