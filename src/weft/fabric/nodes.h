// Sets of nodes, and nodes as text. A set is a bit mask; bit n stands for node n.
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "weft/types.h"

namespace weft {

constexpr uint64_t bit(NodeId node) { return uint64_t{1} << node.value; }

template <class F>
void for_each_node(uint64_t mask, F f) {
  for (; mask != 0; mask &= mask - 1) f(NodeId(static_cast<uint8_t>(std::countr_zero(mask))));
}

// "node 3 incarnation 7"
inline std::string member_text(NodeId node, uint32_t incarnation) {
  return "node " + std::to_string(node.value) + " incarnation " + std::to_string(incarnation);
}

}  // namespace weft
