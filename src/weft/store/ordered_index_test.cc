// The ordered index by itself: its shape, its memory, and what happens when that is used up.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "weft/base/random.h"
#include "weft/base/sanitized.h"
#include "weft/store/order_cursor.h"

namespace weft {
namespace {

constexpr PartitionId kOne(0);

// An index of integers, which needs no records: slots are any numbers.
struct IntegerOrder {
  explicit IntegerOrder(uint32_t nodes, int partitions = 1)
      : region(std::move(*Region::create(size_t{nodes} * kOrderNodeBytes))),
        index(OrderKeys(region->base(), nullptr, nullptr, true), region->base(), nodes, partitions) {}

  static ByteView bytes(const uint64_t& key) { return {reinterpret_cast<const std::byte*>(&key), sizeof key}; }
  bool insert(uint64_t key) { return index.insert(kOne, bytes(key), key * 16 + 1); }
  void erase(uint64_t key) { index.erase(kOne, bytes(key), key * 16 + 1); }
  std::vector<uint64_t> all(bool backward = false) const {
    std::vector<uint64_t> out;
    OrderCursor cursor(index);
    cursor.start(kOne, std::nullopt, std::nullopt, backward, UINT64_MAX);
    ByteView key;
    for (uint64_t slot = 0; cursor.next(&key, &slot);) out.push_back(load<uint64_t>(key.data()));
    return out;
  }

  std::unique_ptr<Region> region;
  OrderedIndex index;
};

TEST(OrderedIndex, KeysInAnyOrderComeOutInOrder) {
  for (const int pattern : {0, 1, 2}) {
    IntegerOrder order(1000);
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < 5000; ++i) keys.push_back(pattern == 1 ? 5000 - i : pattern == 2 ? i * 2654435761U : i);
    for (const uint64_t key : keys) ASSERT_TRUE(order.insert(key));
    std::sort(keys.begin(), keys.end());
    EXPECT_EQ(order.index.check(kOne), keys.size());
    EXPECT_EQ(order.all(), keys);
    std::reverse(keys.begin(), keys.end());
    EXPECT_EQ(order.all(true), keys);
    for (const uint64_t key : keys) order.erase(key);
    EXPECT_EQ(order.index.space().used(), 0U);
    EXPECT_TRUE(order.all().empty());
  }
}

TEST(OrderedIndex, KeysThatComeInOrderFillTheirNodes) {
  IntegerOrder order(1000);
  for (uint64_t i = 0; i < 30'000; ++i) ASSERT_TRUE(order.insert(i));
  EXPECT_LE(order.index.space().used(), 30'000U / 58);
}

// What erases leave behind is joined: in whatever way keys go, the rest takes no more than nodes_for() says.
TEST(OrderedIndex, TheNodesOfFewKeysAreFew) {
  constexpr uint64_t kKeys = kSanitized ? 20'000 : 100'000;
  for (const uint64_t keep_every : {7, 13, 31, 32, 64, 200}) {
    IntegerOrder order(static_cast<uint32_t>(OrderedIndex::nodes_for(kKeys)));
    Random random(keep_every);
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < kKeys; ++i) keys.push_back(i);
    for (size_t i = keys.size(); i > 1; --i) std::swap(keys[i - 1], keys[random.below(i)]);
    for (const uint64_t key : keys) ASSERT_TRUE(order.insert(key));
    uint64_t left = kKeys;
    for (uint64_t i = 0; i < kKeys; ++i) {
      const uint64_t key = keep_every % 2 == 0 ? keys[i] : i;
      if (key % keep_every == 0) continue;
      order.erase(key);
      --left;
      if (i % 997 == 0) {
        ASSERT_LE(order.index.space().used(), OrderedIndex::nodes_for(left)) << left;
      }
    }
    EXPECT_EQ(order.index.check(kOne), left);
    EXPECT_LE(order.index.space().used(), OrderedIndex::nodes_for(left)) << "every " << keep_every;
  }
}

// Churn with a front that moves: the index uses what it freed, and never more than the area that it was given.
TEST(OrderedIndex, FreedNodesAreUsedAgain) {
  IntegerOrder order(static_cast<uint32_t>(OrderedIndex::nodes_for(2'000)));
  Random random(5);
  std::vector<uint64_t> live;
  for (uint64_t i = 0; i < (kSanitized ? 50'000U : 300'000U); ++i) {
    if (live.size() == 2'000) {
      const size_t victim = random.below(live.size());
      order.erase(live[victim]);
      live[victim] = live.back();
      live.pop_back();
    }
    const uint64_t key = i * 8 + random.below(i % 3 == 0 ? 100'000 : 8) * 8 + i % 8;
    if (std::find(live.end() - std::min<long>(20, static_cast<long>(live.size())), live.end(), key) != live.end())
      continue;
    ASSERT_TRUE(order.insert(key)) << i;
    live.push_back(key);
  }
  std::sort(live.begin(), live.end());
  live.erase(std::unique(live.begin(), live.end()), live.end());
  EXPECT_LE(order.index.check(kOne), live.size());
}

TEST(OrderedIndex, WithoutMemoryNothingIsInserted) {
  IntegerOrder order(4);
  uint64_t admitted = 0;
  while (order.insert(admitted * 3)) ++admitted;
  EXPECT_GT(admitted, 63U);
  EXPECT_EQ(order.index.space().used(), order.index.space().nodes());
  EXPECT_EQ(order.index.check(kOne), admitted);
  EXPECT_EQ(order.all().size(), admitted);
  EXPECT_FALSE(order.insert(admitted * 3));
  EXPECT_EQ(order.index.check(kOne), admitted);
  for (uint64_t i = 0; i < admitted; ++i) order.erase(i * 3);
  EXPECT_EQ(order.index.space().used(), 0U);
  EXPECT_TRUE(order.insert(7));
}

TEST(OrderedIndex, AnEraseOfAnotherSlotLeavesTheKey) {
  IntegerOrder order(10);
  const uint64_t key = 5;
  ASSERT_TRUE(order.index.insert(kOne, IntegerOrder::bytes(key), 16));
  ASSERT_TRUE(order.index.insert(kOne, IntegerOrder::bytes(key), 32));  // replaces
  order.index.erase(kOne, IntegerOrder::bytes(key), 16);
  EXPECT_EQ(order.index.check(kOne), 1U);
  order.index.replace(kOne, IntegerOrder::bytes(key), 16, 64);
  order.index.erase(kOne, IntegerOrder::bytes(key), 64);
  EXPECT_EQ(order.index.check(kOne), 1U);
  order.index.replace(kOne, IntegerOrder::bytes(key), 32, 64);
  order.index.erase(kOne, IntegerOrder::bytes(key), 64);
  EXPECT_EQ(order.index.check(kOne), 0U);
}

}  // namespace
}  // namespace weft
