// Pool: power-of-two blocks of one worker, for transactions and log records that outgrow their fixed part. Blocks are
// carved from a reservation that is touched only as far as needed, and go back to a free list of their size. What is
// bounded by limits fits into the first reservation. Old values in undo logs are not bounded by the transaction that
// replaces them: if they need more, the pool reserves more.
//
// Only the owning worker uses it.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <memory>
#include <vector>

#include "weft/base/check.h"
#include "weft/fabric/region.h"

namespace weft {

class Pool {
 public:
  static constexpr size_t kSmallest = 256;
  static constexpr int kClasses = 16;  // up to 8 MiB

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
      return reinterpret_cast<std::byte*>(block);
    }
    const size_t size = kSmallest << c;
    if (used_ + size > regions_.back()->bytes()) grow(size);
    std::byte* block = regions_.back()->base() + used_;
    used_ += size;
    return block;
  }

  void free(std::byte* block, size_t bytes) { free_block(block, room(bytes)); }
  void free_block(std::byte* block, size_t room_bytes) {
    const auto c = static_cast<size_t>(class_of_block(room_bytes));
    auto* node = reinterpret_cast<Free*>(block);
    node->next = free_[c];
    free_[c] = node;
  }

 private:
  struct Free {
    Free* next;
  };
  explicit Pool(std::unique_ptr<Region> region) { regions_.push_back(std::move(region)); }
  void grow(size_t bytes) {
    auto region = Region::create(std::max(bytes, regions_.back()->bytes()));
    WEFT_CHECK(bool{region}, "no memory for undo logs");
    regions_.push_back(std::move(*region));
    used_ = 0;
  }
  static int class_of_block(size_t room_bytes) {
    const int c = std::countr_zero(room_bytes) - std::countr_zero(kSmallest);
    WEFT_CHECK(c < kClasses, "limits bound a block");
    return c;
  }
  std::vector<std::unique_ptr<Region>> regions_;  // carved from the last
  size_t used_ = 0;
  std::array<Free*, kClasses> free_{};
};

}  // namespace weft
