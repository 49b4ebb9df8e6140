#include "weft/txn/audit.h"

#include <map>
#include <utility>

#include "weft/txn/txn_worker.h"

namespace weft {

namespace {

bool keeps_value(const PreparedTxn& record, const Entry& e, uint16_t index) {
  if (e.write == Write::kErase) {
    // An erase has no value: the record has it if it names the key.
    for (const PreparedKeys* list : {record.locked, record.applied}) {
      for (const PreparedKeys* part = list; part != nullptr; part = part->next) {
        for (const PreparedKey& key : part->all()) {
          if (key.index == index && key.write == Write::kErase) return true;
        }
      }
    }
    return false;
  }
  const PreparedKey* key = record.find_value(index);
  return key != nullptr && as_text(key->value) == as_text({e.new_value, e.new_bytes});
}

}  // namespace

void CommitAudit::on_commit_point(NodeId coordinator, WorkerId worker, const TxnSlot& slot) {
  ++commit_points;
  for (Node* node : nodes_) node->txn_worker(worker)->drain_rings();
  const auto say = [&](const std::string& what) {
    violations.push_back("transaction (node " + std::to_string(coordinator.value) + ", worker " +
                         std::to_string(worker.value) + ", sequence " + std::to_string(slot.sequence) + "): " + what);
  };
  const auto record_at = [&](NodeId node) -> const PreparedTxn* {
    const PreparedTxn& record = nodes_[node.value]->txn_worker(worker)->records().at(coordinator, slot.index);
    return record.state != 0 && record.sequence == slot.sequence ? &record : nullptr;
  };
  // What was shipped is known to its participants only: all of it is on every in-sync replica (H5).
  if (!slot.shipped_to.empty()) {
    std::map<uint16_t, std::pair<PartitionId, NodeSet>> logged;  // by key
    for (Node* node : nodes_) {
      const PreparedTxn* record = record_at(node->id());
      for (const PreparedKeys* part = record != nullptr ? record->applied : nullptr; part != nullptr;
           part = part->next) {
        for (const PreparedKey& key : part->all()) {
          logged[key.index].first = key.key.partition;
          logged[key.index].second.add(node->id());
        }
      }
    }
    if (logged.size() != slot.writes) {
      say("H5: " + std::to_string(logged.size()) + " of its " + std::to_string(slot.writes) + " writes are logged");
    }
    for (const auto& [index, where] : logged) {
      const Placement& placement = nodes_[coordinator.value]->txn_worker(worker)->view().placement(where.first);
      if (!(placement.in_sync - where.second).empty()) say("H5: a replica has no log of key " + std::to_string(index));
    }
    return;
  }
  NodeSet primaries;
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if (e.write != Write::kNone) primaries.add(e.placement->primary());
  }
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if (e.write != Write::kNone) {
      NodeSet holders;
      for (int r = 0; r < e.placement->count; ++r) {
        const NodeId node = e.placement->replicas[static_cast<size_t>(r)];
        const PreparedTxn* record = record_at(node);
        if (record != nullptr && keeps_value(*record, e, i)) holders.add(node);
      }
      const int counted = (holders | NodeSet::of(coordinator)).size();
      if (counted < e.placement->count) {
        say("K2: the new value of key " + std::to_string(i) + " is on " + std::to_string(counted) +
            " nodes at the commit point, more than f = " + std::to_string(e.placement->count - 1) + " are needed");
      }
      if (primaries.size() > 1 && !(e.placement->in_sync - holders).empty()) {
        say("K2: a replica of key " + std::to_string(i) + " has no new value, and another primary may show the commit");
      }
    }
    if (!slot.unanimous || (e.write == Write::kNone && (!e.read || e.unvalidated))) continue;
    for (int r = 0; r < e.placement->count; ++r) {
      const PreparedTxn* record = record_at(e.placement->replicas[static_cast<size_t>(r)]);
      if (record == nullptr || (record->state & kLocked) == 0) {
        say("unanimity: node " + std::to_string(e.placement->replicas[static_cast<size_t>(r)].value) +
            " has no LOCKED record of key " + std::to_string(i));
      }
    }
  }
}

}  // namespace weft
