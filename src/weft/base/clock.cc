#include "weft/base/clock.h"

#include <ctime>

namespace weft {

uint64_t RealClock::now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(t.tv_nsec);
}

}  // namespace weft
