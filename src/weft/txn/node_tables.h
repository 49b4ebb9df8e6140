// NodeTables: the tables of one node, which all its workers share, and the regions they lie in. At every node the
// regions are numbered like the tables, so that peers' verbs find them; the region of the log rings comes after them
// (verb_memory.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "weft/fabric/region.h"
#include "weft/store/table.h"
#include "weft/types.h"

namespace weft {

class NodeTables {
 public:
  void add(std::unique_ptr<Region> region, std::unique_ptr<Table> table) {
    regions_.push_back(std::move(region));
    tables_.push_back(std::move(table));
  }

  size_t count() const { return tables_.size(); }
  bool has(uint16_t table) const { return table < tables_.size(); }
  Table* at(TableId id) const { return tables_[id.value].get(); }
  template <class F>  // f(Table&)
  void for_each(F f) const {
    for (const auto& table : tables_) f(*table);
  }

  static RegionId region_of(TableId id) { return RegionId(id.value); }
  RegionId ring_region() const { return RegionId(static_cast<uint16_t>(tables_.size())); }
  void register_at(Regions* regions) const {
    for (const auto& region : regions_) regions->add(region.get());
  }

 private:
  std::vector<std::unique_ptr<Region>> regions_;
  std::vector<std::unique_ptr<Table>> tables_;
};

}  // namespace weft
