#include "weft/redis/strings_lcs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "weft/base/random.h"

namespace weft {
namespace {

// By the textbook table, and the walk of Redis.
Lcs by_the_book(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> at(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      at[i][j] = a[i - 1] == b[j - 1] ? at[i - 1][j - 1] + 1 : std::max(at[i - 1][j], at[i][j - 1]);
    }
  }
  Lcs out;
  out.length = at[a.size()][b.size()];
  size_t i = a.size();
  size_t j = b.size();
  while (i > 0 && j > 0 && out.common.size() < out.length) {
    if (a[i - 1] == b[j - 1]) {
      out.common.insert(out.common.begin(), a[i - 1]);
      const bool goes_on = !out.matches.empty() && out.matches.back().a_first == i && out.matches.back().b_first == j;
      if (!goes_on) out.matches.push_back({i - 1, i - 1, j - 1, j - 1});
      out.matches.back().a_first = --i;
      out.matches.back().b_first = --j;
    } else {
      at[i - 1][j] > at[i][j - 1] ? --i : --j;
    }
  }
  return out;
}

TEST(StringsLcs, AsByTheBook) {
  Random random(7);
  const auto text = [&](uint64_t bytes, uint64_t letters) {
    std::string out(bytes, ' ');
    for (char& c : out) c = static_cast<char>('a' + random.below(letters));
    return out;
  };
  for (int round = 0; round < 300; ++round) {
    const uint64_t letters = 1 + random.below(6);
    const std::string a = text(random.below(round % 3 == 0 ? 200 : 20), letters);
    const std::string b = text(random.below(round % 2 == 0 ? 200 : 20), letters);
    const Lcs wanted = by_the_book(a, b);
    const Lcs found = longest_common_subsequence(a, b, true);
    ASSERT_EQ(found.length, wanted.length) << a << " " << b;
    ASSERT_EQ(found.common, wanted.common) << a << " " << b;
    ASSERT_EQ(longest_common_subsequence(a, b, false).length, wanted.length);
    ASSERT_EQ(found.matches.size(), wanted.matches.size()) << a << " " << b;
    for (size_t m = 0; m < found.matches.size(); ++m) {
      EXPECT_EQ(found.matches[m].a_first, wanted.matches[m].a_first);
      EXPECT_EQ(found.matches[m].a_last, wanted.matches[m].a_last);
      EXPECT_EQ(found.matches[m].b_first, wanted.matches[m].b_first);
      EXPECT_EQ(found.matches[m].b_last, wanted.matches[m].b_last);
    }
  }
}

}  // namespace
}  // namespace weft
