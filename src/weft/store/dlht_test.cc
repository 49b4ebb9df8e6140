#include "weft/store/dlht.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <vector>

#include "weft/base/hash.h"
#include "weft/base/random.h"
#include "weft/store/dlht_testing.h"

namespace weft {
namespace {

using dlht::Index;

TEST(DlhtIndexTest, BinsAreInHashOrderForAnyNumberOfThem) {
  Random random(1);
  for (const uint64_t bins : {64U, 65U, 100U, 127U, 1000U, 4099U}) {
    TestMemory memory;
    std::byte* const bytes = memory.allocate(Index::bytes_for(bins));
    const Index index(bytes, bins, 0);
    for (uint64_t b = 0; b < bins; ++b) {
      const uint64_t first = index.first_hash(b);
      ASSERT_EQ(index.number_of(first), b);
      if (b > 0) {
        ASSERT_EQ(index.number_of(first - 1), b - 1);
      }
    }
    EXPECT_EQ(index.first_hash(bins), 0U);
    for (int i = 0; i < 10000; ++i) {
      const uint64_t hash = random.next();
      const uint64_t b = index.number_of(hash);
      ASSERT_EQ(index.hash_of(index.first_hash(b), index.low(hash) | index.next_tag(random.next())), hash);
      // The bins of a larger index are parts of this one's.
      __extension__ using Wide = unsigned __int128;
      ASSERT_EQ(static_cast<uint64_t>((static_cast<Wide>(hash) * (bins * 8)) >> 64) / 8, b);
    }
    memory.free(bytes, Index::bytes_for(bins));
  }
}

TEST(DlhtIndexTest, TagsNeverTouchTheRestOfTheWord) {
  TestMemory memory;
  std::byte* const bytes = memory.allocate(Index::bytes_for(64));
  const Index index(bytes, 64, 0);
  std::set<uint64_t> tags;
  uint64_t word = 0;
  for (int i = 0; i < 1 << index.tag_bits(); ++i) {
    word = index.next_tag(word | (i % 2 == 0 ? dlht::kDead : dlht::kFrozen)) | index.low(~uint64_t{0});
    EXPECT_EQ(word & (dlht::kDead | dlht::kFrozen), 0U);
    tags.insert(word);
  }
  EXPECT_EQ(tags.size(), size_t{1} << index.tag_bits());
  memory.free(bytes, Index::bytes_for(64));
}

TEST(DlhtIndexTest, LinksComeBackAndPairsCanBeSplit) {
  TestMemory memory;
  std::byte* const bytes = memory.allocate(Index::bytes_for(64));
  Index index(bytes, 64, 0);
  ASSERT_EQ(index.link_count(), 32U);
  std::set<uint32_t> pairs;
  while (const uint32_t pair = index.take_pair()) pairs.insert(pair);
  EXPECT_EQ(pairs.size(), 16U);
  EXPECT_EQ(index.links_used(), 32U);
  EXPECT_EQ(index.take_single(), 0U);
  for (const uint32_t pair : pairs) index.give_pair(pair);
  EXPECT_EQ(index.links_used(), 0U);
  std::set<uint32_t> singles;
  while (const uint32_t single = index.take_single()) EXPECT_TRUE(singles.insert(single).second);
  EXPECT_EQ(singles.size(), 32U);
  EXPECT_EQ(*singles.begin(), 1U);
  EXPECT_EQ(*singles.rbegin(), 32U);
  memory.free(bytes, Index::bytes_for(64));
}

TEST(DlhtTest, FourOperations) {
  TestMemory memory;
  auto table = make_dlht(&memory, 100);
  uint64_t value = 0;
  const uint64_t hash = hash_u64(7, 1);
  EXPECT_FALSE(table->get(hash, MatchAny(), &value));
  EXPECT_FALSE(table->put(hash, MatchAny(), 1, &value));
  EXPECT_FALSE(table->erase(hash, MatchAny(), &value));
  EXPECT_EQ(table->insert(hash, MatchAny(), 10).code, InsertCode::kInserted);
  const InsertResult again = table->insert(hash, MatchAny(), 11);
  EXPECT_EQ(again.code, InsertCode::kExists);
  EXPECT_EQ(again.value, 10U);
  EXPECT_TRUE(table->put(hash, MatchAny(), 12, &value));
  EXPECT_EQ(value, 10U);
  EXPECT_FALSE(table->compare_put(hash, 10, 13));
  EXPECT_TRUE(table->compare_put(hash, 12, 13));
  EXPECT_EQ(table->size(), 1U);
  EXPECT_TRUE(table->erase(hash, MatchAny(), &value));
  EXPECT_EQ(value, 13U);
  EXPECT_FALSE(table->get(hash, MatchAny(), &value));
  EXPECT_EQ(table->size(), 0U);
}

TEST(DlhtTest, ExtremeHashesAndValues) {
  TestMemory memory;
  auto table = make_dlht(&memory, 100);
  for (const uint64_t hash : {uint64_t{0}, ~uint64_t{0}, uint64_t{1} << 63, uint64_t{1} << 62, uint64_t{1}}) {
    for (const uint64_t value : {uint64_t{0}, ~uint64_t{0}}) {
      uint64_t got = 1;
      EXPECT_FALSE(table->get(hash, MatchAny(), &got));
      EXPECT_EQ(table->insert(hash, MatchAny(), value).code, InsertCode::kInserted);
      EXPECT_TRUE(table->get(hash, MatchAny(), &got));
      EXPECT_EQ(got, value);
      EXPECT_TRUE(table->erase(hash, MatchAny(), &got));
    }
  }
}

TEST(DlhtTest, MatchTellsKeysOfOneHashApart) {
  TestMemory memory;
  auto table = make_dlht(&memory, 100);
  const auto is = [](uint64_t key) { return [key](uint64_t value) { return value / 100 == key; }; };
  for (uint64_t key = 0; key < 10; ++key) {
    EXPECT_EQ(table->insert(5, is(key), key * 100).code, InsertCode::kInserted);
  }
  EXPECT_EQ(table->insert(5, is(3), 301).code, InsertCode::kExists);
  uint64_t value;
  EXPECT_TRUE(table->put(5, is(9), 950, &value));
  EXPECT_EQ(value, 900U);
  EXPECT_TRUE(table->erase(5, is(8), &value));
  EXPECT_EQ(value, 800U);
  EXPECT_FALSE(table->get(5, is(8), &value));
  EXPECT_TRUE(table->get(5, is(9), &value));
  EXPECT_EQ(value, 950U);
}

TEST(DlhtTest, AFullBinUnderHalfLoadIsAnErrorAndNeverAResize) {
  TestMemory memory;
  auto table = make_dlht(&memory, 96);
  for (uint64_t i = 0; i < 15; ++i) {
    EXPECT_EQ(table->insert(colliding(3, i), MatchAny(), i).code, InsertCode::kInserted);
  }
  EXPECT_EQ(table->insert(colliding(3, 15), MatchAny(), 15).code, InsertCode::kBinFull);
  EXPECT_EQ(table->insert(colliding(3, 14), MatchAny(), 15).code, InsertCode::kExists);
  EXPECT_EQ(table->stats().resizes, 0U);
  EXPECT_EQ(contents(*table).size(), 15U);
  uint64_t old;
  EXPECT_TRUE(table->erase(colliding(3, 4), MatchAny(), &old));
  EXPECT_EQ(table->insert(colliding(3, 15), MatchAny(), 15).code, InsertCode::kInserted) << "a slot is free at once";
}

TEST(DlhtTest, AFullBinOverHalfLoadResizesOnce) {
  TestMemory memory;
  auto table = make_dlht(&memory, 96);
  for (uint64_t i = 0; i < 60; ++i) {
    ASSERT_EQ(table->insert(colliding(4 + i, 0), MatchAny(), i).code, InsertCode::kInserted);
  }
  InsertCode code = InsertCode::kInserted;
  uint64_t inserted = 0;
  for (; code == InsertCode::kInserted && inserted < 100; ++inserted) {
    code = table->insert(colliding(3, inserted), MatchAny(), inserted).code;
  }
  EXPECT_EQ(code, InsertCode::kBinFull);
  EXPECT_EQ(inserted, 16U);
  while (table->help_resize(1000)) table->quiesce(0);
  EXPECT_EQ(table->stats().resizes, 1U);
  EXPECT_EQ(table->stats().bins, 512U);
  EXPECT_EQ(contents(*table).size(), 75U);
}

TEST(DlhtTest, MemoryLimitRefusesAndLosesNothing) {
  TestMemory memory(Dlht::bytes_for(96) + 1000);
  auto table = make_dlht(&memory, 96);
  std::map<uint64_t, uint64_t> twin;
  InsertCode code = InsertCode::kInserted;
  for (uint64_t key = 0; code == InsertCode::kInserted; ++key) {
    const uint64_t hash = hash_u64(key, 5);
    code = table->insert(hash, MatchAny(), key).code;
    if (code == InsertCode::kInserted) twin.emplace(hash, key);
  }
  EXPECT_EQ(code, InsertCode::kNoMemory);
  EXPECT_GE(twin.size(), 96U) << "created for 96 keys";
  EXPECT_EQ(contents(*table), twin);

  TestMemory small(1000);
  const auto none = Dlht::create({.capacity = 96}, &small);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kNoMemory);
  EXPECT_NE(none.error().detail.find("the limit is 1000"), std::string::npos) << none.error().detail;
}

TEST(DlhtTest, OptionsAreChecked) {
  TestMemory memory;
  EXPECT_EQ(Dlht::create({.capacity = ~uint64_t{0}}, &memory).error().code, Code::kBadOption);
  EXPECT_EQ(Dlht::create({.capacity = 10, .readers = 0}, &memory).error().code, Code::kBadOption);
}

TEST(DlhtTest, NotResizableSaysSo) {
  TestMemory memory;
  auto table = make_dlht(&memory, 96, false);
  InsertCode code = InsertCode::kInserted;
  for (uint64_t key = 0; code == InsertCode::kInserted; ++key) code = table->insert(mix64(key), MatchAny(), key).code;
  EXPECT_EQ(code, InsertCode::kNoMemory);
  EXPECT_EQ(table->stats().resizes, 0U);
}

TEST(DlhtTest, CreatedForItsKeysItHoldsThemInFewBytes) {
  for (const uint64_t keys : {96U, 1000U, 30000U, 1000000U}) {
    TestMemory memory;
    auto table = make_dlht(&memory, keys);
    for (uint64_t key = 0; key < keys; ++key) {
      ASSERT_EQ(table->insert(hash_u64(key, 9), MatchAny(), key).code, InsertCode::kInserted);
    }
    const DlhtStats stats = table->stats();
    EXPECT_EQ(stats.resizes, 0U) << keys;
    EXPECT_EQ(stats.size, keys);
    EXPECT_LT(stats.links_used, stats.links);
    if (keys >= 30000) {
      EXPECT_LE(stats.bytes, keys * 52);
    }
  }
}

TEST(DlhtTest, ChurnGivesLinksBack) {
  TestMemory memory;
  constexpr size_t kKeys = 20000;
  auto table = make_dlht(&memory, kKeys);
  Random random(3);
  std::vector<uint64_t> present;
  for (int step = 0; step < 1000000; ++step) {
    if (present.size() < kKeys) {
      const uint64_t hash = random.next();
      ASSERT_EQ(table->insert(hash, MatchAny(), hash).code, InsertCode::kInserted);
      present.push_back(hash);
      continue;
    }
    std::swap(present[random.below(present.size())], present.back());
    uint64_t old;
    ASSERT_TRUE(table->erase(present.back(), MatchAny(), &old));
    ASSERT_EQ(old, present.back());
    present.pop_back();
  }
  EXPECT_EQ(table->stats().resizes, 0U) << "every bin has had more than three keys by now";
  for (const uint64_t hash : present) {
    uint64_t old;
    ASSERT_TRUE(table->erase(hash, MatchAny(), &old));
  }
  EXPECT_EQ(table->stats().links_used, 0U);
  EXPECT_EQ(table->size(), 0U);
}

}  // namespace
}  // namespace weft
