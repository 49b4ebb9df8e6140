#include "weft/store/raw_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/random.h"

namespace weft {
namespace {

std::string text(const std::vector<std::byte>& bytes) { return std::string(as_text(bytes)); }

TEST(RawTableTest, UnmixIsTheInverse) {
  Random random(1);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t key = random.next();
    EXPECT_EQ(RawTable::unmix64(mix64(key)), key);
  }
}

TEST(RawTableTest, GrowsAndKeepsAllKeys) {
  auto table = std::move(*RawTable::create({.capacity = 10, .hash_seed = 77}));
  constexpr uint64_t kKeys = 100'000;
  for (uint64_t key = 0; key < kKeys; ++key) {
    const Result<bool> inserted = table->insert(key, key * 3);
    ASSERT_TRUE(inserted && *inserted);
    if (key % 100 == 0) table->quiesce(0);
  }
  EXPECT_FALSE(*table->insert(5, 1));
  EXPECT_EQ(table->size(), kKeys);
  std::vector<bool> seen(kKeys);
  uint64_t cursor = 0;
  do {
    cursor = table->scan(cursor, [&](uint64_t key, uint64_t value) {
      ASSERT_LT(key, kKeys);
      EXPECT_EQ(value, key * 3);
      EXPECT_FALSE(seen[key]);
      seen[key] = true;
    });
  } while (cursor != 0);
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), static_cast<int64_t>(kKeys));
  while (table->index().help_resize(10000)) {
  }
  table->quiesce(0);
  EXPECT_EQ(table->memory_bytes(), table->index().stats().bytes) << "old indexes are freed";
}

TEST(RawTableTest, Batch) {
  auto table = std::move(*RawTable::create({.capacity = 1000}));
  std::vector<DlhtRequest> requests;
  for (uint64_t key = 0; key < 200; ++key) {
    requests.push_back({.op = DlhtOp::kInsert, .key = key, .hash = 0, .value = key + 1});
    requests.push_back({.op = DlhtOp::kPut, .key = key, .hash = 0, .value = key + 2});
    requests.push_back({.op = DlhtOp::kGet, .key = key, .hash = 0, .value = 0});
    requests.push_back({.op = DlhtOp::kErase, .key = key, .hash = 0, .value = 0});
    requests.push_back({.op = DlhtOp::kGet, .key = key, .hash = 0, .value = 0});
  }
  table->run(requests);
  for (size_t i = 0; i < requests.size(); i += 5) {
    EXPECT_TRUE(requests[i].ok && requests[i + 1].ok && requests[i + 2].ok && requests[i + 3].ok);
    EXPECT_EQ(requests[i + 2].value, requests[i].key + 2);
    EXPECT_EQ(requests[i + 3].value, requests[i].key + 2);
    EXPECT_FALSE(requests[i + 4].ok);
  }
}

TEST(RawTableTest, TheMemoryLimitIsNamedAndNothingIsLost) {
  constexpr uint64_t kLimit = 20'000;
  auto table = std::move(*RawTable::create({.capacity = 10, .memory_bytes_max = kLimit}));
  uint64_t inserted = 0;
  std::string error;
  for (; error.empty(); ++inserted) {
    const Result<bool> result = table->insert(inserted, inserted);
    if (!result) {
      EXPECT_EQ(result.error().code, Code::kNoMemory);
      error = result.error().detail;
    }
  }
  --inserted;
  EXPECT_NE(error.find("20000 bytes"), std::string::npos) << error;
  EXPECT_LE(table->memory_bytes(), kLimit);
  for (uint64_t key = 0; key < inserted; ++key) {
    uint64_t value;
    ASSERT_TRUE(table->get(key, &value));
    ASSERT_EQ(value, key);
  }
  EXPECT_EQ(table->size(), inserted);
}

TEST(ByteTableTest, KeysAndValuesOfAllSizes) {
  auto table = std::move(*ByteTable::create({.capacity = 10}));
  std::map<std::string, std::string> twin;
  Random random(4);
  for (int i = 0; i < 20000; ++i) {
    // Short, 8-byte and long keys; values from empty to the limit, mostly short.
    const std::string key(random.chance(50) ? 8 : random.below(40), static_cast<char>('a' + random.below(26)));
    const std::string value(random.chance(1) ? random.below((64 << 10) + 1) : random.below(30),
                            static_cast<char>('A' + random.below(26)));
    switch (random.below(4)) {
      case 0: {
        const Result<bool> fresh = table->put(0, as_bytes(key), as_bytes(value));
        ASSERT_TRUE(fresh);
        EXPECT_EQ(*fresh, !twin.contains(key));
        twin[key] = value;
        break;
      }
      case 1: {
        const Result<bool> fresh = table->insert(as_bytes(key), as_bytes(value));
        ASSERT_TRUE(fresh);
        EXPECT_EQ(*fresh, twin.emplace(key, value).second);
        break;
      }
      case 2:
        EXPECT_EQ(table->erase(0, as_bytes(key)), twin.erase(key) == 1);
        break;
      default: {
        std::vector<std::byte> got;
        ASSERT_EQ(table->get(as_bytes(key), &got), twin.contains(key));
        if (twin.contains(key)) {
          ASSERT_EQ(text(got), twin[key]);
        }
      }
    }
    if (i % 10 == 0) table->quiesce(0);
  }
  std::map<std::string, std::string> seen;
  uint64_t cursor = 0;
  do {
    cursor = table->scan(cursor, [&](ByteView k, ByteView v) { seen.emplace(as_text(k), as_text(v)); });
  } while (cursor != 0);
  EXPECT_EQ(seen, twin);
}

TEST(ByteTableTest, LimitsAreNamed) {
  auto table = std::move(*ByteTable::create({.capacity = 10, .memory_bytes_max = 100'000}));
  const std::string long_key(2048, 'k');
  const std::string long_value((64 << 10) + 1, 'v');
  const auto key_error = table->put(0, as_bytes(long_key), as_bytes("v"));
  ASSERT_FALSE(key_error);
  EXPECT_EQ(key_error.error().code, Code::kKeyTooLong);
  EXPECT_EQ(key_error.error().detail, "a key of 2048 bytes: the limit is 2047 bytes");
  const auto value_error = table->put(0, as_bytes("k"), as_bytes(long_value));
  ASSERT_FALSE(value_error);
  EXPECT_EQ(value_error.error().code, Code::kValueTooLong);
  EXPECT_EQ(value_error.error().detail, "a value of 65537 bytes: the limit is 65536 bytes");

  const std::string large(60 << 10, 'v');
  ASSERT_TRUE(table->put(0, as_bytes("first"), as_bytes(large)));
  const auto full = table->put(0, as_bytes("second"), as_bytes(large));
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::kNoMemory);
  EXPECT_NE(full.error().detail.find("limit of 100000 bytes"), std::string::npos) << full.error().detail;
  std::vector<std::byte> got;
  EXPECT_TRUE(table->get(as_bytes("first"), &got));
  EXPECT_FALSE(table->get(as_bytes("second"), &got));
  EXPECT_TRUE(table->erase(0, as_bytes("first")));
  table->quiesce(0);
  table->quiesce(0);
  EXPECT_TRUE(table->put(0, as_bytes("second"), as_bytes(large))) << "its memory is back";
}

// Readers copy values out while others replace and erase them; AddressSanitizer would report freed entries, and the
// pattern shows torn or foreign ones.
TEST(ByteTableTest, ConcurrentReadersSeeWholeValues) {
  constexpr int kWriters = 2;
  constexpr int kReaders = 2;
  auto table = std::move(*ByteTable::create({.capacity = 10, .readers = kWriters + kReaders}));
  std::atomic<int> writing{kWriters};
  std::vector<std::thread> threads;
  for (int w = 0; w < kWriters; ++w) {
    threads.emplace_back([&, w] {
      Random random(static_cast<uint64_t>(w) + 1);
      for (int i = 0; i < 20000; ++i) {
        const std::string key = "key" + std::to_string(random.below(i < 10000 ? 20 : 3000));
        const std::string value(1 + random.below(100), static_cast<char>(key.back()));
        if (random.chance(30)) {
          table->erase(w, as_bytes(key));
        } else {
          ASSERT_TRUE(table->put(w, as_bytes(key), as_bytes(value)));
        }
        if (i % 16 == 0) table->quiesce(w);
      }
      table->offline(w);
      writing.fetch_sub(1);
    });
  }
  for (int r = kWriters; r < kWriters + kReaders; ++r) {
    threads.emplace_back([&, r] {
      Random random(static_cast<uint64_t>(r) + 1);
      std::vector<std::byte> got;
      while (writing.load() > 0) {
        const std::string key = "key" + std::to_string(random.below(20));
        if (table->get(as_bytes(key), &got)) {
          ASSERT_EQ(text(got), std::string(got.size(), key.back()));
        }
        table->quiesce(r);
      }
      table->offline(r);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace weft
