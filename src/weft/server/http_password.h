// Who may look at a site with a password: HTTP Basic, with any name, or Bearer.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

enum class PasswordGiven : uint8_t { kNone, kWrong, kRight };

// `header`: what Authorization says; empty if there is none. The time that it takes says nothing about where a wrong
// password differs, nor how long the right one is.
PasswordGiven password_given(std::string_view header, std::string_view wanted);

}  // namespace weft
