// Identifiers as strong integer types, so that swapped arguments do not compile.
#pragma once

#include <compare>
#include <cstdint>

namespace weft {

template <class Tag, class Rep>
struct Id {
  Rep value{};
  constexpr Id() = default;
  constexpr explicit Id(Rep v) : value(v) {}
  friend constexpr auto operator<=>(Id, Id) = default;
};

using NodeId = Id<struct NodeTag, uint8_t>;      // one server of the cluster, 0 .. kNodesMax - 1
using WorkerId = Id<struct WorkerTag, uint8_t>;  // one event loop of a node, 0 .. kWorkersMax - 1
using TableId = Id<struct TableTag, uint16_t>;   // in order of declaration
using PartitionId = Id<struct PartitionTag, uint16_t>;
using Epoch = Id<struct EpochTag, uint32_t>;      // of the view; starts at 1
using Version = Id<struct VersionTag, uint64_t>;  // of a key; 40 bits are used

// The largest of each. A record's word has 20 bits for all three, so not at the same time (OwnerFormat in
// store/record.h).
inline constexpr int kNodesMax = 63;
inline constexpr int kWorkersMax = 128;
inline constexpr int kSlotsMax = 256;

// Identifies one transaction for ever: a node gets its incarnation when it joins, and incarnations are never reused.
struct TxnId {
  uint32_t incarnation = 0;
  WorkerId worker;
  uint64_t sequence = 0;
  friend constexpr auto operator<=>(const TxnId&, const TxnId&) = default;
};

}  // namespace weft
