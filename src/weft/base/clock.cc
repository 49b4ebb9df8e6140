#include "weft/base/clock.h"

#include <ctime>

namespace weft {

namespace {

uint64_t read(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(t.tv_nsec);
}

}  // namespace

uint64_t RealClock::now_ns() { return read(CLOCK_MONOTONIC); }
uint64_t WallClock::now_ns() { return read(CLOCK_REALTIME); }

}  // namespace weft
