#include "weft/base/os_random.h"

#include <sys/random.h>

#include "weft/base/check.h"

namespace weft {

uint64_t os_random() {
  uint64_t drawn = 0;
  while (drawn == 0) WEFT_CHECK(getrandom(&drawn, sizeof drawn, 0) == sizeof drawn, "getrandom");
  return drawn;
}

}  // namespace weft
