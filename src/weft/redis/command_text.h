// What the commands' files share: numbers as Redis reads and writes them, and replies that many give.
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

// No plus, no space, no zero in front, no minus zero.
std::optional<int64_t> parse_integer(std::string_view text);
// As strtold reads it, but no space in front and nothing behind.
std::optional<long double> parse_real(std::string_view text);
std::string real_text(long double value);  // 17 digits behind the point, without the zeros at the end

// The argument, or the reply says that it is no integer.
std::optional<int64_t> integer_argument(std::string_view text, RespWriter& reply, std::string_view error = kNotInteger);

// A value's deadline from what a command says: so much time (or, absolute, the moment) in units of `unit_ms`.
// Nothing: it is out of range, and the reply says so as `command` would.
std::optional<int64_t> deadline_of(int64_t amount, int64_t unit_ms, bool absolute, int64_t now_ms,
                                   std::string_view command, RespWriter& reply);

std::string lower_case(std::string_view text);

}  // namespace weft
