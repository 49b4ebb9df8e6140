// Owners for tests: of clusters of up to 64 workers a node.
#pragma once

#include <cstdint>

#include "weft/store/record.h"
#include "weft/types.h"

namespace weft {

inline constexpr OwnerFormat kOwners(64, kSlotsMax);
constexpr Owner make_owner(NodeId node, WorkerId worker, uint8_t slot) { return kOwners.make(node, worker, slot); }

}  // namespace weft
