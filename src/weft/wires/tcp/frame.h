// What two workers exchange on a tcp connection after the hello (hello.h): frames, each a header and a payload that is
// padded to 8 bytes, so that every frame of the stream begins at a multiple of 8.
//
//   0         4      5      6          8
//   | bytes   | kind | flow | reserved | payload ... | padding |
//
//   packet   a packet given to Wire::send, 1 to kPacketBytesMax bytes, on its flow
//   request  a TcpVerbRequest, and a WRITE's bytes
//   reply    a TcpVerbReply, and what a READ or an atomic verb returns
//   grant    a TcpGrant: which grant the sender's regions now give the receiver in an access domain. A request names
//            the grant it was posted under, as far as the initiator knew, and lands under that one only.
//
// Integers are little-endian, as on x86. tcp_decode() is pure and trusts nothing: it checks everything within a frame.
// What depends on the state of the connection (sequence, window) is checked where that state is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/base/bytes.h"
#include "weft/fabric/wire.h"

namespace weft {

inline constexpr size_t kTcpVerbBytesMax = kVerbBytesMax;
inline constexpr size_t kTcpVerbsMax = 1024;  // outstanding, per connection, direction and access domain
// The most bytes of replies, headers included, that the outstanding verbs of one connection and domain may need. The
// target reserves that much room for them in its output, so that replies never wait for requests and two full ends
// never wait for each other.
inline constexpr size_t kTcpVerbWindowBytes = 1 << 20;

enum class TcpFrameKind : uint8_t { kPacket = 1, kRequest = 2, kReply = 3, kGrant = 4 };

struct TcpFrameHeader {
  uint32_t bytes;     // of the payload, without padding
  uint8_t kind;       // TcpFrameKind
  uint8_t flow;       // Flow of a packet, else 0
  uint16_t reserved;  // 0
};
static_assert(sizeof(TcpFrameHeader) == 8);

struct TcpVerbRequest {
  uint64_t offset;
  uint64_t operand;
  uint64_t compare;
  uint32_t bytes;       // to read or write; 8 for the atomic verbs
  uint32_t grant;       // under which it was posted, as last announced by the target; 0: none
  uint32_t generation;  // counts resets of the queue: verbs posted before one stay flushed
  uint16_t region;
  uint8_t kind;    // VerbKind
  uint8_t domain;  // Domain; kTcpReplies is added if a reply is wanted also on success, as for all but WRITEs
};
static_assert(sizeof(TcpVerbRequest) == 40);
inline constexpr uint8_t kTcpReplies = 0x80;
static_assert(kDomains <= kTcpReplies);

struct TcpVerbReply {
  uint32_t sequence;  // of the request, counting from 0 on this connection and domain
  uint8_t status;     // VerbStatus
  uint8_t domain;     // Domain
  uint8_t reserved[2];
};
static_assert(sizeof(TcpVerbReply) == 8);

struct TcpGrant {
  uint32_t grant;   // Regions::grant_of; 0: none
  uint32_t domain;  // Domain
};
static_assert(sizeof(TcpGrant) == 8);

constexpr size_t tcp_frame_bytes(size_t payload) { return sizeof(TcpFrameHeader) + align_up(payload, 8); }
inline constexpr size_t kTcpFrameBytesMax = tcp_frame_bytes(sizeof(TcpVerbRequest) + kTcpVerbBytesMax);
static_assert(kTcpFrameBytesMax > tcp_frame_bytes(kPacketBytesMax));

// A text that says what went wrong with a connection; of fixed size, so that a worker can set it without allocating.
struct TcpFault {
  char text[192] = {};
  [[gnu::format(printf, 2, 3)]] void set(const char* format, ...);
};

struct TcpFrame {
  TcpFrameKind kind;
  Flow flow;
  size_t frame_bytes;      // header and padding included
  ByteView data;           // the packet; a WRITE's bytes; what a verb returned
  TcpVerbRequest request;  // of a request
  TcpVerbReply reply;      // of a reply
  TcpGrant grant;          // of a grant
};

enum class TcpDecoded : uint8_t {
  kFrame,    // `frame` is the first one in `bytes`, and valid
  kPartial,  // incomplete
  kBad,      // `fault` says what is wrong
};

TcpDecoded tcp_decode(ByteView bytes, TcpFrame* frame, TcpFault* fault);

// Writes a frame's header at `at` and zeroes its padding; returns where the payload goes. There is room for
// tcp_frame_bytes(payload).
std::byte* tcp_put_frame(std::byte* at, TcpFrameKind kind, Flow flow, size_t payload);

}  // namespace weft
