#include "weft/base/hash.h"

#include <xxhash.h>

namespace weft {

uint64_t hash_bytes(const void* data, size_t bytes, uint64_t seed) { return XXH3_64bits_withSeed(data, bytes, seed); }

Hash128 hash_bytes_128(const void* data, size_t bytes, const Hash128& seed) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(data, bytes, mix64(seed.low) ^ seed.high);
  return {hash.low64, hash.high64};
}

}  // namespace weft
