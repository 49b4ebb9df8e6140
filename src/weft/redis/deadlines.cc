#include "weft/redis/deadlines.h"

#include <bit>

namespace weft {

Deadlines::Deadlines(uint64_t capacity, int64_t base_ms) : base_ms_(base_ms) {
  constexpr uint64_t kKeysOfACell = 4;
  constexpr uint64_t kCellsMin = 256;
  const uint64_t cells = std::bit_ceil(std::clamp<uint64_t>(capacity / kKeysOfACell, kCellsMin, kCellsMax));
  shift_ = 64 - std::countr_zero(cells);
  cells_.assign(cells, kNever);
}

void Deadlines::note(uint64_t hash, int64_t deadline_ms) {
  uint32_t& cell = cells_[hash >> shift_];
  const uint32_t step = step_of(deadline_ms);
  cell = (cell == kNever ? step : std::min(cell >> 1, step)) << 1;
  earliest_ms_ = std::min(earliest_ms_, ms_of(cell));
}

void Deadlines::note_far(std::string_view key, int64_t deadline_ms, int64_t now_ms) {
  if (deadline_ms - now_ms <= kFarMs && far_.size() < kFarMax) far_.emplace(deadline_ms, key);
}

size_t Deadlines::next_due(size_t from, size_t to, int64_t now_ms) {
  for (size_t i = from; i < to; ++i) {
    if (cells_[i] == kNever) continue;
    const int64_t ms = ms_of(cells_[i]);
    if (ms <= now_ms) return i;
    earliest_ms_ = std::min(earliest_ms_, ms);
  }
  return to;
}

void Deadlines::examined(size_t at, int64_t earliest_ms, int64_t now_ms) {
  uint32_t& cell = cells_[at];
  const bool settled = cell != kNever && (cell & 1U) != 0;
  const uint32_t found = earliest_ms == INT64_MAX ? kNever : step_of(earliest_ms) << 1 | 1U;
  cell = settled ? found : std::min(found, step_of(now_ms + kSettleMs) << 1 | 1U);
  if (cell != kNever) earliest_ms_ = std::min(earliest_ms_, ms_of(cell));
}

std::vector<std::string> Deadlines::take_far(int64_t until_ms, size_t most) {
  std::vector<std::string> keys;
  while (!far_.empty() && keys.size() < most && far_.begin()->first <= until_ms) {
    keys.push_back(std::move(far_.begin()->second));
    far_.erase(far_.begin());
  }
  return keys;
}

}  // namespace weft
