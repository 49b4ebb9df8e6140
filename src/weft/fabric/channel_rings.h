// ChannelRings: the rings from one worker to its counterpart at another node, one per flow, and their readers. The
// local wire keeps them in plain memory, the shm wire in memory that two processes share.
//
//   ChannelRings     the shared words of the rings; their buffers lie elsewhere, one behind the other
//   RingReceiver     the reading end of one ChannelRings
//   RingReceiverSet  all reading ends of one worker: what Wire::poll reads
//
// Each end is used by one worker's thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/fabric/ring.h"
#include "weft/fabric/wire.h"
#include "weft/types.h"

namespace weft {

// Each cache line has one writer. A polling receiver reads one cache line per peer for all flows.
struct ChannelRings {
  alignas(64) std::array<std::atomic<uint64_t>, kFlows> tail{};
  std::array<std::atomic<uint64_t>, kFlows> restart{};
  alignas(64) std::array<std::atomic<uint64_t>, kFlows> head{};

  RingEnds ends(size_t flow) { return {&tail[flow], &restart[flow], &head[flow]}; }
};
static_assert(sizeof(ChannelRings) == 128);
static_assert(std::atomic<uint64_t>::is_always_lock_free, "lanes lie in memory that two processes share");

// The distance between two rings is not a multiple of 4 KiB, so that their hot beginnings do not share cache sets.
inline constexpr size_t kRingStagger = 320;
constexpr size_t ring_offset(size_t flow, size_t ring_bytes) { return flow * (ring_bytes + kRingStagger); }
constexpr size_t channel_buffer_bytes(size_t ring_bytes) { return ring_offset(kFlows, ring_bytes); }

using RingWriters = std::array<RingWriter, kFlows>;

// `buffer` has channel_buffer_bytes() bytes.
inline RingWriters ring_writers(ChannelRings& rings, std::byte* buffer, size_t ring_bytes) {
  RingWriters writers;
  for (size_t flow = 0; flow < kFlows; ++flow) {
    writers[flow] = RingWriter(buffer + ring_offset(flow, ring_bytes), ring_bytes, rings.ends(flow));
  }
  return writers;
}

struct alignas(64) RingReceiver {
  RingReceiver() = default;
  RingReceiver(NodeId from, ChannelRings& rings, const std::byte* buffer, size_t ring_bytes)
      : tails(&rings.tail), peer(from) {
    for (size_t flow = 0; flow < kFlows; ++flow) {
      readers[flow] = RingReader(buffer + ring_offset(flow, ring_bytes), ring_bytes, rings.ends(flow));
    }
  }

  // poll() first compares the published tails with this end's cursors.
  const std::array<std::atomic<uint64_t>, kFlows>* tails = nullptr;
  std::array<uint64_t, kFlows> cursors{};
  NodeId peer;
  std::array<RingReader, kFlows> readers;
};

// kChecked: the senders are other processes. A ring with invalid lengths is not read any more, and bad() names it.
template <bool kChecked>
class RingReceiverSet {
 public:
  explicit RingReceiverSet(size_t peers_max) {
    receivers_.reserve(peers_max);
    popped_.reserve(peers_max * kFlows);
  }

  // attach and detach are called outside a burst, that is, not between poll() and release(). Neither allocates.
  void attach(const RingReceiver& receiver) { receivers_.push_back(receiver); }
  RingReceiver detach(NodeId peer) {
    RingReceiver found;
    for (size_t i = 0; i < receivers_.size(); ++i) {
      if (receivers_[i].peer != peer) continue;
      found = receivers_[i];
      receivers_[i] = receivers_.back();
      receivers_.pop_back();
      break;
    }
    poll_peer_ = 0;
    return found;
  }
  bool in_burst() const { return !popped_.empty(); }

  size_t poll(std::span<Packet> out) {
    const size_t peers = receivers_.size();
    const size_t first_flow = poll_flow_;
    size_t count = 0;
    size_t peer = poll_peer_;
    for (size_t i = 0; i < peers; ++i, peer = peer + 1 == peers ? 0 : peer + 1) {
      const RingReceiver& receiver = receivers_[peer];
      for (size_t k = 0; k < kFlows; ++k) {
        const size_t flow = (first_flow + k) % kFlows;
        if ((*receiver.tails)[flow].load(std::memory_order_acquire) == receiver.cursors[flow]) continue;
        count += take(peer, flow, out.subspan(count));
        if (count < out.size()) continue;
        poll_flow_ = (flow + 1) % kFlows;
        poll_peer_ = k + 1 == kFlows ? (peer + 1) % peers : peer;
        return count;
      }
    }
    return count;
  }

  // Returns the space of the packets that poll() handed out to the senders.
  void release() {
    for (const size_t channel : popped_) receivers_[channel / kFlows].readers[channel % kFlows].release();
    popped_.clear();
  }

  // Ordered after the seq_cst store by which this worker marks itself as sleeping.
  bool pending() const {
    for (const RingReceiver& receiver : receivers_) {
      for (size_t flow = 0; flow < kFlows; ++flow) {
        if ((*receiver.tails)[flow].load(std::memory_order_seq_cst) != receiver.cursors[flow]) return true;
      }
    }
    return false;
  }

  struct Bad {
    NodeId peer;
    size_t flow;
    uint64_t position;  // in the ring, counted from its start
  };
  // The ring that the last poll() found broken; nullptr if none was. The caller detaches that peer.
  const Bad* bad() const { return is_bad_ ? &bad_ : nullptr; }
  void forget_bad() { is_bad_ = false; }

 private:
  size_t take(size_t peer, size_t flow, std::span<Packet> out) {
    RingReceiver& receiver = receivers_[peer];
    RingReader& reader = receiver.readers[flow];
    size_t count = 0;
    while (count < out.size() && !reader.empty_now()) {
      ByteView bytes;
      if constexpr (kChecked) {
        bytes = reader.front_checked();
        if (bytes.data() == nullptr) [[unlikely]] {
          if (!is_bad_) bad_ = {receiver.peer, flow, reader.cursor()};
          is_bad_ = true;
          break;
        }
      } else {
        bytes = reader.front();
      }
      reader.pop(bytes);
      out[count++] = {receiver.peer, bytes};
    }
    receiver.cursors[flow] = reader.cursor();
    popped_.push_back(peer * kFlows + flow);
    return count;
  }

  std::vector<RingReceiver> receivers_;
  std::vector<size_t> popped_;  // channels with packets handed out since the last release()
  size_t poll_peer_ = 0;  // the next poll starts behind the channel that filled the last one, so that none starves
  size_t poll_flow_ = 0;
  Bad bad_{};
  bool is_bad_ = false;
};

// Counters of a wire that is made of rings.
struct WireCounters {
  uint64_t packets_sent = 0, packets_refused = 0, packets_received = 0;
  uint64_t wakes = 0;
  uint64_t doorbells = 0, verbs = 0, verbs_failed = 0;  // failed: refused or flushed
};

}  // namespace weft
