// Faults as data: a plan is a list of windows of virtual time, drawn from the seed before the run starts. The first
// four kinds only change the timing. The others cause recovery; the last five of them affect only links, while all
// nodes keep running.
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
  kPause,     // a node's workers do not run; its NIC goes on working
  kSlowNode,  // steps of a node take `factor` times as long
  kSlowLink,  // whatever node a sends to node b takes `factor` times as long
  kBurst,     // everything sent takes up to `factor` microseconds longer
  kCrash,     // a node's process ends when the window begins; another process starts when the window ends
  kCut,  // nothing travels between nodes a and b in either direction; what was sent arrives afterwards. Node a does not
         // reach membership either
  kAway,    // the membership service accepts no proposals and sends no views
  kSkew,    // the nodes' clocks differ, and drift apart
  kBreak,   // the connection between nodes a and b breaks when the window begins: what is in flight is lost, and both
            // ends notice. These two processes are connected again only for a view that has both. If `factor` is even,
            // node b hears nothing from membership during the window
  kOneWay,  // nothing travels from node a to node b; what was sent arrives afterwards
  kUnseen,  // node a does not reach membership, only its peers
  kAlone,   // node a does not reach its peers, only membership; what was sent arrives afterwards
  kDown,    // the link between nodes a and b is down for several leases: their connection breaks, and no new one can be
            // made, not even by a new process of either node
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
  NodeId a, b;         // different where a fault concerns two nodes
  uint32_t factor = 1;
};

class FaultPlan {
 public:
  // Draws a few windows of each kind in the mask, beginning within [0, horizon_ns). Windows of link faults last up to
  // several leases.
  static FaultPlan draw(Random& random, FaultMask mask, int nodes, uint64_t horizon_ns, uint64_t lease_ns);

  void add(const FaultWindow& window) { windows_.push_back(window); }
  const std::vector<FaultWindow>& windows() const { return windows_; }
  // Ends every window: no fault of the plan is in effect from now on.
  void heal(uint64_t now_ns) { healed_ns_ = now_ns; }

  // The time at which everything that was sent over links cut before `now_ns` has arrived. Later packets do not
  // overtake it.
  uint64_t links_drained_ns(uint64_t now_ns) const;
  // The first time from `at_ns` on at which the node runs.
  uint64_t runs_at(NodeId node, uint64_t at_ns) const;
  uint64_t step_factor(NodeId node, uint64_t at_ns) const;
  bool membership_away(uint64_t at_ns) const;
  // The time at which a node that is cut off from membership reaches it again; at_ns if it is not cut off.
  uint64_t membership_reachable_at(NodeId node, uint64_t at_ns) const;
  // The first time from `at_ns` on at which the link between these two nodes is not down.
  uint64_t link_up_at(NodeId a, NodeId b, uint64_t at_ns) const;
  // The latency from a to b with the faults that are in effect.
  uint64_t latency_with_faults(NodeId a, NodeId b, uint64_t at_ns, uint64_t latency_ns, Random& random) const;

 private:
  bool holds(const FaultWindow& window, uint64_t at_ns) const {
    return window.from_ns <= at_ns && at_ns < window.to_ns && at_ns < healed_ns_;
  }
  std::vector<FaultWindow> windows_;
  uint64_t healed_ns_ = UINT64_MAX;
};

}  // namespace weft
