#include "weft/base/cas128.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace weft {
namespace {

struct alignas(16) Pair {
  std::atomic<uint64_t> low{0}, high{0};
};

TEST(Cas128, BothWordsMustBeThere) {
  Pair pair;
  EXPECT_FALSE(cas128(&pair, {1, 0}, {2, 3}));
  EXPECT_FALSE(cas128(&pair, {0, 1}, {2, 3}));
  EXPECT_TRUE(cas128(&pair, {0, 0}, {2, 3}));
  EXPECT_EQ(pair.low, 2U);
  EXPECT_EQ(pair.high, 3U);
}

// One thread changes one word alone, another changes the other word by swaps of both: nothing is lost.
void swap_against_adds(std::atomic<uint64_t> Pair::*added, std::atomic<uint64_t> Pair::*swapped) {
  constexpr uint64_t kAdds = 2'000'000;
  Pair pair;
  std::atomic<bool> ended = false;
  std::thread adder([&] {
    for (uint64_t i = 0; i < kAdds; ++i) (pair.*added).fetch_add(1);
    ended = true;
  });
  uint64_t swaps = 0;
  while (!ended) {
    const TwoWords seen{pair.low, pair.high};
    const bool low = swapped == &Pair::low;
    if (cas128(&pair, seen, {seen.low + (low ? 1 : 0), seen.high + (low ? 0 : 1)})) ++swaps;
  }
  adder.join();
  EXPECT_EQ(pair.*added, kAdds);
  EXPECT_EQ(pair.*swapped, swaps);
}

TEST(Cas128, OneStepAgainstAccessesToTheLowWord) { swap_against_adds(&Pair::low, &Pair::high); }
TEST(Cas128, OneStepAgainstAccessesToTheHighWord) { swap_against_adds(&Pair::high, &Pair::low); }

// A thread that reads either word after a swap sees what was written before the swap; ThreadSanitizer would report a
// race.
TEST(Cas128, OrdersWhatWasWrittenBefore) {
  Pair pair;
  int low_payload = 0, high_payload = 0;
  std::thread writer([&] {
    low_payload = 1;
    EXPECT_TRUE(cas128(&pair, {0, 0}, {1, 0}));
    high_payload = 2;
    EXPECT_TRUE(cas128(&pair, {1, 0}, {1, 1}));
  });
  while (pair.low.load(std::memory_order_acquire) == 0) std::this_thread::yield();
  EXPECT_EQ(low_payload, 1);
  while (pair.high.load(std::memory_order_acquire) == 0) std::this_thread::yield();
  EXPECT_EQ(high_payload, 2);
  writer.join();
}

}  // namespace
}  // namespace weft
