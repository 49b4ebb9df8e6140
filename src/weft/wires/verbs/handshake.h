// The messages that two workers of the verbs wire exchange: which queue pairs to connect, and who may access which
// memory. hello and ready are packets of the TcpWire below, where the cluster's credentials hold; the others go over
// the queue pair for packets, in order with these.
//
//   hello   the address of the sender's queue pair for packets; the first message of either side
//   ready   that queue pair is connected: packets may be sent
//   region  one of the sender's regions: its address, size and key
//   grant   the number of the grant that the sender's regions give the receiver in an access domain; 0: none, and its
//           queue is closed
//   ask     the receiver of a grant requests a queue for its verbs under that grant, and gives the address of its end.
//           A new request closes the previous queue.
//   open    the reply to ask: the address of the other end. `asked` is the number of the requesting queue pair, so that
//           a reply to an earlier request is not taken for one to the last.
//
// Pure functions; what they decode comes from a peer and is checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/base/bytes.h"
#include "weft/fabric/region.h"
#include "weft/wires/tcp/frame.h"
#include "weft/wires/verbs/qp.h"

namespace weft {

inline constexpr uint8_t kVerbsVersion = 2;
inline constexpr uint32_t kVerbsNumberMax = (1U << 24) - 1;  // of queue pair numbers and packet sequence numbers

enum class VerbsMessageKind : uint8_t { kHello = 1, kReady = 2, kRegion = 3, kGrant = 4, kAsk = 5, kOpen = 6 };

struct VerbsMessage {
  uint8_t version = kVerbsVersion;
  VerbsMessageKind kind = VerbsMessageKind::kHello;
  Domain domain = Domain::kEngine;  // of kGrant, kAsk and kOpen
  uint16_t region = 0;              // of kRegion
  uint32_t grant = 0;               // of kGrant and kAsk
  uint32_t asked = 0;               // of kOpen
  uint32_t region_key = 0;          // of kRegion
  uint64_t region_base = 0;
  uint64_t region_bytes = 0;
  QpAddress address{};  // of kHello, kAsk and kOpen
};
inline constexpr size_t kVerbsMessageBytes = 64;

std::string verbs_encode(const VerbsMessage& message);
// False if it is invalid; `fault` says why.
bool verbs_decode(ByteView bytes, VerbsMessage* message, TcpFault* fault);

}  // namespace weft
