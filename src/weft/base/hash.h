// Hashing, seeded per cluster. The same function for every key, whether an 8-byte integer or a byte string, so that all
// nodes place a key alike.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

// A bijection of 64 bits with good avalanche (two multiplies).
constexpr uint64_t mix64(uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93U;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93U;
  x ^= x >> 32;
  return x;
}

constexpr uint64_t hash_u64(uint64_t key, uint64_t seed) { return mix64(key ^ seed); }

uint64_t hash_bytes(const void* data, size_t bytes, uint64_t seed);  // XXH3

struct Hash128 {
  uint64_t low = 0, high = 0;
  friend constexpr bool operator==(const Hash128&, const Hash128&) = default;
};
Hash128 hash_bytes_128(const void* data, size_t bytes, const Hash128& seed);  // XXH3

// Maps a hash to [0, n) by its high bits.
constexpr uint32_t reduce(uint64_t hash, uint32_t n) { return static_cast<uint32_t>(((hash >> 32) * n) >> 32); }

// The same by its low 32 bits, which are independent of the high ones.
constexpr uint32_t reduce_low(uint64_t hash, uint32_t n) {
  return static_cast<uint32_t>(((hash & UINT32_MAX) * n) >> 32);
}

}  // namespace weft
