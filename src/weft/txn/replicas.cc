#include "weft/txn/replicas.h"

#include <map>
#include <utility>

#include "weft/base/hash.h"

namespace weft {

void add_record(Digest& digest, const HashedKey& key, ByteView value, Word word) {
  ++digest.records;
  const uint64_t value_hash = hash_bytes(value.data(), value.size(), word.version().value);
  digest.sum += mix64(key.hash ^ mix64(value_hash));
}

void add_absence(Digest& digest, uint32_t index, Version version) {
  digest.absence += mix64(version.value ^ mix64(index + 1));
}

std::vector<Digest> digests_of(const Table& table, size_t partitions) {
  struct Context {
    const Table& table;
    std::vector<Digest> out;
  } context{table, std::vector<Digest>(partitions)};
  table.visit(
      [](void* p, ByteView key, ByteView value, Word word) {
        auto* c = static_cast<Context*>(p);
        const HashedKey hashed = c->table.hashed(key);
        add_record(c->out[hashed.partition.value], hashed, value, word);
      },
      &context);
  for (size_t p = 0; p < partitions; ++p) {
    for (uint32_t i = 0; i < table.absence_words(); ++i) {
      add_absence(context.out[p], i, table.absence_version(PartitionId(static_cast<uint16_t>(p)), i));
    }
  }
  return std::move(context.out);
}

namespace {

std::string residue_of(const Node& node, TableId id) {
  const Table::LeakReport residue = node.table(id)->leak_report();
  const std::string where = "node " + std::to_string(node.id().value) + " table " + node.table(id)->spec().name;
  if (residue.locked != 0) return where + ": " + std::to_string(residue.locked) + " locks left";
  if (residue.unreadable != 0) return where + ": " + std::to_string(residue.unreadable) + " records unreadable";
  if (residue.tombstones != 0) return where + ": " + std::to_string(residue.tombstones) + " tombstones left";
  return {};
}

// The first key that differs between two replicas of a partition, for the error text.
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
  const auto key_text = [&](const std::string& key) {
    return a.integer_keys() ? std::to_string(load<uint64_t>(as_bytes(key).data())) : key;
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

// What a node has of partitions that it does not replicate.
std::string strays_of(const Node& node, TableId id, const View& view) {
  for (size_t p = 0; p < view.partitions.size(); ++p) {
    if (view.partitions[p].is_in_sync(node.id())) continue;
    const uint64_t found = node.table(id)->leftovers(PartitionId(static_cast<uint16_t>(p)));
    if (found == 0) continue;
    return "node " + std::to_string(node.id().value) + " table " + node.table(id)->spec().name + ": " +
           std::to_string(found) + " records or absence words of partition " + std::to_string(p) +
           ", of which it is no replica";
  }
  return {};
}

}  // namespace

std::string audit_replicas(const std::vector<Node*>& nodes, const View& view) {
  for (size_t t = 0; t < nodes.front()->tables().count(); ++t) {
    const TableId id(static_cast<uint16_t>(t));
    std::vector<std::vector<Digest>> digests;
    for (const Node* node : nodes) {
      std::string wrong = residue_of(*node, id);
      if (wrong.empty()) wrong = strays_of(*node, id, view);
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
