// One operation at a time. Numbers K, G, I, A: the rules in docs, record.h and table.h.
#include "weft/store/table.h"

#include <gtest/gtest.h>

#include <climits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "weft/store/table_testing.h"

namespace weft {
namespace {

using testing::bytes_table;
using testing::get;
using testing::integer_table;
using testing::IntegerKey;
using testing::kAlice;
using testing::kBob;
using testing::TableBox;
using testing::write;

class TableTest : public ::testing::TestWithParam<KeyKind> {
 protected:
  TableTest() : box_(GetParam() == KeyKind::kInteger ? integer_table(1000, 4096) : bytes_table(1000, 4096)) {}

  HashedKey key(std::string_view eight_bytes) { return box_->hashed(as_bytes(eight_bytes)); }
  bool clean() {
    const Table::LeakReport r = box_->leak_report();
    return r.locked == 0 && r.unreadable == 0 && r.tombstones == 0;
  }
  Version version(const HashedKey& k) {
    Word word;
    get(*box_, k, &word);
    return word.version();
  }

  TableBox box_;
};

INSTANTIATE_TEST_SUITE_P(Keys, TableTest, ::testing::Values(KeyKind::kInteger, KeyKind::kBytes),
                         [](const auto& kind) { return kind.param == KeyKind::kInteger ? "Integer" : "Bytes"; });

TEST_P(TableTest, InsertPutErase) {
  const HashedKey k = key("account1");
  EXPECT_EQ(get(*box_, k), "-");
  EXPECT_EQ(write(*box_, k, Write::kErase), Code::kNotFound);
  EXPECT_EQ(write(*box_, k, Write::kInsert, "one"), Code::kOk);
  EXPECT_EQ(write(*box_, k, Write::kInsert, "two"), Code::kExists);
  EXPECT_EQ(get(*box_, k), "one");
  EXPECT_EQ(write(*box_, k, Write::kPut, ""), Code::kOk);
  EXPECT_EQ(get(*box_, k), "");
  EXPECT_EQ(write(*box_, k, Write::kPut, "a longer value than the first one"), Code::kOk);
  EXPECT_EQ(get(*box_, k), "a longer value than the first one");
  EXPECT_EQ(box_->records(), 1U);
  EXPECT_EQ(write(*box_, k, Write::kErase), Code::kOk);
  EXPECT_EQ(get(*box_, k), "-");
  EXPECT_EQ(box_->records(), 0U);
  EXPECT_TRUE(clean());
}

// G1, I5: the version only increases, across delete and insert too.
TEST_P(TableTest, VersionsNeverRepeat) {
  const HashedKey k = key("account1");
  Version last = version(k);
  for (int i = 0; i < 50; ++i) {
    const Write kinds[] = {Write::kInsert, Write::kPut, Write::kErase};
    ASSERT_EQ(write(*box_, k, kinds[i % 3], std::string(static_cast<size_t>(i) * 7, 'v')), Code::kOk);
    ASSERT_GT(version(k), last);
    last = version(k);
  }
}

TEST_P(TableTest, ALockNamesItsHolder) {
  const HashedKey k = key("account1");
  write(*box_, k, Write::kPut, "v");
  const LockResult held = box_->lock(k, kAlice, Write::kPut, std::nullopt, 8);
  ASSERT_EQ(held.code, Code::kOk);
  EXPECT_EQ(held.locked.base, Version(1));
  for (const Write kind : {Write::kNone, Write::kPut, Write::kErase, Write::kInsert}) {
    const LockResult refused = box_->lock(k, kBob, kind, std::nullopt, 8);
    EXPECT_EQ(refused.code, Code::kLocked);
    EXPECT_EQ(refused.holder, kAlice);
  }
  Owner holder;
  EXPECT_EQ(box_->validate(k, Version(1), kBob, &holder), Code::kLocked);
  EXPECT_EQ(holder, kAlice);
  EXPECT_EQ(box_->validate(k, Version(1), kAlice, &holder), Code::kOk);
  Word word;
  EXPECT_EQ(get(*box_, k, &word), "v");
  EXPECT_TRUE(word.write_locked());
  box_->unlock(k, kAlice, held.locked);
  EXPECT_EQ(box_->validate(k, Version(1), kBob, &holder), Code::kOk);
  EXPECT_TRUE(clean());
}

TEST_P(TableTest, AReadLockSaysSo) {
  const HashedKey k = key("account1");
  write(*box_, k, Write::kPut, "v");
  for (const std::string_view name : {"account1", "nobody's"}) {
    const LockResult held = box_->lock(key(name), kAlice, Write::kNone, std::nullopt, 0);
    ASSERT_EQ(held.code, Code::kOk);
    Word word;
    get(*box_, key(name), &word);
    EXPECT_EQ(word.owner(), kAlice);
    EXPECT_TRUE(word.read_locked() && !word.write_locked());
    EXPECT_EQ(box_->lock(key(name), kBob, Write::kPut, std::nullopt, 1).code, Code::kLocked);
    box_->commit(key(name), kAlice, Write::kNone, ByteView(), held.locked);
  }
  EXPECT_TRUE(clean());
}

TEST_P(TableTest, WhatIsNewestIsServedAtThisVersion) {
  const HashedKey k = key("account1");
  const Version absent = version(k);
  EXPECT_TRUE(box_->is_newest(k, absent, false));
  std::byte undo[64];
  box_->apply(k, Write::kInsert, as_bytes("v"), Version(absent.value + 1), undo);
  const Version present(absent.value + 1);
  EXPECT_FALSE(box_->is_newest(k, absent, true)) << "it has come";
  EXPECT_FALSE(box_->is_newest(k, present, false)) << "a backup hides it";
  EXPECT_TRUE(box_->is_newest(k, present, true)) << "a primary does not";
  box_->mark_readable(k, present);
  EXPECT_TRUE(box_->is_newest(k, present, false));
  for (const Write kind : {Write::kNone, Write::kPut, Write::kErase}) {
    const LockResult held = box_->lock(k, kAlice, kind, std::nullopt, 1);
    ASSERT_EQ(held.code, Code::kOk);
    EXPECT_EQ(box_->is_newest(k, present, true), kind == Write::kNone) << "a read lock hides nothing";
    box_->unlock(k, kAlice, held.locked);
  }
  write(*box_, k, Write::kErase);
  EXPECT_FALSE(box_->is_newest(k, present, true));
  EXPECT_TRUE(box_->is_newest(k, version(k), false));
}

TEST_P(TableTest, ExpectedVersions) {
  const HashedKey k = key("account1");
  const Version absent = version(k);
  auto code = [&](Write kind, Version expected) {
    const LockResult r = box_->lock(k, kAlice, kind, expected, 1);
    if (r.code == Code::kOk) box_->unlock(k, kAlice, r.locked);
    return r.code;
  };
  EXPECT_EQ(code(Write::kErase, absent), Code::kNotFound);
  EXPECT_EQ(code(Write::kErase, Version(77)), Code::kVersionMoved);
  EXPECT_EQ(code(Write::kNone, absent), Code::kOk);
  EXPECT_EQ(code(Write::kNone, Version(77)), Code::kVersionMoved);
  EXPECT_EQ(code(Write::kInsert, absent), Code::kOk);
  EXPECT_EQ(code(Write::kPut, Version(77)), Code::kVersionMoved);
  write(*box_, k, Write::kInsert, "v");
  const Version present = version(k);
  for (const Write kind : {Write::kNone, Write::kPut, Write::kInsert, Write::kErase}) {
    EXPECT_EQ(code(kind, absent), Code::kVersionMoved);
  }
  EXPECT_EQ(code(Write::kPut, present), Code::kOk);
  EXPECT_EQ(code(Write::kErase, present), Code::kOk);
  EXPECT_EQ(code(Write::kInsert, present), Code::kExists);
  write(*box_, k, Write::kErase);
  EXPECT_EQ(code(Write::kPut, present), Code::kVersionMoved);
  EXPECT_EQ(code(Write::kInsert, absent), Code::kVersionMoved);
  EXPECT_EQ(box_->validate(k, absent, kAlice, nullptr), Code::kVersionMoved);
  EXPECT_EQ(box_->validate(k, version(k), kAlice, nullptr), Code::kOk);
  EXPECT_TRUE(clean());
}

TEST_P(TableTest, AnUncommittedInsertIsAbsentAndLocked) {
  const HashedKey k = key("account1");
  const Version absent = version(k);
  const LockResult held = box_->lock(k, kAlice, Write::kInsert, std::nullopt, 3);
  ASSERT_EQ(held.code, Code::kOk);
  EXPECT_TRUE(held.locked.fresh);
  Word word;
  EXPECT_EQ(get(*box_, k, &word), "-");
  EXPECT_EQ(word.owner(), kAlice);
  EXPECT_EQ(word.version(), absent);
  EXPECT_EQ(box_->validate(k, absent, kBob, nullptr), Code::kLocked);
  EXPECT_EQ(box_->validate(k, absent, kAlice, nullptr), Code::kOk);
  EXPECT_EQ(box_->lock(k, kBob, Write::kInsert, std::nullopt, 3).code, Code::kLocked);
  box_->unlock(k, kAlice, held.locked);
  EXPECT_EQ(box_->validate(k, absent, kBob, nullptr), Code::kOk);
  EXPECT_EQ(box_->records(), 0U);
  EXPECT_TRUE(clean());
}

TEST_P(TableTest, OutgrownValuesMove) {
  const HashedKey k = key("account1");
  std::string value = "v";
  for (size_t size = 1; size <= 1024; size = size * 2 + 1) {
    value.resize(size, static_cast<char>('a' + size % 26));
    ASSERT_EQ(write(*box_, k, Write::kPut, value), Code::kOk);
    ASSERT_EQ(get(*box_, k), value);
  }
  const LockResult held = box_->lock(k, kAlice, Write::kPut, std::nullopt, 4096);
  ASSERT_TRUE(held.locked.larger_block);
  box_->unlock(k, kAlice, held.locked);
  EXPECT_EQ(get(*box_, k), value);
  EXPECT_EQ(box_->records(), 1U);
  EXPECT_TRUE(clean());
}

TEST_P(TableTest, RelockChangesWhatALockIsFor) {
  const HashedKey k = key("account1");
  LockResult r = box_->lock(k, kAlice, Write::kPut, std::nullopt, 0);
  ASSERT_EQ(r.code, Code::kOk);
  EXPECT_EQ(box_->relock(k, kAlice, Write::kErase, 0, &r.locked), Code::kNotFound);
  EXPECT_EQ(box_->relock(k, kAlice, Write::kInsert, 1000, &r.locked), Code::kOk);
  box_->commit(k, kAlice, Write::kInsert, as_bytes(std::string(1000, 'i')), r.locked);
  EXPECT_EQ(get(*box_, k), std::string(1000, 'i'));

  r = box_->lock(k, kAlice, Write::kPut, std::nullopt, 0);
  EXPECT_EQ(box_->relock(k, kAlice, Write::kInsert, 0, &r.locked), Code::kExists);
  EXPECT_EQ(box_->relock(k, kAlice, Write::kNone, 0, &r.locked), Code::kOk);
  Word word;
  get(*box_, k, &word);
  EXPECT_TRUE(word.read_locked());
  EXPECT_EQ(box_->relock(k, kAlice, Write::kPut, 2000, &r.locked), Code::kOk);
  EXPECT_EQ(box_->relock(k, kAlice, Write::kPut, 3000, &r.locked), Code::kOk);
  EXPECT_EQ(box_->relock(k, kAlice, Write::kErase, 0, &r.locked), Code::kOk);
  box_->commit(k, kAlice, Write::kErase, ByteView(), r.locked);
  EXPECT_EQ(get(*box_, k), "-");

  r = box_->lock(k, kAlice, Write::kNone, std::nullopt, 0);
  EXPECT_EQ(box_->relock(k, kAlice, Write::kPut, 5, &r.locked), Code::kOk);
  box_->commit(k, kAlice, Write::kPut, as_bytes("again"), r.locked);
  EXPECT_EQ(get(*box_, k), "again");
  r = box_->lock(k, kAlice, Write::kErase, std::nullopt, 0);
  EXPECT_EQ(box_->relock(k, kAlice, Write::kPut, 2, &r.locked), Code::kOk);
  box_->commit(k, kAlice, Write::kPut, as_bytes("no"), r.locked);
  EXPECT_EQ(get(*box_, k), "no");
  EXPECT_TRUE(clean());
}

// G4: apply clears readable, mark_readable names its version.
TEST_P(TableTest, ApplyThenRaise) {
  const HashedKey k = key("account1");
  std::vector<std::byte> undo(4096);
  Undo u = box_->apply(k, Write::kInsert, as_bytes("one"), Version(1), undo.data());
  EXPECT_FALSE(u.existed);
  EXPECT_EQ(u.version, Version(0));
  Word word;
  EXPECT_EQ(get(*box_, k, &word), "one");
  EXPECT_FALSE(word.readable());
  box_->mark_readable(k, Version(2));
  get(*box_, k, &word);
  EXPECT_FALSE(word.readable());
  box_->mark_readable(k, Version(1));
  get(*box_, k, &word);
  EXPECT_TRUE(word.readable());

  const std::string large(3000, 'x');
  u = box_->apply(k, Write::kPut, as_bytes(large), Version(2), undo.data());
  EXPECT_TRUE(u.existed);
  EXPECT_EQ(u.version, Version(1));
  EXPECT_EQ(as_text(ByteView(undo.data(), u.value_bytes)), "one");
  box_->mark_readable(k, Version(1));
  EXPECT_EQ(get(*box_, k, &word), large);
  EXPECT_FALSE(word.readable());

  u = box_->apply(k, Write::kErase, ByteView(), Version(3), undo.data());
  EXPECT_EQ(as_text(ByteView(undo.data(), u.value_bytes)), large);
  EXPECT_EQ(get(*box_, k, &word), "-");
  EXPECT_FALSE(word.readable());
  EXPECT_EQ(word.version(), Version(3));
  EXPECT_EQ(box_->leak_report().tombstones, 1U);
  EXPECT_EQ(box_->lock(k, kAlice, Write::kPut, std::nullopt, 1).code, Code::kLocked);
  box_->mark_readable(k, Version(2));
  EXPECT_EQ(box_->leak_report().tombstones, 1U);
  box_->mark_readable(k, Version(3));
  EXPECT_EQ(get(*box_, k, &word), "-");
  EXPECT_TRUE(word.readable());
  EXPECT_EQ(word.version(), Version(3));
  EXPECT_EQ(box_->records(), 0U);
  EXPECT_TRUE(clean());
}

TEST_P(TableTest, ApplyOverATombstoneAndOutOfDate) {
  const HashedKey k = key("account1");
  std::vector<std::byte> undo(4096);
  box_->apply(k, Write::kInsert, as_bytes("one"), Version(1), undo.data());
  box_->apply(k, Write::kErase, ByteView(), Version(2), undo.data());
  const std::string large(3000, 'x');
  const Undo u = box_->apply(k, Write::kInsert, as_bytes(large), Version(3), undo.data());
  EXPECT_FALSE(u.existed);
  EXPECT_EQ(u.version, Version(2));
  EXPECT_EQ(box_->absence(k).version(), Version(2));
  box_->apply(k, Write::kPut, as_bytes("late"), Version(2), undo.data());
  EXPECT_EQ(get(*box_, k), large);
  box_->mark_readable(k, Version(2));
  EXPECT_EQ(box_->leak_report().unreadable, 1U);
  box_->mark_readable(k, Version(3));
  EXPECT_EQ(box_->records(), 1U);
  EXPECT_TRUE(clean());
}

TEST_P(TableTest, VisitsEveryRecordOnce) {
  std::map<std::string, std::string> expected;
  for (int i = 0; i < 300; ++i) {
    std::string name = "k" + std::to_string(1000000 + i);
    write(*box_, key(name), Write::kPut, "v" + name);
    if (i % 3 == 0) {
      write(*box_, key(name), Write::kErase);
    } else {
      expected[name] = "v" + name;
    }
  }
  const LockResult held = box_->lock(key("fresh on"), kAlice, Write::kInsert, std::nullopt, 1);
  std::map<std::string, std::string> seen;
  box_->visit(
      [](void* context, ByteView k, ByteView value, Word word) {
        EXPECT_TRUE(word.readable());
        auto& map = *static_cast<std::map<std::string, std::string>*>(context);
        EXPECT_TRUE(map.emplace(as_text(k), as_text(value)).second);
      },
      &seen);
  EXPECT_EQ(seen, expected);
  box_->unlock(key("fresh on"), kAlice, held.locked);
  EXPECT_EQ(box_->records(), expected.size());
}

TEST(TablePlanted, IgnoreVersion) {
  TableOptions options = integer_table(100);
  options.bugs.mask = static_cast<uint64_t>(PlantedBug::kIgnoreVersion);
  TableBox box(options);
  const IntegerKey k(1);
  EXPECT_EQ(box->lock(box->hashed(k.bytes()), kAlice, Write::kPut, Version(99), 1).code, Code::kOk);
}

TEST(TablePlanted, InsertAtZero) {
  TableOptions options = integer_table(100);
  options.bugs.mask = static_cast<uint64_t>(PlantedBug::kInsertAtZero);
  TableBox box(options);
  const IntegerKey k(1);
  const HashedKey key = box->hashed(k.bytes());
  Word first;
  Word again;
  write(*box, key, Write::kInsert, "a");
  get(*box, key, &first);
  write(*box, key, Write::kErase);
  write(*box, key, Write::kInsert, "b");
  get(*box, key, &again);
  EXPECT_EQ(first.version(), again.version());
}

TEST(TablePlanted, RaiseWithoutVersion) {
  TableOptions options = integer_table(100);
  options.bugs.mask = static_cast<uint64_t>(PlantedBug::kRaiseWithoutVersion);
  TableBox box(options);
  const IntegerKey k(1);
  const HashedKey key = box->hashed(k.bytes());
  std::vector<std::byte> undo(64);
  box->apply(key, Write::kPut, as_bytes("v"), Version(2), undo.data());
  box->mark_readable(key, Version(1));
  EXPECT_EQ(box->leak_report().unreadable, 0U);
}

TEST(TablePlacement, EveryNodeAgreesAndPartitionsAreEven) {
  TableOptions options = integer_table(100000);
  options.partitions = 5;
  options.partitions_held = 3;
  TableBox box(options);
  int counts[5] = {};
  for (uint64_t i = 0; i < 50000; ++i) {
    const IntegerKey k(i);
    ++counts[box->hashed(k.bytes()).partition.value];
  }
  for (const int count : counts) EXPECT_NEAR(count, 10000, 500);
}

TEST(TablePlacement, PrefixAndRedisSlot) {
  TableOptions options = bytes_table(1000);
  options.partitions = 7;
  options.spec.partition = PartitionBy::kPrefix;
  options.spec.prefix_bytes = 4;
  TableBox prefix(options);
  EXPECT_EQ(prefix->hashed(as_bytes("abcd1")).partition, prefix->hashed(as_bytes("abcd2xyz")).partition);
  EXPECT_NE(prefix->hashed(as_bytes("abcd1")).hash, prefix->hashed(as_bytes("abcd2xyz")).hash);

  options.partitions = 16384;
  options.spec.partition = PartitionBy::kRedisSlot;
  TableBox slots(options);
  // As CLUSTER KEYSLOT answers.
  EXPECT_EQ(slots->hashed(as_bytes("123456789")).partition.value, 12739);
  EXPECT_EQ(slots->hashed(as_bytes("foo")).partition.value, 12182);
  EXPECT_EQ(slots->hashed(as_bytes("{user1000}.following")).partition, slots->hashed(as_bytes("user1000")).partition);
  EXPECT_NE(slots->hashed(as_bytes("foo{}bar")).partition, slots->hashed(as_bytes("bar")).partition);
}

TEST(Table, RedisSlotsAreTheCrcOfTheKey) {
  const auto crc16 = [](std::string_view text) {
    uint32_t crc = 0;
    for (const char c : text) {
      crc ^= static_cast<uint32_t>(static_cast<uint8_t>(c)) << 8;
      for (int bit = 0; bit < 8; ++bit) crc = ((crc & 0x8000) != 0 ? crc << 1 ^ 0x1021 : crc << 1) & 0xffff;
    }
    return crc % 16384;
  };
  EXPECT_EQ(redis_slot(as_bytes("123456789")), 0x31c3U);
  std::string key;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(redis_slot(as_bytes(key)), crc16(key)) << key.size();
    EXPECT_EQ(redis_slot(as_bytes("a{" + key + "x}b")), crc16(key + "x")) << key.size();
    key += static_cast<char>(i * 37 + 128);
    if (key.back() == '{' || key.back() == '}') key.back() = 'y';
  }
}

TEST(Table, AWalkInPiecesVisitsEachRecordOnce) {
  constexpr int kRecords = 2000;
  constexpr size_t kSlotsOfABin = 15;
  TableBox box(bytes_table(kRecords, 64));
  for (int i = 0; i < kRecords; ++i) {
    ASSERT_EQ(write(*box, box->hashed(as_bytes("k" + std::to_string(i))), Write::kPut, std::string(32, 'v')),
              Code::kOk);
  }
  const auto walk = [&](int bins, size_t bytes, size_t most) {
    std::set<std::string> keys;
    Table::LeakReport residue;
    uint64_t cursor = 0, words = 0;
    int calls = 0;
    do {
      const size_t before = keys.size();
      cursor = box->visit_some(
          cursor, bins, bytes,
          [](void* to, ByteView key, ByteView, Word) {
            EXPECT_TRUE(static_cast<std::set<std::string>*>(to)->insert(std::string(as_text(key))).second);
          },
          &keys);
      EXPECT_LE(keys.size() - before, most);
      ++calls;
    } while (cursor != 0);
    EXPECT_EQ(keys.size(), size_t{kRecords});
    do {
      words = box->leak_report_some(words, bins, &residue);
    } while (words != 0);
    EXPECT_EQ(residue.locked + residue.unreadable + residue.tombstones, 0U);
    return calls;
  };
  EXPECT_EQ(walk(INT_MAX, SIZE_MAX, kRecords), 1);
  EXPECT_GT(walk(1, SIZE_MAX, kSlotsOfABin), kRecords / static_cast<int>(kSlotsOfABin));
  EXPECT_GT(walk(4, SIZE_MAX, 4 * kSlotsOfABin), kRecords / static_cast<int>(4 * kSlotsOfABin));
  EXPECT_GT(walk(INT_MAX, 1, kSlotsOfABin), kRecords / static_cast<int>(kSlotsOfABin));  // at least a bin
}

}  // namespace
}  // namespace weft
