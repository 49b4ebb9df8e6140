#include "weft/store/blocks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "weft/base/random.h"
#include "weft/fabric/region.h"

namespace weft {
namespace {

constexpr uint64_t kBegin = 4096;

TEST(BlockClasses, SmallestThatHolds) {
  for (size_t bytes = 1; bytes <= kBlockBytesMax; bytes += bytes < 1024 ? 1 : 61) {
    const int c = block_class_of(bytes);
    ASSERT_GE(block_bytes(c), bytes);
    if (c > 0) {
      ASSERT_LT(block_bytes(c - 1), bytes);
    }
    ASSERT_EQ(block_bytes(c) % kBlockAlign, 0U);
  }
  EXPECT_EQ(block_bytes(block_class_of(record_bytes(8, 8))), 32U);
}

TEST(BlockClasses, StepsWasteLittle) {
  for (int c = 1; c < kBlockClasses; ++c) {
    if (block_bytes(c) > kBlockStepMax) {
      EXPECT_LE(block_bytes(c), block_bytes(c - 1) * 5 / 4 + kBlockAlign);
    }
  }
}

TEST(Blocks, AreDistinctAndSayDeleted) {
  auto region = std::move(*Region::create(1 << 20));
  Blocks blocks(region->base(), kBegin, 1 << 20);
  std::set<uint64_t> seen;
  const int c = block_class_of(48);
  for (;;) {
    const uint64_t offset = blocks.allocate(c);
    if (offset == 0) break;
    EXPECT_GE(offset, kBegin);
    EXPECT_LE(offset + 48, uint64_t{1} << 20);
    EXPECT_TRUE(load_word(region->base() + offset).deleted());
    EXPECT_TRUE(seen.insert(offset).second);
  }
  EXPECT_GT(seen.size(), ((1U << 20) - kBegin) / 48 * 9 / 10);
  EXPECT_LE(blocks.slab_bytes_used(), (1U << 20) - kBegin);
}

// A walk visits every block once, those in use and free ones, and nothing else.
TEST(Blocks, AWalkComesToEachOnce) {
  constexpr uint64_t kEnd = 64 << 20;
  auto region = std::move(*Region::create(kEnd));
  Blocks blocks(region->base(), kBegin, kEnd);
  EXPECT_EQ(blocks.chunks(), 0U);
  Random random(1);
  std::set<uint64_t> held;
  uint64_t allocated = 0;
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t offset = blocks.allocate(static_cast<int>(random.below(random.chance(1) ? kBlockClasses : 20)));
    if (offset == 0) continue;
    ++allocated;
    store_word(region->base() + offset, Word(Version(i), kReadable));
    held.insert(offset);
  }
  std::set<uint64_t> seen;
  uint64_t in_use = 0;
  for (uint64_t chunk = 0; chunk < blocks.chunks(); ++chunk) {
    blocks.visit(chunk, [&](std::byte* block) {
      const auto offset = static_cast<uint64_t>(block - region->base());
      EXPECT_TRUE(seen.insert(offset).second);
      if (load_word(block).deleted()) return;
      ++in_use;
      EXPECT_TRUE(held.contains(offset));
    });
  }
  EXPECT_EQ(in_use, allocated);
  EXPECT_GT(blocks.chunks(), 20U) << "with slabs of all sizes";
  blocks.visit(blocks.chunks() + 1, [](std::byte*) { FAIL(); });
}

// I4: a freed block is reused for its own class only.
TEST(Blocks, KeepTheirClass) {
  auto region = std::move(*Region::create(4 << 20));
  Blocks blocks(region->base(), kBegin, 4 << 20);
  Random random(1);
  std::vector<std::pair<uint64_t, int>> held;
  std::vector<int> class_at((4 << 20) / kBlockAlign, -1);
  for (int i = 0; i < 20000; ++i) {
    if (held.size() > 200 || (!held.empty() && random.chance(50))) {
      std::swap(held[random.below(held.size())], held.back());
      blocks.free(held.back().first, held.back().second);
      held.pop_back();
      continue;
    }
    const int c = static_cast<int>(random.below(20));
    const uint64_t offset = blocks.allocate(c);
    ASSERT_NE(offset, 0U);
    int& known = class_at[offset / kBlockAlign];
    ASSERT_TRUE(known == -1 || known == c);
    known = c;
    held.emplace_back(offset, c);
  }
}

TEST(Blocks, ThreadsNeverShareOne) {
  auto region = std::move(*Region::create(8 << 20));
  Blocks blocks(region->base(), kBegin, 8 << 20);
  std::vector<std::atomic<int>> users((8 << 20) / kBlockAlign);
  std::atomic<int> shared{0};
  auto work = [&](uint64_t seed) {
    Random random(seed);
    std::vector<std::pair<uint64_t, int>> held;
    for (int i = 0; i < 30000; ++i) {
      if (held.size() < 20 && random.chance(50)) {
        const int c = static_cast<int>(random.below(3));
        const uint64_t offset = blocks.allocate(c);
        if (offset == 0) continue;
        if (users[offset / kBlockAlign].fetch_add(1) != 0) shared.fetch_add(1);
        record_write(region->base() + offset, as_bytes("a key of"), as_bytes("mine"), Word(Version(1), kDeleted));
        held.emplace_back(offset, c);
      } else if (!held.empty()) {
        users[held.back().first / kBlockAlign].fetch_sub(1);
        blocks.free(held.back().first, held.back().second);
        held.pop_back();
      }
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) threads.emplace_back(work, t);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(shared.load(), 0);
}

}  // namespace
}  // namespace weft
