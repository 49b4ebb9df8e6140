// Sets of small numbers as bit masks.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace weft {

constexpr uint64_t bit(size_t n) { return uint64_t{1} << n; }
constexpr size_t first_bit(uint64_t mask) { return static_cast<size_t>(std::countr_zero(mask)); }

}  // namespace weft
