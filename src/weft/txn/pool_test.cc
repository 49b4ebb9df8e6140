#include "weft/txn/pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "weft/base/random.h"

namespace weft {
namespace {

std::unique_ptr<Pool> make(size_t bytes) {
  auto pool = Pool::create(bytes);
  EXPECT_TRUE(pool) << pool.error().text();
  return std::move(*pool);
}

TEST(Pool, RoomIsThePowerOfTwoAbove) {
  EXPECT_EQ(Pool::room(0), Pool::kSmallest);
  EXPECT_EQ(Pool::room(1), Pool::kSmallest);
  EXPECT_EQ(Pool::room(Pool::kSmallest), Pool::kSmallest);
  EXPECT_EQ(Pool::room(Pool::kSmallest + 1), 2 * Pool::kSmallest);
  EXPECT_EQ(Pool::room(5000), 8192U);
}

TEST(Pool, ABlockComesBackForItsSizeClass) {
  auto pool = make(1 << 20);
  std::byte* block = pool->allocate(1000);
  pool->free(block, 1000);
  EXPECT_NE(pool->allocate(1025), block) << "another class";
  EXPECT_EQ(pool->allocate(513), block);
  EXPECT_NE(pool->allocate(1024), block) << "it is in use again";
}

TEST(Pool, TheLargestClassIsEightMegabytes) {
  auto pool = make(64 << 20);
  std::byte* block = pool->allocate(8 << 20);
  block[0] = block[(8 << 20) - 1] = std::byte{1};
  pool->free(block, 8 << 20);
  EXPECT_EQ(pool->allocate((8 << 20) - 1), block);
}

TEST(Pool, BlocksInUseNeverOverlap) {
  struct Held {
    std::byte* at;
    size_t bytes;
    std::byte mark;
  };
  auto pool = make(512 << 20);
  Random random(4);
  std::vector<Held> held;
  const auto intact = [](const Held& h) {
    return std::all_of(h.at, h.at + h.bytes, [&](std::byte b) { return b == h.mark; });
  };
  for (int i = 0; i < 4000; ++i) {
    if (!held.empty() && random.chance(50)) {
      const size_t pick = random.below(held.size());
      ASSERT_TRUE(intact(held[pick]));
      pool->free(held[pick].at, held[pick].bytes);
      held[pick] = held.back();
      held.pop_back();
      continue;
    }
    const size_t bytes = random.between(1, size_t{1} << random.between(4, 15));
    const auto mark = static_cast<std::byte>(random.below(256));
    std::byte* at = pool->allocate(bytes);
    std::memset(at, static_cast<int>(mark), bytes);
    held.push_back({at, bytes, mark});
  }
  for (const Held& h : held) ASSERT_TRUE(intact(h));
}

// Old values in undo logs are bounded by no limit: the pool reserves more, and nothing moves.
TEST(Pool, GrowsWhenItsReservationIsUsedUp) {
  auto pool = make(1 << 20);
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 40; ++i) {
    blocks.push_back(pool->allocate(256 << 10));
    std::fill_n(blocks.back(), 256 << 10, static_cast<std::byte>(i));
  }
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(blocks[static_cast<size_t>(i)][0], static_cast<std::byte>(i));
    EXPECT_EQ(blocks[static_cast<size_t>(i)][(256 << 10) - 1], static_cast<std::byte>(i));
  }
}

// So that large transactions do not hold memory for ever.
TEST(Pool, TheMemoryOfLargeFreeBlocksGoesBackBeyondAShare) {
  constexpr size_t kBytes = Pool::kKeptBytes / 2;
  const auto pool = make(4 * kBytes);
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 3; ++i) {
    blocks.push_back(pool->allocate(kBytes));
    blocks.back()[kBytes - 1] = std::byte{7};
  }
  for (std::byte* block : blocks) pool->free(block, kBytes);
  for (const std::byte last : {std::byte{0}, std::byte{7}, std::byte{7}}) {
    EXPECT_EQ(pool->allocate(kBytes)[kBytes - 1], last);
  }
  pool->free(blocks[0], kBytes);
  EXPECT_EQ(pool->allocate(kBytes)[kBytes - 1], std::byte{7}) << "it is kept again";
}

TEST(PoolDeathTest, ABlockHasALimit) { EXPECT_DEATH(make(1 << 20)->allocate((256 << 20) + 1), "limits bound a block"); }

}  // namespace
}  // namespace weft
