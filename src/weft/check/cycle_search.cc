#include "weft/check/cycle_search.h"

#include <algorithm>
#include <deque>
#include <tuple>
#include <utility>

namespace weft::checking {
namespace {

constexpr uint64_t kBudgetEdges = 100'000'000;  // to find a cycle of a class
constexpr uint64_t kPolishEdges = 5'000'000;    // to find a shorter one once there is one
constexpr uint32_t kShortest = 2;               // no transaction depends on itself

}  // namespace

CycleSearch::CycleSearch(const DependencyGraph& graph) : graph_(graph), reached_(graph.nodes()) {}

std::vector<uint32_t> CycleSearch::find() {
  constexpr EdgeMask kAll = kWw | kWr | kRw | kRt | kPass;
  if (components(kAll).acyclic()) return {};
  for (const EdgeMask time : {EdgeMask{0}, EdgeMask{kRt}}) {
    const auto with = [time](int mask) { return static_cast<EdgeMask>(mask | kPass | time); };
    if (Cycle c = shortest(with(kWw)); !c.empty()) return c;
    if (Cycle c = shortest(with(kWw | kWr)); !c.empty()) return c;
    if (Cycle c = with_one_rw(with(kWw | kWr)); !c.empty()) return c;
    if (Cycle c = shortest(with(kWw | kWr | kRw)); !c.empty()) return c;
  }
  return {};
}

CycleSearch::Components CycleSearch::components(EdgeMask mask) const {
  struct Frame {
    uint32_t node;
    uint32_t edge;
  };
  const auto nodes = static_cast<uint32_t>(graph_.nodes());
  Components out{std::vector<uint32_t>(nodes, kNobody), {}};
  std::vector<uint32_t> order(nodes, kNobody);
  std::vector<uint32_t> low(nodes, 0);
  std::vector<uint32_t> open;
  std::vector<Frame> stack;
  uint32_t visited = 0;
  const auto enter = [&](uint32_t node) {
    order[node] = low[node] = visited++;
    open.push_back(node);
    stack.push_back({node, graph_.edges_begin(node)});
  };
  for (uint32_t root = 0; root < nodes; ++root) {
    if (order[root] != kNobody) continue;
    enter(root);
    while (!stack.empty()) {
      const uint32_t node = stack.back().node;
      if (stack.back().edge < graph_.edges_end(node)) {
        const Edge& edge = graph_.edges()[stack.back().edge++];
        if ((edge.kind & mask) == 0) continue;
        if (order[edge.to] == kNobody) {
          enter(edge.to);
        } else if (out.of[edge.to] == kNobody) {
          low[node] = std::min(low[node], order[edge.to]);
        }
        continue;
      }
      stack.pop_back();
      if (!stack.empty()) low[stack.back().node] = std::min(low[stack.back().node], low[node]);
      if (low[node] != order[node]) continue;
      const auto component = static_cast<uint32_t>(out.size.size());
      out.size.push_back(0);
      uint32_t member = kNobody;
      do {
        member = open.back();
        open.pop_back();
        out.of[member] = component;
        ++out.size[component];
      } while (member != node);
    }
  }
  return out;
}

bool CycleSearch::path(uint32_t from, uint32_t to, EdgeMask mask, const std::vector<uint32_t>& of, uint32_t low,
                       uint32_t high, Cycle& out, uint32_t& weight) {
  ++searches_;
  std::deque<uint32_t> queue{from};
  reached_[from] = {searches_, 0, kNobody, false};
  const bool around = from == to;
  uint32_t last = kNobody;  // the edge that closes a path around
  while (!queue.empty() && budget_ > 0) {
    const uint32_t node = queue.front();
    queue.pop_front();
    if (std::exchange(reached_[node].done, true)) continue;
    if (!around && node == to) {
      last = reached_[to].edge;
      weight = reached_[to].distance;
      break;
    }
    // A path around returns over an edge back to its start; the search ends when no cheaper edge back can follow.
    if (around && last != kNobody && reached_[node].distance >= weight) break;
    for (uint32_t e = graph_.edges_begin(node); e < graph_.edges_end(node) && budget_ > 0; ++e, --budget_) {
      const Edge& edge = graph_.edges()[e];
      if ((edge.kind & mask) == 0 || of[edge.to] < low || of[edge.to] > high) continue;
      const uint32_t step = edge.kind == kPass ? 0 : 1;
      const uint32_t distance = reached_[node].distance + step;
      if (around && edge.to == to) {
        if (last == kNobody || distance < weight) {
          last = e;
          weight = distance;
        }
        continue;
      }
      Reached& next = reached_[edge.to];
      if (next.search == searches_ && (next.done || next.distance <= distance)) continue;
      next = {searches_, distance, e, false};
      if (step == 0) {
        queue.push_front(edge.to);
      } else {
        queue.push_back(edge.to);
      }
    }
  }
  if (last == kNobody) return false;
  out.clear();
  for (uint32_t e = last; e != kNobody; e = reached_[graph_.edges()[e].from].edge) out.push_back(e);
  std::reverse(out.begin(), out.end());
  return true;
}

// The shortest cycle over `mask`. Starts in the smallest component, where cycles are shortest and cheapest to find.
CycleSearch::Cycle CycleSearch::shortest(EdgeMask mask) {
  const Components parts = components(mask);
  if (parts.acyclic()) return {};
  std::vector<std::pair<uint32_t, uint32_t>> starts;  // (component, transaction)
  for (uint32_t t = 0; t < graph_.txns(); ++t) {
    if (parts.size[parts.of[t]] > 1) starts.push_back({parts.of[t], t});
  }
  std::sort(starts.begin(), starts.end(), [&parts](const auto& a, const auto& b) {
    return std::tuple(parts.size[a.first], a.first, a.second) < std::tuple(parts.size[b.first], b.first, b.second);
  });
  Cycle best;
  uint32_t best_weight = kNobody;
  for (const auto& [part, txn] : starts) {
    // The first search cannot fail: a transaction in a component of several nodes lies on a cycle.
    if (best.empty()) budget_ = ~uint64_t{0};
    Cycle cycle;
    uint32_t weight = 0;
    if (path(txn, txn, mask, parts.of, part, part, cycle, weight) && weight < best_weight) {
      if (best.empty()) budget_ = kPolishEdges;
      best = std::move(cycle);
      best_weight = weight;
    }
    if (best_weight == kShortest || budget_ == 0) break;
  }
  return best;
}

// A cycle of one rw edge and otherwise edges of `others`, which alone have no cycle. An rw edge closes one only if
// it leads backwards in their topological order, and only nodes between its ends can lie on it.
CycleSearch::Cycle CycleSearch::with_one_rw(EdgeMask others) {
  const Components all = components(others | kRw);
  if (all.acyclic()) return {};
  const Components parts = components(others);
  std::vector<std::pair<uint32_t, uint32_t>> candidates;  // (distance back, edge)
  for (uint32_t e = 0; e < graph_.edges().size(); ++e) {
    const Edge& edge = graph_.edges()[e];
    if (edge.kind != kRw || all.of[edge.from] != all.of[edge.to]) continue;
    const uint32_t from = parts.of[edge.from];
    const uint32_t to = parts.of[edge.to];
    if (to > from) candidates.push_back({to - from, e});
  }
  std::sort(candidates.begin(), candidates.end());
  budget_ = kBudgetEdges;
  Cycle best;
  uint32_t best_weight = kNobody;
  for (const auto& [distance, e] : candidates) {
    const Edge& edge = graph_.edges()[e];
    Cycle cycle;
    uint32_t weight = 0;
    if (path(edge.to, edge.from, others, parts.of, parts.of[edge.from], parts.of[edge.to], cycle, weight) &&
        weight + 1 < best_weight) {
      if (best.empty()) budget_ = std::min(budget_, kPolishEdges);
      cycle.insert(cycle.begin(), e);
      best = std::move(cycle);
      best_weight = weight + 1;
    }
    if (best_weight == kShortest || budget_ == 0) break;
  }
  return best;
}

}  // namespace weft::checking
