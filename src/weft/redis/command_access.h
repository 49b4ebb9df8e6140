// What clients want to know of a command beside its row: the categories of access lists that it is in, and what it does
// with the keys that it names, in Redis's words.
#pragma once

#include <string_view>
#include <vector>

#include "weft/redis/commands.h"

namespace weft {

bool reads_only(const Command& command);
std::vector<std::string_view> categories_of(const Command& command);  // without the @

// "RO access"; of the first key, and of the others.
struct KeyUse {
  std::string_view first, others;
};
KeyUse key_use(const Command& command);
// By what these arguments make of it: SET with GET reads, too.
KeyUse key_use(const Command& command, Arguments arguments);
std::vector<std::string_view> words_of(std::string_view text);

}  // namespace weft
