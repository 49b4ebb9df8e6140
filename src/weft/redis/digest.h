// What a node holds, in a text that can be compared between nodes while nothing is written: WEFT DIGEST.
//
// A walk over all tables takes long; a worker that did it at once would give no leases meanwhile, and its node would be
// removed. So it goes in steps, each bounded in bins and bytes, and the worker does its other work between them. What
// is written meanwhile may or may not be in it: then the text says nothing, but nothing breaks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/member/view.h"
#include "weft/txn/node.h"
#include "weft/txn/replicas.h"

namespace weft {

// Belongs to a worker's thread, which may hold on to nothing of a table between two steps.
class DigestWalk {
 public:
  static constexpr int kBins = 256;                  // of a step, or so many words of absence
  static constexpr size_t kBytes = size_t{1} << 20;  // of values in a step, but for those of one bin

  // The node outlives it. Of the partitions of which the node has a whole replica in this view.
  DigestWalk(const Node& node, const View& view);

  // Goes on; true: that was all.
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
  uint64_t cursor_ = 0;  // of the part: of the index, or which word of absence
};

}  // namespace weft
