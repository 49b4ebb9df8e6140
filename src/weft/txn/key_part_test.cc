// A key as messages carry it: what is written is what is parsed, and bytes that have no key in them give none.
#include "weft/txn/key_part.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "weft/fabric/region.h"

namespace weft {
namespace {

KeyPart key_part_test_part(size_t key_bytes, size_t value_bytes, uint8_t flags) {
  KeyPart part{};
  part.version = 0x123456789a;
  part.key_bytes = static_cast<uint32_t>(key_bytes);
  part.value_bytes = static_cast<uint32_t>(value_bytes);
  part.table = 3;
  part.write = static_cast<uint8_t>(Write::kInsert);
  part.index = 250;
  part.flags = flags;
  part.predecessor_delta = 77;
  return part;
}

// One that has a short head, if its flags and sizes allow it.
KeyPart key_part_test_small(size_t key_bytes, size_t value_bytes, uint8_t flags) {
  KeyPart part = key_part_test_part(key_bytes, value_bytes, flags);
  part.index = 11;
  part.predecessor_delta = 0;
  return part;
}

void expect_same_part(const KeyPart& got, const KeyPart& part) {
  EXPECT_EQ(got.version, part.version);
  EXPECT_EQ(got.key_bytes, part.key_bytes);
  EXPECT_EQ(got.value_bytes, part.value_bytes);
  EXPECT_EQ(got.table, part.table);
  EXPECT_EQ(got.index, part.index);
  EXPECT_EQ(got.write, part.write);
  EXPECT_EQ(got.flags, part.flags);
  EXPECT_EQ(got.predecessor_delta, part.predecessor_delta);
}

std::string key_part_test_text(size_t bytes, char first) {
  std::string out(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(first + static_cast<int>(i % 20));
  return out;
}

// Both ways of writing it give the same key; `head`: the bytes before the key.
void expect_round_trip(const KeyPart& part, size_t head) {
  const std::string key = key_part_test_text(padded(part.key_bytes), 'a');
  const std::string value = key_part_test_text(padded(part.value_bytes), 'A');
  const size_t value_bytes = (part.flags & kHasValue) != 0 ? part.value_bytes : 0;
  const size_t all = key_part_bytes(part);
  EXPECT_EQ(is_narrow(part), head == kNarrowHeadBytes);
  EXPECT_EQ(all, head + padded(part.key_bytes) + padded(value_bytes));
  EXPECT_LE(all, key_part_bytes_max(part.key_bytes, part.value_bytes));
  std::vector<std::byte> put(all + 8, std::byte{0xee});
  const std::byte* end = put_key(put.data(), part, as_bytes(key).data(), as_bytes(value).data());
  EXPECT_EQ(static_cast<size_t>(end - put.data()), all);
  EXPECT_EQ(*end, std::byte{0xee}) << "nothing is written behind it";

  std::vector<std::byte> appended(8, std::byte{0xee});
  append_key(appended, part, as_bytes(key).first(part.key_bytes), as_bytes(value).first(value_bytes));
  EXPECT_EQ(appended.size(), 8 + all);
  EXPECT_EQ(appended[7], std::byte{0xee}) << "what was there before stays";

  for (const std::byte* from : {put.data(), appended.data() + 8}) {
    const std::byte* at = from;
    KeyPartView view;
    ASSERT_TRUE(take_key(&at, from + all, &view));
    EXPECT_EQ(at, from + all);
    expect_same_part(view.part, part);
    EXPECT_EQ(as_text(view.key), key.substr(0, part.key_bytes));
    EXPECT_EQ(as_text(view.value), value.substr(0, value_bytes));
    EXPECT_EQ(view.write(), static_cast<Write>(part.write));
    for (int bit = 0; bit < 8; ++bit) {
      const auto flag = static_cast<KeyFlags>(1U << bit);
      EXPECT_EQ(view.has(flag), (part.flags & flag) != 0);
    }
  }
}

TEST(KeyPartCodec, WhatIsWrittenIsTakenAgainWhateverTheSizes) {
  for (const size_t key_bytes : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{9}, size_t{31}, size_t{512}}) {
    for (const size_t value_bytes : {size_t{0}, size_t{1}, size_t{8}, size_t{63}, size_t{64}, size_t{127}}) {
      expect_round_trip(key_part_test_part(key_bytes, value_bytes, kHasValue | kHeld), kWideHeadBytes);
      expect_round_trip(key_part_test_small(key_bytes, value_bytes, kHasValue),
                        key_bytes < 32 ? kNarrowHeadBytes : kWideHeadBytes);
    }
  }
}

TEST(KeyPartCodec, AHeadIsShortWhereAllOfItFits) {
  const auto expect_head = [](const auto& change, size_t head) {
    for (const uint8_t flags : {uint8_t{0}, uint8_t{kHasVersion}, uint8_t{kHasValue}}) {
      KeyPart part = key_part_test_small(8, 8, flags);
      change(part);
      expect_round_trip(part, head);
    }
  };
  const auto fits = [&](const auto& change) { expect_head(change, kNarrowHeadBytes); };
  const auto is_wide = [&](const auto& change) { expect_head(change, kWideHeadBytes); };
  fits([](KeyPart&) {});
  fits([](KeyPart& p) { p.table = 0; });
  fits([](KeyPart& p) { p.table = 7; });
  is_wide([](KeyPart& p) { p.table = 8; });
  is_wide([](KeyPart& p) { p.table = UINT16_MAX; });
  fits([](KeyPart& p) { p.index = 0; });
  fits([](KeyPart& p) { p.index = 15; });
  is_wide([](KeyPart& p) { p.index = 16; });
  is_wide([](KeyPart& p) { p.index = UINT16_MAX; });
  fits([](KeyPart& p) { p.key_bytes = 31; });
  is_wide([](KeyPart& p) { p.key_bytes = 32; });
  is_wide([](KeyPart& p) { p.key_bytes = 2047; });
  fits([](KeyPart& p) { p.value_bytes = 127; });
  is_wide([](KeyPart& p) { p.value_bytes = 128; });
  is_wide([](KeyPart& p) { p.value_bytes = 1 << 20; });
  is_wide([](KeyPart& p) { p.predecessor_delta = 1; });
  is_wide([](KeyPart& p) { p.predecessor_delta = UINT32_MAX; });
  for (const uint64_t version : {uint64_t{0}, uint64_t{1}, kVersionMax}) {
    fits([&](KeyPart& p) { p.version = version; });
    is_wide([&](KeyPart& p) { p.version = version, p.index = 16; });
  }
  for (const Write write : {Write::kNone, Write::kPut, Write::kInsert, Write::kErase}) {
    fits([&](KeyPart& p) { p.write = static_cast<uint8_t>(write); });
    is_wide([&](KeyPart& p) { p.write = static_cast<uint8_t>(write), p.index = 16; });
  }
  fits([&](KeyPart& p) { p.flags = kHasVersion | kHasValue; });
  for (const uint8_t flag : {kHeld, kByVerb, kOrdered, kDeferred, kWantsReplaced}) {
    is_wide([&](KeyPart& p) { p.flags |= flag; });
  }
  is_wide([&](KeyPart& p) { p.flags = kHasVersion | kHasValue | kHeld | kByVerb | kOrdered | kDeferred; });
  // The largest of everything that has a short head.
  fits([](KeyPart& p) {
    p = {.version = kVersionMax,
         .key_bytes = 31,
         .value_bytes = 127,
         .table = 7,
         .index = 15,
         .write = static_cast<uint8_t>(Write::kErase),
         .flags = kHasVersion | kHasValue,
         .predecessor_delta = 0};
  });
}

TEST(KeyPartCodec, AVersionHasFortyBits) {
  for (const uint8_t flags : {uint8_t{0}, uint8_t{kHeld}}) {
    KeyPart part = key_part_test_small(8, 0, flags);
    part.version = kVersionMax + 1;
    std::vector<std::byte> bytes(key_part_bytes(part));
    EXPECT_DEATH(put_key_head(bytes.data(), part), "a version has 40 bits");
  }
}

TEST(KeyPartCodec, WithoutTheFlagNoValueIsWrittenOrTaken) {
  const std::string key = "12345678";
  for (const KeyPart& part : {key_part_test_part(8, 64, kHasVersion), key_part_test_small(8, 64, kHasVersion)}) {
    std::vector<std::byte> bytes(key_part_bytes_max(8, 64), std::byte{0xee});
    const std::byte* end = put_key(bytes.data(), part, as_bytes(key).data(), nullptr);
    EXPECT_EQ(static_cast<size_t>(end - bytes.data()), (is_narrow(part) ? kNarrowHeadBytes : kWideHeadBytes) + 8);
    const std::byte* at = bytes.data();
    KeyPartView view;
    ASSERT_TRUE(take_key(&at, end, &view));
    EXPECT_EQ(at, end);
    EXPECT_TRUE(view.value.empty());
    EXPECT_EQ(view.part.value_bytes, 64U) << "how large it will be is said all the same";
  }
}

TEST(KeyPartCodec, WhatPadsAnAppendedKeyIsZero) {
  for (const KeyPart& part : {key_part_test_part(3, 5, kHasValue), key_part_test_small(3, 5, kHasValue)}) {
    std::vector<std::byte> bytes;
    append_key(bytes, part, as_bytes("abc"), as_bytes("vwxyz"));
    const size_t head = is_narrow(part) ? kNarrowHeadBytes : kWideHeadBytes;
    ASSERT_EQ(bytes.size(), head + 16);
    for (size_t i = head + 3; i < head + 8; ++i) EXPECT_EQ(bytes[i], std::byte{0});
    for (size_t i = head + 8 + 5; i < bytes.size(); ++i) EXPECT_EQ(bytes[i], std::byte{0});
  }
}

TEST(KeyPartCodec, BytesThatAreCutShortAnywhereHaveNoKey) {
  for (const KeyPart& part : {key_part_test_part(9, 17, kHasValue), key_part_test_small(9, 17, kHasValue)}) {
    std::vector<std::byte> bytes;
    append_key(bytes, part, as_bytes(key_part_test_text(9, 'a')), as_bytes(key_part_test_text(17, 'A')));
    for (size_t cut = 0; cut < bytes.size(); ++cut) {
      // A copy, so that a sanitizer sees what is read behind it.
      const std::vector<std::byte> there(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(cut));
      const std::byte* at = there.data();
      KeyPartView view{};
      EXPECT_FALSE(take_key(&at, there.data() + cut, &view)) << cut;
      EXPECT_EQ(at, there.data()) << "nothing is taken";
      EXPECT_EQ(view.key.data(), nullptr);
    }
  }
}

TEST(KeyPartCodec, LengthsThatPointBehindTheMessageHaveNoKey) {
  struct Sizes {
    uint32_t key_bytes, value_bytes;
  };
  for (const bool wide : {true, false}) {
    KeyPart part = wide ? key_part_test_part(8, 8, kHasValue) : key_part_test_small(8, 8, kHasValue);
    std::vector<std::byte> bytes;
    append_key(bytes, part, as_bytes("abcdefgh"), as_bytes("ABCDEFGH"));
    const uint32_t key_max = wide ? UINT32_MAX : 31, value_max = wide ? UINT32_MAX : 127;
    for (const Sizes& sizes : {Sizes{9, 8}, Sizes{17, 0}, Sizes{key_max, 8}, Sizes{8, 9}, Sizes{8, value_max},
                               Sizes{0, 17}, Sizes{key_max, value_max}}) {
      part.key_bytes = sizes.key_bytes;
      part.value_bytes = sizes.value_bytes;
      put_key_head(bytes.data(), part);
      const std::byte* at = bytes.data();
      KeyPartView view{};
      EXPECT_FALSE(take_key(&at, bytes.data() + bytes.size(), &view)) << sizes.key_bytes << " " << sizes.value_bytes;
      EXPECT_EQ(at, bytes.data());
    }
  }
}

TEST(KeyPartCodec, KeysFollowEachOther) {
  std::vector<std::byte> bytes;
  append_key(bytes, key_part_test_part(1, 3, kHasValue), as_bytes("a"), as_bytes("one"));
  append_key(bytes, key_part_test_small(2, 0, 0), as_bytes("bc"), {});
  append_key(bytes, key_part_test_small(3, 4, kHasValue), as_bytes("def"), as_bytes("four"));
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size();
  KeyPartView view;
  ASSERT_TRUE(take_key(&at, end, &view));
  EXPECT_EQ(as_text(view.value), "one");
  ASSERT_TRUE(take_key(&at, end, &view));
  EXPECT_EQ(as_text(view.key), "bc");
  ASSERT_TRUE(take_key(&at, end, &view));
  EXPECT_EQ(as_text(view.value), "four");
  EXPECT_EQ(at, end);
  EXPECT_FALSE(take_key(&at, end, &view));
}

TEST(KeyPartCodec, ATableIsAskedOnlyForWhatFitsIt) {
  for (const KeyKind kind : {KeyKind::kInteger, KeyKind::kBytes}) {
    TableOptions options;
    options.spec = {.name = "t", .keys = kind, .value_bytes_max = 64, .capacity = 100};
    auto region = std::move(*Region::create(Table::region_bytes(options)));
    const auto table = std::move(*Table::create(options, region.get()));
    EXPECT_TRUE(fits_table(key_part_test_part(8, 64, 0), *table, 100));
    EXPECT_TRUE(fits_table(key_part_test_part(8, 0, 0), *table, 100));
    EXPECT_FALSE(fits_table(key_part_test_part(8, 65, 0), *table, 100)) << "also if the value does not come with it";
    const bool strings = kind == KeyKind::kBytes;
    EXPECT_EQ(fits_table(key_part_test_part(7, 1, 0), *table, 100), strings);
    EXPECT_EQ(fits_table(key_part_test_part(100, 1, 0), *table, 100), strings);
    EXPECT_FALSE(fits_table(key_part_test_part(101, 1, 0), *table, 100));
  }
}

TEST(KeyPartCodec, AValueComesWithAPutOrAnInsertAndWithNothingElse) {
  for (const Kind kind : {Kind::kLock, Kind::kValidate, Kind::kReplicate, Kind::kUnlock}) {
    for (const Write write : {Write::kNone, Write::kPut, Write::kInsert, Write::kErase}) {
      KeyPart part = key_part_test_part(8, 8, kHasValue);
      part.write = static_cast<uint8_t>(write);
      const bool put = write == Write::kPut || write == Write::kInsert;
      EXPECT_EQ(value_makes_sense(kind, part), put);
      part.flags = 0;
      const bool without = kind == Kind::kReplicate ? write == Write::kErase : kind != Kind::kUnlock;
      EXPECT_EQ(value_makes_sense(kind, part), without) << static_cast<int>(kind) << " " << static_cast<int>(write);
    }
  }
}

}  // namespace
}  // namespace weft
