// What a port is made with and what it carries: messages, their layout in a packet, options and counters. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/base/bytes.h"
#include "weft/fabric/wire.h"
#include "weft/status.h"
#include "weft/types.h"

namespace weft {

// A message in a packet: 8-byte aligned, padded to 8.
//
//   0          4      5       6        8
//   | bytes    | kind | piece | spare  | body ...
//
struct MessageHeader {
  uint32_t bytes;    // of this piece's body, without padding
  uint8_t kind;      // chosen by the user of the port, below kKindsMax
  uint8_t fragment;  // kWhole, or a piece of a message that spans packets
  uint16_t tag;      // free for the kind
};
static_assert(sizeof(MessageHeader) == 8);

// The pieces of one message follow each other on their channel with nothing between, each at the beginning of its
// packet; whole messages may follow the last piece. kFirst's body starts with the u64 total.
enum Fragment : uint8_t { kUnfragmented = 0, kFirst = 1, kMiddle = 2, kLast = 3 };

struct Message {
  NodeId source;
  uint8_t kind;
  uint16_t tag;
  ByteView body;           // 8-byte aligned; valid until the burst ends
  bool any_epoch = false;  // of a flow that no epoch holds back
};

inline constexpr int kKindsMax = 32;

// Body bytes that fit into one packet: alone as a whole message or a later piece, and beside the total in the first.
inline constexpr size_t kUnfragmentedBytesMax = kPacketBytesMax - sizeof(PacketHeader) - sizeof(MessageHeader);
inline constexpr size_t kFirstBytesMax = kUnfragmentedBytesMax - sizeof(uint64_t);
static_assert(kUnfragmentedBytesMax % 8 == 0 && kFirstBytesMax % 8 == 0);

// The most wire bytes that a message with a body of `bytes` can take: nothing rides with it, and it pays for the
// headers of all its packets. What a channel sends is at most the sum of this over its messages.
constexpr size_t wire_bytes_max(size_t bytes) {
  constexpr size_t kHeaders = sizeof(PacketHeader) + sizeof(MessageHeader);
  if (bytes <= kUnfragmentedBytesMax) return kHeaders + align_up(bytes, 8);
  const size_t rest = bytes - kFirstBytesMax;
  const size_t packets = (rest + kUnfragmentedBytesMax - 1) / kUnfragmentedBytesMax;
  return kPacketBytesMax + packets * kHeaders + align_up(rest, 8);
}

// Gets runs of messages: consecutive messages of one burst that have the same kind, in order of arrival per channel.
using Handler = void (*)(void* context, std::span<const Message> run);

// Sees a whole burst before any handler runs: the place to compute hashes and prefetch. Does not call the port.
using BurstHook = void (*)(void* context, std::span<const Message> burst);

// Called when a peer sent something that is not a well-formed packet. The channel to that peer is closed: nothing more
// of it is delivered, and what is sent to it goes nowhere. The hook takes note; it does not call the port.
using BadPeer = void (*)(void* context, NodeId peer, const Error& error);

struct PortOptions {
  NodeId self;
  WorkerId worker;
  int nodes = 1;
  size_t message_bytes_max = 1 << 20;
  size_t queued_bytes_max = 8 << 20;  // per peer: packets that wait for the wire, or here for their epoch
  bool batching = true;               // off: every message is a packet of its own, sent at once
};

struct PortCounters {
  uint64_t packets_sent = 0, messages_sent = 0, bytes_sent = 0;
  uint64_t packets_received = 0, messages_received = 0;
  uint64_t bursts = 0, burst_messages = 0;  // polls that delivered something, and what they delivered (own included)
  uint64_t dropped_old_epoch = 0, held_new_epoch = 0;
};

constexpr size_t channel_index(NodeId node, Flow flow) {
  return size_t{node.value} * kFlows + static_cast<size_t>(flow);
}
// Whether an epoch other than the port's own holds a packet of this flow back.
constexpr bool bound_to_epoch(Flow flow) { return flow < Flow::kRecovery; }

}  // namespace weft
