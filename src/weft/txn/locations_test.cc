#include "weft/txn/locations.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

RecordSlot slot(uint64_t offset) { return {PartitionId(1), 2, offset}; }

TEST(LocationCache, RemembersByNodeTableAndHash) {
  auto made = LocationCache::create(1 << 16);
  ASSERT_TRUE(made);
  LocationCache& cache = *made;
  EXPECT_FALSE(cache.find(NodeId(0), TableId(0), 0));
  cache.put(NodeId(0), TableId(0), 7, slot(160));
  EXPECT_EQ(cache.find(NodeId(0), TableId(0), 7), slot(160));
  EXPECT_FALSE(cache.find(NodeId(1), TableId(0), 7)) << "another primary";
  EXPECT_FALSE(cache.find(NodeId(0), TableId(1), 7));
  cache.forget(NodeId(1), TableId(0), 7);
  EXPECT_EQ(cache.find(NodeId(0), TableId(0), 7), slot(160));
  cache.forget(NodeId(0), TableId(0), 7);
  EXPECT_FALSE(cache.find(NodeId(0), TableId(0), 7));
}

TEST(LocationCache, IsBounded) {
  auto made = LocationCache::create(1000);  // 32 places
  ASSERT_TRUE(made);
  for (uint64_t k = 0; k < 1000; ++k) (*made).put(NodeId(0), TableId(0), mix64(k), slot(16 * (k + 1)));
  int found = 0;
  for (uint64_t k = 0; k < 1000; ++k) {
    const RecordSlot at = (*made).find(NodeId(0), TableId(0), mix64(k));
    if (!at) continue;
    EXPECT_EQ(at, slot(16 * (k + 1)));
    ++found;
  }
  EXPECT_LE(found, 32);
  EXPECT_GE(found, 28);
}

TEST(LocationCache, OfNoBytesRemembersNothing) {
  auto made = LocationCache::create(0);
  ASSERT_TRUE(made);
  (*made).put(NodeId(0), TableId(0), 7, slot(160));
  EXPECT_FALSE((*made).find(NodeId(0), TableId(0), 7));
}

}  // namespace
}  // namespace weft
