// Nodes and workers for the tests of wires.
#pragma once

#include "weft/types.h"

namespace weft {

inline constexpr NodeId kA(0), kB(1), kC(2);
inline constexpr WorkerId kW0(0), kW1(1);

}  // namespace weft
