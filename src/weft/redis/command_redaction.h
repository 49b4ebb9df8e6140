// A command as people are shown it (MONITOR, SLOWLOG): without passwords.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/redis/commands.h"

namespace weft {

inline constexpr std::string_view kRedacted = "(redacted)";

// With "(redacted)" in place of what is secret, as Redis has it.
std::vector<std::string_view> without_secrets(const Command& command, Arguments arguments);
// In quotes, with what is not printable escaped; bytes beyond the first `bytes_max` are counted only.
void append_quoted(std::string* out, std::string_view text, size_t bytes_max);

}  // namespace weft
