#include "weft/run/timers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "weft/base/random.h"

namespace weft {
namespace {

// Timers never dereference the handle, so a number will do.
std::coroutine_handle<> handle(uintptr_t n) {
  return std::coroutine_handle<>::from_address(reinterpret_cast<void*>(n));
}
uintptr_t number(std::coroutine_handle<> h) { return reinterpret_cast<uintptr_t>(h.address()); }

TEST(Timers, NothingIsDueWhenNothingIsSet) {
  Timers timers(4);
  EXPECT_EQ(timers.next_ns(), UINT64_MAX);
  EXPECT_FALSE(timers.take_due(UINT64_MAX));
}

TEST(Timers, ADeadlineIsDueAtItsTimeAndNotBefore) {
  Timers timers(4);
  timers.set(100, handle(1));
  EXPECT_EQ(timers.next_ns(), 100U);
  EXPECT_FALSE(timers.take_due(99));
  EXPECT_EQ(number(timers.take_due(100)), 1U);
  EXPECT_FALSE(timers.take_due(UINT64_MAX));
}

TEST(Timers, TiesFireInTheOrderTheyWereSet) {
  Timers timers(64);
  for (uintptr_t i = 1; i <= 64; ++i) timers.set(i % 2 == 0 ? 5 : 7, handle(i));
  for (uintptr_t i = 2; i <= 64; i += 2) EXPECT_EQ(number(timers.take_due(9)), i);
  for (uintptr_t i = 1; i <= 64; i += 2) EXPECT_EQ(number(timers.take_due(9)), i);
}

TEST(Timers, ARandomScheduleFiresInOrder) {
  struct Set {
    uint64_t deadline;
    uintptr_t id;
  };
  Random random(3);
  Timers timers(1000);
  std::vector<Set> twin;
  for (uintptr_t id = 1; id <= 3000; ++id) {
    if (!twin.empty() && random.chance(40)) {
      const auto first = std::min_element(twin.begin(), twin.end(), [](const Set& a, const Set& b) {
        return a.deadline != b.deadline ? a.deadline < b.deadline : a.id < b.id;
      });
      ASSERT_EQ(timers.next_ns(), first->deadline);
      ASSERT_EQ(number(timers.take_due(first->deadline)), first->id);
      twin.erase(first);
      continue;
    }
    const uint64_t deadline = random.below(500);
    timers.set(deadline, handle(id));
    twin.push_back({deadline, id});
  }
}

TEST(Timers, MoreThanTheyWereMadeForGrowThem) {
  Timers timers(1);
  for (uintptr_t id = 3; id > 0; --id) timers.set(id, handle(id));
  for (uintptr_t id = 1; id <= 3; ++id) EXPECT_EQ(number(timers.take_due(10)), id);
}

}  // namespace
}  // namespace weft
