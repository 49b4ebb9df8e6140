// The receiving half of a port: takes packets off the wire, checks them, reassembles fragments, holds packets of a
// later epoch, and gathers the messages of a burst.
//
// Received bytes are untrusted. A packet is checked completely before any of it is delivered; a malformed packet closes
// its peer with an Error that names what was wrong, and neither it nor anything later from that peer is delivered. The
// peer is the one that the wire names, never the one in the packet.
//
// A burst is up to kBurstMessages loopback messages and about as many from the wire: packets are taken one by one until
// that many are gathered, so the last packet may bring more. The packets beyond that wait here.
//
// Packets of a later epoch are copied into a queue per channel, bounded by queued_bytes_max for each: a peer that
// respects its credit cannot send more, so one that overflows the queue is closed. (Leaving them in the wire would need
// a wire that can skip a channel, and would stop the exempt flows on wires that have one queue for all.)
//
// I1: per channel, messages are delivered in the order they were sent; packets that waited go before newer ones.
// I2: a gathered message's bytes do not change until finish(): not the wire's (released there), not the reassembly
// buffer (a channel assembles at most one message in a burst), not the loopback buffers (swapped in the next gather).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/mapping.h"
#include "weft/fabric/message.h"
#include "weft/fabric/nodes.h"
#include "weft/fabric/ring.h"
#include "weft/fabric/sender.h"
#include "weft/fabric/wire.h"

namespace weft {

class Receiver {
 public:
  static constexpr size_t kBurstMessages = 128;
  static constexpr size_t kBurstPackets = 16;

  Receiver(const PortOptions& options, Wire* wire, CostModel* cost_model, PortCounters* counters, Sender* sender);

  void set_bad_peer(BadPeer hook, void* context);
  // Closes a peer whose packets are well-formed but whose message a handler found invalid.
  void reject(NodeId peer, const Error& error);
  void allow_kind(uint8_t kind) { kinds_ |= uint32_t{1} << kind; }

  // Gathers the next burst and returns the number of its messages. finish() ends it.
  size_t gather();
  std::span<Message> messages() const { return {messages_.get(), count_}; }
  void finish();

  // Resets the channels of a peer that starts anew as another incarnation. Between polls.
  void reset_peer(NodeId peer);

  void set_epoch(Epoch epoch);
  // Marks the epoch-bound messages in [from, messages().size()) of the current burst as kDropped. They keep their
  // positions: the burst hook may have kept something for each.
  static constexpr uint8_t kDropped = kKindsMax;
  void drop_stale(size_t from);

  Epoch epoch() const { return epoch_; }
  bool closed(NodeId peer) const { return closed_nodes_.contains(peer); }
  bool pending() const;

 private:
  struct Channel {
    FrameQueue held;
    uint32_t sequence = 0;  // of the next packet
    uint32_t epoch = 0;     // of the last packet
    // The message that is being reassembled; total == 0: none.
    uint64_t total = 0;
    uint64_t have = 0;
    uint64_t assembled_in = 0;  // the burst in which the buffer was last delivered
    std::byte* buffer = nullptr;
    uint32_t tag = 0;
    uint8_t kind = 0;
  };
  enum class Verdict { kTaken, kLater };

  void gather_loopback();
  void gather_held();
  void gather_wire();
  Verdict admit(const Packet& packet);
  bool check_header(const Packet& packet, const PacketHeader& header);
  bool must_wait(const Channel& channel, ByteView packet) const;
  void hold(NodeId peer, Channel& channel, const PacketHeader& header, ByteView packet);
  void open(NodeId peer, Channel& channel, ByteView packet);
  bool take_messages(NodeId peer, Channel& channel, const PacketHeader& header, ByteView packet);
  bool take_fragment(NodeId peer, Channel& channel, const MessageHeader& header, ByteView body, bool at_front);
  // Closes the peer; returns false so that a check can end with it.
  bool refuse(NodeId peer, const char* what, uint64_t value, const char* rule, uint64_t other);

  const NodeId self_;
  const WorkerId worker_;
  const size_t nodes_;
  const size_t message_bytes_max_;
  const size_t held_bytes_max_;
  Wire* const wire_;
  CostModel* const cost_model_;
  PortCounters* const counters_;
  Sender* const sender_;
  Epoch epoch_{1};
  BadPeer bad_peer_ = nullptr;
  void* bad_peer_context_ = nullptr;
  uint32_t kinds_ = 0;  // bit k: there is a handler
  NodeSet closed_nodes_;

  Mapping memory_;
  std::unique_ptr<Channel[]> channels_;
  std::vector<size_t> held_bytes_;             // by node
  std::array<NodeSet, kFlows> held_nodes_;     // those whose packets wait for their epoch
  std::array<NodeSet, kFlows> popped_nodes_;   // those of whose packets some are in the current burst
  std::array<Packet, kBurstPackets> packets_;  // what the wire handed out: [packet_next_, packet_count_) is left
  size_t packet_next_ = 0;
  size_t packet_count_ = 0;
  std::array<ByteView, kFlows> loopback_left_;

  uint64_t burst_ = 1;
  std::unique_ptr<Message[]> messages_;
  size_t count_ = 0;
};

}  // namespace weft
