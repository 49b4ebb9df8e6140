#include "weft/txn/node.h"

#include <algorithm>
#include <map>

#include "weft/base/check.h"
#include "weft/base/hash.h"
#include "weft/txn/engine.h"
#include "weft/txn/protocol.h"

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
      in_range<uint32_t>("limits.value_bytes_max", l.value_bytes_max, 1, 65536),
      in_range<uint32_t>("limits.txn_keys_max", l.txn_keys_max, 1, 250),
      in_range<uint32_t>("limits.txn_bytes_max", l.txn_bytes_max, 1024, 4U << 20),
      in_range<uint32_t>("limits.credit_bytes", l.credit_bytes, 4096, 64U << 20),
      in_range<uint32_t>("limits.mailbox", l.mailbox, 1, 1U << 20),
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
  if (auto r = in_range("partitions", o.partitions, 0, 4096); !r) return r;
  if (find_protocol(o.protocol) == nullptr) {
    std::string names;
    for (const Protocol& row : kProtocols) names += (names.empty() ? "" : ", ") + std::string(row.name);
    return bad("protocol is \"" + o.protocol + "\", must be one of " + names);
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

Result<std::unique_ptr<Node>> Node::create(NodeId id, const ClusterSpec& spec, const View& view, Environment* env,
                                           bool joins) {
  if (auto r = check_spec(spec); !r) return r.error();
  std::unique_ptr<Node> node(new Node(id, spec, view, joins));
  int held = 0;
  for (const Placement& p : view.partitions) held += p.held_by(id) ? 1 : 0;
  for (const TableSpec& table_spec : spec.tables) {
    TableOptions options;
    options.spec = table_spec;
    options.partitions = static_cast<int>(view.partitions.size());
    options.partitions_held = spec.recovers ? options.partitions : std::max(held, 1);
    options.hash_seed = spec.options.hash_seed;
    options.workers = spec.options.workers;
    options.bugs = spec.bugs;
    auto region = Region::create(Table::region_bytes(options));
    if (!region) return region.error();
    auto table = Table::create(options, region->get());
    if (!table) return table.error();
    env->regions(id)->add(region->get());
    node->table_regions_.push_back(std::move(*region));
    node->tables_.push_back(std::move(*table));
  }
  if (auto r = node->make_engines(spec.options, env); !r) return r.error();
  return node;
}

void Node::drop_engines() {
  engines_.clear();
  workers_.clear();
}

Result<void> Node::make_engines(const Options& options, Environment* env) {
  spec_.options = options;
  protocol_ = find_protocol(options.protocol);
  // Coroutines that may wait at a time: those in transactions, as many again that wait for one, and new ones.
  const size_t coroutines_max = size_t{options.limits.inflight} * 4 + options.limits.mailbox;
  for (int w = 0; w < options.workers; ++w) {
    const WorkerId worker_id(static_cast<uint8_t>(w));
    workers_.push_back(std::make_unique<Worker>(env->clock(id_), env->charges(id_, worker_id), coroutines_max,
                                                options.limits.mailbox));
    auto engine = Engine::create(this, worker_id, workers_.back().get(), env);
    if (!engine) return engine.error();
    engines_.push_back(std::move(*engine));
  }
  return {};
}

Node::Node(NodeId id, const ClusterSpec& spec, const View& view, bool joins)
    : id_(id), spec_(spec), view_(std::make_shared<const View>(view)), joins_(joins) {}

Node::~Node() = default;

void Node::publish(std::shared_ptr<const View> view) {
  const uint32_t epoch = view->epoch.value;
  {
    const std::scoped_lock lock(published_mutex_);
    published_ = std::move(view);
  }
  published_epoch_.store(epoch, std::memory_order_release);
  if (wake_) wake_();
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

namespace {

// Of the records of one partition at one node: equal for equal contents, whatever the order of the walk.
struct Digest {
  uint64_t records = 0;
  uint64_t sum = 0;
};

std::vector<Digest> digests_of(const Table& table, size_t partitions) {
  struct Context {
    const Table& table;
    std::vector<Digest> out;
  } context{table, std::vector<Digest>(partitions)};
  table.visit(
      [](void* p, ByteView key, ByteView value, Word word) {
        auto* c = static_cast<Context*>(p);
        const HashedKey hashed = c->table.hashed(key);
        Digest& digest = c->out[hashed.partition.value];
        ++digest.records;
        const uint64_t value_hash = hash_bytes(value.data(), value.size(), word.version().value);
        digest.sum += mix64(hashed.hash ^ mix64(value_hash));
      },
      &context);
  return std::move(context.out);
}

std::string residue_of(const Node& node, TableId id) {
  const Table::Residue residue = node.table(id)->residue();
  const std::string where = "node " + std::to_string(node.id().value) + " table " + node.table(id)->spec().name;
  if (residue.locked != 0) return where + ": " + std::to_string(residue.locked) + " locks left";
  if (residue.unreadable != 0) return where + ": " + std::to_string(residue.unreadable) + " records unreadable";
  if (residue.tombstones != 0) return where + ": " + std::to_string(residue.tombstones) + " tombstones left";
  return {};
}

// The first key that differs between two replicas of a partition, for the error's text.
std::string difference(const Table& a, const Table& b, PartitionId partition) {
  using Copies = std::map<std::string, std::pair<std::string, uint64_t>>;
  const auto copies = [&](const Table& table) {
    struct Context {
      const Table& table;
      PartitionId partition;
      Copies out;
    } context{table, partition, {}};
    table.visit(
        [](void* p, ByteView key, ByteView value, Word word) {
          auto* c = static_cast<Context*>(p);
          if (c->table.hashed(key).partition != c->partition) return;
          c->out[std::string(as_text(key))] = {std::string(as_text(value)), word.version().value};
        },
        &context);
    return std::move(context.out);
  };
  const Copies at_a = copies(a);
  const Copies at_b = copies(b);
  const auto key_text = [](const std::string& key) {
    return key.size() == 8 ? std::to_string(load<uint64_t>(as_bytes(key).data())) : key;
  };
  for (const auto& [key, copy] : at_a) {
    const auto other = at_b.find(key);
    if (other == at_b.end()) return "key " + key_text(key) + " is only at the primary";
    if (other->second.second != copy.second) {
      return "key " + key_text(key) + " is at version " + std::to_string(copy.second) + " at the primary, " +
             std::to_string(other->second.second) + " at the backup";
    }
    if (other->second.first != copy.first) return "key " + key_text(key) + " has different values at one version";
  }
  for (const auto& [key, copy] : at_b) {
    if (!at_a.contains(key)) return "key " + key_text(key) + " is only at the backup";
  }
  return "the digests differ";
}

}  // namespace

std::string audit_replicas(const std::vector<Node*>& nodes, const View& view) {
  for (size_t t = 0; t < nodes.front()->tables(); ++t) {
    const TableId id(static_cast<uint16_t>(t));
    std::vector<std::vector<Digest>> digests;
    for (const Node* node : nodes) {
      std::string wrong = residue_of(*node, id);
      if (!wrong.empty()) return wrong;
      digests.push_back(digests_of(*node->table(id), view.partitions.size()));
    }
    for (size_t p = 0; p < view.partitions.size(); ++p) {
      const Placement& placement = view.partitions[p];
      const Digest& primary = digests[placement.primary().value][p];
      for (int r = 1; r < placement.count; ++r) {
        const NodeId backup = placement.replicas[static_cast<size_t>(r)];
        const Digest& copy = digests[backup.value][p];
        const PartitionId partition(static_cast<uint16_t>(p));
        const Table& at_primary = *nodes[placement.primary().value]->table(id);
        const Table& at_backup = *nodes[backup.value]->table(id);
        for (uint32_t i = 0; i < at_primary.absence_words(); ++i) {
          const uint64_t primary_version = at_primary.absence_version(partition, i).value;
          const uint64_t backup_version = at_backup.absence_version(partition, i).value;
          if (primary_version == backup_version) continue;
          return "table " + at_primary.spec().name + " partition " + std::to_string(p) + " absence word " +
                 std::to_string(i) + ": version " + std::to_string(primary_version) + " at the primary (node " +
                 std::to_string(placement.primary().value) + "), " + std::to_string(backup_version) + " at node " +
                 std::to_string(backup.value);
        }
        if (copy.records == primary.records && copy.sum == primary.sum) continue;
        return "table " + nodes.front()->table(id)->spec().name + " partition " + std::to_string(p) + " at node " +
               std::to_string(backup.value) + ": " +
               difference(*nodes[placement.primary().value]->table(id), *nodes[backup.value]->table(id),
                          PartitionId(static_cast<uint16_t>(p)));
      }
    }
  }
  return {};
}

}  // namespace weft
