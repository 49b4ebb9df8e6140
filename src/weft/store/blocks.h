// Blocks: the memory of records, in size classes.
//
// Slabs of one class are allocated from the block area of a region by an atomic cursor and never change their class (I4
// of record.h): a holder of an old offset, also a remote reader, always finds a record header there. Freed blocks go to
// the free list of their class, a Treiber stack of offsets:
//
//   head of a list     | tag (24)      | offset / 16 (40) |    the tag counts changes, against ABA
//   meta of a free one | ones (24)     | next / 16 (40)   |    the ones are lengths that no record has
//
// The word (deleted or moved) and the key of a free block stay as they were when it was freed.
//
// The area begins with a map of its slabs, so that a walk over all blocks costs only what was ever allocated, not what
// there is room for. It has an entry of 16 bits for each grain of half a slab; every slab is longer, so at most one
// begins there:
//
//   | offset of the slab in its grain / 64 (8) | class + 1 (8) |    0: none begins here
//
// Thread-safety: everything but construction may be called by any thread; nothing waits.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/store/record.h"

namespace weft {

inline constexpr size_t kBlockAlign = 16;
inline constexpr size_t kBlockBytesMin = 32;
inline constexpr size_t kBlockStepMax = 256;  // multiples of 16 up to here, then steps of about 5/4
inline constexpr size_t kBlockBytesMax = record_bytes(kKeyBytesMax, kTableValueBytesMax);
inline constexpr size_t kSlabBytes = 16 << 10;  // or one block, if that is larger

namespace internal {
constexpr size_t next_class_bytes(size_t bytes) {
  return bytes < kBlockStepMax ? bytes + kBlockAlign : align_up(bytes + bytes / 4, kBlockAlign);
}
constexpr int count_classes() {
  int n = 1;
  for (size_t bytes = kBlockBytesMin; bytes < kBlockBytesMax; bytes = next_class_bytes(bytes)) ++n;
  return n;
}
}  // namespace internal

inline constexpr int kBlockClasses = internal::count_classes();
static_assert(kBlockClasses <= 72, "a slot has 8 bits for the class, and every partition counts per class");

inline constexpr auto kBlockBytes = [] {
  std::array<uint32_t, kBlockClasses> out{};
  size_t bytes = kBlockBytesMin;
  for (uint32_t& entry : out) {
    entry = static_cast<uint32_t>(bytes);
    bytes = internal::next_class_bytes(bytes);
  }
  return out;
}();
static_assert(kBlockBytes.back() >= kBlockBytesMax);

constexpr size_t block_bytes(int block_class) { return kBlockBytes[static_cast<size_t>(block_class)]; }

// The smallest class that holds `bytes`, at most kBlockBytesMax.
constexpr int block_class_of(size_t bytes) {
  if (bytes <= kBlockStepMax) {
    return bytes <= kBlockBytesMin ? 0 : static_cast<int>((bytes - kBlockBytesMin + kBlockAlign - 1) / kBlockAlign);
  }
  int low = static_cast<int>((kBlockStepMax - kBlockBytesMin) / kBlockAlign);
  int high = kBlockClasses - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (block_bytes(middle) < bytes) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

inline constexpr int kNarrowClassMax = block_class_of(kNarrowBlockBytes);
static_assert(block_bytes(kNarrowClassMax) == kNarrowBlockBytes, "a class has one form of records");

// Slabs begin on cache lines, so that blocks of 32 and 64 bytes touch one line each.
constexpr size_t slab_bytes(int block_class) {
  const size_t block = block_bytes(block_class);
  return align_up(block >= kSlabBytes ? block : kSlabBytes / block * block, 64);
}

inline constexpr size_t kSlabGrain = kSlabBytes / 2;
static_assert([] {
  for (int c = 0; c < kBlockClasses; ++c) {
    if (slab_bytes(c) < kSlabGrain) return false;
  }
  return kSlabGrain / 64 <= 256 && kBlockClasses < 256;
}());

class Blocks {
 public:
  // Allocates its slabs from [begin, end) of the region at `base`, which is zeroed. Both are multiples of 64, and begin
  // is not 0.
  Blocks(std::byte* base, uint64_t begin, uint64_t end);
  // Size of the map for an area of so many bytes.
  static constexpr uint64_t map_bytes(uint64_t area) {
    return align_up((area / kSlabGrain + 1) * sizeof(uint16_t), 64);
  }

  // An offset, or 0 if the area is used up. The block's word is deleted or moved, or 0 if it was never used.
  uint64_t allocate(int block_class);
  // The block's word must be deleted or moved. From now on its meta word belongs to the free list.
  void free(uint64_t offset, int block_class);

  uint64_t slab_bytes_used() const { return cursor_.load(std::memory_order_relaxed) - begin_; }

  // A walk over all allocated blocks, free ones too, in chunks: by any thread, in any order.
  static constexpr uint64_t kChunkBytes = 1 << 20;
  uint64_t chunks() const { return (slab_bytes_used() + kChunkBytes - 1) / kChunkBytes; }
  // Calls visit(std::byte* block) for each block of the slabs that begin in this chunk.
  template <class Visit>
  void visit(uint64_t chunk, Visit visit) const {
    constexpr uint64_t kGrains = kChunkBytes / kSlabGrain;
    const uint64_t end = std::min((chunk + 1) * kGrains, (end_ - begin_) / kSlabGrain + 1);
    for (uint64_t grain = chunk * kGrains; grain < end; ++grain) {
      const uint32_t entry = __atomic_load_n(map_ + grain, __ATOMIC_ACQUIRE);
      if (entry == 0) continue;
      std::byte* const slab = base_ + begin_ + grain * kSlabGrain + (entry >> 8) * 64;
      const size_t bytes = block_bytes(static_cast<int>(entry & 0xff) - 1);
      const size_t used = std::max(kSlabBytes / bytes, size_t{1}) * bytes;
      for (size_t at = 0; at < used; at += bytes) {
        __builtin_prefetch(slab + at + kAhead);
        visit(slab + at);
      }
    }
  }

 private:
  struct alignas(64) List {
    std::atomic<uint64_t> head{0};
  };

  static constexpr size_t kAhead = 1024;  // of a walk

  void push(List& list, uint64_t first, uint64_t last);
  uint64_t cut(int block_class);

  std::byte* const base_;
  uint16_t* const map_;
  const uint64_t begin_;  // of the slabs
  const uint64_t end_;
  std::atomic<uint64_t> cursor_;
  std::array<List, kBlockClasses> lists_;
};

}  // namespace weft
