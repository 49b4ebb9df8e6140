// Patterns as in Redis: * ? [abc] [^a-z] and a backslash before any of these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft {

// The work of a match is at most the product of the lengths, so patterns have a limit, too.
inline constexpr size_t kPatternBytesMax = 1024;

// `steps`, if given, is increased by the work done: some nanoseconds each.
bool glob_matches(std::string_view pattern, std::string_view text, uint64_t* steps = nullptr);

}  // namespace weft
