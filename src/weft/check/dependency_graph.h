// The dependencies between committed transactions as a directed graph, linear in the history.
//
// Nodes 0 .. txns - 1 are the transactions; those above are junctions, which keep the graph linear where a set of
// transactions all precede another set. Edges out of junctions are kPass and mean nothing by themselves: a path
// T -kind-> junction -pass-> ... -pass-> U is one dependency of that kind.
//   Barriers: one for each moment between a completion and the next invocation, in a chain: completed before -rt->
//     barrier -pass-> invoked after. So T reaches U by rt exactly if T completed before U was invoked.
//   Unseen chains: everyone who read a key's last known state precedes everyone whose append nobody saw, except
//     itself, which is why there are two chains, one to all on its left and one to all on its right.
// Junctions alone make no cycle, and no junction leads a transaction to itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/check/checker.h"
#include "weft/check/history_index.h"

namespace weft::checking {

enum EdgeKind : uint8_t {
  kWw = static_cast<uint8_t>(Dependency::kWw),
  kWr = static_cast<uint8_t>(Dependency::kWr),
  kRw = static_cast<uint8_t>(Dependency::kRw),
  kRt = static_cast<uint8_t>(Dependency::kRt),
  kPass = 16,
};
using EdgeMask = uint8_t;  // of EdgeKind

struct Edge {
  uint32_t from = 0;
  uint32_t to = 0;
  uint32_t key = 0;       // of ww, wr, rw
  uint32_t position = 0;  // in the key's order: of the append at the edge's start (ww, wr) or of the first one not read
  EdgeKind kind = kPass;
};

class DependencyGraph {
 public:
  explicit DependencyGraph(const HistoryIndex& index);

  size_t txns() const { return txns_; }
  size_t nodes() const { return nodes_; }
  std::span<const Edge> edges() const { return edges_; }  // by their start
  uint32_t edges_begin(uint32_t node) const { return begin_[node]; }
  uint32_t edges_end(uint32_t node) const { return begin_[node + 1]; }

 private:
  uint32_t junction() { return nodes_++; }
  void add(uint32_t from, uint32_t to, EdgeKind kind, uint32_t key = 0, uint32_t position = 0);
  void add_versions(const HistoryIndex& index);
  void add_reads(const HistoryIndex& index);
  void add_unseen(const HistoryIndex& index);
  void add_real_time(const HistoryIndex& index);
  void sort_edges();

  uint32_t txns_;
  uint32_t nodes_;
  std::vector<Edge> edges_;
  std::vector<uint32_t> begin_;
};

}  // namespace weft::checking
