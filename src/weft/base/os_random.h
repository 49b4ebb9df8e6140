// What the operating system draws: for names that must differ between processes. Not for anything a test repeats.
#pragma once

#include <cstdint>

namespace weft {

uint64_t os_random();  // never 0

}  // namespace weft
