// Port: a worker's end of the network. It batches messages into one open packet per (destination, flow), hands packets
// to the wire at flush(), and delivers received messages to the handlers at poll(), a burst at a time.
//
// A message is one-way: a MessageHeader and its body. It may be larger than a packet (up to Limits message_bytes_max);
// then it is sent as fragments and reassembled at the receiver, in a buffer that is bounded per peer and flow. sender.h
// and receiver.h are the two halves; the port ties them together and calls the handlers.
//
// Messages to the local node (loopback) do not touch the wire: they go through a buffer and the next poll() delivers
// them with the rest of the burst, so that a local step takes the same path as a remote one. They are not counted as
// network messages.
//
// Space: reserve() never fails and never blocks. Before a transaction sends, it holds credit (credit.h) for its
// messages and their replies; a port's queue of packets that wait for the wire has room for all credit that exists.
// Running out of that room is a bug of the caller, not a state of the network.
//
// Only the owning worker calls it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/base/clock.h"
#include "weft/fabric/message.h"
#include "weft/fabric/receiver.h"
#include "weft/fabric/sender.h"
#include "weft/fabric/wire.h"
#include "weft/types.h"

namespace weft {

class Port {
 public:
  Port(const PortOptions& options, Wire* wire, CostModel* cost_model);
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  void set_handler(uint8_t kind, Handler handler, void* context);
  void set_burst_hook(BurstHook hook, void* context);
  void set_bad_peer(BadPeer hook, void* context);

  // Returns space for the body of a message, 8-byte aligned. Fill it before the next call of this port.
  std::byte* reserve(NodeId to, Flow flow, uint8_t kind, size_t bytes, uint32_t tag = 0) {
    return sender_.reserve(to, flow, kind, bytes, tag);
  }

  // The same for a message whose size is known only when it is written: space for up to `bytes_max`. nullptr if that is
  // more than a packet holds, for the local node, and without batching: then use reserve(). end_message() is the next
  // call of the port, with the end of what was written, which is a multiple of 8 bytes.
  std::byte* begin_message(NodeId to, Flow flow, size_t bytes_max) {
    return sender_.begin_message(to, flow, bytes_max);
  }
  void end_message(NodeId to, Flow flow, uint8_t kind, uint32_t tag, const std::byte* end) {
    sender_.end_message(to, flow, kind, tag, end);
  }

  // True if a packet to this peer is open or waiting on this flow: a small message can be added to it.
  bool has_open(NodeId to, Flow flow) const { return sender_.has_open(to, flow); }

  // Whether messages share packets. If not, the users of the port do not join what they send either.
  bool batching() const { return batching_; }

  // Hands all open packets to the wire. Returns true if something was sent.
  bool flush() { return sender_.flush(); }
  // Delivers received messages, at most one burst (with batching off, each message is a burst). Returns true if it
  // delivered something. Handlers may call reserve and flush, never poll.
  bool poll();
  // True if poll() or flush() has something to do now. Packets that the wire refused count: nothing wakes a worker when
  // the wire has room again, so it keeps retrying.
  bool pending() const { return sender_.pending() || sender_.loopback_pending() || receiver_.pending(); }

  // Packets of older epochs are dropped and counted; packets of newer ones wait, up to queued_bytes_max per peer, until
  // their epoch is set. The recovery and control flows are exempt. A handler may call it: the rest of the burst that is
  // bound to the old epoch is then dropped too, as are loopback messages. Epochs only grow.
  void set_epoch(Epoch epoch);
  Epoch epoch() const { return receiver_.epoch(); }

  // For a peer that came back as another incarnation, or is gone: resets and reopens its channels in both directions.
  // Not while a handler runs.
  void reset_peer(NodeId peer);
  // Bytes of this flow that wait for the wire to this peer. Senders without credit (recovery) keep this small.
  size_t queued_bytes(NodeId to, Flow flow) const { return sender_.queued_bytes(to, flow); }

  // For handlers: closes a peer that sent an invalid message in a well-formed packet.
  void reject(NodeId peer, const Error& error) { receiver_.reject(peer, error); }
  bool closed(NodeId peer) const { return receiver_.closed(peer); }
  const PortCounters& counters() const { return counters_; }

 private:
  struct Entry {
    Handler handler = nullptr;
    void* context = nullptr;
  };

  void deliver();
  void announce(std::span<Message> burst);

  const bool batching_;
  bool delivering_ = false;
  size_t delivered_ = 0;  // messages of the current burst that were given to handlers
  PortCounters counters_;
  Sender sender_;
  Receiver receiver_;
  std::array<Entry, kKindsMax> handlers_{};
  BurstHook hook_ = nullptr;
  void* hook_context_ = nullptr;
};

}  // namespace weft
