#include "weft/redis/deadlines.h"

#include <gtest/gtest.h>

#include <map>

#include "weft/base/random.h"

namespace weft {
namespace {

constexpr int64_t kBaseMs = 1'800'000'000'000;

size_t first_due(Deadlines& deadlines, int64_t now_ms) {
  deadlines.begin_round();
  return deadlines.next_due(0, deadlines.cells(), now_ms);
}

TEST(Deadlines, ACellIsDueWhenItsEarliestKeyIs) {
  Deadlines deadlines(10'000, kBaseMs);
  const size_t none = deadlines.cells();
  EXPECT_FALSE(deadlines.due(INT64_MAX - 1));
  EXPECT_EQ(first_due(deadlines, kBaseMs * 2), none);
  const uint64_t hash = 0xfedcba9876543210U;
  deadlines.note(hash, kBaseMs + 5000);
  deadlines.note(hash + 1, kBaseMs + 3000);
  deadlines.note(hash + 2, kBaseMs + 9000);
  EXPECT_FALSE(deadlines.due(kBaseMs + 2999));
  EXPECT_EQ(first_due(deadlines, kBaseMs + 2999), none);
  const int64_t then = kBaseMs + 3000 + Deadlines::kStepMs;
  EXPECT_TRUE(deadlines.due(then));
  const size_t cell = first_due(deadlines, then);
  ASSERT_LT(cell, none);
  EXPECT_LE(deadlines.hashes(cell).first, hash);
  EXPECT_GE(deadlines.hashes(cell).last, hash);
  // A noted write may not be committed yet: the cell is examined again before the next of its keys is due.
  deadlines.examined(cell, kBaseMs + 5000, then);
  EXPECT_EQ(first_due(deadlines, then + Deadlines::kSettleMs - 1), none);
  EXPECT_EQ(first_due(deadlines, then + Deadlines::kSettleMs + Deadlines::kStepMs), cell);
  deadlines.examined(cell, kBaseMs + 5000, then + Deadlines::kSettleMs);
  EXPECT_EQ(first_due(deadlines, kBaseMs + 4999), none);
  EXPECT_EQ(first_due(deadlines, kBaseMs + 5000 + Deadlines::kStepMs), cell);
  // Nothing was noted since: the records are authoritative.
  deadlines.examined(cell, INT64_MAX, kBaseMs + 6000);
  EXPECT_EQ(first_due(deadlines, kBaseMs * 2), none);
  EXPECT_FALSE(deadlines.due(kBaseMs * 2));
}

TEST(Deadlines, AnyDeadlineIsTaken) {
  Deadlines deadlines(1, kBaseMs);
  deadlines.note(0, 1);  // before the base: at once
  EXPECT_TRUE(deadlines.due(kBaseMs));
  EXPECT_EQ(first_due(deadlines, kBaseMs), 0U);
  deadlines.note(UINT64_MAX, INT64_MAX);  // as far as there is
  EXPECT_EQ(deadlines.hashes(deadlines.cells() - 1).last, UINT64_MAX);
  EXPECT_EQ(deadlines.next_due(1, deadlines.cells(), kBaseMs + 1'000'000'000), deadlines.cells());
}

// Against a map of keys: no key stays due for longer than a step and a round, whatever else is noted meanwhile.
TEST(Deadlines, NobodyIsForgotten) {
  Random random(7);
  Deadlines deadlines(2000, kBaseMs);
  std::map<uint64_t, int64_t> keys;  // by hash: the deadline
  int64_t now_ms = kBaseMs;
  for (int round = 0; round < 2000; ++round, now_ms += 100) {
    for (int i = 0; i < 5; ++i) {
      const uint64_t hash = random.below(UINT64_MAX);
      const int64_t deadline_ms = now_ms + static_cast<int64_t>(random.below(20'000)) + 1;
      keys[hash] = deadline_ms;
      deadlines.note(hash, deadline_ms);
    }
    if (!deadlines.due(now_ms)) continue;
    deadlines.begin_round();
    size_t cell = deadlines.next_due(0, deadlines.cells(), now_ms);
    while (cell < deadlines.cells()) {
      const auto [first, last] = deadlines.hashes(cell);
      int64_t earliest_ms = INT64_MAX;
      for (auto at = keys.lower_bound(first); at != keys.end() && at->first <= last;) {
        if (at->second <= now_ms) {
          at = keys.erase(at);
        } else {
          earliest_ms = std::min(earliest_ms, at->second);
          ++at;
        }
      }
      deadlines.examined(cell, earliest_ms, now_ms);
      cell = deadlines.next_due(cell + 1, deadlines.cells(), now_ms);
    }
    for (const auto& [hash, deadline_ms] : keys) ASSERT_GT(deadline_ms, now_ms - Deadlines::kStepMs) << hash;
  }
}

TEST(Deadlines, KeysElsewhereAreRememberedIfTheyAreFew) {
  Deadlines deadlines(1000, kBaseMs);
  deadlines.note_far("late", kBaseMs + Deadlines::kFarMs + 1, kBaseMs);
  deadlines.note_far("b", kBaseMs + 200, kBaseMs);
  deadlines.note_far("a", kBaseMs + 100, kBaseMs);
  EXPECT_TRUE(deadlines.take_far(kBaseMs + 99, 10).empty());
  EXPECT_EQ(deadlines.take_far(kBaseMs + 300, 1), std::vector<std::string>{"a"});
  EXPECT_EQ(deadlines.take_far(kBaseMs + 300, 10), std::vector<std::string>{"b"});
  for (size_t i = 0; i < Deadlines::kFarMax + 10; ++i) deadlines.note_far("k", kBaseMs, kBaseMs);
  EXPECT_EQ(deadlines.take_far(kBaseMs, SIZE_MAX).size(), Deadlines::kFarMax);
}

}  // namespace
}  // namespace weft
