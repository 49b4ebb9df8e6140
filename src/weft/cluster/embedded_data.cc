// The data of an embedded cluster: loading it before the start, scanning, auditing and counting it.
#include <mutex>
#include <optional>

#include "weft/cluster/embedded.h"
#include "weft/txn/replicas.h"

namespace weft {

void Counters::add(const Counters& o) {
  // Plain counters, all of one type: add them as the array they are.
  static_assert(sizeof(Counters) % sizeof(uint64_t) == 0);
  auto* to = reinterpret_cast<uint64_t*>(this);
  const auto* from = reinterpret_cast<const uint64_t*>(&o);
  for (size_t i = 0; i < sizeof(Counters) / sizeof(uint64_t); ++i) to[i] += from[i];
}

Result<void> Cluster::load(TableId table, Key key, std::string_view value) {
  if (impl_->started) return Error{Code::kInvalidArgument, "load before start"};
  if (table.value >= impl_->spec.tables.size()) return Error{Code::kNoSuchTable, std::to_string(table.value)};
  if (impl_->nodes.empty()) {
    if (auto r = impl_->make_nodes(); !r) return r;
  }
  const TableSpec& spec = impl_->spec.tables[table.value];
  if (value.size() > spec.value_bytes_max) {
    return Error{Code::kValueTooLong, std::to_string(value.size()) + " bytes, table " + spec.name + " takes " +
                                          std::to_string(spec.value_bytes_max)};
  }
  if (spec.keys == KeyKind::kInteger && key.size() != 8) {
    return Error{Code::kInvalidArgument,
                 "table " + spec.name + " has integer keys of 8 bytes, this one has " + std::to_string(key.size())};
  }
  const uint32_t key_max = impl_->spec.options.limits.key_bytes_max;
  if (key.size() > key_max) {
    return Error{Code::kKeyTooLong,
                 std::to_string(key.size()) + " bytes, limits.key_bytes_max is " + std::to_string(key_max)};
  }
  const ByteView key_bytes = as_bytes({key.data(), key.size()});
  const HashedKey hashed = impl_->nodes.front()->table(table)->hashed(key_bytes);
  const Placement& placement = impl_->nodes.front()->first_view().placement(hashed.partition);
  for (int r = 0; r < placement.count; ++r) {
    Node& node = *impl_->nodes[placement.replicas[static_cast<size_t>(r)].value];
    if (auto loaded = node.load(table, key_bytes, as_bytes(value)); !loaded) return loaded;
  }
  return {};
}

void Cluster::visit(TableId table, const Visit& visit) const {
  if (table.value >= impl_->spec.tables.size()) return;
  for (const auto& node : impl_->nodes) {
    struct Context {
      const Node& node;
      const Table& table;
      const Visit& visit;
    } context{*node, *node->table(table), visit};
    context.table.visit(
        [](void* p, ByteView key, ByteView value, Word word) {
          auto* c = static_cast<Context*>(p);
          const HashedKey hashed = c->table.hashed(key);
          const bool primary = c->node.first_view().placement(hashed.partition).primary() == c->node.id();
          c->visit(c->node.id(), primary, as_text(key), as_text(value), word.version().value);
        },
        &context);
  }
}

std::string Cluster::audit() const {
  if (impl_->nodes.empty()) return {};
  std::vector<Node*> all;
  for (const auto& node : impl_->nodes) all.push_back(node.get());
  return audit_replicas(all, all.front()->first_view());
}

namespace {

// Of the workers of one node, or of all.
Counters counters_of(Cluster::Impl& impl, std::optional<NodeId> node) {
  Counters all;
  std::mutex adding;
  impl.on_all_workers([&](TxnWorker& txn_worker) {
    if (node && txn_worker.context().self != *node) return;
    const Counters one = txn_worker.counters();
    const std::scoped_lock lock(adding);
    all.add(one);
  });
  return all;
}

}  // namespace

Counters Cluster::counters() const { return counters_of(*impl_, std::nullopt); }
Counters Cluster::counters(NodeId node) const { return counters_of(*impl_, node); }

TableUse Cluster::table_use(TableId table) const {
  TableUse use;
  if (table.value >= impl_->spec.tables.size()) return use;
  for (const auto& node : impl_->nodes) {
    use.records += node->table(table)->records();
    use.memory_bytes += node->table(table)->memory_bytes();
  }
  return use;
}

}  // namespace weft
