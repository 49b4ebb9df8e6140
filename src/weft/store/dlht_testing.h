// Shared by the tests of Dlht. The indexes' memory is from the heap, so that AddressSanitizer sees uses after free.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

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

inline std::unique_ptr<Dlht> make_dlht(TestMemory* memory, uint64_t capacity, bool resizable = true) {
  auto table = Dlht::create({.capacity = capacity, .readers = 1, .resizable = resizable}, memory);
  EXPECT_TRUE(table);
  return std::move(*table);
}

// The i-th of many hashes that share bin `bin` of 64, and of any power of two up to 2^20.
inline uint64_t colliding(uint64_t bin, uint64_t i) { return bin << 58 | i; }

// The keys and values that a walk finds; checks that no key is visited twice.
inline std::map<uint64_t, uint64_t> contents(const Dlht& table) {
  std::map<uint64_t, uint64_t> out;
  uint64_t cursor = 0;
  do {
    cursor = table.scan(cursor, [&](uint64_t hash, uint64_t value) { EXPECT_TRUE(out.emplace(hash, value).second); });
  } while (cursor != 0);
  return out;
}

}  // namespace weft
