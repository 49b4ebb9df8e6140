#include "weft/fabric/view.h"

#include <bit>
#include <string>

#include "weft/base/check.h"

namespace weft {
namespace {

uint64_t bit(NodeId node) { return uint64_t{1} << node.value; }

void set_replicas(Placement& placement, uint64_t mask, NodeId primary) {
  placement.mask = mask;
  placement.count = 0;
  placement.replicas = {};
  placement.replicas[placement.count++] = primary;
  for (uint64_t left = mask & ~bit(primary); left != 0; left &= left - 1) {
    placement.replicas[placement.count++] = NodeId(static_cast<uint8_t>(std::countr_zero(left)));
  }
}

// Each partition's primary becomes, of its whole replicas, the one with the fewest so far.
void spread_primaries(View& view) {
  std::array<int, kNodesMax + 1> primaries{};
  for (Placement& placement : view.partitions) {
    NodeId best = placement.primary();
    for (int r = 0; r < placement.count; ++r) {
      const NodeId node = placement.replicas[static_cast<size_t>(r)];
      if (primaries[node.value] < primaries[best.value]) best = node;
    }
    set_replicas(placement, placement.mask, best);
    ++primaries[best.value];
  }
}

// Gives every partition that misses a replica another member to fill, the one with the fewest.
void fill_missing(View& view) {
  std::array<int, kNodesMax + 1> held{};
  for (const Placement& placement : view.partitions) {
    for (const Member& m : view.members)
      held[m.node.value] += ((placement.mask | placement.filling) & bit(m.node)) != 0;
  }
  for (Placement& placement : view.partitions) {
    while (std::popcount(placement.mask | placement.filling) < view.replicas) {
      const Member* best = nullptr;
      for (const Member& m : view.members) {
        if (!m.holds_data || ((placement.mask | placement.filling) & bit(m.node)) != 0) continue;
        if (best == nullptr || held[m.node.value] < held[best->node.value]) best = &m;
      }
      if (best == nullptr) break;
      placement.filling |= bit(best->node);
      ++held[best->node.value];
    }
  }
}

}  // namespace

bool View::whole() const {
  return std::all_of(partitions.begin(), partitions.end(),
                     [this](const Placement& p) { return p.count >= replicas && p.filling == 0; });
}

View make_view(int nodes, int replicas, int partitions) {
  WEFT_CHECK(nodes >= 1 && nodes <= kNodesMax && replicas >= 1 && replicas <= nodes && replicas <= kReplicasMax,
             "the caller checks its options");
  View view;
  view.replicas = static_cast<uint8_t>(replicas);
  for (int n = 0; n < nodes; ++n) {
    view.members.push_back({NodeId(static_cast<uint8_t>(n)), view.next_incarnation++, true, true, 0, {}});
  }
  for (int p = 0; p < partitions; ++p) {
    Placement placement;
    for (int r = 0; r < replicas; ++r) {
      const NodeId node(static_cast<uint8_t>((p + r) % nodes));
      placement.replicas[static_cast<size_t>(r)] = node;
      placement.mask |= bit(node);
    }
    placement.count = static_cast<uint8_t>(replicas);
    view.partitions.push_back(placement);
  }
  return view;
}

Result<View> without_members(const View& view, uint64_t gone) {
  View next = view;
  next.epoch = Epoch(view.epoch.value + 1);
  std::erase_if(next.members, [gone](const Member& m) { return (gone & bit(m.node)) != 0; });
  for (size_t p = 0; p < next.partitions.size(); ++p) {
    Placement& placement = next.partitions[p];
    placement.filling &= ~gone;
    const uint64_t left = placement.mask & ~gone;
    if (left == 0) {
      return Error{Code::kClosed, "partition " + std::to_string(p) + " has lost its last whole replica (node " +
                                      std::to_string(placement.primary().value) + ")"};
    }
    const bool keeps = (left & bit(placement.primary())) != 0;
    set_replicas(placement, left, keeps ? placement.primary() : NodeId(static_cast<uint8_t>(std::countr_zero(left))));
  }
  fill_missing(next);
  spread_primaries(next);
  return next;
}

View with_member(const View& view, Member member) {
  View next = view;
  next.epoch = Epoch(view.epoch.value + 1);
  member.incarnation = next.next_incarnation++;
  const auto at = std::lower_bound(next.members.begin(), next.members.end(), member,
                                   [](const Member& a, const Member& b) { return a.node < b.node; });
  WEFT_CHECK(at == next.members.end() || at->node != member.node, "a member leaves before it comes back");
  next.members.insert(at, std::move(member));
  fill_missing(next);
  spread_primaries(next);
  return next;
}

View with_whole(const View& view, NodeId node, const std::vector<PartitionId>& filled) {
  View next = view;
  next.epoch = Epoch(view.epoch.value + 1);
  for (const PartitionId p : filled) {
    Placement& placement = next.partitions[p.value];
    WEFT_CHECK(placement.filled_at(node), "only what was filling becomes whole");
    placement.filling &= ~bit(node);
    set_replicas(placement, placement.mask | bit(node), placement.primary());
  }
  spread_primaries(next);
  return next;
}

}  // namespace weft
