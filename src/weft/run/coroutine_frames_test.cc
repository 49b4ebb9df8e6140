#include "weft/run/coroutine_frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "weft/base/random.h"
#include "weft/task.h"

namespace weft {
namespace {

TEST(Frames, BlocksDoNotOverlapAndAreAligned) {
  FramePool pool;
  struct Block {
    std::byte* at;
    size_t bytes;
  };
  std::vector<Block> all;
  Random random(1);
  for (int i = 0; i < 500; ++i) {
    const size_t bytes = random.between(1, 4000);
    auto* at = static_cast<std::byte*>(pool.allocate(bytes));
    ASSERT_NE(at, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(at) % alignof(std::max_align_t), 0U);
    std::memset(at, i & 0xff, bytes);
    all.push_back({at, bytes});
  }
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t b = 0; b < all[i].bytes; ++b) ASSERT_EQ(all[i].at[b], static_cast<std::byte>(i & 0xff));
  }
  std::sort(all.begin(), all.end(), [](const Block& a, const Block& b) { return a.at < b.at; });
  for (size_t i = 1; i < all.size(); ++i) EXPECT_LE(all[i - 1].at + all[i - 1].bytes, all[i].at);
  for (const Block& block : all) FramePool::free(block.at);
}

TEST(Frames, AFreedBlockIsUsedAgain) {
  FramePool pool;
  void* first = pool.allocate(300);
  FramePool::free(first);
  EXPECT_EQ(pool.allocate(290), first) << "the same size class";
}

TEST(Frames, NoGrowthAfterWarmUp) {
  FramePool pool;
  Random random(2);
  const auto burst = [&] {
    std::vector<void*> held;
    for (int i = 0; i < 64; ++i) held.push_back(pool.allocate(static_cast<size_t>(i) * 100 + 1));
    for (size_t i = held.size(); i > 1; --i) std::swap(held[i - 1], held[random.below(i)]);
    for (void* frame : held) FramePool::free(frame);
  };
  burst();
  const uint64_t warm = pool.blocks_made();
  for (int i = 0; i < 200; ++i) burst();
  EXPECT_EQ(pool.blocks_made(), warm);
}

TEST(Frames, WhatIsTooLargeForThePoolComesFromTheHeap) {
  FramePool pool;
  EXPECT_EQ(pool.allocate(1 << 20), nullptr);
  const FramePool::Scope scope(&pool);
  for (const size_t bytes : {size_t{8000}, size_t{8063}, size_t{8064}, size_t{8065}, size_t{8192}, size_t{1} << 20}) {
    void* frame = detail::allocate_frame(bytes);
    ASSERT_NE(frame, nullptr);
    std::memset(frame, 0xab, bytes);
    detail::free_frame(frame);
  }
}

TEST(Frames, ScopesNest) {
  FramePool outer;
  FramePool inner;
  const FramePool::Scope a(&outer);
  {
    const FramePool::Scope b(&inner);
    detail::free_frame(detail::allocate_frame(100));
  }
  EXPECT_EQ(outer.blocks_made(), 0U);
  EXPECT_GT(inner.blocks_made(), 0U);
  detail::free_frame(detail::allocate_frame(100));
  EXPECT_GT(outer.blocks_made(), 0U);
}

}  // namespace
}  // namespace weft
