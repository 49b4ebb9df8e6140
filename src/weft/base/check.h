// WEFT_CHECK is for our own bugs and stays on in release builds; an error (status.h) is for everything else. Input from
// a peer, a file or a user is never checked with it.
#pragma once

namespace weft {

[[noreturn]] void check_failed(const char* expression, const char* file, int line, const char* why);

}  // namespace weft

#define WEFT_CHECK(expression, why)                               \
  do {                                                            \
    if (!(expression)) [[unlikely]]                               \
      ::weft::check_failed(#expression, __FILE__, __LINE__, why); \
  } while (0)
