// WEFT DIGEST: what a node holds, as a text that can be compared between nodes while nothing is written.
//
// A scan of all tables takes long; a worker that did it at once would grant no leases meanwhile, and its node would be
// removed. So it is done in steps, each bounded in bins and bytes, and the worker does its other work in between.
// Concurrent writes may or may not be included: then the text is meaningless, but nothing breaks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/member/view.h"
#include "weft/txn/node.h"
#include "weft/txn/replicas.h"

namespace weft {

// Owned by a worker's thread. It holds no references into a table between two steps.
class DigestScan {
 public:
  static constexpr int kBins = 256;                  // per step, or this many absence words
  static constexpr size_t kBytes = size_t{1} << 20;  // of values per step, except that a bin is never split

  // The node outlives it. Covers the partitions of which the node has an in-sync replica in this view.
  DigestScan(const Node& node, const View& view);

  // Continues; returns true at the end.
  bool step();
  // {"node", "epoch", "locked", "unreadable", "partitions": {"3": {"store": {"records", "sum", "absence"}}}}
  std::string text() const;

 private:
  enum class Stage : uint8_t { kRecords, kWords, kAbsence };
  bool step_absence(const Table& table, std::vector<Digest>& digests);

  const Node& node_;
  const View view_;
  std::vector<std::vector<Digest>> digests_;  // by table and partition
  Table::LeakReport residue_;
  size_t table_ = 0;
  Stage stage_ = Stage::kRecords;
  uint64_t cursor_ = 0;  // of the stage: in the index, or the absence word
};

}  // namespace weft
