#include "weft/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace weft {

void check_failed(const char* expression, const char* file, int line, const char* why) {
  std::fprintf(stderr, "weft: %s:%d: check failed: %s (%s)\n", file, line, expression, why);
  std::abort();
}

}  // namespace weft
