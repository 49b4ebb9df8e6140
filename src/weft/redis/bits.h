// Bits of a string: bit 0 is the highest bit of the first byte, as in Redis.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weft/redis/commands.h"

namespace weft {

inline bool bit_at(std::string_view bytes, uint64_t at) {
  return at / 8 < bytes.size() && (static_cast<uint8_t>(bytes[at / 8]) >> (7 - at % 8) & 1) != 0;
}

inline void set_bit(std::string& bytes, uint64_t at, bool on) {  // the bit exists
  const auto mask = static_cast<uint8_t>(1U << (7 - at % 8));
  const auto old = static_cast<uint8_t>(bytes[at / 8]);
  bytes[at / 8] = static_cast<char>(on ? old | mask : old & ~mask);
}

// Below 2^32. With `unit` above 0 it may be #n, the n-th unit. Nothing: the reply says what is wrong.
std::optional<uint64_t> bit_offset(std::string_view text, int64_t unit, RespWriter& reply);

}  // namespace weft
