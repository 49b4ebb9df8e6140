// Credit: how many bytes a worker may have under way with each peer. What makes Port::reserve never fail.
//
// Before its first commit message a transaction takes credit at every participant for all that it will cause there:
// its own messages (wire_bytes_max of each), their answers, and the log space they fill. It gives the credit back when
// the last answer is in and the log entry is truncated. A transaction that gets no credit waits or is rejected; it has
// sent nothing, so nobody waits for it.
//
// Why two full rings never wait for each other: what waits for the wire to a peer is at most what this side has credit
// for plus answers to what the peer has credit for, and a port's queue holds both (queue_bytes_for). So a handler can
// always answer, so a worker always goes on polling, so every ring drains.
//
// Plain data of one worker.
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
  // `limit` bytes for each of `nodes` peers, the own node included.
  Credit(int nodes, uint64_t limit);

  // False if the peer's budget does not have that much left; then nothing was taken. What never fits() must be
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

  // Everything is given back: what was under way is dropped.
  void reset() { std::fill(in_use_.begin(), in_use_.end(), 0); }

  bool fits(uint32_t bytes) const { return bytes <= limit_; }
  uint64_t limit() const { return limit_; }
  uint64_t in_use(NodeId peer) const;
  uint64_t refused() const { return refused_; }

  // PortOptions::queued_bytes_max for a cluster whose workers all have this limit.
  static constexpr size_t queue_bytes_for(uint64_t limit) { return 2 * limit; }

 private:
  const uint64_t limit_;
  uint64_t refused_ = 0;
  std::vector<uint64_t> in_use_;
};

}  // namespace weft
