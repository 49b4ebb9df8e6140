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
  part.key_bytes = static_cast<uint16_t>(key_bytes);
  part.value_bytes = static_cast<uint32_t>(value_bytes);
  part.table = 3;
  part.write = static_cast<uint8_t>(Write::kInsert);
  part.index = 250;
  part.flags = flags;
  part.predecessor_delta = 77;
  return part;
}

std::string key_part_test_text(size_t bytes, char first) {
  std::string out(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(first + static_cast<int>(i % 20));
  return out;
}

TEST(KeyPartCodec, WhatIsWrittenIsTakenAgainWhateverTheSizes) {
  for (const size_t key_bytes : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{9}, size_t{512}}) {
    for (const size_t value_bytes : {size_t{0}, size_t{1}, size_t{8}, size_t{63}, size_t{64}}) {
      const std::string key = key_part_test_text(padded(key_bytes), 'a');
      const std::string value = key_part_test_text(padded(value_bytes), 'A');
      const KeyPart part = key_part_test_part(key_bytes, value_bytes, kHasValue | kHeld);
      std::vector<std::byte> put(key_part_bytes(key_bytes, value_bytes) + 8, std::byte{0xee});
      const std::byte* end = put_key(put.data(), part, as_bytes(key).data(), as_bytes(value).data());
      EXPECT_EQ(static_cast<size_t>(end - put.data()), key_part_bytes(key_bytes, value_bytes));
      EXPECT_EQ(*end, std::byte{0xee}) << "nothing is written behind it";

      std::vector<std::byte> appended(8, std::byte{0xee});
      append_key(appended, part, as_bytes(key).first(key_bytes), as_bytes(value).first(value_bytes));
      EXPECT_EQ(appended.size(), 8 + key_part_bytes(key_bytes, value_bytes));
      EXPECT_EQ(appended[7], std::byte{0xee}) << "what was there before stays";

      for (const std::byte* from : {put.data(), appended.data() + 8}) {
        const std::byte* at = from;
        KeyPartView view;
        ASSERT_TRUE(take_key(&at, from + key_part_bytes(key_bytes, value_bytes), &view));
        EXPECT_EQ(at, from + key_part_bytes(key_bytes, value_bytes));
        EXPECT_EQ(std::memcmp(view.part, &part, sizeof part), 0);
        EXPECT_EQ(as_text(view.key), key.substr(0, key_bytes));
        EXPECT_EQ(as_text(view.value), value.substr(0, value_bytes));
        EXPECT_EQ(view.write(), Write::kInsert);
        EXPECT_TRUE(view.has(kHeld));
        EXPECT_FALSE(view.has(kByVerb));
      }
    }
  }
}

TEST(KeyPartCodec, WithoutTheFlagNoValueIsWrittenOrTaken) {
  const std::string key = "12345678";
  const KeyPart part = key_part_test_part(8, 64, kHasVersion);
  std::vector<std::byte> bytes(key_part_bytes(8, 64), std::byte{0xee});
  const std::byte* end = put_key(bytes.data(), part, as_bytes(key).data(), nullptr);
  EXPECT_EQ(static_cast<size_t>(end - bytes.data()), key_part_bytes(8, 0));
  const std::byte* at = bytes.data();
  KeyPartView view;
  ASSERT_TRUE(take_key(&at, end, &view));
  EXPECT_EQ(at, end);
  EXPECT_TRUE(view.value.empty());
  EXPECT_EQ(view.part->value_bytes, 64U) << "how large it will be is said all the same";
}

TEST(KeyPartCodec, WhatPadsAnAppendedKeyIsZero) {
  std::vector<std::byte> bytes;
  append_key(bytes, key_part_test_part(3, 5, kHasValue), as_bytes("abc"), as_bytes("vwxyz"));
  for (size_t i = sizeof(KeyPart) + 3; i < sizeof(KeyPart) + 8; ++i) EXPECT_EQ(bytes[i], std::byte{0});
  for (size_t i = sizeof(KeyPart) + 8 + 5; i < bytes.size(); ++i) EXPECT_EQ(bytes[i], std::byte{0});
}

TEST(KeyPartCodec, BytesThatAreCutShortAnywhereHaveNoKey) {
  std::vector<std::byte> bytes;
  append_key(bytes, key_part_test_part(9, 17, kHasValue), as_bytes(key_part_test_text(9, 'a')),
             as_bytes(key_part_test_text(17, 'A')));
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    const std::byte* at = bytes.data();
    KeyPartView view{};
    EXPECT_FALSE(take_key(&at, bytes.data() + cut, &view)) << cut;
    EXPECT_EQ(at, bytes.data()) << "nothing is taken";
    EXPECT_EQ(view.part, nullptr);
  }
}

TEST(KeyPartCodec, LengthsThatPointBehindTheMessageHaveNoKey) {
  for (const bool of_key : {true, false}) {
    KeyPart part = key_part_test_part(8, 8, kHasValue);
    std::vector<std::byte> bytes;
    append_key(bytes, part, as_bytes("abcdefgh"), as_bytes("ABCDEFGH"));
    if (of_key) {
      part.key_bytes = UINT16_MAX;
    } else {
      part.value_bytes = UINT32_MAX;
    }
    store(bytes.data(), part);
    const std::byte* at = bytes.data();
    KeyPartView view{};
    EXPECT_FALSE(take_key(&at, bytes.data() + bytes.size(), &view));
    EXPECT_EQ(at, bytes.data());
  }
}

TEST(KeyPartCodec, KeysFollowEachOther) {
  std::vector<std::byte> bytes;
  append_key(bytes, key_part_test_part(1, 3, kHasValue), as_bytes("a"), as_bytes("one"));
  append_key(bytes, key_part_test_part(2, 0, 0), as_bytes("bc"), {});
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size();
  KeyPartView view;
  ASSERT_TRUE(take_key(&at, end, &view));
  EXPECT_EQ(as_text(view.value), "one");
  ASSERT_TRUE(take_key(&at, end, &view));
  EXPECT_EQ(as_text(view.key), "bc");
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
