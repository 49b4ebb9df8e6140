// A seeded random source (xoshiro256**, seeded by splitmix64). Passed to constructors; there is no global one.
#pragma once

#include <cstdint>

namespace weft {

class Random {
 public:
  explicit Random(uint64_t seed) {
    for (uint64_t& s : state_) {
      seed += 0x9e3779b97f4a7c15U;
      uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
      s = z ^ (z >> 31);
    }
  }

  uint64_t next() {
    const uint64_t result = rotate(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotate(state_[3], 45);
    return result;
  }

  // Uniform in [0, n), n > 0. The bias is below n / 2^64 for n up to 2^32 and irrelevant above.
  uint64_t below(uint64_t n) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((static_cast<Wide>(next()) * n) >> 64);
  }

  uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }  // both ends included
  bool chance(uint32_t percent) { return below(100) < percent; }
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  static uint64_t rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  uint64_t state_[4];
};

}  // namespace weft
