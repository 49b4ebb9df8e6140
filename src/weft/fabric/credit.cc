#include "weft/fabric/credit.h"

#include "weft/base/check.h"

namespace weft {

Credit::Credit(int nodes, uint64_t limit) : limit_(limit), in_use_(static_cast<size_t>(nodes)) {}

uint64_t Credit::in_use(NodeId peer) const {
  WEFT_CHECK(peer.value < in_use_.size(), "a node of this cluster");
  return in_use_[peer.value];
}

}  // namespace weft
