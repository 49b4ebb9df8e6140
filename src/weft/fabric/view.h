// View: plain data that says who is in the cluster and which node holds which partition. Made by cluster/, read by all.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "weft/types.h"

namespace weft {

inline constexpr int kReplicasMax = 8;

struct Placement {
  // replicas[0] is the primary, the others are backups; all of them whole.
  std::array<NodeId, kReplicasMax> replicas{};
  uint8_t count = 0;
  uint64_t mask = 0;  // bit n: node n is a replica

  NodeId primary() const { return replicas[0]; }
  bool held_by(NodeId n) const { return (mask >> n.value) & 1U; }
};

struct Member {
  NodeId node;
  uint32_t incarnation = 0;  // given at join, never reused in this cluster
  bool holds_data = true;
  bool runs_transactions = true;
};

struct View {
  Epoch epoch{1};
  std::vector<Member> members;
  std::vector<Placement> partitions;  // by PartitionId

  const Placement& placement(PartitionId p) const { return partitions[p.value]; }
};

// The first view of a fresh cluster: partition p has its primary at node p mod nodes and its backups at the following
// ones, so that every node is primary of partitions / nodes of them.
View make_view(int nodes, int replicas, int partitions);

}  // namespace weft
