// What a table refuses, which limits it names, and how much memory a record takes.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "weft/base/random.h"
#include "weft/base/sanitized.h"
#include "weft/store/table_testing.h"

namespace weft {
namespace {

using testing::bytes_table;
using testing::get;
using testing::integer_table;
using testing::IntegerKey;
using testing::kAlice;
using testing::TableBox;
using testing::write;

TEST(TableLimits, FilledToItsCapacityNeverFails) {
  TableOptions options = integer_table(20000, 8);
  options.partitions = 5;
  options.partitions_held = 5;
  TableBox box(options);
  for (uint64_t i = 0; i < 20000; ++i) {
    const IntegerKey k(i);
    ASSERT_EQ(write(*box, box->hashed(k.bytes()), Write::kInsert, "12345678"), Code::kOk) << i;
  }
  EXPECT_EQ(box->records(), 20000U);
}

TEST(TableLimits, RecordsPerPartition) {
  TableBox box(integer_table(1000, 8));
  uint64_t admitted = 0;
  Code code = Code::kOk;
  for (; code == Code::kOk; ++admitted) {
    const IntegerKey k(admitted);
    code = write(*box, box->hashed(k.bytes()), Write::kPut, "v");
  }
  --admitted;
  EXPECT_EQ(code, Code::kTableFull);
  EXPECT_GE(admitted, 1000U);
  EXPECT_LE(admitted, 1400U);
  EXPECT_NE(box->limit_text(code).find(std::to_string(admitted) + " records"), std::string::npos)
      << box->limit_text(code);
  EXPECT_NE(box->limit_text(code).find("table t"), std::string::npos);
  EXPECT_EQ(box->records(), admitted);
  EXPECT_EQ(box->leak_report().locked, 0U);

  const IntegerKey known(0);
  EXPECT_EQ(write(*box, box->hashed(known.bytes()), Write::kPut, "w"), Code::kOk);
  EXPECT_EQ(write(*box, box->hashed(known.bytes()), Write::kErase), Code::kOk);
  const IntegerKey another(admitted + 7);
  EXPECT_EQ(write(*box, box->hashed(another.bytes()), Write::kInsert, "v"), Code::kOk);
}

TEST(TableLimits, BytesOfRecords) {
  TableOptions options = bytes_table(1000, 4096);
  options.spec.memory_bytes_max = 1 << 20;
  TableBox box(options);
  Code code = Code::kOk;
  int admitted = 0;
  for (; code == Code::kOk; ++admitted) {
    const std::string name = "key" + std::to_string(admitted);
    code = write(*box, box->hashed(as_bytes(name)), Write::kPut, std::string(4000, 'v'));
  }
  EXPECT_EQ(code, Code::kTableFull);
  EXPECT_LT(admitted, 300);
  EXPECT_GT(admitted, 100);
  EXPECT_LE(box->memory_bytes(), options.spec.memory_bytes_max);
  EXPECT_NE(box->limit_text(code).find("memory_bytes_max 1048576"), std::string::npos) << box->limit_text(code);

  // A value that outgrows its block is refused too, and the old one stays.
  const HashedKey first = box->hashed(as_bytes("key0"));
  EXPECT_EQ(write(*box, first, Write::kPut, "short"), Code::kOk);
  const std::string small = "another";
  EXPECT_EQ(write(*box, box->hashed(as_bytes(small)), Write::kPut, std::string(4000, 'v')), Code::kTableFull);
  EXPECT_EQ(get(*box, box->hashed(as_bytes(small))), "-");
  EXPECT_EQ(get(*box, first), "short");
  EXPECT_EQ(box->leak_report().locked, 0U);
}

// Sizes that drift through the classes: blocks never change their class, so the peaks add up, and the primary refuses
// before a backup, which cannot refuse, could run out.
TEST(TableLimits, ABackupHoldsWhatThePrimaryAdmits) {
  TableOptions options = integer_table(500, 2048);
  options.spec.memory_bytes_max = 1 << 20;
  TableBox primary(options);
  TableBox backup(options);
  Random random(3);
  std::vector<std::byte> undo(2048);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    const IntegerKey k(random.below(500));
    const std::string value(random.below(200) + static_cast<size_t>(i / 20 * 2 % 1800), 'v');
    const HashedKey key = primary->hashed(k.bytes());
    const LockResult r = primary->lock(key, kAlice, Write::kPut, std::nullopt, static_cast<uint32_t>(value.size()));
    if (r.code != Code::kOk) {
      ASSERT_EQ(r.code, Code::kTableFull);
      ++refused;
      continue;
    }
    const Version version(r.locked.base.value + 1);
    backup->apply(key, Write::kPut, as_bytes(value), version, undo.data());
    primary->commit(key, kAlice, Write::kPut, as_bytes(value), r.locked);
    backup->mark_readable(key, version);
  }
  EXPECT_GT(refused, 0);
}

TEST(TableLimits, BadSpecificationsNameTheLimit) {
  TableOptions options = integer_table(1000, kTableValueBytesMax + 1);
  auto region = std::move(*Region::create(2 << 20));
  auto too_long = Table::create(options, region.get());
  ASSERT_FALSE(too_long);
  EXPECT_NE(too_long.error().detail.find("16778241, at most 16778240"), std::string::npos) << too_long.error().detail;

  options = integer_table(1000000);
  options.spec.memory_bytes_max = 1 << 20;
  auto too_small = Table::create(options, region.get());
  ASSERT_FALSE(too_small);
  EXPECT_NE(too_small.error().detail.find("memory_bytes_max is 1048576"), std::string::npos)
      << too_small.error().detail;
}

// Integer hashes are a bijection, so keys can be computed for hashes of one bin.
constexpr uint64_t inverse(uint64_t odd) {
  uint64_t x = odd;
  for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
  return x;
}

constexpr uint64_t unmix64(uint64_t x) {
  x ^= x >> 32;
  x *= inverse(0xd6e8feb86659fd93U);
  x ^= x >> 32;
  x *= inverse(0xd6e8feb86659fd93U);
  x ^= x >> 32;
  return x;
}

TEST(TableLimits, ABinFullOfCollidingKeys) {
  const TableOptions options = integer_table(100000, 8);
  TableBox box(options);
  Code code = Code::kOk;
  uint64_t admitted = 0;
  for (; code == Code::kOk && admitted < 100; ++admitted) {
    const IntegerKey k(unmix64(0x1234000000000000U + admitted) ^ options.hash_seed);
    const HashedKey key = box->hashed(k.bytes());
    ASSERT_EQ(key.hash, 0x1234000000000000U + admitted);
    code = write(*box, key, Write::kInsert, "v");
  }
  EXPECT_EQ(code, Code::kBinFull);
  EXPECT_EQ(admitted, 16U);
  EXPECT_NE(box->limit_text(code).find("at most 15"), std::string::npos);
  EXPECT_EQ(box->records(), 15U);
  EXPECT_EQ(box->leak_report().locked, 0U);
}

// Values and keys of every size in one table: short ones in blocks that had long ones, and long ones that move.
TEST(TableLimits, TheLongestKeysAndValues) {
  for (const bool checksums : {true, false}) {
    TableOptions options = bytes_table(1000, kTableValueBytesMax);
    options.spec.memory_bytes_max = uint64_t{1} << 30;
    options.checksums = checksums;
    TableBox box(options);
    for (const size_t key_bytes : {size_t{1}, size_t{1900}, size_t{2047}, size_t{2048}, size_t{kKeyBytesMax}}) {
      const std::string name(key_bytes, 'k');
      for (const size_t bytes :
           {size_t{10}, size_t{2000}, size_t{70}, size_t{1} << 20, size_t{0}, kTableValueBytesMax, size_t{1}}) {
        const std::string value(bytes, static_cast<char>('a' + bytes % 26));
        const HashedKey key = box->hashed(as_bytes(name));
        ASSERT_EQ(write(*box, key, Write::kPut, value), Code::kOk);
        EXPECT_TRUE(get(*box, key) == value) << key_bytes << " " << bytes;
      }
    }
    EXPECT_EQ(box->records(), 5U);
    size_t visited = 0;
    box->visit(
        [](void* count, ByteView key, ByteView value, Word) {
          EXPECT_EQ(as_text(value), "b") << key.size();
          ++*static_cast<size_t*>(count);
        },
        &visited);
    EXPECT_EQ(visited, 5U);
    for (const size_t key_bytes : {size_t{1}, size_t{2048}, size_t{kKeyBytesMax}}) {
      const std::string name(key_bytes, 'k');
      EXPECT_EQ(write(*box, box->hashed(as_bytes(name)), Write::kErase), Code::kOk);
      EXPECT_EQ(get(*box, box->hashed(as_bytes(name))), "-");
    }
  }
}

TEST(TableLimits, AtMost96BytesARecord) {
  constexpr uint64_t kRecords = kSanitized ? 100'000 : 1'000'000;
  TableBox box(integer_table(kRecords, 8));
  for (uint64_t i = 0; i < kRecords; ++i) {
    const IntegerKey k(i);
    ASSERT_EQ(write(*box, box->hashed(k.bytes()), Write::kInsert, "12345678"), Code::kOk);
  }
  const double bytes = static_cast<double>(box->memory_bytes()) / static_cast<double>(kRecords);
  std::printf("%.1f bytes a record of 8 B/8 B at %lu records\n", bytes, static_cast<unsigned long>(kRecords));
  EXPECT_LE(bytes, 96.0);
}

TEST(TableExtents, ComeZeroedAndJoin) {
  auto region = std::move(*Region::create(4 << 20));
  IndexExtents extents(region.get(), 4096, 1 << 20);
  std::byte* const a = extents.allocate(5000);
  std::byte* const b = extents.allocate(100000);
  std::byte* const c = extents.allocate(4096);
  ASSERT_TRUE(a != nullptr && b != nullptr && c != nullptr);
  EXPECT_EQ(extents.used(), 8192U + 102400U + 4096U);
  std::memset(b, 0xff, 100000);
  extents.free(b, 100000);
  extents.free(a, 5000);
  std::byte* const d = extents.allocate(110000);
  EXPECT_EQ(d, a);
  for (size_t i = 0; i < 110000; i += 8) ASSERT_EQ(load<uint64_t>(d + i), 0U);
  EXPECT_EQ(extents.allocate(2 << 20), nullptr);
}

}  // namespace
}  // namespace weft
