// Memory for the indexes of tests: from the heap, so that AddressSanitizer sees what is used after it was freed.
#pragma once

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "weft/base/bytes.h"
#include "weft/store/dlht.h"

namespace weft {

class TestMemory final : public IndexMemory {
 public:
  explicit TestMemory(size_t limit = size_t{1} << 32) : limit_(limit) {}
  std::byte* allocate(size_t bytes) override {
    if (used_.fetch_add(bytes) + bytes > limit_) {
      used_.fetch_sub(bytes);
      return nullptr;
    }
    void* const memory = std::aligned_alloc(64, align_up(bytes, 64));
    std::memset(memory, 0, bytes);
    return static_cast<std::byte*>(memory);
  }
  void free(std::byte* memory, size_t bytes) override {
    std::free(memory);
    used_.fetch_sub(bytes);
    ++freed_;
  }
  size_t limit() const override { return limit_; }
  size_t used() const { return used_.load(); }
  int freed() const { return freed_.load(); }

 private:
  const size_t limit_;
  std::atomic<size_t> used_{0};
  std::atomic<int> freed_{0};
};

}  // namespace weft
