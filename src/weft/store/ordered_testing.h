// Shared by the tests and the benchmark of ordered tables.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/store/ordered_index.h"
#include "weft/store/ordered_scan.h"
#include "weft/store/table_testing.h"

namespace weft::testing {

inline TableOptions ordered_integers(uint64_t capacity, int partitions = 1) {
  TableOptions options = integer_table(capacity, 64);
  options.spec.ordered = true;
  options.spec.partition = PartitionBy::kPrefix;
  options.spec.prefix_bytes = 2;
  options.partitions = options.partitions_held = partitions;
  return options;
}

inline TableOptions ordered_bytes(uint64_t capacity, int partitions = 1) {
  TableOptions options = ordered_integers(capacity, partitions);
  options.spec.keys = KeyKind::kBytes;
  options.spec.prefix_bytes = 1;
  return options;
}

// An integer as the bytes that compare as it does: what a scan gives of either kind of table, in one form.
inline std::string in_order(uint64_t number) {
  number = __builtin_bswap64(number);
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

struct Scanned {
  std::string key;
  std::string value;
  ScanState state;
  Word word;
};

inline std::vector<Scanned> scan_all(const Table& table, const ScanRange& range) {
  OrderedScan scan(table);
  scan.start(range);
  std::vector<Scanned> out;
  ScanItem item;
  while (scan.next(&item)) {
    std::string key(as_text(item.key));
    if (table.integer_keys()) key = in_order(load<uint64_t>(item.key.data()));
    out.push_back({std::move(key), std::string(as_text(item.value)), item.state, item.word});
  }
  return out;
}

inline std::vector<std::string> scan_keys(const Table& table, const ScanRange& range) {
  std::vector<std::string> out;
  for (Scanned& item : scan_all(table, range)) out.push_back(std::move(item.key));
  return out;
}

}  // namespace weft::testing
