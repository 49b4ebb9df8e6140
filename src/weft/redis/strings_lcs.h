// The computation of LCS, separate from the command.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct LcsMatch {
  size_t a_first, a_last, b_first, b_last;
};

struct Lcs {
  size_t length = 0;
  std::string common;             // this and the next field: if requested
  std::vector<LcsMatch> matches;  // runs of adjacent bytes, the last one first, as Redis finds them
};

Lcs longest_common_subsequence(std::string_view a, std::string_view b, bool with_matches);

}  // namespace weft
