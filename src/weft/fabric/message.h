// Types of a port: messages and their layout in a packet, handlers, options and counters. Plain data.
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
//   0            3             4          8
//   | bytes      | kind, frag. | tag      | body ...
//
struct MessageHeader {
  uint32_t bytes : 24;    // of this fragment's body, without padding
  uint32_t kind : 5;      // chosen by the user of the port, below kKindsMax
  uint32_t fragment : 3;  // a Fragment
  uint32_t tag;           // free for use by the kind
};
inline constexpr size_t kMessageBytesMax = (1 << 24) - 1;  // in one header
static_assert(sizeof(MessageHeader) == 8);

// A message to the local node is never cut; one over kMessageBytesMax is a kFirst with all of its body.
//
// The fragments of one message follow each other on their channel with nothing in between, each at the beginning of its
// packet; unfragmented messages may follow the last one. The body of kFirst starts with the total size, a u64.
enum Fragment : uint8_t { kUnfragmented = 0, kFirst = 1, kMiddle = 2, kLast = 3 };

struct Message {
  NodeId source;
  uint8_t kind;
  uint32_t tag;
  ByteView body;           // 8-byte aligned; valid until the burst ends
  bool any_epoch = false;  // its flow is delivered in any epoch
  // What the burst hook notes for the handlers, as it likes.
  bool ok = false;
  uint16_t keys = 0;
  uint32_t first_key = 0;
};
static_assert(sizeof(Message) == 32);

inline constexpr int kKindsMax = 32;

// Body bytes that fit into one packet: of an unfragmented message or a later fragment, and of a first fragment, which
// also carries the total size.
inline constexpr size_t kUnfragmentedBytesMax = kPacketBytesMax - sizeof(PacketHeader) - sizeof(MessageHeader);
inline constexpr size_t kFirstBytesMax = kUnfragmentedBytesMax - sizeof(uint64_t);
static_assert(kUnfragmentedBytesMax % 8 == 0 && kFirstBytesMax % 8 == 0);

// Upper bound of the wire bytes of a message with a body of `bytes`: it shares its packets with no other message, so
// all their headers count. A channel sends at most the sum of this over its messages.
constexpr size_t wire_bytes_max(size_t bytes) {
  constexpr size_t kHeaders = sizeof(PacketHeader) + sizeof(MessageHeader);
  if (bytes <= kUnfragmentedBytesMax) return kHeaders + align_up(bytes, 8);
  const size_t rest = bytes - kFirstBytesMax;
  const size_t packets = (rest + kUnfragmentedBytesMax - 1) / kUnfragmentedBytesMax;
  return kPacketBytesMax + packets * kHeaders + align_up(rest, 8);
}

// Receives a run: consecutive messages of one burst that have the same kind, in order of arrival per channel.
using Handler = void (*)(void* context, std::span<const Message> run);

// Called with the whole burst before any handler runs, to parse it and to prefetch. Must not call the port.
using BurstHook = void (*)(void* context, std::span<Message> burst);

// Called when a peer sent a malformed packet. That peer is closed: nothing more from it is delivered, and messages to
// it are thrown away. The hook only takes note; it must not call the port.
using BadPeer = void (*)(void* context, NodeId peer, const Error& error);

struct PortOptions {
  NodeId self;
  WorkerId worker;
  int nodes = 1;
  size_t message_bytes_max = 1 << 20;
  // Packets to a peer that wait for the wire, of each flow; and those from a peer that wait for their epoch.
  size_t queued_bytes_max = 8 << 20;
  bool batching = true;  // off: every message is a separate packet, sent at once
};

struct PortCounters {
  uint64_t packets_sent = 0, messages_sent = 0, bytes_sent = 0;
  uint64_t packets_received = 0, messages_received = 0;
  uint64_t bursts = 0, burst_messages = 0;  // polls that delivered messages, and how many (loopback included)
  uint64_t dropped_old_epoch = 0, held_new_epoch = 0;
};

constexpr size_t channel_index(NodeId node, Flow flow) {
  return size_t{node.value} * kFlows + static_cast<size_t>(flow);
}
// Whether packets of this flow are delivered only in the epoch they were sent in.
constexpr bool bound_to_epoch(Flow flow) { return flow < Flow::kRecovery; }

}  // namespace weft
