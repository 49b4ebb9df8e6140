// Wire: the transport of packets and one-sided verbs below a port. One object per worker; only that worker calls it.
//
// Packets are delivered reliably and in order per (sender, receiver, flow). A wire knows nothing of their content
// beyond the PacketHeader. One-sided verbs act on a peer's regions without its worker. There is a queue for each peer
// and access domain (region.h): the verbs of one post() go over one queue, take effect in order, and cost one doorbell.
// Two posts to a queue complete, and are reported, in order; but a WRITE or an atomic may take effect before a READ or
// an atomic of an earlier post that is not complete yet. Queues know nothing of each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/base/bytes.h"
#include "weft/fabric/region.h"
#include "weft/types.h"

namespace weft {

// Flows separate messages that must not share a packet; each is an ordered channel.
enum class Flow : uint8_t { kExecution, kCommit, kRecovery, kControl };
inline constexpr int kFlows = 4;

inline constexpr uint16_t kWireVersion = 9;

// The first bytes of every packet.
//
//   0        2        4    5      6        8            12           16
//   | bytes  | count  |flow|source| worker | epoch      | sequence   |
//
struct PacketHeader {
  uint16_t bytes;     // of the whole packet, header included
  uint16_t count;     // messages that begin in this packet
  uint8_t flow;       // Flow
  uint8_t source;     // NodeId of the sender
  uint8_t worker;     // WorkerId, the same at both ends
  uint8_t reserved;   // 0
  uint32_t epoch;     // of the sender's view
  uint32_t sequence;  // counts packets of this (sender, receiver, flow): a gap is a bug or a hostile peer
};
static_assert(sizeof(PacketHeader) == 16);

inline constexpr size_t kPacketBytesMax = 8192;  // header included

struct Packet {
  NodeId source;
  std::span<const std::byte> bytes;  // starts with the PacketHeader; 8-byte aligned; valid until Wire::release
};

inline constexpr size_t kVerbBytesMax = 64 << 10;  // of one READ or WRITE
inline constexpr size_t kPostBytesMax = 1 << 20;   // of all verbs of one post(), with some room for headers

enum class VerbKind : uint8_t { kRead, kWrite, kCompareSwap, kFetchAdd };

// One one-sided operation. kCompareSwap and kFetchAdd act on 8 aligned bytes and return the old value in *local.
// `local` must stay valid until the completion of this or of a later signalled verb of the same queue.
struct Verb {
  VerbKind kind = VerbKind::kRead;
  bool signalled = true;               // an unsignalled verb reports a completion only if it fails
  bool ordered_after_previous = true;  // takes effect after those before it in its post; false: in any order
  RegionId region;
  uint64_t offset = 0;
  uint32_t bytes = 0;
  std::byte* local = nullptr;
  uint64_t operand = 0;  // kCompareSwap: the new value; kFetchAdd: the addend
  uint64_t compare = 0;  // kCompareSwap only
  uint64_t tag = 0;      // returned in the completion
};

enum class VerbStatus : uint8_t {
  kDone,
  kRefused,  // no grant, or outside the domain's regions: the queue is broken until reset
  kFlushed,  // posted behind a refused one
};

struct Completion {
  NodeId peer;
  VerbStatus status;
  uint64_t tag;
};

class Wire {
 public:
  virtual ~Wire() = default;

  // Copies the packet and accepts it for delivery; false if there is no room now (nothing was taken, retry later).
  virtual bool send(NodeId to, Flow flow, ByteView packet) = 0;

  // Fills `out` with received packets, oldest first per channel, and returns how many. Their bytes stay valid until
  // release(), which the caller must call before the next poll.
  virtual size_t poll(std::span<Packet> out) = 0;
  virtual void release() = 0;

  // Posts verbs to one peer and domain with one doorbell; false if the queue has no room for all of them (none was
  // taken).
  virtual bool post(NodeId to, Domain domain, std::span<const Verb> verbs) = 0;
  // Completions of the domain's queues, in order for each peer.
  virtual size_t poll_completions(Domain domain, std::span<Completion> out) = 0;
  // Reopens a queue after a refused verb.
  virtual void reset(NodeId to, Domain domain) = 0;

  // From now on this end exchanges packets and verbs with that incarnation of the peer only; 0: with none. Packets of
  // an earlier incarnation that were not polled yet are thrown away, and its verbs are flushed. Wires on which a node
  // cannot come back as another incarnation (local) ignore it.
  virtual void accept_incarnation(NodeId peer, uint32_t incarnation) {
    (void)peer;
    (void)incarnation;
  }

  // Whether kCompareSwap and kFetchAdd are atomic with the locked instructions of the target's CPU. Where they are not,
  // a word that remote verbs change is changed by verbs only, at the target itself too: post() accepts the local node,
  // once Regions granted it access to itself, and on the verbs wire goes through the NIC.
  virtual bool atomic_with_cpu() const { return true; }

  // True if poll or poll_completions would return something now.
  virtual bool pending() const = 0;
};

}  // namespace weft
