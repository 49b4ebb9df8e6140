#include "weft/fabric/view.h"

#include "weft/base/check.h"

namespace weft {

View make_view(int nodes, int replicas, int partitions) {
  WEFT_CHECK(nodes >= 1 && nodes <= kNodesMax && replicas >= 1 && replicas <= nodes && replicas <= kReplicasMax,
             "the caller checks its options");
  View view;
  for (int n = 0; n < nodes; ++n) {
    view.members.push_back({NodeId(static_cast<uint8_t>(n)), static_cast<uint32_t>(n) + 1, true, true});
  }
  for (int p = 0; p < partitions; ++p) {
    Placement placement;
    for (int r = 0; r < replicas; ++r) {
      const NodeId node(static_cast<uint8_t>((p + r) % nodes));
      placement.replicas[static_cast<size_t>(r)] = node;
      placement.mask |= uint64_t{1} << node.value;
    }
    placement.count = static_cast<uint8_t>(replicas);
    view.partitions.push_back(placement);
  }
  return view;
}

}  // namespace weft
