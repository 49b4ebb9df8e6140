// Patterns as Redis matches them: * ? [abc] [^a-c] and \ before a character that means itself.
#pragma once

#include <string_view>

namespace weft {

bool glob_matches(std::string_view pattern, std::string_view text);

}  // namespace weft
