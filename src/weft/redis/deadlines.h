// Deadlines: where in the table keys are whose deadline will have passed, and when: so that they can be deleted soon
// after it without a walk over everything. It remembers no keys, and costs the same however many there are: the hashes
// of keys are divided into cells, and each cell knows the earliest deadline that was noted of a key in it. When that
// has come, the cell's records are looked at, and what they say is what the cell knows then.
//
// Noted is what this worker's clients write, before it is committed. So a cell that has notes since it was looked at
// last is looked at once more after a while: what was under way has been committed by then. What is missed all the same
// (a transaction that took longer, a node that was lost with its notes) the sweeper finds (expiry_sweeper.cc).
//
// A key that this node has no replica of is remembered as it is, if its deadline is near, as long as there is room.
//
//   cell   | the deadline, in steps since the base (31) | nothing was noted since it was looked at (1) |
//
// It belongs to its worker's thread.
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
  static constexpr int64_t kStepMs = 64;        // deadlines are rounded up to that
  static constexpr int64_t kSettleMs = 1000;    // until a cell with notes is looked at again
  static constexpr size_t kFarMax = 32'768;     // keys that are elsewhere
  static constexpr int64_t kFarMs = 120'000;    // whose deadline is that near
  static constexpr size_t kCellsMax = 1 << 18;  // one MiB

  // Some for each key of a table of that capacity. Deadlines before `base_ms` count as that.
  Deadlines(uint64_t capacity, int64_t base_ms);

  size_t cells() const { return cells_.size(); }
  // A key with this hash will be gone then, if it is written.
  void note(uint64_t hash, int64_t deadline_ms);
  void note_far(std::string_view key, int64_t deadline_ms, int64_t now_ms);

  bool due(int64_t now_ms) const { return earliest_ms_ <= now_ms; }
  // A round over all cells: begin, then the first cell from `from` on that is due, cells() if there is none; those that
  // are not due are counted for the next round's earliest.
  void begin_round() { earliest_ms_ = INT64_MAX; }
  size_t next_due(size_t from, size_t to, int64_t now_ms);
  void cut_round() { earliest_ms_ = INT64_MIN; }  // it was not gone to its end
  // The hashes of a cell, the last one included.
  struct Hashes {
    uint64_t first, last;
  };
  Hashes hashes(size_t cell) const {
    const auto at = static_cast<uint64_t>(cell);
    return {at << shift_, ((at + 1) << shift_) - 1};
  }
  // Its records were looked at, just now: the earliest that somebody has to look again, INT64_MAX if nobody has.
  void looked_at(size_t cell, int64_t earliest_ms, int64_t now_ms);

  // Up to so many keys that are elsewhere and were to be gone by then.
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
  int64_t earliest_ms_ = INT64_MAX;  // of all cells, or before it
  std::multimap<int64_t, std::string> far_;
};

}  // namespace weft
