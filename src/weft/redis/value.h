// The stored form of a value of the clients' table: a byte with its type and whether it has a deadline, the deadline
// if it has one, and the bytes.
//
//   byte 0        bits 0-3: the type, bit 4: a deadline follows, bits 5-7: 0
//   bytes 1-8     only with bit 4: milliseconds since 1970 (UTC), little endian, above 0
//   the rest      what the type makes of it; of a string, the string
//
// So a string without a deadline costs one byte, and every other type can be told from it whatever its layout.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace weft {

enum class ValueType : uint8_t { kString, kList, kSet, kZset, kHash, kStream, kUnknown };

inline constexpr size_t kValueHeaderBytesMax = 9;
inline constexpr int64_t kNoDeadline = 0;

struct StoredValue {
  ValueType type = ValueType::kString;
  int64_t deadline_ms = kNoDeadline;
  std::string_view bytes;
  bool due(int64_t now_ms) const { return deadline_ms != kNoDeadline && deadline_ms <= now_ms; }
};

// Bytes that are not a stored value have an unknown type: they can only be deleted or replaced.
inline StoredValue parse_value(std::string_view stored) {
  constexpr uint8_t kDeadline = 16;
  StoredValue value;
  value.type = ValueType::kUnknown;
  if (stored.empty()) return value;
  const auto head = static_cast<uint8_t>(stored[0]);
  const bool has_deadline = (head & kDeadline) != 0;
  const uint8_t type = head & ~kDeadline;
  if (type >= static_cast<uint8_t>(ValueType::kUnknown)) return value;
  if (!has_deadline) return {static_cast<ValueType>(type), kNoDeadline, stored.substr(1)};
  if (stored.size() < kValueHeaderBytesMax) return value;
  int64_t deadline_ms = 0;
  std::memcpy(&deadline_ms, stored.data() + 1, sizeof deadline_ms);
  if (deadline_ms <= 0) return value;
  return {static_cast<ValueType>(type), deadline_ms, stored.substr(kValueHeaderBytesMax)};
}

// Replaces the content of `to`.
inline void store_value(std::string& to, ValueType type, int64_t deadline_ms, std::string_view bytes) {
  constexpr char kDeadline = 16;
  const bool has_deadline = deadline_ms != kNoDeadline;
  to.assign(1, static_cast<char>(static_cast<char>(type) | (has_deadline ? kDeadline : 0)));
  if (has_deadline) to.append(reinterpret_cast<const char*>(&deadline_ms), sizeof deadline_ms);
  to.append(bytes);
}

inline std::string_view type_name(ValueType type) {
  constexpr std::string_view kNames[] = {"string", "list", "set", "zset", "hash", "stream", "unknown"};
  return kNames[static_cast<size_t>(type)];
}

}  // namespace weft
