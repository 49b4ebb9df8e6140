// Random numbers from the operating system, for names that must differ between processes. Not for anything that must be
// reproducible.
#pragma once

#include <cstdint>

namespace weft {

uint64_t os_random();  // never 0

}  // namespace weft
