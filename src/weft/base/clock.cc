#include "weft/base/clock.h"

#include <ctime>

#include "weft/base/cpu_clock.h"

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
uint64_t ThreadCpuClock::now_ns() { return read(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace weft
