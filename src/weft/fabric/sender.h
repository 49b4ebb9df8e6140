// The sending half of a port: one open packet per (destination, flow), packets that wait for the wire, and the loopback
// buffers for messages to the local node.
//
// A packet is sealed (given its sequence number and epoch) when it goes to the wire or to the waiting queue. While the
// wire refuses packets, the open packet stays open and takes more messages, so that back-pressure makes packets fuller.
//
// The caller writes a message over kUnfragmentedBytesMax into a staging buffer; the next call of the port, when it is
// filled, splits it into fragments. With batching off, the next call likewise sends the packet with its single message.
// post_staged() does both.
//
// Messages to the local node are written, unfragmented whatever their size, into one of two loopback buffers per flow;
// take_loopback() hands out the content of one and switches to the other, so handlers can send loopback messages while
// others are read.
//
// I1: per channel, packets are sent in order of their sequence numbers without a gap: a new packet goes to the wire
//     only when none waits.
// I2: nothing is allocated after construction; all buffers are parts of one mapping, whose pages are committed when
//     first used.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "weft/base/bytes.h"
#include "weft/base/clock.h"
#include "weft/base/mapping.h"
#include "weft/fabric/message.h"
#include "weft/fabric/nodes.h"
#include "weft/fabric/ring.h"
#include "weft/fabric/wire.h"

namespace weft {

class Sender {
 public:
  Sender(const PortOptions& options, Wire* wire, CostModel* cost_model, PortCounters* counters);

  std::byte* reserve(NodeId to, Flow flow, uint8_t kind, size_t bytes, uint32_t tag) {
    Open& open = open_[channel_index(to, flow)];
    if (sizeof(MessageHeader) + bytes > open.room || has_staged_ || bytes > kMessageBytesMax) [[unlikely]] {
      return reserve_slow(to, flow, kind, bytes, tag);
    }
    return append(open, kind, bytes, tag);
  }

  std::byte* begin_message(NodeId to, Flow flow, size_t bytes_max) {
    Open& open = open_[channel_index(to, flow)];
    if (sizeof(MessageHeader) + bytes_max > open.room || !batching_ || has_staged_ || to == self_) [[unlikely]] {
      if (!make_room(to, flow, bytes_max)) return nullptr;
    }
    return open.next + sizeof(MessageHeader);
  }
  void end_message(NodeId to, Flow flow, uint8_t kind, uint32_t tag, const std::byte* end) {
    Open& open = open_[channel_index(to, flow)];
    const auto bytes = static_cast<size_t>(end - open.next);
    store(open.next, header_bits(bytes - sizeof(MessageHeader), kind, kUnfragmented, tag));
    open.next += bytes;
    open.room -= bytes;
    ++open.count;
  }

  // Sends what had to wait until the caller had filled its message. Every call of the port begins with it.
  void post_staged() {
    if (has_staged_) [[unlikely]]
      post_staged_slow();
  }

  bool has_open(NodeId to, Flow flow) const;
  bool flush();
  // Offers the waiting packets to the wire again; true if it took one.
  bool retry() { return any(waiting_nodes_) && retry_slow(); }
  bool pending() const { return has_staged_ || any(open_nodes_) || any(waiting_nodes_); }

  // Drops what was written in the old epoch and not sent, loopback messages too: the receiver has stopped as well or is
  // about to, and the credit that paid for the room is reissued.
  void set_epoch(Epoch epoch);
  // From now on messages to this peer are thrown away.
  void close(NodeId peer);

  // Resets the channels of a peer that starts anew as another incarnation. Messages to the old one are dropped.
  void reset_peer(NodeId peer);
  // Bytes of this flow that wait for the wire; for the local node, those in its loopback buffer.
  size_t queued_bytes(NodeId to, Flow flow) const;

  // The loopback messages on a flow since the last call, laid out as in a packet. The caller has finished with what the
  // last call returned.
  ByteView take_loopback(Flow flow) {
    const Open& open = open_[channel_index(self_, flow)];
    return open.next == open.base ? ByteView() : swap_loopback(static_cast<size_t>(flow));
  }
  bool loopback_pending() const;

 private:
  // All-zero bytes are a valid Open without a packet: the array is in the mapping and has an element for every value of
  // NodeId, so that a wrong destination finds no room and is caught on the slow path.
  struct Open {
    std::byte* next;  // where the next message goes
    size_t room;      // bytes left, a multiple of 8; 0 if nothing is open
    std::byte* base;
    uint32_t count;  // messages that begin in it
    uint32_t sequence;
  };
  static constexpr size_t kOpens = 256 * kFlows;

  struct Staged {
    size_t channel = 0;
    size_t bytes = 0;
    uint32_t tag = 0;
    uint8_t kind = 0;
  };

  // A MessageHeader as one word.
  static uint64_t header_bits(size_t bytes, uint8_t kind, Fragment fragment, uint32_t tag) {
    return bytes | uint64_t{kind} << 24 | uint64_t{fragment} << 29 | uint64_t{tag} << 32;
  }
  static std::byte* append(Open& open, uint8_t kind, size_t bytes, uint32_t tag) {
    const size_t padded = align_up(bytes, 8);
    std::byte* const at = open.next;
    open.next += sizeof(MessageHeader) + padded;
    open.room -= sizeof(MessageHeader) + padded;
    ++open.count;
    store(at, header_bits(bytes, kind, kUnfragmented, tag));
    // Padding is sent over the wire, so it must not be what was in the buffer before.
    if (padded != bytes) store(at + padded, uint64_t{0});
    return at + sizeof(MessageHeader);
  }

  static bool any(const std::array<NodeSet, kFlows>& nodes) {
    return !(nodes[0] | nodes[1] | nodes[2] | nodes[3]).empty();
  }
  static_assert(kFlows == 4);
  static NodeId node_of(size_t channel) { return NodeId(static_cast<uint8_t>(channel / kFlows)); }
  static Flow flow_of(size_t channel) { return static_cast<Flow>(channel % kFlows); }

  bool is_open(size_t channel) const { return open_nodes_[channel % kFlows].contains(node_of(channel)); }

  bool make_room(NodeId to, Flow flow, size_t bytes_max);
  static std::byte* append_large(Open& open, uint8_t kind, size_t bytes, uint32_t tag);
  std::byte* reserve_slow(NodeId to, Flow flow, uint8_t kind, size_t bytes, uint32_t tag);
  void post_staged_slow();
  bool retry_slow();
  ByteView swap_loopback(size_t flow);
  void fragment_staged();
  void open_packet(size_t channel);
  void close_packet(size_t channel);
  ByteView seal(size_t channel);
  bool send_open(size_t channel);
  void post_open(size_t channel);
  void drop_unsent(size_t channel);
  void count_sent(ByteView packet);
  void open_loopback(size_t flow);

  const NodeId self_;
  const WorkerId worker_;
  const size_t nodes_;
  const size_t message_bytes_max_;
  const size_t queued_bytes_max_;
  const bool batching_;
  Wire* const wire_;
  CostModel* const cost_model_;
  PortCounters* const counters_;
  Epoch epoch_{1};

  Mapping memory_;
  Open* open_ = nullptr;
  bool has_staged_ = false;
  bool staged_in_packet_ = false;  // the staged message is a single one in an open packet (batching off)
  Staged staged_;
  std::byte* staging_ = nullptr;
  std::unique_ptr<FrameQueue[]> waiting_;      // by channel
  std::vector<size_t> waiting_bytes_;          // by channel
  std::array<NodeSet, kFlows> open_nodes_;     // those to which a packet is open
  std::array<NodeSet, kFlows> waiting_nodes_;  // those to which packets wait
  NodeSet closed_nodes_;
  std::array<std::array<std::byte*, 2>, kFlows> loopback_buffers_{};
  std::array<uint8_t, kFlows> loopback_active_{};
};

}  // namespace weft
