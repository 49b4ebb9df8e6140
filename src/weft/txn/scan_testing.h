// Shared by the tests of scans: ordered tables of both kinds of keys, and scans as text.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "weft/txn/stepped_cluster_testing.h"

namespace weft {

// Keys of one prefix are those that differ in their low byte.
inline TableSpec ordered_numbers(std::string name = "t", uint32_t value_bytes_max = 64) {
  TableSpec spec;
  spec.name = std::move(name);
  spec.ordered = true;
  spec.partition = PartitionBy::kPrefix;
  spec.prefix_bytes = 7;
  spec.value_bytes_max = value_bytes_max;
  return spec;
}
// Keys of one prefix have their first two bytes in common.
inline TableSpec ordered_texts(std::string name = "t", uint32_t value_bytes_max = 64) {
  TableSpec spec = ordered_numbers(std::move(name), value_bytes_max);
  spec.keys = KeyKind::kBytes;
  spec.prefix_bytes = 2;
  return spec;
}

// A prefix whose partition has its primary at this node, of a cluster whose partitions are those of the nodes in turn.
inline uint64_t number_at(NodeId primary, uint64_t low, uint64_t nodes) {
  return ((nodes * 5 + primary.value) << 8) + low;
}

inline bool may_scan_and_write(const char* row) { return scans_of(*find_protocol(row)) == RowScans::kYes; }

struct ScannedText {
  Code code = Code::kOk;
  std::vector<std::pair<std::string, std::string>> items;
  bool limited = false;
};
inline ScannedText text_of(const Scan& scan) {
  ScannedText out{scan.code, {}, scan.limited};
  for (const Scan::Item& item : scan.items) out.items.emplace_back(item.key, item.value);
  return out;
}

}  // namespace weft
