// Port: a worker's end of the network. It batches messages into one open packet per (destination, flow), hands packets
// to the wire at flush(), and hands what arrived to the handlers at poll(), a burst at a time.
//
// A message is one-way: a MessageHeader and its body. It may be larger than a packet (up to Limits message_bytes_max);
// then it is cut into fragments and put together again at the other side, in a buffer bounded per peer and flow.
// sender.h and receiver.h are the two halves; this is what ties them together and calls the handlers.
//
// Messages a worker sends to its own node do not touch the wire: they go through a packet of their own and are
// delivered by the next poll() together with the rest of the burst, so that a local step takes the same path as a
// remote one. They are not counted as network messages.
//
// Space: reserve() never fails and never blocks. Before a transaction sends, it holds credit (credit.h) for what
// it sends and for what will be answered; a port has room for all credit that exists, in packets that wait for the
// wire. Running out of that room is a bug of the caller, not a state of the network.
//
// Only the owning worker calls a port.
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

  // Space for the body of a message, to be filled before the next call of this port. 8-byte aligned.
  std::byte* reserve(NodeId to, Flow flow, uint8_t kind, size_t bytes, uint16_t tag = 0) {
    return sender_.reserve(to, flow, kind, bytes, tag);
  }

  // True if a packet to this peer is open or waiting on this flow: something small can ride along.
  bool has_open(NodeId to, Flow flow) const { return sender_.has_open(to, flow); }

  // Hands all open packets to the wire. Returns true if something was sent.
  bool flush() { return sender_.flush(); }
  // Delivers what arrived, at most a burst (with batching off: each message as a burst of its own). Returns true if
  // something was delivered. Handlers may reserve and flush, never poll.
  bool poll();
  // True if poll() or flush() has something to do now. Packets that the wire refused count: nothing wakes a worker when
  // the wire has room again, so one that has such packets goes on trying.
  bool pending() const { return sender_.pending() || sender_.loopback_pending() || receiver_.pending(); }

  // Packets of older epochs are dropped and counted, newer ones wait here, up to queued_bytes_max per peer, until that
  // epoch is set; the recovery and control flows are exempt. May be called by a handler: what is left of the burst and
  // bound to the old epoch is dropped as well, and so are messages to the own node. Epochs only grow.
  void set_epoch(Epoch epoch);
  Epoch epoch() const { return receiver_.epoch(); }

  // A peer comes back as another incarnation, or is gone: its channels start anew in both directions, open. Not while
  // a handler runs.
  void reset_peer(NodeId peer);
  // Bytes to this peer that wait for the wire: who sends without credit (recovery) keeps this small.
  size_t queued_bytes(NodeId to, Flow flow) const { return sender_.queued_bytes(to, flow); }

  // For handlers: closes a peer whose message is well-formed as a packet and makes no sense otherwise.
  void reject(NodeId peer, const Error& error) { receiver_.reject(peer, error); }
  bool closed(NodeId peer) const { return receiver_.closed(peer); }
  const PortCounters& counters() const { return counters_; }

 private:
  struct Entry {
    Handler handler = nullptr;
    void* context = nullptr;
  };

  void deliver();
  void announce(std::span<const Message> burst);

  const bool batching_;
  bool delivering_ = false;
  size_t delivered_ = 0;  // messages of the burst under way that handlers have got
  PortCounters counters_;
  Sender sender_;
  Receiver receiver_;
  std::array<Entry, kKindsMax> handlers_{};
  BurstHook hook_ = nullptr;
  void* hook_context_ = nullptr;
};

}  // namespace weft
