// Pool: the memory of one worker's transactions, on huge pages: their slots and records, and power-of-two blocks for
// what outgrows these. Blocks are carved from a reservation that is touched only as far as needed, and go back to a
// free list of their size. What is usual fits into the first reservation; for many large transactions at a time, and
// for old values in undo logs, which are not bounded by the transaction that replaces them, the pool reserves more.
//
// Only the owning worker uses it.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "weft/base/check.h"
#include "weft/fabric/region.h"

namespace weft {

class Pool {
 public:
  static constexpr size_t kSmallest = 256;
  static constexpr int kClasses = 21;  // up to 256 MiB
  static constexpr size_t kLargeBytes = 1 << 20;
  // The memory of free large blocks goes back to the kernel, except for so much: touching it again takes as long as
  // copying into it.
  static constexpr size_t kKeptBytes = 256 << 20;

  static Result<std::unique_ptr<Pool>> create(size_t bytes) {
    auto region = Region::create(bytes);
    if (!region) return region.error();
    return std::unique_ptr<Pool>(new Pool(std::move(*region)));
  }

  // The size of the block that allocate(bytes) gives.
  static size_t room(size_t bytes) { return std::bit_ceil(bytes < kSmallest ? kSmallest : bytes); }

  std::byte* allocate(size_t bytes) { return allocate_block(room(bytes)); }
  // The same for the size of a block.
  std::byte* allocate_block(size_t room_bytes) {
    const int c = class_of_block(room_bytes);
    if (Free* block = free_[static_cast<size_t>(c)]) {
      free_[static_cast<size_t>(c)] = block->next;
      if (room_bytes >= kLargeBytes && block->kept) [[unlikely]]
        kept_ -= room_bytes;
      return reinterpret_cast<std::byte*>(block);
    }
    const size_t size = kSmallest << c;
    if (used_ + size > regions_.back()->bytes()) grow(size);
    std::byte* block = regions_.back()->base() + used_;
    used_ += size;
    return block;
  }

  // An array that is there as long as the pool. Its elements are never destroyed.
  template <class T>
  std::span<T> make_array(size_t count) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= kSmallest);
    T* const first = reinterpret_cast<T*>(allocate(count * sizeof(T)));
    std::uninitialized_default_construct_n(first, count);
    return {first, count};
  }

  void free(std::byte* block, size_t bytes) { free_block(block, room(bytes)); }
  void free_block(std::byte* block, size_t room_bytes) {
    const auto c = static_cast<size_t>(class_of_block(room_bytes));
    bool kept = true;
    if (room_bytes >= kLargeBytes) [[unlikely]] {
      kept = kept_ + room_bytes <= kKeptBytes;
      if (kept) {
        kept_ += room_bytes;
      } else {
        discard(block, room_bytes);
      }
    }
    auto* node = reinterpret_cast<Free*>(block);
    node->next = free_[c];
    node->kept = kept;
    free_[c] = node;
  }

 private:
  struct Free {
    Free* next;
    bool kept;  // its memory, if it is large
  };
  explicit Pool(std::unique_ptr<Region> region) { regions_.push_back(std::move(region)); }
  void grow(size_t bytes) {
    auto region = Region::create(std::max(bytes, regions_.back()->bytes()));
    WEFT_CHECK(bool{region}, "no memory for transactions");
    regions_.push_back(std::move(*region));
    used_ = 0;
  }
  void discard(const std::byte* block, size_t bytes) {
    for (const std::unique_ptr<Region>& region : regions_) {
      const auto at = static_cast<size_t>(block - region->base());
      if (block >= region->base() && at < region->bytes()) return region->discard(at, bytes);
    }
  }
  static int class_of_block(size_t room_bytes) {
    const int c = std::countr_zero(room_bytes) - std::countr_zero(kSmallest);
    WEFT_CHECK(c < kClasses, "limits bound a block");
    return c;
  }
  std::vector<std::unique_ptr<Region>> regions_;  // carved from the last
  size_t used_ = 0;
  size_t kept_ = 0;  // bytes of large free blocks
  std::array<Free*, kClasses> free_{};
};

}  // namespace weft
