#include "weft/redis/glob.h"

#include <cstddef>
#include <utility>

namespace weft {

namespace {

// Whether the class that begins at pattern[at], after '[', contains the character; `at` then is after the class.
bool class_has(std::string_view pattern, size_t* at, char c) {
  const bool inverted = *at < pattern.size() && pattern[*at] == '^';
  if (inverted) ++*at;
  bool found = false;
  while (*at < pattern.size() && pattern[*at] != ']') {
    if (pattern[*at] == '\\' && *at + 1 < pattern.size()) {
      found |= pattern[*at + 1] == c;
      *at += 2;
    } else if (*at + 2 < pattern.size() && pattern[*at + 1] == '-') {
      auto low = static_cast<unsigned char>(pattern[*at]);
      auto high = static_cast<unsigned char>(pattern[*at + 2]);
      if (low > high) std::swap(low, high);
      found |= static_cast<unsigned char>(c) >= low && static_cast<unsigned char>(c) <= high;
      *at += 3;
    } else {
      found |= pattern[*at] == c;
      ++*at;
    }
  }
  if (*at < pattern.size()) ++*at;  // an unclosed class ends with the pattern
  return found != inverted;
}

}  // namespace

// Backtracking to the last star is enough: whatever an earlier one could match in addition, the last one can, too. So
// the work is at most the product of the lengths, whatever the pattern.
bool glob_matches(std::string_view pattern, std::string_view text, uint64_t* steps) {
  uint64_t unasked = 0;
  if (steps == nullptr) steps = &unasked;
  constexpr size_t kNone = std::string_view::npos;
  size_t p = 0;
  size_t t = 0;
  size_t star = kNone;  // after the last star
  size_t star_text = 0;
  while (t < text.size()) {
    bool matches = false;
    size_t next = p;
    if (p < pattern.size()) {
      const char c = pattern[p];
      if (c == '*') {
        star = ++p;
        star_text = t;
        continue;
      }
      next = p + 1;
      if (c == '?') {
        matches = true;
      } else if (c == '[') {
        matches = class_has(pattern, &next, text[t]);
      } else if (c == '\\' && p + 1 < pattern.size()) {
        matches = pattern[p + 1] == text[t];
        next = p + 2;
      } else {
        matches = c == text[t];
      }
    }
    *steps += 1 + next - p;
    if (matches) {
      p = next;
      ++t;
    } else if (star != kNone) {
      p = star;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace weft
