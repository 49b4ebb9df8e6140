// What two workers of the verbs wire say to each other over their tcp connection, where the cluster's credentials hold:
// which queue pairs to connect, and who may reach which memory. Each message is a packet of the TcpWire beneath.
//
//   hello   where the sender's queue pair for packets is; the first message of either side
//   ready   it is connected: packets may come
//   region  one of the sender's regions: its address, size and key
//   grant   the number of the grant that the sender's regions give the receiver; 0: none, and its queue is closed
//   ask     the receiver of a grant wants a queue for its verbs under that grant, and says where its end is. Asked
//           again, the queue before is closed.
//   open    the answer: where the other end is. `asked` is the number of the queue pair that asked, so that an answer
//           to an earlier question is not taken for one to the last.
//
// Pure functions; what they decode comes from a peer, and is checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/base/bytes.h"
#include "weft/wires/tcp/frame.h"
#include "weft/wires/verbs/qp.h"

namespace weft {

inline constexpr uint8_t kVerbsVersion = 1;
inline constexpr uint32_t kVerbsNumberMax = (1U << 24) - 1;  // of a queue pair, and of a packet

enum class VerbsMessageKind : uint8_t { kHello = 1, kReady = 2, kRegion = 3, kGrant = 4, kAsk = 5, kOpen = 6 };

struct VerbsMessage {
  uint8_t version = kVerbsVersion;
  VerbsMessageKind kind = VerbsMessageKind::kHello;
  uint16_t region = 0;      // of kRegion
  uint32_t grant = 0;       // of kGrant and kAsk
  uint32_t asked = 0;       // of kOpen
  uint32_t region_key = 0;  // of kRegion
  uint64_t region_base = 0;
  uint64_t region_bytes = 0;
  QpAddress address{};  // of kHello, kAsk and kOpen
};
inline constexpr size_t kVerbsMessageBytes = 64;

std::string verbs_encode(const VerbsMessage& message);
// False if it makes no sense; `fault` says why.
bool verbs_decode(ByteView bytes, VerbsMessage* message, TcpFault* fault);

}  // namespace weft
