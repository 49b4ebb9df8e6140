#include "weft/txn/outcomes.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "weft/base/random.h"

namespace weft {
namespace {

using Known = OutcomeLog::Known;
constexpr uint64_t kChunk = OutcomeLog::kChunkSequences;
constexpr uint64_t kSecond = 1'000'000'000;

TEST(OutcomeLog, KnowsWhatWasNotedAndNothingElse) {
  OutcomeLog log(1 << 20);
  log.note(1, 5, true, 1);
  log.note(1, 6, false, 1);
  log.note(2, 5, false, 1);
  EXPECT_EQ(log.find(1, 5), Known::kCommitted);
  EXPECT_EQ(log.find(1, 6), Known::kAborted);
  EXPECT_EQ(log.find(2, 5), Known::kAborted);
  EXPECT_EQ(log.find(1, 7), Known::kNothing);
  EXPECT_EQ(log.find(2, 6), Known::kNothing);
  EXPECT_EQ(log.find(3, 5), Known::kNothing);
  EXPECT_EQ(log.find(1, 5 + kChunk), Known::kNothing);
  // The low half of the sequence is the same.
  EXPECT_EQ(log.find(1, 5 + (uint64_t{1} << 32)), Known::kNothing);
}

TEST(OutcomeLog, NobodyHasIncarnationZero) {
  OutcomeLog log(1 << 20);
  log.note(0, 1, true, 1);
  log.note(0, kChunk + 1, true, 1);
  EXPECT_EQ(log.find(0, 1), Known::kNothing);
  EXPECT_EQ(log.find(0, kChunk + 1), Known::kNothing);
  EXPECT_EQ(log.chunks(), 0U);
}

// Q1
TEST(OutcomeLog, AContradictionIsCountedAndNotTaken) {
  OutcomeLog log(1 << 20);
  log.note(1, 5, true, 1);
  log.note(1, 5, true, 2);
  EXPECT_EQ(log.contradictions(), 0U);
  log.note(1, 5, false, 3);
  EXPECT_EQ(log.contradictions(), 1U);
  EXPECT_EQ(log.find(1, 5), Known::kCommitted);
}

// Q2
TEST(OutcomeLog, WhatIsOldEnoughIsUsedAgainBeforeNewMemory) {
  OutcomeLog log(1 << 20);
  log.note(1, 5, true, 1 * kSecond);
  log.note(1, kChunk, true, 2 * kSecond);
  EXPECT_EQ(log.chunks(), 2U);
  log.note(1, 2 * kChunk, true, 60 * kSecond);
  EXPECT_EQ(log.chunks(), 3U);
  EXPECT_EQ(log.find(1, 5), Known::kCommitted);
  log.note(1, 3 * kChunk, true, 62 * kSecond);
  EXPECT_EQ(log.chunks(), 3U);
  EXPECT_EQ(log.find(1, 5), Known::kNothing);
  EXPECT_EQ(log.find(1, 3 * kChunk + 5), Known::kNothing);
  EXPECT_EQ(log.find(1, kChunk), Known::kCommitted);
}

// Q2: a coordinator with few transactions does not lose them to one with many.
TEST(OutcomeLog, WhenFullTheOneUntouchedLongestGoes) {
  OutcomeLog log(8 * OutcomeLog::kChunkBytes);
  ASSERT_EQ(log.chunks_max(), 8U);
  for (uint64_t i = 0; i < 100; ++i) {
    log.note(1, i, true, i);
    log.note(2, i * kChunk, true, i);
  }
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(log.find(1, i), Known::kCommitted);
  for (uint64_t i = 0; i < 93; ++i) EXPECT_EQ(log.find(2, i * kChunk), Known::kNothing) << i;
  for (uint64_t i = 93; i < 100; ++i) EXPECT_EQ(log.find(2, i * kChunk), Known::kCommitted) << i;
}

// Against a map: never a wrong answer, and nothing of the last minute missing while there is room.
TEST(OutcomeLog, AgreesWithAMap) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Random random(seed);
    const bool roomy = random.chance(50);
    OutcomeLog log((roomy ? 256 : 5) * OutcomeLog::kChunkBytes, 1000);
    std::map<std::pair<uint32_t, uint64_t>, std::pair<bool, uint64_t>> twin;
    uint64_t now_ns = 1;
    for (int i = 0; i < 10'000; ++i) {
      now_ns += random.below(3);
      const auto incarnation = static_cast<uint32_t>(random.between(1, 5));
      // Mostly going up, with stragglers, as transactions end.
      const uint64_t sequence = i * 4 + random.below(random.chance(1) ? 5 * kChunk : 64);
      if (random.chance(70)) {
        const auto at = twin.try_emplace({incarnation, sequence}, random.chance(50), now_ns).first;
        at->second.second = now_ns;
        log.note(incarnation, sequence, at->second.first, now_ns);
      }
      const Known known = log.find(incarnation, sequence);
      const auto at = twin.find({incarnation, sequence});
      if (at == twin.end()) {
        ASSERT_EQ(known, Known::kNothing);
      } else if (known != Known::kNothing) {
        ASSERT_EQ(known, at->second.first ? Known::kCommitted : Known::kAborted);
      } else {
        ASSERT_TRUE(!roomy || now_ns - at->second.second > 1000);
      }
    }
    EXPECT_EQ(log.contradictions(), 0U);
    EXPECT_LE(log.chunks(), log.chunks_max());
  }
}

}  // namespace
}  // namespace weft
