#include "weft/txn/outcomes.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace weft {

OutcomeLog::OutcomeLog(size_t bytes, uint64_t keep_ns)
    : chunks_(std::max<size_t>(bytes / kChunkBytes, 2)),
      keep_ns_(keep_ns),
      positions_(std::bit_ceil(chunks_ * 2)),
      shift_(64 - std::countr_zero(positions_)),
      memory_(Mapping::or_throw(chunks_ * kChunkBytes + positions_ * sizeof(Chunk))),
      index_(reinterpret_cast<Chunk*>(memory_.base() + chunks_ * kChunkBytes)) {}

OutcomeLog::Known OutcomeLog::find(uint32_t incarnation, uint64_t sequence) const {
  const uint64_t key = key_of(incarnation, sequence);
  if (key == 0) return Known::kNothing;
  for (size_t at = home(key); index_[at].key != 0; at = next(at)) {
    if (index_[at].key != key) continue;
    const uint64_t word = index_[at].bits[sequence % kChunkSequences / kPerWord];
    return static_cast<Known>(word >> (sequence % kPerWord * 2) & 3U);
  }
  return Known::kNothing;
}

// Returns nullptr for an incarnation that nobody has.
OutcomeLog::Chunk* OutcomeLog::find_or_make(uint64_t key, uint64_t now_ns) {
  if (key >> 32 == 0) return nullptr;
  for (size_t at = home(key); index_[at].key != 0; at = next(at)) {
    if (index_[at].key == key) return &index_[at];
  }
  uint64_t* bits = take_bits(now_ns);  // may move entries of the index
  size_t at = home(key);
  while (index_[at].key != 0) at = next(at);
  index_[at] = {key, now_ns, bits, 0};
  return &index_[at];
}

// Takes fresh memory only when no chunk is old enough to be reused. This happens once in 16,384 transactions of a
// coordinator, so a walk over the index costs nothing; there is no walk while no chunk can be old enough.
uint64_t* OutcomeLog::take_bits(uint64_t now_ns) {
  const auto fresh = [this] { return reinterpret_cast<uint64_t*>(memory_.base() + used_++ * kChunkBytes); };
  if (used_ == 0) oldest_ns_ = now_ns;
  if (used_ < chunks_ && now_ns - oldest_ns_ <= keep_ns_) return fresh();
  size_t oldest = positions_;
  for (size_t at = 0; at < positions_; ++at) {
    if (index_[at].key == 0) continue;
    if (oldest == positions_ || index_[at].touched_ns < index_[oldest].touched_ns) oldest = at;
  }
  oldest_ns_ = index_[oldest].touched_ns;
  if (used_ < chunks_ && now_ns - oldest_ns_ <= keep_ns_) return fresh();
  uint64_t* bits = index_[oldest].bits;
  remove(oldest);
  std::memset(bits, 0, kChunkBytes);
  return bits;
}

// Moves entries behind the hole up, if they could not be placed at their home.
void OutcomeLog::remove(size_t hole) {
  for (size_t at = next(hole); index_[at].key != 0; at = next(at)) {
    const size_t from_home = (at - home(index_[at].key)) & (positions_ - 1);
    const size_t from_hole = (at - hole) & (positions_ - 1);
    if (from_home < from_hole) continue;
    index_[hole] = index_[at];
    hole = at;
  }
  index_[hole] = {};
}

}  // namespace weft
