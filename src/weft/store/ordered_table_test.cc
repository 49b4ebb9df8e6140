// Ordered tables: against std::map, through everything that adds and removes records, and at their limits.
#include <gtest/gtest.h>

#include "weft/base/random.h"
#include "weft/base/sanitized.h"
#include "weft/store/ordered_testing.h"

namespace weft {
namespace {

using testing::in_order;
using testing::IntegerKey;
using testing::kAlice;
using testing::kBob;
using testing::ordered_bytes;
using testing::ordered_integers;
using testing::scan_all;
using testing::scan_keys;
using testing::Scanned;
using testing::TableBox;
using testing::write;

constexpr PartitionId kOnly(0);

using Twin = std::map<std::string, std::string>;

// A key of either kind of table, as a scan shows it and as the table takes it.
struct TwinKey {
  std::string text;
  std::string bytes;
  ByteView view() const { return as_bytes(bytes); }
};

TwinKey integer_key(uint64_t number) {
  return {in_order(number), std::string(reinterpret_cast<const char*>(&number), sizeof number)};
}

// Byte strings of all sorts: long common beginnings, one the beginning of another, zeros, high bytes.
TwinKey text_key(Random& random) {
  static const std::string kStems[] = {"",
                                       "k",
                                       "warehouse/district/",
                                       std::string(300, 'x'),
                                       std::string("\0\0", 2),
                                       "\xff\xff\xff\xff\xff\xff\xff\xff\xff"};
  std::string text = kStems[random.below(6)];
  for (uint64_t i = random.below(4); i > 0; --i) text += static_cast<char>("\0ab\xff"[random.below(4)]);
  text += std::to_string(random.below(60));
  return {text, text};
}

std::vector<std::string> expected(const Twin& twin, const std::optional<std::string>& from,
                                  const std::optional<std::string>& to, uint64_t limit, bool backward) {
  std::vector<std::string> out;
  if (from && to && *from >= *to) return out;
  for (auto it = from ? twin.lower_bound(*from) : twin.begin(); it != (to ? twin.lower_bound(*to) : twin.end()); ++it) {
    out.push_back(it->first + "=" + it->second);
  }
  if (backward) std::reverse(out.begin(), out.end());
  if (out.size() > limit) out.resize(limit);
  return out;
}

void against_map(const TableOptions& options, uint64_t seed, int steps) {
  TableBox box(options);
  Random random(seed);
  const bool integers = options.spec.keys == KeyKind::kInteger;
  const auto draw = [&] {
    return integers ? integer_key(random.below(3) << 40 | random.below(500)) : text_key(random);
  };
  Twin twin;
  for (int step = 0; step < steps; ++step) {
    const TwinKey key = draw();
    const HashedKey hashed = box->hashed(key.view());
    const uint64_t die = random.below(100);
    if (die < 55) {
      const std::string value(random.below(64), static_cast<char>('a' + step % 26));  // often in a larger block
      ASSERT_EQ(write(*box, hashed, Write::kPut, value), Code::kOk);
      twin[key.text] = value;
    } else if (die < 85) {
      ASSERT_EQ(write(*box, hashed, Write::kErase), twin.erase(key.text) == 1 ? Code::kOk : Code::kNotFound);
    } else {
      const TwinKey other = draw();
      const bool has_from = random.chance(50), has_to = random.chance(50), backward = random.chance(50);
      ScanRange range{.partition = kOnly, .limit = random.below(80), .backward = backward};
      std::optional<std::string> from, to;
      if (has_from) range.from = key.view(), from = key.text;
      if (has_to) range.to = other.view(), to = other.text;
      std::vector<std::string> got;
      for (const Scanned& item : scan_all(*box, range)) {
        ASSERT_EQ(item.state, ScanState::kPresent);
        got.push_back(item.key + "=" + item.value);
      }
      ASSERT_EQ(got, expected(twin, from, to, range.limit, backward)) << "step " << step;
    }
  }
  EXPECT_EQ(box->order().check(kOnly), twin.size());
  EXPECT_EQ(scan_keys(*box, {.partition = kOnly}).size(), twin.size());
}

TEST(OrderedTable, IntegersAgainstAMap) {
  for (uint64_t seed = 1; seed <= 3; ++seed) against_map(ordered_integers(4'000), seed, kSanitized ? 2'000 : 10'000);
}

TEST(OrderedTable, ByteStringsAgainstAMap) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    TableOptions options = ordered_bytes(10'000);
    options.checksums = seed % 2 == 0;
    against_map(options, seed, kSanitized ? 1'500 : 7'000);
  }
}

TEST(OrderedTable, TheLongestKeysAreInOrderToo) {
  TableOptions options = ordered_bytes(400);
  options.spec.memory_bytes_max = uint64_t{1} << 30;
  TableBox box(options);
  Twin twin;
  for (uint64_t i = 0; i < 80; ++i) {
    const size_t length = i % 3 == 0 ? kKeyBytesMax : i % 3 == 1 ? kKeyBytesMax - 1 : 65'000;
    std::string key(length, 'k');
    key.replace(length - 8, 8, in_order(i * 77 % 80));
    ASSERT_EQ(write(*box, box->hashed(as_bytes(key)), Write::kInsert, "v"), Code::kOk);
    twin[key] = "v";
  }
  const std::vector<std::string> got = scan_keys(*box, {.partition = kOnly});
  ASSERT_EQ(got.size(), twin.size());
  size_t i = 0;
  for (const auto& [key, value] : twin) EXPECT_TRUE(got[i++] == key);
}

// An integer's high bytes choose its partition, so keys that follow one another are together.
TEST(OrderedTable, APartitionHasWholePrefixes) {
  TableBox box(ordered_integers(4'000, 3));
  for (uint64_t prefix = 0; prefix < 6; ++prefix) {
    for (uint64_t i = 0; i < 100; ++i) {
      const IntegerKey key(prefix << 48 | i);
      const HashedKey hashed = box->hashed(key.bytes());
      ASSERT_EQ(hashed.partition, PartitionId(static_cast<uint16_t>(prefix % 3)));
      ASSERT_EQ(write(*box, hashed, Write::kInsert, "v"), Code::kOk);
    }
  }
  const std::vector<std::string> second = scan_keys(*box, {.partition = PartitionId(1)});
  ASSERT_EQ(second.size(), 200U);
  EXPECT_EQ(second[99], in_order(uint64_t{1} << 48 | 99));
  EXPECT_EQ(second[100], in_order(uint64_t{4} << 48));
}

TEST(OrderedTable, WhatChangesSaysSo) {
  TableBox box(ordered_integers(100));
  const IntegerKey one(1), two(2), three(3);
  for (const IntegerKey& key : {one, two})
    ASSERT_EQ(write(*box, box->hashed(key.bytes()), Write::kPut, "v"), Code::kOk);
  const HashedKey second = box->hashed(two.bytes());
  const HashedKey third = box->hashed(three.bytes());
  const LockResult put = box->lock(second, kBob, Write::kPut, std::nullopt, 1);
  const LockResult fresh = box->lock(third, kBob, Write::kInsert, std::nullopt, 1);
  ASSERT_EQ(put.code, Code::kOk);
  ASSERT_EQ(fresh.code, Code::kOk);

  std::vector<Scanned> seen = scan_all(*box, {.partition = kOnly, .self = kAlice});
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[0].state, ScanState::kPresent);
  EXPECT_EQ(seen[1].state, ScanState::kChanging);
  EXPECT_EQ(seen[1].word.owner(), kBob);
  EXPECT_EQ(seen[1].value, "v");
  EXPECT_EQ(seen[2].state, ScanState::kChanging);
  EXPECT_EQ(seen[2].word.owner(), kBob);
  EXPECT_EQ(seen[2].value, "");

  seen = scan_all(*box, {.partition = kOnly, .self = kBob});
  ASSERT_EQ(seen.size(), 2U) << "its own insert is not there yet";
  EXPECT_EQ(seen[1].state, ScanState::kPresent);

  box->commit(second, kBob, Write::kPut, as_bytes("w"), put.locked);
  box->unlock(third, kBob, fresh.locked);
  seen = scan_all(*box, {.partition = kOnly});
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[1].value, "w");
  EXPECT_EQ(box->erases(kOnly), 0U) << "an insert that came to nothing erased nothing";
  EXPECT_EQ(box->order().check(kOnly), 2U);
}

// Keys and versions alone would not show that a record came and went between two scans.
TEST(OrderedTable, WhatCameAndWentIsCounted) {
  TableBox box(ordered_integers(100));
  const IntegerKey one(1);
  const HashedKey key = box->hashed(one.bytes());
  const uint64_t before = box->erases(kOnly);
  ASSERT_EQ(write(*box, key, Write::kInsert, "v"), Code::kOk);
  EXPECT_EQ(box->erases(kOnly), before);
  ASSERT_EQ(write(*box, key, Write::kErase), Code::kOk);
  EXPECT_EQ(box->erases(kOnly), before + 1);
  EXPECT_TRUE(scan_keys(*box, {.partition = kOnly}).empty());
}

// At a backup: unreadable, then readable; an erase is a tombstone, which may still be undone, until it is readable.
TEST(OrderedTable, AtABackup) {
  TableBox box(ordered_bytes(100));
  std::vector<std::byte> undo(64);
  const HashedKey a = box->hashed(as_bytes("a")), b = box->hashed(as_bytes("b"));
  box->apply(a, Write::kInsert, as_bytes("1"), Version(1), undo.data());
  box->apply(b, Write::kInsert, as_bytes("2"), Version(1), undo.data());
  box->mark_readable(b, Version(1));
  std::vector<Scanned> seen = scan_all(*box, {.partition = kOnly});
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_FALSE(seen[0].word.readable());
  EXPECT_TRUE(seen[1].word.readable());

  const Undo old = box->apply(b, Write::kErase, {}, Version(2), undo.data());
  EXPECT_EQ(box->erases(kOnly), 1U);
  seen = scan_all(*box, {.partition = kOnly});
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[1].state, ScanState::kChanging);
  box->undo(b, Version(2), old, as_bytes("2"));
  EXPECT_EQ(scan_all(*box, {.partition = kOnly})[1].value, "2");

  box->apply(b, Write::kErase, {}, Version(2), undo.data());
  box->mark_readable(b, Version(2));
  EXPECT_EQ(scan_keys(*box, {.partition = kOnly}), std::vector<std::string>{"a"});
  box->undo(a, Version(1), Undo{}, {});
  EXPECT_TRUE(scan_keys(*box, {.partition = kOnly}).empty());
  EXPECT_EQ(box->order().space().used(), 0U);
}

// Partitions with far more records than their share of the capacity: the DLHT is resized, and a scan does not notice.
TEST(OrderedTable, ThroughResizes) {
  TableBox box(ordered_integers(1'000, 100));
  const uint64_t bins = box->index_address().bins;
  for (uint64_t i = 0; i < 70; ++i) {
    for (uint64_t prefix = 0; prefix < 100; ++prefix) {
      const IntegerKey key(prefix << 48 | i * 37 % 70);
      ASSERT_EQ(write(*box, box->hashed(key.bytes()), Write::kInsert, "v"), Code::kOk);
    }
    const ScanRange range{.partition = PartitionId(static_cast<uint16_t>(i)), .backward = i % 2 == 1};
    ASSERT_EQ(scan_keys(*box, range).size(), i + 1);
    box->quiesce(WorkerId(0));
  }
  EXPECT_GT(box->index_address().bins, bins);
}

// A replica that is filled in the order of the hashes with erases in between, and then dropped.
TEST(OrderedTable, ThroughFillAndDrop) {
  TableOptions options = ordered_integers(kSanitized ? 3'000 : 20'000, 2);
  TableBox source(options);
  TableBox replica(options);
  std::vector<std::byte> scratch(64);
  Twin twin;
  const uint64_t records = options.spec.capacity;
  for (uint64_t i = 0; i < records; ++i) {
    const uint64_t number = i % 2 << 48 | i * 2654435761U % 1'000'000'007;
    const IntegerKey key(number);
    ASSERT_EQ(write(*source, source->hashed(key.bytes()), Write::kPut, "v"), Code::kOk);
    twin[in_order(number)] = "v";
    if (i % 64 == 0) source->quiesce(WorkerId(0));
  }
  for (const PartitionId partition : {PartitionId(0), PartitionId(1)}) {
    uint64_t cursor = 0;
    do {
      cursor = source->export_records(
          PartitionId(partition), cursor, 4096, 64, scratch.data(), [&](ByteView key, ByteView value, Version version) {
            const std::string copy(as_text(value));
            std::vector<std::byte> undo(64);
            replica->install_if_newer(replica->hashed(key), Write::kPut, as_bytes(copy), version, undo.data());
            if (load<uint64_t>(key.data()) % 3 != 0) return;
            replica->install_if_newer(replica->hashed(key), Write::kErase, {}, Version(version.value + 1), undo.data());
            twin.erase(in_order(load<uint64_t>(key.data())));
          });
    } while (cursor != 0);
  }
  for (uint64_t cursor = replica->purge_tombstones({true, true}, 0, 64); cursor != 0;) {
    cursor = replica->purge_tombstones({true, true}, cursor, 64);
  }
  std::vector<std::string> both = scan_keys(*replica, {.partition = PartitionId(0)});
  for (std::string& key : scan_keys(*replica, {.partition = PartitionId(1)})) both.push_back(std::move(key));
  std::vector<std::string> wanted;
  for (const auto& [key, value] : twin) wanted.push_back(key);
  EXPECT_EQ(both, wanted);

  for (uint64_t cursor = replica->drop_partitions({true, false}, 0, 64); cursor != 0;) {
    cursor = replica->drop_partitions({true, false}, cursor, 64);
  }
  EXPECT_TRUE(replica->is_empty(PartitionId(0)));
  EXPECT_EQ(replica->order().check(PartitionId(0)), 0U);
  EXPECT_EQ(replica->order().check(PartitionId(1)), replica->records(PartitionId(1)));
  for (uint64_t cursor = replica->drop_partitions({false, true}, 0, 64); cursor != 0;) {
    cursor = replica->drop_partitions({false, true}, cursor, 64);
  }
  EXPECT_EQ(replica->order().space().used(), 0U);
}

// Without memory for the order a key is refused as it is where the table is full, and is neither here nor there.
TEST(OrderedTable, WithoutMemoryNothingIsHalfInserted) {
  for (const bool integers : {true, false}) {
    TableOptions options = integers ? ordered_integers(10'000) : ordered_bytes(10'000);
    options.order_nodes_max = 8;
    TableBox box(options);
    uint64_t admitted = 0;
    Code code = Code::kOk;
    for (; code == Code::kOk; ++admitted) {
      code = write(*box, box->hashed(integer_key(admitted).view()), Write::kInsert, "v");
    }
    --admitted;
    EXPECT_EQ(code, Code::kTableFull);
    EXPECT_NE(box->limit_text(code).find("8 nodes of 1 KiB for its order"), std::string::npos) << box->limit_text(code);
    EXPECT_EQ(box->records(), admitted);
    EXPECT_EQ(testing::get(*box, box->hashed(integer_key(admitted).view())), "-");
    EXPECT_EQ(box->order().check(kOnly), admitted);
    EXPECT_EQ(box->leak_report().locked, 0U);
    EXPECT_EQ(write(*box, box->hashed(integer_key(3).view()), Write::kPut, std::string(60, 'w')), Code::kOk);
    for (uint64_t i = 0; i < admitted; ++i) {
      ASSERT_EQ(write(*box, box->hashed(integer_key(i).view()), Write::kErase), Code::kOk);
    }
    EXPECT_TRUE(box->is_empty(kOnly)) << "nor has a separator stayed";
    EXPECT_EQ(box->order().space().used(), 0U);
  }
}

// The limits of records are reached before the order's.
TEST(OrderedTable, FilledToItsCapacityNeverFails) {
  TableOptions options = ordered_bytes(5'000);
  options.spec.memory_bytes_max = 16 << 20;
  TableBox box(options);
  Random random(3);
  for (uint64_t i = 0; i < 5'000; ++i) {
    const std::string key = "customer/" + std::to_string(random.below(1'000'000'000)) + "/" + std::to_string(i);
    ASSERT_EQ(write(*box, box->hashed(as_bytes(key)), Write::kInsert, "v"), Code::kOk) << i;
  }
  EXPECT_LE(box->memory_bytes(), options.spec.memory_bytes_max);
  EXPECT_EQ(box->order().check(kOnly), 5'000U);
}

// What is said to share a prefix does: no key between the two is in another partition, or of another prefix.
TEST(OrderedTable, RangesOfOnePrefix) {
  TableBox texts(ordered_bytes(100, 7)), numbers(ordered_integers(100, 7));
  Random random(11);
  std::vector<std::string> keys;
  for (const char a : {'\0', 'a', 'b', '\xff'}) {
    keys.push_back({a});
    for (const char b : {'\0', 'z', '\xff'}) {
      keys.push_back({a, b});
      keys.push_back({a, b, '\0'});
    }
  }
  keys.emplace_back();
  std::sort(keys.begin(), keys.end());
  const auto partition = [](const Table& table, std::string_view key) { return table.hashed(as_bytes(key)).partition; };
  int shared = 0;
  for (size_t from = 0; from < keys.size(); ++from) {
    for (size_t to = from + 1; to < keys.size(); ++to) {
      if (!texts.table->share_prefix(as_bytes(keys[from]), as_bytes(keys[to]))) {
        EXPECT_TRUE(keys[from].empty() || keys[to][0] != keys[from][0]) << "they begin alike";
        continue;
      }
      ++shared;
      for (size_t k = from; k < to; ++k) {
        EXPECT_EQ(keys[k].substr(0, 1), keys[from].substr(0, 1));
        EXPECT_EQ(partition(*texts.table, keys[k]), partition(*texts.table, keys[from]));
      }
    }
  }
  EXPECT_GT(shared, 50);
  constexpr uint64_t kPrefix = uint64_t{1} << 48;  // the numbers of one
  for (int i = 0; i < 2000; ++i) {
    const uint64_t begin = random.below(9) * kPrefix;
    const uint64_t from = begin + random.below(3), to = begin + kPrefix - 1 + random.below(4);
    const std::string a = integer_key(from).bytes, b = integer_key(to).bytes;
    EXPECT_EQ(numbers.table->share_prefix(as_bytes(a), as_bytes(b)), to <= begin + kPrefix);
    EXPECT_LT(numbers.table->compare(as_bytes(a), as_bytes(b)), 0);
  }
}

}  // namespace
}  // namespace weft
