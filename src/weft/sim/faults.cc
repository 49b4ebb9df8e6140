#include "weft/sim/faults.h"

#include <algorithm>
#include <utility>

namespace weft {

namespace {

constexpr std::string_view kFaultNames[kFaults] = {"pause", "slow-node", "slow-link", "burst",  "crash", "cut", "away",
                                                   "skew",  "break",     "one-way",   "unseen", "alone", "down"};

NodeId any_node(Random& random, int nodes) {
  return NodeId(static_cast<uint8_t>(random.below(static_cast<uint64_t>(nodes))));
}

// Draws two nodes, if there are two. The node that is removed usually does not hear of it before its leases have
// expired.
void draw_link(Random& random, int nodes, uint64_t lease_ns, FaultWindow& window) {
  const uint64_t others = static_cast<uint64_t>(std::max(nodes - 1, 1));
  window.b = NodeId(static_cast<uint8_t>((window.a.value + 1 + random.below(others)) % static_cast<uint64_t>(nodes)));
  window.factor = static_cast<uint32_t>(random.between(1, 100));
  window.to_ns = window.from_ns + random.between(lease_ns / 4, 4 * lease_ns);
  // Of two members that have lost each other the younger is removed, at first the one with the larger id. More often
  // that is the one that is cut off from membership.
  if (window.fault == Fault::kBreak && window.factor % 8 != 0 && window.b < window.a) std::swap(window.a, window.b);
}

// A link that stays down, or one that flaps: down and up again for about as long, several times.
void draw_down(Random& random, uint64_t lease_ns, const FaultWindow& window, FaultPlan& plan) {
  const bool flaps = random.chance(50);
  FaultWindow down = window;
  for (uint64_t left = flaps ? random.between(4, 12) : 1; left > 0; --left) {
    down.to_ns = down.from_ns + (flaps ? random.between(lease_ns, 4 * lease_ns) : random.between(10, 40) * lease_ns);
    plan.add(down);
    down.from_ns = down.to_ns + random.between(1, 4 * lease_ns);
  }
}

}  // namespace

std::string_view fault_name(Fault fault) { return kFaultNames[static_cast<size_t>(fault)]; }

Result<FaultMask> parse_faults(std::string_view list) {
  FaultMask mask;
  if (list == "none") return mask;
  if (list == "all") return FaultMask::all();
  while (!list.empty()) {
    const std::string_view name = list.substr(0, list.find(','));
    const auto* found = std::find(std::begin(kFaultNames), std::end(kFaultNames), name);
    if (found == std::end(kFaultNames)) {
      std::string known;
      for (const std::string_view one : kFaultNames) known += std::string(one) + ", ";
      return Error{Code::kBadOption,
                   "--faults: unknown fault \"" + std::string(name) + "\"; known are " + known + "all, none"};
    }
    mask.add(static_cast<Fault>(found - std::begin(kFaultNames)));
    list.remove_prefix(std::min(list.size(), name.size() + 1));
  }
  return mask;
}

std::string faults_text(FaultMask mask) {
  std::string text;
  for (int i = 0; i < kFaults; ++i) {
    if (!mask.has(static_cast<Fault>(i))) continue;
    if (!text.empty()) text += ',';
    text += kFaultNames[i];
  }
  return text.empty() ? "none" : text;
}

FaultPlan FaultPlan::draw(Random& random, FaultMask mask, int nodes, uint64_t horizon_ns, uint64_t lease_ns) {
  FaultPlan plan;
  for (int i = 0; i < kFaults; ++i) {
    const auto fault = static_cast<Fault>(i);
    if (!mask.has(fault)) continue;
    for (uint64_t n = random.between(1, 4); n > 0; --n) {
      FaultWindow window{fault, random.below(horizon_ns), 0, any_node(random, nodes), any_node(random, nodes), 1};
      const uint64_t longest_ns = std::max<uint64_t>(horizon_ns / 4, 2);
      window.to_ns = window.from_ns + random.between(1, random.chance(50) ? longest_ns : longest_ns / 10 + 1);
      if (fault == Fault::kSlowNode) window.factor = static_cast<uint32_t>(random.between(2, 50));
      if (fault == Fault::kSlowLink) window.factor = static_cast<uint32_t>(random.between(2, 30));
      if (fault == Fault::kBurst) window.factor = static_cast<uint32_t>(random.between(1, 100));
      // Longer than some leases, so that a silent node is removed; a short cut only delays.
      if (fault == Fault::kCrash || fault == Fault::kCut || fault == Fault::kAway) {
        window.to_ns = window.from_ns + random.between(100'000, 20'000'000);
      }
      if (FaultMask::links().has(fault)) draw_link(random, nodes, lease_ns, window);
      if (fault == Fault::kDown) {
        draw_down(random, lease_ns, window, plan);
      } else if (fault != Fault::kSkew) {
        plan.add(window);
      }
    }
  }
  return plan;
}

uint64_t FaultPlan::links_drained_ns(uint64_t now_ns) const {
  uint64_t drained_ns = now_ns;
  for (const FaultWindow& window : windows_) {
    const bool holds_back = window.fault == Fault::kCut || window.fault == Fault::kOneWay ||
                            window.fault == Fault::kAlone || window.fault == Fault::kDown;
    if (holds_back && window.from_ns < now_ns) drained_ns = std::max(drained_ns, window.to_ns);
  }
  return drained_ns;
}

uint64_t FaultPlan::runs_at(NodeId node, uint64_t at_ns) const {
  // Windows may touch or overlap: start again from the end of a window that is in effect.
  for (bool moved = true; moved;) {
    moved = false;
    for (const FaultWindow& window : windows_) {
      if (window.fault != Fault::kPause || window.a != node || !holds(window, at_ns)) continue;
      at_ns = window.to_ns;
      moved = true;
    }
  }
  return at_ns;
}

uint64_t FaultPlan::step_factor(NodeId node, uint64_t at_ns) const {
  uint64_t factor = 1;
  for (const FaultWindow& window : windows_) {
    if (window.fault == Fault::kSlowNode && window.a == node && holds(window, at_ns)) factor *= window.factor;
  }
  return factor;
}

bool FaultPlan::membership_away(uint64_t at_ns) const {
  return std::any_of(windows_.begin(), windows_.end(),
                     [&](const FaultWindow& window) { return window.fault == Fault::kAway && holds(window, at_ns); });
}

uint64_t FaultPlan::membership_reachable_at(NodeId node, uint64_t at_ns) const {
  uint64_t reachable_ns = at_ns;
  for (const FaultWindow& window : windows_) {
    const bool deaf = (window.fault == Fault::kCut && window.a == node) ||
                      (window.fault == Fault::kUnseen && window.a == node) ||
                      (window.fault == Fault::kBreak && window.b == node && window.factor % 2 == 0);
    if (deaf && holds(window, at_ns)) {
      reachable_ns = std::max(reachable_ns, std::min(window.to_ns, healed_ns_));
    }
  }
  return reachable_ns;
}

uint64_t FaultPlan::link_up_at(NodeId a, NodeId b, uint64_t at_ns) const {
  for (bool moved = true; moved;) {
    moved = false;
    for (const FaultWindow& window : windows_) {
      const bool between = (window.a == a && window.b == b) || (window.a == b && window.b == a);
      if (window.fault != Fault::kDown || !between || !holds(window, at_ns)) continue;
      at_ns = window.to_ns;
      moved = true;
    }
  }
  return at_ns;
}

uint64_t FaultPlan::latency_with_faults(NodeId a, NodeId b, uint64_t at_ns, uint64_t latency_ns, Random& random) const {
  uint64_t held_ns = 0;  // until the last window that holds it back ends
  for (const FaultWindow& window : windows_) {
    if (!holds(window, at_ns)) continue;
    if (window.fault == Fault::kSlowLink && window.a == a && window.b == b) latency_ns *= window.factor;
    const bool between = (window.a == a && window.b == b) || (window.a == b && window.b == a);
    const bool one_way = window.a == a && window.b == b;
    const bool alone = window.a == a || window.a == b;
    if ((window.fault == Fault::kCut && between) || (window.fault == Fault::kDown && between) ||
        (window.fault == Fault::kOneWay && one_way) || (window.fault == Fault::kAlone && alone)) {
      held_ns = std::max(held_ns, std::min(window.to_ns, healed_ns_) - at_ns);
    }
    if (window.fault == Fault::kBurst) latency_ns += random.below(uint64_t{window.factor} * 1000);
  }
  return latency_ns + held_ns;
}

}  // namespace weft
