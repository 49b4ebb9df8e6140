// What replicas that catch up or are dropped do to a table.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "weft/store/owner_testing.h"
#include "weft/store/table_testing.h"

namespace weft {
namespace {

using testing::get;
using testing::IntegerKey;
using testing::TableBox;
using testing::write;

// A replica that was catching up: the tombstones of partitions in sync are purged in steps; those of others stay.
TEST(TableFill, SettlesSomePartitionsInSlices) {
  TableOptions options = testing::integer_table(4'000);
  options.partitions = options.partitions_held = 3;
  TableBox box(options);
  std::vector<std::byte> scratch(options.spec.value_bytes_max);
  const std::string value = "value";
  uint64_t deleted_elsewhere = 0;
  for (uint64_t k = 0; k < 1'000; ++k) {
    const IntegerKey key(k);
    const HashedKey hashed = box->hashed(key.bytes());
    const bool erase = k % 2 == 0;
    box->install_if_newer(hashed, erase ? Write::kErase : Write::kPut, as_bytes(erase ? std::string() : value),
                          Version(k + 1), scratch.data());
    if (erase && hashed.partition == PartitionId(1)) ++deleted_elsewhere;
  }
  EXPECT_EQ(box->leak_report().tombstones, 500U);
  int slices = 0;
  for (uint64_t cursor = 0; slices == 0 || cursor != 0; ++slices)
    cursor = box->purge_tombstones({true, false, true}, cursor, 16);
  EXPECT_GT(slices, 10);
  EXPECT_EQ(box->leak_report().tombstones, deleted_elsewhere);
  EXPECT_EQ(box->records(), 500U);
  // A late older copy would bring a deleted key back, so tombstones are purged only when everything has arrived;
  // absence stays above it either way.
  const IntegerKey first(0);
  EXPECT_GE(box->absence(box->hashed(first.bytes())).version(), Version(1));
}

// A late put replaces an older version, never a newer one, and does not bring back a deleted key.
TEST(TableFill, ALatePutBringsNothingBack) {
  TableOptions options = testing::integer_table(100);
  TableBox box(options);
  std::vector<std::byte> scratch(options.spec.value_bytes_max);
  const IntegerKey name(7);
  const HashedKey key = box->hashed(name.bytes());
  box->install_if_newer(key, Write::kInsert, as_bytes("one"), Version(1), scratch.data());
  box->apply_late_put(key, as_bytes("three"), Version(3), scratch.data());
  box->apply_late_put(key, as_bytes("two"), Version(2), scratch.data());
  EXPECT_EQ(get(*box, key), "three");
  box->apply(key, Write::kErase, {}, Version(4), scratch.data());
  box->apply_late_put(key, as_bytes("two"), Version(2), scratch.data());
  box->mark_readable(key, Version(4));
  box->apply_late_put(key, as_bytes("two"), Version(2), scratch.data());
  EXPECT_EQ(box->records(), 0U);
  EXPECT_EQ(box->leak_report().tombstones, 0U);
}

// A walk bin by bin visits each record of its partition once, even if the lowest bits of a cursor are lost.
TEST(TableFill, BinsOfAPartitionOneByOne) {
  TableOptions options = testing::bytes_table(4'000);
  options.partitions = options.partitions_held = 3;
  TableBox box(options);
  std::vector<std::byte> scratch(options.spec.value_bytes_max);
  size_t there = 0;
  for (int k = 0; k < 2'000; ++k) {
    const std::string key = "key" + std::to_string(k);
    const HashedKey hashed = box->hashed(as_bytes(key));
    ASSERT_EQ(write(*box, hashed, Write::kPut, "value"), Code::kOk);
    there += hashed.partition == PartitionId(1) ? 1 : 0;
  }
  EXPECT_EQ(box->records(PartitionId(1)), there);
  for (const uint64_t lost : {0, 4095}) {
    std::multiset<std::string> seen;
    uint64_t cursor = 0;
    uint64_t kept = 0;
    do {
      const auto copy = [&](ByteView key, ByteView value, Version) {
        seen.insert(std::string(as_text(key)));
        EXPECT_EQ(as_text(value), "value");
      };
      bool tombstones = false;
      cursor = box->export_bin(PartitionId(1), cursor, scratch.data(), scratch.size(), copy, &tombstones);
      EXPECT_FALSE(tombstones);
      // Like a caller that keeps only the upper bits: the rest is walked again.
      if ((cursor & ~lost) > kept) kept = cursor = cursor & ~lost;
    } while (cursor != 0);
    EXPECT_EQ(seen.size(), there) << lost;
    EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), there) << lost;
  }
}

// What a walk sees of a key whose write is not finished: at a primary under a lock, at a backup as a tombstone.
TEST(TableFill, AWalkSeesInsertsAndReportsTombstones) {
  TableBox box(testing::integer_table(100));
  std::vector<std::byte> scratch(box->spec().value_bytes_max);
  bool tombstones = false;
  const auto walk = [&] {
    std::vector<std::string> seen;
    tombstones = false;
    uint64_t cursor = 0;
    do {
      const auto copy = [&](ByteView, ByteView value, Version) { seen.emplace_back(as_text(value)); };
      cursor = box->export_bin(PartitionId(0), cursor, scratch.data(), scratch.size(), copy, &tombstones);
    } while (cursor != 0);
    return seen;
  };
  using Values = std::vector<std::string>;
  EXPECT_TRUE(box->is_empty(PartitionId(0)));
  const IntegerKey k(7);
  const HashedKey key = box->hashed(k.bytes());
  const Owner owner = make_owner(NodeId(0), WorkerId(0), 1);
  const LockResult lock = box->lock(key, owner, Write::kInsert, std::nullopt, 5);
  ASSERT_EQ(lock.code, Code::kOk);
  EXPECT_EQ(walk(), Values{""}) << "it may be committed";
  box->commit(key, owner, Write::kInsert, as_bytes("value"), lock.locked);
  EXPECT_EQ(walk(), Values{"value"});
  std::vector<std::byte> old(8);
  const Undo undo = box->apply(key, Write::kErase, {}, Version(2), old.data());
  EXPECT_EQ(walk(), Values{});
  EXPECT_TRUE(tombstones) << "it may be undone";
  EXPECT_EQ(box->records(PartitionId(0)), 0U);
  EXPECT_FALSE(box->is_empty(PartitionId(0)));
  box->undo(key, Version(2), undo, as_bytes("value"));
  EXPECT_EQ(walk(), Values{"value"});
  EXPECT_FALSE(tombstones);
  box->apply(key, Write::kErase, {}, Version(2), old.data());
  box->mark_readable(key, Version(2));
  EXPECT_EQ(walk(), Values{});
  EXPECT_FALSE(tombstones) << "it is final";
  EXPECT_TRUE(box->is_empty(PartitionId(0)));
}

// A dropped replica: nothing of its partition remains, in steps, and the others are unchanged. When it comes back it is
// as new: absence words remember nothing.
TEST(TableFill, DiscardsSomePartitionsInSlices) {
  for (const bool bytes : {false, true}) {
    TableOptions options = bytes ? testing::bytes_table(4'000) : testing::integer_table(4'000);
    options.partitions = options.partitions_held = 3;
    TableBox box(options);
    std::vector<std::byte> scratch(options.spec.value_bytes_max);
    uint64_t stays = 0;
    for (uint64_t k = 0; k < 1'500; ++k) {
      const IntegerKey key(k);
      const HashedKey hashed = box->hashed(key.bytes());
      if (hashed.partition == PartitionId(1) && k % 3 != 0) ++stays;
      write(*box, hashed, Write::kInsert, std::string(k % 60, 'v'));
      if (k % 3 == 0) write(*box, hashed, Write::kErase);
      if (k % 7 == 0) box->install_if_newer(hashed, Write::kErase, {}, Version(k + 5), scratch.data());  // a tombstone
      if (k % 7 == 0 && k % 3 != 0 && hashed.partition == PartitionId(1)) --stays;
    }
    const uint64_t before = box->leftovers(PartitionId(1));
    EXPECT_GT(box->leftovers(PartitionId(0)), 100U);
    int slices = 0;
    for (uint64_t cursor = 0; slices == 0 || cursor != 0; ++slices) {
      cursor = box->drop_partitions({true, false, true}, cursor, 16);
    }
    EXPECT_GT(slices, 10);
    for (const PartitionId p : {PartitionId(0), PartitionId(2)}) {
      for (uint32_t i = 0; i < box->absence_words(); i += 10) box->drop_absence(p, i, 10);
      EXPECT_EQ(box->leftovers(p), 0U);
    }
    EXPECT_EQ(box->leftovers(PartitionId(1)), before);
    EXPECT_EQ(box->records(), stays);
    // All of it again, with older versions than before, as a replica that catches up receives it.
    for (uint64_t k = 0; k < 1'500; ++k) {
      const IntegerKey key(k);
      const HashedKey hashed = box->hashed(key.bytes());
      if (hashed.partition == PartitionId(1)) continue;
      box->install_if_newer(hashed, Write::kPut, as_bytes("again"), Version(1), scratch.data());
      ASSERT_EQ(get(*box, hashed), "again");
      ++stays;
    }
    EXPECT_EQ(box->records(), stays);
    EXPECT_EQ(box->leak_report().locked, 0U);
  }
}

}  // namespace
}  // namespace weft
