// Faults as data: a plan is a list of windows of virtual time, drawn from the seed before the run starts. The first
// four change only when things happen; the others bring recovery into play, the last five of them by links alone: all
// nodes go on running.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/random.h"
#include "weft/status.h"
#include "weft/types.h"

namespace weft {

enum class Fault : uint8_t {
  kPause,     // a node's workers do not run; what its NIC does goes on
  kSlowNode,  // steps of a node take `factor` times as long
  kSlowLink,  // what travels from node a to node b takes `factor` times as long
  kBurst,     // everything sent takes up to `factor` microseconds longer
  kCrash,     // a node's process ends at the window's beginning; another one starts at its end
  kCut,    // nothing travels between nodes a and b, in either direction; what was sent arrives afterwards. Node a has
           // no contact to membership either
  kAway,   // the membership's provider takes and tells nothing
  kSkew,   // the nodes' clocks differ, and run apart
  kBreak,  // the connection between nodes a and b breaks at the window's beginning: what is under way is lost, and both
           // are told. These two processes are connected again only for a view that has both. If `factor` is even, node
           // b hears nothing of membership while the window lasts
  kOneWay,  // nothing travels from node a to node b; what was sent arrives afterwards
  kUnseen,  // node a has no contact to membership, only to its peers
  kAlone,   // node a has no contact to its peers, only to membership; what was sent arrives afterwards
  kDown,  // the link between nodes a and b is down, for longer than some leases: a connection between them breaks, and
          // none can be made, also not by another process of either
};
inline constexpr int kFaults = 13;
inline constexpr int kLinkFaults = 5;  // the last ones
inline constexpr int kTimingFaults = 4;
std::string_view fault_name(Fault fault);

struct FaultMask {
  uint32_t bits = 0;
  static constexpr FaultMask all() { return {(1U << kFaults) - 1}; }
  static constexpr FaultMask timing() { return {(1U << kTimingFaults) - 1}; }
  // Whether views may change.
  constexpr bool recovers() const { return (bits & ~timing().bits) != 0; }
  static constexpr FaultMask links() { return {all().bits & ~(all().bits >> kLinkFaults)}; }
  constexpr bool has(Fault fault) const { return (bits >> static_cast<uint32_t>(fault)) & 1U; }
  constexpr void add(Fault fault) { bits |= 1U << static_cast<uint32_t>(fault); }
  friend constexpr bool operator==(FaultMask, FaultMask) = default;
};
// "pause,burst", "all" or "none"; kBadOption names what is unknown.
Result<FaultMask> parse_faults(std::string_view list);
std::string faults_text(FaultMask mask);

struct FaultWindow {
  Fault fault = Fault::kPause;
  uint64_t from_ns = 0;
  uint64_t to_ns = 0;  // not included
  NodeId a, b;         // not the same where a fault is about two
  uint32_t factor = 1;
};

class FaultPlan {
 public:
  // Windows within [0, horizon_ns) of the kinds in the mask, a few of each; those of links last up to some leases.
  static FaultPlan draw(Random& random, FaultMask mask, int nodes, uint64_t horizon_ns, uint64_t lease_ns);

  void add(const FaultWindow& window) { windows_.push_back(window); }
  const std::vector<FaultWindow>& windows() const { return windows_; }
  // Ends every window: nothing of the plan holds from now on.
  void heal(uint64_t now_ns) { healed_ns_ = now_ns; }

  // When what was sent over links that were cut before `now_ns` has arrived: what is sent later does not overtake it.
  uint64_t links_drained_ns(uint64_t now_ns) const;
  // The first moment from `at_ns` on at which the node runs.
  uint64_t runs_at(NodeId node, uint64_t at_ns) const;
  uint64_t step_factor(NodeId node, uint64_t at_ns) const;
  bool membership_away(uint64_t at_ns) const;
  // When a node that is cut off from membership hears of it again; at_ns if it is not cut off.
  uint64_t membership_reachable_at(NodeId node, uint64_t at_ns) const;
  // The first moment from `at_ns` on at which the link between these two is not down.
  uint64_t link_up_at(NodeId a, NodeId b, uint64_t at_ns) const;
  // What a latency becomes on the way from a to b.
  uint64_t latency_with_faults(NodeId a, NodeId b, uint64_t at_ns, uint64_t latency_ns, Random& random) const;

 private:
  bool holds(const FaultWindow& window, uint64_t at_ns) const {
    return window.from_ns <= at_ns && at_ns < window.to_ns && at_ns < healed_ns_;
  }
  std::vector<FaultWindow> windows_;
  uint64_t healed_ns_ = UINT64_MAX;
};

}  // namespace weft
