#include "weft/redis/password_throttle.h"

#include "weft/base/hash.h"

namespace weft {

size_t PasswordThrottle::set_of(uint64_t source) { return mix64(source) % kSets; }

void PasswordThrottle::wrong(uint64_t source, uint64_t now_ns) {
  Set& set = sets_[set_of(source)];
  Bucket* bucket = std::find_if(set.begin(), set.end(), [&](const Bucket& b) { return b.source == source; });
  if (bucket == set.end()) {
    bucket = std::min_element(set.begin(), set.end(),
                              [](const Bucket& a, const Bucket& b) { return a.empty_ns < b.empty_ns; });
    *bucket = {source, 0};
  }
  bucket->empty_ns = now_ns + std::min(left_ns(*bucket, now_ns) + kLeakNs, kFull * kLeakNs);
}

uint64_t PasswordThrottle::delay_of(uint64_t source, uint64_t now_ns) const {
  for (const Bucket& bucket : sets_[set_of(source)]) {
    if (bucket.source != source) continue;
    const auto level = static_cast<uint32_t>((left_ns(bucket, now_ns) + kLeakNs - 1) / kLeakNs);
    return level <= kFree ? 0 : delay_ns(level - kFree);
  }
  return 0;
}

}  // namespace weft
