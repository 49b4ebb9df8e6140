// Sets of nodes for tests.
#pragma once

#include <initializer_list>

#include "weft/fabric/nodes.h"

namespace weft {

constexpr NodeSet node_set(std::initializer_list<int> nodes) {
  NodeSet set;
  for (const int node : nodes) set.add(NodeId(static_cast<uint8_t>(node)));
  return set;
}

}  // namespace weft
