#include "weft/base/hash.h"

#include <xxhash.h>

namespace weft {

uint64_t hash_bytes(const void* data, size_t bytes, uint64_t seed) { return XXH3_64bits_withSeed(data, bytes, seed); }

}  // namespace weft
