// A command as shown to people (MONITOR, SLOWLOG): without passwords.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/redis/commands.h"

namespace weft {

inline constexpr std::string_view kRedacted = "(redacted)";

// With "(redacted)" in place of secrets, as in Redis.
std::vector<std::string_view> without_secrets(const Command& command, Arguments arguments);
// Quoted, with non-printable bytes escaped; bytes beyond the first `bytes_max` are only counted.
void append_quoted(std::string* out, std::string_view text, size_t bytes_max);

}  // namespace weft
