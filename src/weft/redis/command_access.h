// What clients ask about a command beyond its row: its ACL categories, and what it does with the keys that it names,
// in Redis's words.
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
// For these arguments: SET with GET also reads.
KeyUse key_use(const Command& command, Arguments arguments);
std::vector<std::string_view> words_of(std::string_view text);

}  // namespace weft
