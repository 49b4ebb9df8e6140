#include "weft/fabric/credit.h"

#include "weft/base/check.h"

namespace weft {

Credit::Credit(int nodes, uint64_t limit) : limit_(limit), in_use_(static_cast<size_t>(nodes)) {}

bool Credit::take(NodeId peer, uint32_t bytes) {
  WEFT_CHECK(peer.value < in_use_.size(), "a node of this cluster");
  uint64_t& used = in_use_[peer.value];
  if (bytes > limit_ - used) {
    ++refused_;
    return false;
  }
  used += bytes;
  return true;
}

void Credit::give(NodeId peer, uint32_t bytes) {
  WEFT_CHECK(peer.value < in_use_.size() && bytes <= in_use_[peer.value], "give back what was taken, once");
  in_use_[peer.value] -= bytes;
}

uint64_t Credit::in_use(NodeId peer) const {
  WEFT_CHECK(peer.value < in_use_.size(), "a node of this cluster");
  return in_use_[peer.value];
}

}  // namespace weft
