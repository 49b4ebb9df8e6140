#include "weft/server/digest.h"

#include <nlohmann/json.hpp>

#include "weft/txn/replicas.h"

namespace weft {

std::string digest_text(const Node& node, const View& view) {
  nlohmann::json all = {{"node", node.id().value}, {"epoch", view.epoch.value}, {"locked", 0}, {"unreadable", 0}};
  nlohmann::json& partitions = all["partitions"] = nlohmann::json::object();
  for (size_t t = 0; t < node.tables(); ++t) {
    const Table& table = *node.table(TableId(static_cast<uint16_t>(t)));
    const Table::Residue residue = table.residue();
    all["locked"] = all["locked"].get<uint64_t>() + residue.locked;
    all["unreadable"] = all["unreadable"].get<uint64_t>() + residue.unreadable;
    const std::vector<Digest> digests = digests_of(table, view.partitions.size());
    for (size_t p = 0; p < digests.size(); ++p) {
      if (!view.partitions[p].held_by(node.id())) continue;
      partitions[std::to_string(p)][table.spec().name] = {
          {"records", digests[p].records}, {"sum", digests[p].sum}, {"absence", digests[p].absence}};
    }
  }
  return all.dump();
}

}  // namespace weft
