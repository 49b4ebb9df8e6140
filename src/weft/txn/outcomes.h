// OutcomeLog: how transactions ended, by (incarnation, sequence), of all coordinators' workers of one index. It takes
// two bits for each, so that every participant can keep what it learns for a minute and answer a client whose
// coordinator is gone (outcome_queries.h).
//
//   index:  open addressing, key = incarnation << 32 | sequence / 16,384     arena: chunks of 4,096 bytes
//           | key | touched_ns | bits -+-> ... |                             | 2 bits per sequence | ... |
//                                      +------------------------------------>
//
// Invariants:
// - Q1: a recorded outcome never changes: a contradicting one is counted and ignored.
// - Q2: an outcome is kept for keep_ns at least, unless the arena is full of younger ones: then the chunk that was not
//   touched for the longest time is reused.
// - It allocates only at construction; memory that was never needed is never touched.
//
// It belongs to its worker's thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/base/mapping.h"

namespace weft {

class OutcomeLog {
 public:
  enum class Known : uint8_t { kNothing, kCommitted, kAborted };

  static constexpr uint64_t kChunkSequences = 16'384;
  static constexpr size_t kChunkBytes = kChunkSequences / 4;
  static constexpr uint64_t kKeepNs = 60'000'000'000;

  explicit OutcomeLog(size_t bytes, uint64_t keep_ns = kKeepNs);

  void note(uint32_t incarnation, uint64_t sequence, bool committed, uint64_t now_ns) {
    const uint64_t key = key_of(incarnation, sequence);
    Chunk* chunk = index_ + home(key);
    if (chunk->key != key || key == 0) [[unlikely]] {
      chunk = find_or_make(key, now_ns);
      if (chunk == nullptr) return;
    }
    chunk->touched_ns = now_ns;
    uint64_t& word = chunk->bits[sequence % kChunkSequences / kPerWord];
    const uint64_t shift = sequence % kPerWord * 2;
    const auto is = static_cast<uint64_t>(committed ? Known::kCommitted : Known::kAborted);
    const uint64_t was = word >> shift & 3U;
    if (was == 0) {
      word |= is << shift;
    } else if (was != is) [[unlikely]] {
      ++contradictions_;
    }
  }

  Known find(uint32_t incarnation, uint64_t sequence) const;

  uint64_t contradictions() const { return contradictions_; }
  size_t chunks() const { return used_; }  // ever touched
  size_t chunks_max() const { return chunks_; }

 private:
  static constexpr uint64_t kPerWord = 32;
  struct Chunk {
    uint64_t key;         // 0: none
    uint64_t touched_ns;  // time of the last note
    uint64_t* bits;
    uint64_t unused;
  };
  static_assert(sizeof(Chunk) == 32);

  // An incarnation is never 0, and 2^46 sequences of one take longer than any chunk stays.
  static uint64_t key_of(uint32_t incarnation, uint64_t sequence) {
    return uint64_t{incarnation} << 32 | static_cast<uint32_t>(sequence / kChunkSequences);
  }
  size_t home(uint64_t key) const { return key * 0x9e3779b97f4a7c15U >> shift_; }
  size_t next(size_t at) const { return (at + 1) & (positions_ - 1); }
  Chunk* find_or_make(uint64_t key, uint64_t now_ns);
  uint64_t* take_bits(uint64_t now_ns);
  void remove(size_t at);

  const size_t chunks_;
  const uint64_t keep_ns_;
  const size_t positions_;  // of the index: a power of two, at least twice the chunks
  const int shift_;
  const Mapping memory_;  // the arena, then the index
  Chunk* const index_;
  size_t used_ = 0;
  uint64_t oldest_ns_ = 0;  // every chunk was last touched at this time or later
  uint64_t contradictions_ = 0;
};

}  // namespace weft
