// The one codec of KeyParts (messages.h): a key as messages carry it, in a commit, in a log entry and in recovery.
//
//   | KeyPart | key, padded to 8 | value, padded to 8, if the flags say so |
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "weft/base/bytes.h"
#include "weft/base/check.h"
#include "weft/store/table.h"
#include "weft/txn/messages.h"

namespace weft {

inline constexpr size_t key_part_bytes(size_t key_bytes, size_t value_bytes) {
  return sizeof(KeyPart) + padded(key_bytes) + padded(value_bytes);
}

// Writes a key, and its value if part.flags says so; returns the end. Both are copied by words: their memory must be
// readable up to the next multiple of 8, and those padding bytes go over the wire.
inline std::byte* put_key(std::byte* to, const KeyPart& part, const std::byte* key, const std::byte* value) {
  store(to, part);
  to += sizeof part;
  copy_words(to, key, part.key_bytes);
  to += padded(part.key_bytes);
  if ((part.flags & kHasValue) == 0) return to;
  WEFT_CHECK(value != nullptr || part.value_bytes == 0, "a value that goes along is there");
  copy_words(to, value, part.value_bytes);
  return to + padded(part.value_bytes);
}

// Appends the same to a buffer, from memory of any size; the padding is 0.
inline void append_key(std::vector<std::byte>& to, const KeyPart& part, ByteView key, ByteView value) {
  WEFT_CHECK(part.key_bytes == key.size(), "a key says how long it is");
  const size_t at = to.size();
  to.resize(at + key_part_bytes(key.size(), value.size()));
  std::byte* bytes = to.data() + at;
  store(bytes, part);
  std::memcpy(bytes + sizeof part, key.data(), key.size());
  if (!value.empty()) std::memcpy(bytes + sizeof part + padded(key.size()), value.data(), value.size());
}

// One key of an arrived message, pointing into its bytes.
struct KeyPartView {
  const KeyPart* part;
  ByteView key;
  ByteView value;

  Write write() const { return static_cast<Write>(part->write); }
  bool has(KeyFlags flag) const { return (part->flags & flag) != 0; }
};

// Parses the key at `*at`, which is 8-byte aligned, and advances past it. Returns false if there is no key in the bytes
// up to `end`.
inline bool take_key(const std::byte** at, const std::byte* end, KeyPartView* out) {
  WEFT_CHECK(*at <= end, "keys are taken up to the end of their message");
  if (static_cast<size_t>(end - *at) < sizeof(KeyPart)) return false;
  const auto* part = reinterpret_cast<const KeyPart*>(*at);
  const size_t value_bytes = (part->flags & kHasValue) != 0 ? part->value_bytes : 0;
  const size_t need = key_part_bytes(part->key_bytes, value_bytes);
  if (static_cast<size_t>(end - *at) < need) return false;
  const std::byte* key = *at + sizeof(KeyPart);
  *out = {part, {key, part->key_bytes}, {key + padded(part->key_bytes), value_bytes}};
  *at += need;
  return true;
}

// Whether this key and value fit the table.
inline bool fits_table(const KeyPart& part, const Table& table, uint32_t key_bytes_max) {
  return part.key_bytes <= key_bytes_max && part.value_bytes <= table.spec().value_bytes_max &&
         (!table.integer_keys() || part.key_bytes == 8);
}

// A value comes only with a put or an insert; replication, and the values that an unlock brings, need one.
inline bool value_makes_sense(Kind kind, const KeyPart& part) {
  const auto write = static_cast<Write>(part.write);
  const bool has_value = (part.flags & kHasValue) != 0;
  if (has_value && !installs(write)) return false;
  if (kind == Kind::kReplicate) return has_value || write == Write::kErase;
  return kind != Kind::kUnlock || has_value;
}

}  // namespace weft
