// Deadlines: where in the table keys will expire, and when, so that they can be deleted soon afterwards without a scan
// of everything. It remembers no keys, and its cost does not depend on their number: key hashes are divided into
// cells, and each cell knows the earliest deadline noted for a key in it. When that has passed, the cell's records are
// examined, and their earliest deadline becomes the cell's.
//
// Deadlines are noted when this worker's clients write, before the commit. So a cell with new notes since it was last
// examined is examined again after a while: what was in flight has committed by then. The sweeper (expiry_sweeper.cc)
// finds what is missed all the same (a transaction that took longer, a node that was lost with its notes).
//
// A key of which this node has no replica is remembered itself, if its deadline is near and there is room.
//
//   cell   | the deadline, in steps since the base (31) | nothing was noted since it was looked at (1) |
//
// It is owned by its worker's thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

class Deadlines {
 public:
  static constexpr int64_t kStepMs = 64;        // deadlines are rounded up to a multiple of this
  static constexpr int64_t kSettleMs = 1000;    // until a cell with new notes is examined again
  static constexpr size_t kFarMax = 32'768;     // keys without a replica on this node
  static constexpr int64_t kFarMs = 120'000;    // how near their deadline must be
  static constexpr size_t kCellsMax = 1 << 18;  // one MiB

  // Several cells per key of a table of that capacity. Deadlines before `base_ms` count as that.
  Deadlines(uint64_t capacity, int64_t base_ms);

  size_t cells() const { return cells_.size(); }
  // A key with this hash will expire then, if its write commits.
  void note(uint64_t hash, int64_t deadline_ms);
  void note_far(std::string_view key, int64_t deadline_ms, int64_t now_ms);

  bool due(int64_t now_ms) const { return earliest_ms_ <= now_ms; }
  // A round over all cells: begin, then the first due cell from `from` on, or cells() if there is none; cells that are
  // not due count for the next round's earliest deadline.
  void begin_round() { earliest_ms_ = INT64_MAX; }
  size_t next_due(size_t from, size_t to, int64_t now_ms);
  void cut_round() { earliest_ms_ = INT64_MIN; }  // the round was not completed
  // The hashes of a cell, both ends included.
  struct Hashes {
    uint64_t first, last;
  };
  Hashes hashes(size_t cell) const {
    const auto at = static_cast<uint64_t>(cell);
    return {at << shift_, ((at + 1) << shift_) - 1};
  }
  // Its records were examined just now: the earliest deadline left in it, INT64_MAX if there is none.
  void examined(size_t cell, int64_t earliest_ms, int64_t now_ms);

  // Up to `most` remembered keys without a replica on this node that have expired by then.
  std::vector<std::string> take_far(int64_t until_ms, size_t most);

 private:
  static constexpr uint32_t kNever = UINT32_MAX;
  static constexpr int64_t kFarthest = INT32_MAX - 1;

  uint32_t step_of(int64_t ms) const {
    const int64_t steps = (std::max(ms, base_ms_) - base_ms_ + kStepMs - 1) / kStepMs;
    return static_cast<uint32_t>(std::min(steps, kFarthest));
  }
  int64_t ms_of(uint32_t cell) const { return base_ms_ + static_cast<int64_t>(cell >> 1) * kStepMs; }

  const int64_t base_ms_;
  int shift_;  // of a hash: the rest is the cell
  std::vector<uint32_t> cells_;
  int64_t earliest_ms_ = INT64_MAX;  // of all cells, or earlier
  std::multimap<int64_t, std::string> far_;
};

}  // namespace weft
