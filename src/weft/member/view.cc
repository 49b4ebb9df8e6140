#include "weft/member/view.h"

#include <array>
#include <string>

#include "weft/base/check.h"
#include "weft/base/marks.h"

namespace weft {
namespace {

constexpr std::array<std::string_view, 3> kRolesNames = {"both", "data", "transactions"};

void set_replicas(Placement& placement, NodeSet in_sync, NodeId primary) {
  placement.in_sync = in_sync;
  placement.count = 0;
  placement.replicas = {};
  placement.replicas[placement.count++] = primary;
  for (const NodeId backup : in_sync - NodeSet::of(primary)) placement.replicas[placement.count++] = backup;
}

using PerNode = std::array<int, kNodesMax + 1>;

// Each partition's primary becomes the in-sync replica with the fewest primaries so far. Then a node that has two more
// primaries than another replica of one of its partitions hands that partition over.
void spread_primaries(View& view) {
  PerNode primaries{};
  const auto poorest = [&](const Placement& placement) {
    NodeId best = placement.primary();
    for (int r = 0; r < placement.count; ++r) {
      const NodeId node = placement.replicas[static_cast<size_t>(r)];
      if (primaries[node.value] < primaries[best.value]) best = node;
    }
    return best;
  };
  for (Placement& placement : view.partitions) {
    const NodeId best = poorest(placement);
    set_replicas(placement, placement.in_sync, best);
    ++primaries[best.value];
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (Placement& placement : view.partitions) {
      const NodeId from = placement.primary();
      const NodeId to = poorest(placement);
      if (primaries[from.value] < primaries[to.value] + 2) continue;
      set_replicas(placement, placement.in_sync, to);
      --primaries[from.value];
      ++primaries[to.value];
      moved = true;
    }
  }
}

// Replicas that each member has, in sync or catching up, and keeps.
PerNode loads_of(const View& view) {
  PerNode loads{};
  for (const Placement& placement : view.partitions) {
    for (const NodeId node : (placement.in_sync | placement.catching_up) - placement.draining) ++loads[node.value];
  }
  return loads;
}

// Assigns every partition that misses a replica to another member, the one with the fewest, to catch up.
void fill_missing(View& view) {
  PerNode held = loads_of(view);
  for (Placement& placement : view.partitions) {
    while ((placement.in_sync | placement.catching_up).size() < view.replicas) {
      const Member* best = nullptr;
      for (const Member& m : view.members) {
        if (!holds_data(m.roles) || (placement.in_sync | placement.catching_up).contains(m.node)) continue;
        if (best == nullptr || held[m.node.value] < held[best->node.value]) best = &m;
      }
      if (best == nullptr) break;
      placement.catching_up.add(best->node);
      ++held[best->node.value];
    }
  }
}

// Lets the member with the fewest replicas catch up on a suitable partition of the one with the most, as long as that
// evens out the load.
void move_replicas(View& view) {
  const auto missing = [&](const Placement& placement) { return placement.count < view.replicas; };
  if (std::any_of(view.partitions.begin(), view.partitions.end(), missing)) return;
  const auto moves = [](const Placement& placement) { return !placement.draining.empty(); };
  const size_t most = (view.partitions.size() + 3) / 4;
  PerNode loads = loads_of(view);
  for (auto moving = static_cast<size_t>(std::count_if(view.partitions.begin(), view.partitions.end(), moves));
       moving < most; ++moving) {
    const Member* poorest = nullptr;
    for (const Member& m : view.members) {
      if (holds_data(m.roles) && (poorest == nullptr || loads[m.node.value] < loads[poorest->node.value])) poorest = &m;
    }
    if (poorest == nullptr) return;
    Placement* best = nullptr;
    NodeId from;
    for (Placement& placement : view.partitions) {
      if (!placement.catching_up.empty() || placement.is_in_sync(poorest->node)) continue;
      for (int r = 0; r < placement.count; ++r) {
        const NodeId node = placement.replicas[static_cast<size_t>(r)];
        if (best != nullptr && loads[node.value] <= loads[from.value]) continue;
        best = &placement;
        from = node;
      }
    }
    if (best == nullptr || loads[from.value] < loads[poorest->node.value] + 2) return;
    WEFT_MARK("a replica begins to move");
    best->catching_up.add(poorest->node);
    best->draining.add(from);
    ++loads[poorest->node.value];
    --loads[from.value];
  }
}

// The last step of every change.
void arrange(View& view) {
  for (Placement& placement : view.partitions) {
    if (placement.draining.empty()) continue;
    if ((placement.in_sync | placement.catching_up).size() > view.replicas) continue;
    WEFT_MARK("a replica that was to leave stays");
    placement.draining = {};
  }
  fill_missing(view);
  move_replicas(view);
  spread_primaries(view);
}

}  // namespace

std::string_view roles_name(NodeRoles roles) { return kRolesNames[static_cast<size_t>(roles)]; }

std::optional<NodeRoles> roles_by_name(std::string_view name) {
  const auto* const at = std::find(kRolesNames.begin(), kRolesNames.end(), name);
  if (at == kRolesNames.end()) return std::nullopt;
  return static_cast<NodeRoles>(at - kRolesNames.begin());
}

std::string_view cause_name(Cause cause) {
  constexpr std::array<std::string_view, kCauses> kNames = {"none", "joined",     "replaced",  "ended", "unheard",
                                                            "link", "misconduct", "reconnect", "filled"};
  return kNames[static_cast<size_t>(cause)];
}

std::string Change::text() const {
  const std::string node = "node " + std::to_string(by.value);
  switch (cause) {
    case Cause::kNone:
      return "nobody says why";
    case Cause::kJoined:
      return node + " came in";
    case Cause::kReplaced:
      return node + " was started anew";
    case Cause::kEnded:
      return "its process has ended, says " + node;
    case Cause::kUnheard:
      return "neither " + node + " nor anybody whom that one hears has heard it";
    case Cause::kLink:
      return node + " has lost its connection to it, and others have not";
    case Cause::kMisconduct:
      return "it sent " + node + " what no member sends";
    case Cause::kReconnect:
      return node + " has lost a member that must stay";
    case Cause::kCaughtUp:
      return node + " has filled its replicas";
  }
  return {};
}

std::optional<NodeId> View::caretaker_of(PartitionId partition) const {
  const NodeId primary = placement(partition).primary();
  std::vector<NodeId> runners;
  for (const Member& m : members) {
    if (!weft::runs_transactions(m.roles)) continue;
    if (m.node == primary) return primary;
    runners.push_back(m.node);
  }
  if (runners.empty()) return std::nullopt;
  return runners[partition.value % runners.size()];
}

bool View::fully_replicated() const {
  return std::all_of(partitions.begin(), partitions.end(),
                     [this](const Placement& p) { return p.count >= replicas && p.catching_up.empty(); });
}

View make_view(const std::vector<NodeRoles>& roles, int replicas, int partitions) {
  View view;
  view.replicas = static_cast<uint8_t>(replicas);
  std::vector<NodeId> holders;
  for (size_t n = 0; n < roles.size(); ++n) {
    const NodeId node(static_cast<uint8_t>(n));
    view.members.push_back({node, view.next_incarnation++, roles[n], 0, {}, {}});
    if (holds_data(roles[n])) holders.push_back(node);
  }
  const auto nodes = static_cast<int>(holders.size());
  WEFT_CHECK(roles.size() <= kNodesMax && replicas >= 1 && replicas <= nodes && replicas <= kReplicasMax,
             "the caller checks its options");
  for (int p = 0; p < partitions; ++p) {
    const int rest = p - partitions / nodes * nodes;
    const int first = rest < 0 ? p : rest * replicas;
    Placement placement;
    for (int r = 0; r < replicas; ++r) {
      const NodeId node = holders[static_cast<size_t>((first + r) % nodes)];
      placement.replicas[static_cast<size_t>(r)] = node;
      placement.in_sync.add(node);
    }
    placement.count = static_cast<uint8_t>(replicas);
    view.partitions.push_back(placement);
  }
  spread_primaries(view);
  return view;
}

View make_view(int nodes, int replicas, int partitions) {
  return make_view(std::vector<NodeRoles>(static_cast<size_t>(nodes), NodeRoles::kBoth), replicas, partitions);
}

View make_view(const Options& options) {
  std::vector<NodeRoles> roles;
  for (int n = 0; n < options.nodes; ++n) roles.push_back(options.roles_of(n));
  return make_view(roles, options.replicas, options.partition_count());
}

View pre_join_view(View view, NodeId node) {
  std::erase_if(view.members, [&](const Member& m) { return m.node == node; });
  view.epoch = Epoch(1);
  return view;
}

Result<View> without_members(const View& view, NodeSet gone) {
  View next = view;
  next.epoch = Epoch(view.epoch.value + 1);
  next.change = {};
  bool held_data = false;
  for (const Member& m : view.members) held_data |= gone.contains(m.node) && holds_data(m.roles);
  std::erase_if(next.members, [gone](const Member& m) { return gone.contains(m.node); });
  if (!held_data) return next;
  for (size_t p = 0; p < next.partitions.size(); ++p) {
    Placement& placement = next.partitions[p];
    placement.catching_up -= gone;
    placement.draining -= gone;
    const NodeSet left = placement.in_sync - gone;
    if (left.empty()) {
      return Error{Code::kPeerUnreachable, "partition " + std::to_string(p) +
                                               " has lost its last whole replica (node " +
                                               std::to_string(placement.primary().value) + ")"};
    }
    set_replicas(placement, left, left.contains(placement.primary()) ? placement.primary() : left.first());
  }
  arrange(next);
  return next;
}

View with_member(const View& view, Member member) {
  View next = view;
  next.epoch = Epoch(view.epoch.value + 1);
  next.change = {};
  member.incarnation = next.next_incarnation++;
  const auto at = std::lower_bound(next.members.begin(), next.members.end(), member,
                                   [](const Member& a, const Member& b) { return a.node < b.node; });
  WEFT_CHECK(at == next.members.end() || at->node != member.node, "a member leaves before it comes back");
  const bool arranges = holds_data(member.roles);
  next.members.insert(at, std::move(member));
  if (arranges) arrange(next);
  return next;
}

View with_next_epoch(const View& view) {
  View next = view;
  next.epoch = Epoch(view.epoch.value + 1);
  next.change = {};
  return next;
}

View with_replica_in_sync(const View& view, NodeId node, const std::vector<PartitionId>& caught_up) {
  View next = view;
  next.epoch = Epoch(view.epoch.value + 1);
  next.change = {};
  for (const PartitionId p : caught_up) {
    Placement& placement = next.partitions[p.value];
    WEFT_CHECK(placement.is_catching_up(node), "only a replica that is catching up comes to be in sync");
    placement.catching_up.remove(node);
    const NodeSet whole = (placement.in_sync | NodeSet::of(node)) - placement.draining;
    const bool keeps = whole.contains(placement.primary());
    if (!keeps) WEFT_MARK("a primary moves away");
    placement.draining = {};
    set_replicas(placement, whole, keeps ? placement.primary() : node);
  }
  arrange(next);
  return next;
}

Result<void> check_view(const View& view, const Options& options) {
  const auto differs = [](const std::string& what, size_t there, int here) -> Result<void> {
    return Error{Code::kBadOption,
                 "the view has " + what + " " + std::to_string(there) + ", and here it is " + std::to_string(here)};
  };
  if (view.partitions.size() != static_cast<size_t>(options.partition_count())) {
    return differs("cluster.partitions", view.partitions.size(), options.partition_count());
  }
  if (view.replicas != options.replicas) return differs("cluster.replicas", view.replicas, options.replicas);
  if (!view.protocol.empty() && view.protocol != options.protocol) {
    return Error{Code::kBadOption, "the cluster was founded with cluster.protocol \"" + view.protocol +
                                       "\", and here it is \"" + options.protocol + "\""};
  }
  for (const Member& member : view.members) {
    if (member.node.value >= options.nodes) {
      return Error{Code::kBadOption, "the view has node " + std::to_string(member.node.value) +
                                         ", and cluster.nodes is " + std::to_string(options.nodes)};
    }
  }
  return {};
}

}  // namespace weft
