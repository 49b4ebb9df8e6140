// Finds a short cycle of the strongest class in a dependency graph: first whether there is one at all (one pass of
// Tarjan's algorithm, without recursion), and only then, class by class, which.
//
// The search for the class is bounded by work, counted in edges and so the same on every run. A cycle is always
// found if there is one; beyond the bound it may not be the shortest, and may be a G2 where a G-single exists too.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/check/dependency_graph.h"

namespace weft::checking {

class CycleSearch {
 public:
  explicit CycleSearch(const DependencyGraph& graph);

  // Edges, numbered as in the graph, from a transaction around to itself; empty if the graph has no cycle.
  std::vector<uint32_t> find();

 private:
  struct Components {
    std::vector<uint32_t> of;    // per node; an edge never leads to a component with a higher number
    std::vector<uint32_t> size;  // per component
    bool acyclic() const { return size.size() == of.size(); }
  };
  using Cycle = std::vector<uint32_t>;

  Components components(EdgeMask mask) const;
  Cycle shortest(EdgeMask mask);
  Cycle with_one_rw(EdgeMask others);
  // The lightest path by 0-1 breadth-first search over `mask`, among nodes whose number in `of` is in [low, high].
  // False if there is none; else the path's edges, and its weight: edges that are not kPass.
  bool path(uint32_t from, uint32_t to, EdgeMask mask, const std::vector<uint32_t>& of, uint32_t low, uint32_t high,
            Cycle& out, uint32_t& weight);

  const DependencyGraph& graph_;
  uint64_t budget_ = 0;

  struct Reached {
    uint32_t search = 0;  // the search that wrote this entry
    uint32_t distance = 0;
    uint32_t edge = 0;
    bool done = false;
  };
  std::vector<Reached> reached_;
  uint32_t searches_ = 0;
};

}  // namespace weft::checking
