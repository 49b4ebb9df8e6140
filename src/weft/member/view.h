// View: plain data that says who is in the cluster and which node holds which partition. Made by cluster/, read by all.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
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
  // Bit n: node n ...
  uint64_t in_sync = 0;      // ... has a complete replica
  uint64_t catching_up = 0;  // ... is getting one: it receives every write, answers no reads and has no vote
  uint64_t draining = 0;     // ... is in sync, and leaves when the replica that is catching up is in sync

  NodeId primary() const { return replicas[0]; }
  bool is_in_sync(NodeId n) const { return (in_sync >> n.value) & 1U; }
  bool is_catching_up(NodeId n) const { return (catching_up >> n.value) & 1U; }
  friend bool operator==(const Placement&, const Placement&) = default;
};

struct Member {
  NodeId node;
  uint32_t incarnation = 0;  // given at join, never reused in this cluster
  bool holds_data = true;
  bool runs_transactions = true;
  uint64_t token = 0;   // drawn by the process that joined, so that it finds itself
  std::string address;  // of its mesh, where there is one
  std::string clients;  // host:port where it answers clients; empty: nowhere
  friend bool operator==(const Member&, const Member&) = default;
};

// Why a view came, for people, and for who judges the next failure (member/failure_detector.h).
enum class Cause : uint8_t {
  kNone,
  kJoined,
  kReplaced,    // a process makes room for the next one of its node
  kEnded,       // a process has
  kUnheard,     // nobody hears a member
  kLink,        // only the link between two is lost
  kMisconduct,  // a member sent what none sends
  kReconnect,   // two that have lost each other begin anew
  kCaughtUp,    // a replica is whole
};
inline constexpr int kCauses = 9;
std::string_view cause_name(Cause cause);  // "link"

struct Change {
  Cause cause = Cause::kNone;
  NodeId by;                 // who proposed it
  uint64_t of = 0;           // bit n: node n
  std::string text() const;  // for a removal: "node 0 has lost its connection to it, and others have not"
  friend bool operator==(const Change&, const Change&) = default;
};

struct View {
  Epoch epoch{1};
  uint8_t replicas = 1;               // of each partition, when nothing is missing
  uint32_t next_incarnation = 1;      // for the next member
  std::vector<Member> members;        // by node id
  std::vector<Placement> partitions;  // by PartitionId
  Change change;                      // that led to it

  const Placement& placement(PartitionId p) const { return partitions[p.value]; }
  const Member* find(NodeId node) const {
    for (const Member& m : members) {
      if (m.node == node) return &m;
    }
    return nullptr;
  }
  uint64_t member_mask() const {
    uint64_t mask = 0;
    for (const Member& m : members) mask |= uint64_t{1} << m.node.value;
    return mask;
  }
  // Who leads recovery into this view: the member that has been there longest, so never one that has just come.
  NodeId leader() const {
    return std::min_element(members.begin(), members.end(),
                            [](const Member& a, const Member& b) { return a.incarnation < b.incarnation; })
        ->node;
  }
  bool fully_replicated() const;  // every partition has all its replicas, and none moves
  friend bool operator==(const View&, const View&) = default;
};

// The first view of a fresh cluster: partition p has its primary at node p mod nodes and its backups at the following
// ones. What is left when partitions is no multiple of nodes goes round the nodes, replica by replica, so that no node
// has two replicas more than another.
View make_view(int nodes, int replicas, int partitions);

// A view to wait with for one that has a place for the node: it is older than any that will come.
View pre_join_view(View view, NodeId node);

// Changes of a view. Each returns the next one: its epoch is one higher, every partition keeps a whole replica (or the
// answer is an error that names the partition that lost its last), and members that hold data fill what is missing.
// Whoever fills goes on filling; primaries are spread evenly over the whole replicas.
//
// When nothing is missing, replicas move from the members that have most to those that have least: the poorer one fills
// in addition, and when it is whole the richer one's replica goes in the same view. So a partition never has fewer
// whole replicas than before, and one more that fills at most. A move begins only if the two differ by two or more,
// counting what fills and not what leaves: then each makes the sum of squares smaller, none is taken back, and when
// nothing moves any more no two members differ by more than one. At most a quarter of the partitions move at a time. If
// a replica is lost meanwhile, the one that was to leave stays.
Result<View> without_members(const View& view, uint64_t gone);
View with_member(const View& view, Member member);  // gets the next incarnation; one with its id has left before
View with_next_epoch(const View& view);             // the same again: members that have lost each other begin anew
View with_replica_in_sync(const View& view, NodeId node, const std::vector<PartitionId>& caught_up);

// Whether nodes of these options are sized for the view: what another configuration has made is not taken.
Result<void> check_view(const View& view, const Options& options);

}  // namespace weft
