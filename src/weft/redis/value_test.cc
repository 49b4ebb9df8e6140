#include "weft/redis/value.h"

#include <gtest/gtest.h>

#include <string>

#include "weft/base/random.h"

namespace weft {
namespace {

TEST(StoredValue, ComesBackAsItWasStored) {
  std::string stored = "what was there before";
  for (const ValueType type : {ValueType::kString, ValueType::kList, ValueType::kStream}) {
    for (const int64_t deadline_ms : {kNoDeadline, int64_t{1}, int64_t{1'800'000'000'000}, INT64_MAX}) {
      for (const std::string& bytes : {std::string(), std::string("a"), std::string(300, '\0')}) {
        store_value(stored, type, deadline_ms, bytes);
        EXPECT_EQ(stored.size(), bytes.size() + (deadline_ms == kNoDeadline ? 1 : kValueHeaderBytesMax));
        const StoredValue value = parse_value(stored);
        EXPECT_EQ(value.type, type);
        EXPECT_EQ(value.deadline_ms, deadline_ms);
        EXPECT_EQ(value.bytes, bytes);
      }
    }
  }
}

TEST(StoredValue, WhatIsNoneHasNoType) {
  EXPECT_EQ(parse_value("").type, ValueType::kUnknown);
  EXPECT_EQ(parse_value("\x06").type, ValueType::kUnknown);
  EXPECT_EQ(parse_value("\x20").type, ValueType::kUnknown);
  EXPECT_EQ(parse_value("\x10short").type, ValueType::kUnknown);
  EXPECT_EQ(parse_value(std::string("\x10\0\0\0\0\0\0\0\0", 9)).type, ValueType::kUnknown);
  EXPECT_EQ(parse_value(std::string("\x10\1\0\0\0\0\0\0\x80", 9)).type, ValueType::kUnknown);
}

TEST(StoredValue, AnyBytesAreReadOrRefused) {
  Random random(1);
  for (int i = 0; i < 10'000; ++i) {
    std::string stored(random.below(20), '\0');
    for (char& c : stored) c = static_cast<char>(random.below(40));
    const StoredValue value = parse_value(stored);
    if (value.type == ValueType::kUnknown) continue;
    std::string again;
    store_value(again, value.type, value.deadline_ms, value.bytes);
    EXPECT_EQ(again, stored);
  }
}

}  // namespace
}  // namespace weft
