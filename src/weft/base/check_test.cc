#include "weft/base/check.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(CheckDeathTest, SaysWhatWhereAndWhy) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(WEFT_CHECK(1 + 1 == 3, "arithmetic holds"),
               "check_test.cc:[0-9]+: check failed: 1 \\+ 1 == 3 \\(arithmetic holds\\)");
}

TEST(Check, EvaluatesOnce) {
  int times = 0;
  WEFT_CHECK(++times > 0, "it is counted");
  EXPECT_EQ(times, 1);
}

}  // namespace
}  // namespace weft
