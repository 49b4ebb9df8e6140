// The one codec of KeyParts (messages.h): a key as messages carry it, in a commit, in a log entry and in recovery.
//
//   | head | more, if wide | key, padded to 8 | value, padded to 8, if the flags say so |
//
// The head is a word: the version in its low 40 bits, and then for most keys of small values all the rest:
//
//    63      57 56     52 51   48 47   45  44         43           42     41     40
//   | value    | key     | index | table | has value | has version | write      | wide = 0 |
//
// A wide one has flags and write in the head (| flags 8 | 0 ... | write 2 | wide = 1 |), and two more words: | value
// bytes 32 | key bytes 32 |, and | predecessor_delta 32 | index 16 | table 16 |, each from the high bits down.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "weft/base/bytes.h"
#include "weft/base/check.h"
#include "weft/base/inline.h"
#include "weft/store/table.h"
#include "weft/txn/messages.h"

namespace weft {

inline constexpr uint64_t kWideKey = uint64_t{1} << 40;
inline constexpr size_t kNarrowHeadBytes = 8;
inline constexpr size_t kWideHeadBytes = 24;

// A narrow head: the lowest bits of its fields, and how many values each has.
struct NarrowHead {
  static constexpr int kWriteAt = 41, kFlagsAt = 43, kTableAt = 45, kIndexAt = 48, kKeyBytesAt = 52, kValueBytesAt = 57;
  static constexpr uint64_t kTables = 8, kIndices = 16, kKeyBytes = 32, kValueBytes = 128;
  static constexpr uint32_t kFlags = kHasVersion | kHasValue;

  static bool fits_key(uint64_t table, uint64_t index, uint64_t key_bytes) {
    return table < kTables && index < kIndices && key_bytes < kKeyBytes;
  }
  static bool fits_message(uint32_t flags, uint32_t predecessor_delta, uint32_t value_bytes) {
    return (flags & ~kFlags) == 0 && predecessor_delta == 0 && value_bytes < kValueBytes;
  }
  // It is made of two halves: what is known when a transaction first names the key, and what each message says of it.
  static uint64_t of_key(uint64_t table, uint64_t index, uint64_t key_bytes) {
    return table << kTableAt | index << kIndexAt | key_bytes << kKeyBytesAt;
  }
  static uint64_t of_message(uint64_t version, Write write, uint64_t flags, uint64_t value_bytes) {
    return version | static_cast<uint64_t>(write) << kWriteAt | flags << kFlagsAt | value_bytes << kValueBytesAt;
  }

  static Write write(uint64_t head) { return static_cast<Write>(head >> kWriteAt & 3U); }
  static uint32_t flags(uint64_t head) { return head >> kFlagsAt & kFlags; }
  static uint32_t table(uint64_t head) { return head >> kTableAt & (kTables - 1); }
  static uint32_t index(uint64_t head) { return head >> kIndexAt & (kIndices - 1); }
  static uint32_t key_bytes(uint64_t head) { return head >> kKeyBytesAt & (kKeyBytes - 1); }
  static uint32_t value_bytes(uint64_t head) { return static_cast<uint32_t>(head >> kValueBytesAt); }
  // All but version and index.
  static uint64_t shape(uint64_t head) { return head & ~(kVersionMax | (kIndices - 1) << kIndexAt); }
};

inline bool is_narrow(const KeyPart& part) {
  return NarrowHead::fits_key(part.table, part.index, part.key_bytes) &&
         NarrowHead::fits_message(part.flags, part.predecessor_delta, part.value_bytes);
}
inline size_t key_part_bytes(const KeyPart& part) {
  return (is_narrow(part) ? kNarrowHeadBytes : kWideHeadBytes) + padded(part.key_bytes) +
         ((part.flags & kHasValue) != 0 ? padded(part.value_bytes) : 0);
}
// Upper bound for a key and a value of these sizes.
inline constexpr size_t key_part_bytes_max(size_t key_bytes, size_t value_bytes) {
  return kWideHeadBytes + padded(key_bytes) + padded(value_bytes);
}

// Returns the end.
WEFT_INLINE inline std::byte* put_key_head(std::byte* to, const KeyPart& part) {
  static_assert(kVersionMax == kWideKey - 1 && kHasVersion == 1 && kHasValue == 2);
  WEFT_CHECK(part.version <= kVersionMax, "a version has 40 bits");
  const auto write = static_cast<Write>(part.write);
  if (is_narrow(part)) [[likely]] {
    store(to, NarrowHead::of_key(part.table, part.index, part.key_bytes) |
                  NarrowHead::of_message(part.version, write, part.flags, part.value_bytes));
    return to + kNarrowHeadBytes;
  }
  store(to, NarrowHead::of_message(part.version, write, 0, 0) | kWideKey | uint64_t{part.flags} << 56);
  store(to + 8, uint64_t{part.value_bytes} << 32 | part.key_bytes);
  store(to + 16, uint64_t{part.predecessor_delta} << 32 | uint64_t{part.index} << 16 | part.table);
  return to + kWideHeadBytes;
}

// The narrow head of an integer key, without version, write, flags and value. 0: such a key has a wide one.
inline uint64_t narrow_integer_head(TableId table, size_t index) {
  if (!NarrowHead::fits_key(table.value, index, sizeof(uint64_t))) return 0;
  return NarrowHead::of_key(table.value, index, sizeof(uint64_t));
}

// Writes a key, and its value if part.flags says so; returns the end. Both are copied by words: their memory must be
// readable up to the next multiple of 8, and those padding bytes go over the wire.
WEFT_INLINE inline std::byte* put_key(std::byte* to, const KeyPart& part, const std::byte* key,
                                      const std::byte* value) {
  to = put_key_head(to, part);
  copy_words(to, key, part.key_bytes);
  to += padded(part.key_bytes);
  if ((part.flags & kHasValue) == 0) return to;
  WEFT_CHECK(value != nullptr || part.value_bytes == 0, "a value that goes along is there");
  copy_words(to, value, part.value_bytes);
  return to + padded(part.value_bytes);
}

// Appends the same to a buffer, from memory of any size; the padding is 0. The value follows if it is not empty.
inline void append_key(std::vector<std::byte>& to, const KeyPart& part, ByteView key, ByteView value) {
  WEFT_CHECK(part.key_bytes == key.size(), "a key says how long it is");
  const size_t at = to.size();
  to.resize(at + (is_narrow(part) ? kNarrowHeadBytes : kWideHeadBytes) + padded(key.size()) + padded(value.size()));
  std::byte* bytes = put_key_head(to.data() + at, part);
  std::memcpy(bytes, key.data(), key.size());
  if (!value.empty()) std::memcpy(bytes + padded(key.size()), value.data(), value.size());
}

// One key of an arrived message; key and value point into its bytes.
struct KeyPartView {
  KeyPart part;
  ByteView key;
  ByteView value;

  Write write() const { return static_cast<Write>(part.write); }
  bool has(KeyFlags flag) const { return (part.flags & flag) != 0; }
};

// Parses the key at `*at`, which is 8-byte aligned, and advances past it. Returns false if there is no key in the bytes
// up to `end`.
WEFT_INLINE inline bool take_key(const std::byte** at, const std::byte* end, KeyPartView* out) {
  WEFT_CHECK(*at <= end, "keys are taken up to the end of their message");
  const auto left = static_cast<size_t>(end - *at);
  if (left < kNarrowHeadBytes) return false;
  const auto head = load<uint64_t>(*at);
  KeyPart& part = out->part;
  part.version = head & kVersionMax;
  part.write = static_cast<uint8_t>(NarrowHead::write(head));
  const std::byte* key = *at + kNarrowHeadBytes;
  if ((head & kWideKey) == 0) [[likely]] {
    part.flags = static_cast<uint8_t>(NarrowHead::flags(head));
    part.table = static_cast<uint16_t>(NarrowHead::table(head));
    part.index = static_cast<uint16_t>(NarrowHead::index(head));
    part.key_bytes = NarrowHead::key_bytes(head);
    part.value_bytes = NarrowHead::value_bytes(head);
    part.predecessor_delta = 0;
  } else {
    if (left < kWideHeadBytes) return false;
    part.flags = static_cast<uint8_t>(head >> 56);
    const auto sizes = load<uint64_t>(*at + 8);
    part.value_bytes = static_cast<uint32_t>(sizes >> 32);
    part.key_bytes = static_cast<uint32_t>(sizes);
    const auto rest = load<uint64_t>(*at + 16);
    part.predecessor_delta = static_cast<uint32_t>(rest >> 32);
    part.index = static_cast<uint16_t>(rest >> 16);
    part.table = static_cast<uint16_t>(rest);
    key = *at + kWideHeadBytes;
  }
  const size_t key_bytes = padded(part.key_bytes);
  const size_t value_bytes = (part.flags & kHasValue) != 0 ? part.value_bytes : 0;
  if (static_cast<size_t>(end - key) < key_bytes + padded(value_bytes)) return false;
  out->key = {key, part.key_bytes};
  out->value = {key + key_bytes, value_bytes};
  *at = key + key_bytes + padded(value_bytes);
  return true;
}

// Whether this key and value fit the table.
inline bool fits_table(const KeyPart& part, const Table& table, uint32_t key_bytes_max) {
  return part.key_bytes <= key_bytes_max && part.value_bytes <= table.spec().value_bytes_max &&
         (!table.integer_keys() || part.key_bytes == 8);
}

// Which writes a message of this kind may name, with or without a value, as bits allowed_bit(part): a value comes only
// with a put or an insert; replication, and the values that an unlock brings, need one.
constexpr uint32_t allowed_bit(Write write, bool has_value) {
  return static_cast<uint32_t>(write) * 2 + (has_value ? 1 : 0);
}
inline uint32_t allowed_bit(const KeyPart& part) {
  return allowed_bit(static_cast<Write>(part.write), (part.flags & kHasValue) != 0);
}
constexpr uint32_t allowed_writes(Kind kind) {
  uint32_t allowed = 0;
  for (const Write write : {Write::kNone, Write::kPut, Write::kInsert, Write::kErase}) {
    for (const bool has_value : {false, true}) {
      if (has_value && !installs(write)) continue;
      if (kind == Kind::kReplicate && !has_value && write != Write::kErase) continue;
      if (kind == Kind::kUnlock && !has_value) continue;
      allowed |= 1U << allowed_bit(write, has_value);
    }
  }
  return allowed;
}
// The same for one key.
inline bool value_makes_sense(Kind kind, const KeyPart& part) {
  return (allowed_writes(kind) >> allowed_bit(part) & 1U) != 0;
}

}  // namespace weft
