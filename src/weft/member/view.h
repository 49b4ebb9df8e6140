// View: plain data that says who is in the cluster and which node holds which partition. Made by member/, read by all.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/fabric/nodes.h"
#include "weft/options.h"
#include "weft/status.h"
#include "weft/types.h"

namespace weft {

inline constexpr int kReplicasMax = 8;
inline constexpr int kPartitionsMax = 4096;
inline constexpr uint32_t kEpochMax = UINT32_MAX / 2;  // ports count two for each view

struct Placement {
  // replicas[0] is the primary, the others are backups; all of them in sync.
  std::array<NodeId, kReplicasMax> replicas{};
  uint8_t count = 0;
  NodeSet in_sync;      // nodes with a complete replica
  NodeSet catching_up;  // nodes that are getting one: they receive every write, answer no reads and have no vote
  NodeSet draining;     // nodes that are in sync, and leave when the replica that is catching up is in sync

  NodeId primary() const { return replicas[0]; }
  bool is_in_sync(NodeId n) const { return in_sync.contains(n); }
  bool is_catching_up(NodeId n) const { return catching_up.contains(n); }
  friend bool operator==(const Placement&, const Placement&) = default;
};

// "both", "data", "transactions"
std::string_view roles_name(NodeRoles roles);
std::optional<NodeRoles> roles_by_name(std::string_view name);

struct Member {
  NodeId node;
  uint32_t incarnation = 0;  // given at join, never reused in this cluster
  NodeRoles roles = NodeRoles::kBoth;
  uint64_t token = 0;   // chosen by the process that joined, to recognize itself
  std::string address;  // of its interconnect, where there is one
  std::string clients;  // host:port where it answers clients; empty: nowhere
  friend bool operator==(const Member&, const Member&) = default;
};

// Why a view was made, for people and for judging the next failure (member/failure_detector.h).
enum class Cause : uint8_t {
  kNone,
  kJoined,
  kReplaced,    // a process makes room for the next one of its node
  kEnded,       // a process has ended
  kUnheard,     // nobody hears a member
  kLink,        // only the link between two is lost
  kMisconduct,  // a member sent what no correct member sends
  kReconnect,   // two that have lost each other start over
  kCaughtUp,    // a replica is in sync
};
inline constexpr int kCauses = 9;
std::string_view cause_name(Cause cause);  // "link"

struct Change {
  Cause cause = Cause::kNone;
  NodeId by;                 // who proposed it
  NodeSet of;                // whom it is about
  std::string text() const;  // for a removal: "node 0 has lost its connection to it, and others have not"
  friend bool operator==(const Change&, const Change&) = default;
};

struct View {
  Epoch epoch{1};
  uint8_t replicas = 1;               // of each partition when fully replicated
  std::string protocol;               // how transactions commit, since the cluster was founded; empty: not recorded
  uint32_t next_incarnation = 1;      // for the next member
  std::vector<Member> members;        // by node id
  std::vector<Placement> partitions;  // by PartitionId
  Change change;                      // the change that led to it

  const Placement& placement(PartitionId p) const { return partitions[p.value]; }
  const Member* find(NodeId node) const {
    for (const Member& m : members) {
      if (m.node == node) return &m;
    }
    return nullptr;
  }
  NodeSet member_nodes() const {
    NodeSet nodes;
    for (const Member& m : members) nodes.add(m.node);
    return nodes;
  }
  // The leader of recovery into this view: the oldest member, so never one that has just joined.
  NodeId leader() const {
    return std::min_element(members.begin(), members.end(),
                            [](const Member& a, const Member& b) { return a.incarnation < b.incarnation; })
        ->node;
  }
  bool runs_transactions() const {  // some member does
    return std::any_of(members.begin(), members.end(),
                       [](const Member& m) { return weft::runs_transactions(m.roles); });
  }
  // Who deletes the partition's expired keys, and counts its keys for clients: its primary if that runs transactions,
  // else one of the members that do, in turn. None: no member does.
  std::optional<NodeId> caretaker_of(PartitionId partition) const;
  bool fully_replicated() const;  // every partition has all its replicas, and none is moving
  friend bool operator==(const View&, const View&) = default;
};

// The first view of a new cluster, of a node with each of these roles. Of D nodes that hold data, partition p has its
// primary at number p mod D and its backups at the following ones. If partitions is not a multiple of D, the remainder
// is distributed round robin, replica by replica, so that none has two replicas more than another.
View make_view(const std::vector<NodeRoles>& roles, int replicas, int partitions);
View make_view(int nodes, int replicas, int partitions);  // all with both roles
View make_view(const Options& options);                   // of an embedded cluster

// A placeholder view for a node that waits for one that includes it: older than any view that will come.
View pre_join_view(View view, NodeId node);

// Changes of a view. Each returns the next one: its epoch is one higher, every partition keeps an in-sync replica (or
// the result is an error that names the partition that lost its last), and members that hold data catch up on what is
// missing. A replica that is catching up continues to; primaries are spread evenly over the in-sync replicas.
//
// When nothing is missing, replicas move from the members with the most to those with the fewest: the latter catches
// up in addition, and when it is in sync the former's replica is dropped in the same view. So a partition never has
// fewer in-sync replicas than before, and at most one more that is catching up. A move begins only if the two members
// differ by two or more, counting replicas that are catching up and not those that are draining. Hence every move
// makes the sum of squares smaller, none is reversed, and when nothing moves any more no two members differ by more
// than one. At most a quarter of the partitions move at a time. If a replica is lost meanwhile, the draining one
// stays.
//
// A member that holds no data comes and goes without a change of any placement.
Result<View> without_members(const View& view, NodeSet gone);
// gets the next incarnation; a previous member with its id has left
View with_member(const View& view, Member member);
// the same members again: those that have lost each other start over
View with_next_epoch(const View& view);
View with_replica_in_sync(const View& view, NodeId node, const std::vector<PartitionId>& caught_up);

// Whether nodes with these options are sized for the view and commit as it says; a view made by another configuration
// is rejected.
Result<void> check_view(const View& view, const Options& options);

}  // namespace weft
