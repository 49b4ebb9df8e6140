// Sets of nodes, and nodes as text.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>

#include "weft/types.h"

namespace weft {

// A set of nodes in one word: bit n stands for node n.
//
// A loop over a set visits its nodes in the order of their ids. It visits the nodes that were in the set when the loop
// began, so its body may change the set.
class NodeSet {
 public:
  class Iterator {
   public:
    constexpr explicit Iterator(uint64_t left) : left_(left) {}
    constexpr NodeId operator*() const { return NodeId(static_cast<uint8_t>(std::countr_zero(left_))); }
    constexpr Iterator& operator++() {
      left_ &= left_ - 1;
      return *this;
    }
    friend constexpr bool operator==(Iterator, Iterator) = default;

   private:
    uint64_t left_;
  };

  constexpr NodeSet() = default;
  static constexpr NodeSet of(NodeId node) { return NodeSet(uint64_t{1} << node.value); }
  static constexpr NodeSet below(NodeId node) { return NodeSet((uint64_t{1} << node.value) - 1); }  // smaller ids

  // For messages, atomics and the public API. What comes from a peer may have bits that stand for no node.
  static constexpr NodeSet from_bits(uint64_t bits) { return NodeSet(bits); }
  constexpr uint64_t bits() const { return bits_; }

  constexpr bool contains(NodeId node) const { return (bits_ >> node.value & 1U) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr int size() const { return std::popcount(bits_); }
  constexpr NodeId first() const { return *begin(); }  // of a set that is not empty
  constexpr Iterator begin() const { return Iterator(bits_); }
  constexpr Iterator end() const { return Iterator(0); }

  constexpr void add(NodeId node) { *this |= of(node); }
  constexpr void remove(NodeId node) { *this -= of(node); }

  constexpr NodeSet& operator|=(NodeSet other) { return *this = *this | other; }
  constexpr NodeSet& operator&=(NodeSet other) { return *this = *this & other; }
  constexpr NodeSet& operator-=(NodeSet other) { return *this = *this - other; }
  friend constexpr NodeSet operator|(NodeSet a, NodeSet b) { return NodeSet(a.bits_ | b.bits_); }
  friend constexpr NodeSet operator&(NodeSet a, NodeSet b) { return NodeSet(a.bits_ & b.bits_); }
  friend constexpr NodeSet operator-(NodeSet a, NodeSet b) { return NodeSet(a.bits_ & ~b.bits_); }
  friend constexpr bool operator==(NodeSet, NodeSet) = default;

 private:
  constexpr explicit NodeSet(uint64_t bits) : bits_(bits) {}

  uint64_t bits_ = 0;
};
static_assert(kNodesMax < 64, "a bit for every node, and for kNodesMax, which is nobody");
static_assert(sizeof(NodeSet) == 8 && std::is_trivially_copyable_v<NodeSet> && std::is_standard_layout_v<NodeSet>,
              "messages hold it as a word");

// "node 3 incarnation 7"
inline std::string member_text(NodeId node, uint32_t incarnation) {
  return "node " + std::to_string(node.value) + " incarnation " + std::to_string(incarnation);
}

}  // namespace weft
