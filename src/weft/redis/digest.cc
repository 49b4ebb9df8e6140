#include "weft/redis/digest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace weft {

DigestScan::DigestScan(const Node& node, const View& view)
    : node_(node), view_(view), digests_(node.tables().count(), std::vector<Digest>(view.partitions.size())) {}

bool DigestScan::step() {
  if (table_ >= node_.tables().count()) return true;
  const Table& table = *node_.table(TableId(static_cast<uint16_t>(table_)));
  struct Context {
    const Table& table;
    std::vector<Digest>& digests;
  } context{table, digests_[table_]};
  switch (stage_) {
    case Stage::kRecords:
      cursor_ = table.visit_some(
          cursor_, kBins, kBytes,
          [](void* p, ByteView key, ByteView value, Word word) {
            auto* c = static_cast<Context*>(p);
            const HashedKey hashed = c->table.hashed(key);
            add_record(c->digests[hashed.partition.value], hashed, value, word);
          },
          &context);
      if (cursor_ == 0) stage_ = Stage::kWords;
      break;
    case Stage::kWords:
      cursor_ = table.leak_report_some(cursor_, kBins, &residue_);
      if (cursor_ == 0) stage_ = Stage::kAbsence;
      break;
    case Stage::kAbsence:
      if (!step_absence(table, digests_[table_])) break;
      cursor_ = 0;
      stage_ = Stage::kRecords;
      ++table_;
      break;
  }
  return table_ >= node_.tables().count();
}

bool DigestScan::step_absence(const Table& table, std::vector<Digest>& digests) {
  const uint64_t all = uint64_t{table.absence_words()} * view_.partitions.size();
  const uint64_t end = std::min(all, cursor_ + kBins);
  for (; cursor_ < end; ++cursor_) {
    const PartitionId partition(static_cast<uint16_t>(cursor_ / table.absence_words()));
    const auto index = static_cast<uint32_t>(cursor_ % table.absence_words());
    add_absence(digests[partition.value], index, table.absence_version(partition, index));
    if (table.absence_locked(partition, index)) ++residue_.locked;
  }
  return cursor_ == all;
}

std::string DigestScan::text() const {
  nlohmann::json all = {{"node", node_.id().value},
                        {"epoch", view_.epoch.value},
                        {"locked", residue_.locked},
                        {"unreadable", residue_.unreadable}};
  nlohmann::json& partitions = all["partitions"] = nlohmann::json::object();
  for (size_t t = 0; t < digests_.size(); ++t) {
    const std::string& name = node_.table(TableId(static_cast<uint16_t>(t)))->spec().name;
    for (size_t p = 0; p < digests_[t].size(); ++p) {
      if (!view_.partitions[p].is_in_sync(node_.id())) continue;
      const Digest& digest = digests_[t][p];
      partitions[std::to_string(p)][name] = {
          {"records", digest.records}, {"sum", digest.sum}, {"absence", digest.absence}};
    }
  }
  return all.dump();
}

}  // namespace weft
