// Credit: how many bytes a worker may have in flight to each peer. Because of it Port::reserve never fails.
//
// Before its first commit message a transaction takes credit at every participant for everything it will cause there:
// its messages (wire_bytes_max of each), the replies, and the log space they use. It returns the credit when the last
// reply has arrived and the log entry is truncated. A transaction that gets no credit waits or is rejected; it has sent
// nothing, so nobody waits for it.
//
// Two full rings never wait for each other: the packets queued for a peer are at most those this side has credit for
// plus replies to those the peer has credit for, and a port's queue has room for both (queue_bytes_for). So a handler
// can always reply, a worker always continues to poll, and every ring drains.
//
// Used by one worker only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "weft/base/check.h"
#include "weft/fabric/message.h"
#include "weft/types.h"

namespace weft {

class Credit {
 public:
  // `limit` bytes for each of `nodes` nodes, this node included.
  Credit(int nodes, uint64_t limit);

  // False if the peer's remaining budget is too small; nothing is taken then. A request that does not fit() must be
  // rejected, not retried.
  [[nodiscard]] bool take(NodeId peer, uint32_t bytes) {
    WEFT_CHECK(peer.value < in_use_.size(), "a node of this cluster");
    uint64_t& used = in_use_[peer.value];
    if (bytes > limit_ - used) {
      ++refused_;
      return false;
    }
    used += bytes;
    return true;
  }
  void give(NodeId peer, uint32_t bytes) {
    WEFT_CHECK(peer.value < in_use_.size() && bytes <= in_use_[peer.value], "give back what was taken, once");
    in_use_[peer.value] -= bytes;
  }

  // Returns all credit: everything in flight was dropped.
  void reset() { std::fill(in_use_.begin(), in_use_.end(), 0); }

  bool fits(uint32_t bytes) const { return bytes <= limit_; }
  uint64_t limit() const { return limit_; }
  uint64_t in_use(NodeId peer) const;
  uint64_t refused() const { return refused_; }

  // The value of PortOptions::queued_bytes_max for a cluster in which every worker has this limit.
  static constexpr size_t queue_bytes_for(uint64_t limit) { return 2 * limit; }

 private:
  const uint64_t limit_;
  uint64_t refused_ = 0;
  std::vector<uint64_t> in_use_;
};

}  // namespace weft
