#include "weft/base/marks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <thread>

namespace weft {
namespace {

void rare(bool first) {
  if (first) {
    WEFT_MARK("marks_test_first");
  } else {
    WEFT_MARK("marks_test_second");
  }
}

uint64_t hits(std::string_view name) {
  for (const Mark& mark : all_marks()) {
    if (name == mark.name) return mark.hits.load(std::memory_order_relaxed);
  }
  ADD_FAILURE() << "no mark " << name;
  return 0;
}

// Sanitizers pad globals; the section must stay a plain array all the same.
TEST(Marks, AreAnArrayOfNamedMarks) {
  ASSERT_GE(all_marks().size(), 2U);
  for (const Mark& mark : all_marks()) {
    ASSERT_NE(mark.name, nullptr);
    EXPECT_GT(std::strlen(mark.name), 0U);
  }
}

TEST(Marks, AreKnownBeforeTheyAreHitAndCountFromAnyThread) {
  const uint64_t first = hits("marks_test_first");
  const uint64_t second = hits("marks_test_second");
  rare(true);
  EXPECT_EQ(hits("marks_test_first"), first + 1);
  EXPECT_EQ(hits("marks_test_second"), second);

  std::thread other([] {
    for (int i = 0; i < 1000; ++i) rare(false);
  });
  for (int i = 0; i < 1000; ++i) rare(false);
  other.join();
  EXPECT_EQ(hits("marks_test_second"), second + 2000);
}

}  // namespace
}  // namespace weft
