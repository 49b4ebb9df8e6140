// Shared by the commands' files: numbers as Redis reads and writes them, and common replies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weft/redis/commands.h"

namespace weft {

inline constexpr std::string_view kSyntaxError = "ERR syntax error";
inline constexpr std::string_view kNotInteger = "ERR value is not an integer or out of range";
inline constexpr std::string_view kNotFloat = "ERR value is not a valid float";

// No plus, no spaces, no leading zeros, no minus zero.
std::optional<int64_t> parse_integer(std::string_view text);
// As strtold reads it, but without leading spaces or trailing bytes.
std::optional<long double> parse_real(std::string_view text);
std::string real_text(long double value);  // 17 digits after the point, without trailing zeros

// The argument, or nothing, and the reply says that it is not an integer.
std::optional<int64_t> integer_argument(std::string_view text, RespWriter& reply, std::string_view error = kNotInteger);

// A value's deadline from a command's argument: a duration (or, if absolute, a point in time) in units of `unit_ms`.
// Nothing: it is out of range, and the reply says so in the words of `command`.
std::optional<int64_t> deadline_of(int64_t amount, int64_t unit_ms, bool absolute, int64_t now_ms,
                                   std::string_view command, RespWriter& reply);

std::string lower_case(std::string_view text);

}  // namespace weft
