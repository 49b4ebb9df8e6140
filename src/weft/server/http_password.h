// Password check of HTTP requests: Basic, with any user name, or Bearer.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

enum class PasswordGiven : uint8_t { kNone, kWrong, kRight };

// `header`: the value of Authorization; empty if there is none. Its running time reveals neither where a wrong
// password differs nor how long the right one is.
PasswordGiven password_given(std::string_view header, std::string_view wanted);

}  // namespace weft
