// PasswordThrottle: counts wrong passwords by source, and delays the replies to sources with many.
//
// A source is a leaky bucket: each wrong password fills it by one, and one leaks out every second. The first few cost
// nothing, so that a program that keeps trying an old password does not slow down others on its host; after that each
// doubles the delay. The table has a fixed size. When it is full the source with the least in its bucket is forgotten:
// many sources can make it forget, but not grow.
//
// It is owned by one thread, and knows the time only from its callers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace weft {

class PasswordThrottle {
 public:
  static constexpr uint32_t kFree = 8;   // wrong passwords of a source without a delay
  static constexpr uint32_t kFull = 32;  // capacity of a bucket: it is empty again after half a minute
  static constexpr uint64_t kLeakNs = 1'000'000'000;
  static constexpr uint64_t kDelayNs = 25'000'000;  // for the first that counts
  static constexpr uint64_t kDelayNsMax = 1'000'000'000;

  // After this many wrong passwords in a row.
  static constexpr uint64_t delay_ns(uint32_t wrong) {
    if (wrong == 0) return 0;
    return std::min(kDelayNs << std::min(wrong - 1, 16U), kDelayNsMax);
  }

  void wrong(uint64_t source, uint64_t now_ns);
  // Of a reply to that source, whether the password was right or wrong.
  uint64_t delay_of(uint64_t source, uint64_t now_ns) const;

 private:
  static constexpr size_t kSets = 64, kWays = 4;
  struct Bucket {
    uint64_t source = 0;
    uint64_t empty_ns = 0;  // when it will be empty
  };
  using Set = std::array<Bucket, kWays>;

  static size_t set_of(uint64_t source);
  static uint64_t left_ns(const Bucket& bucket, uint64_t now_ns) {
    return bucket.empty_ns > now_ns ? bucket.empty_ns - now_ns : 0;
  }

  std::array<Set, kSets> sets_{};
};

}  // namespace weft
