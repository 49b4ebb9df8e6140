// The handshake of a tcp connection. The side that connects sends a hello: which worker of which node in which
// incarnation it is, whom it wants to reach, and the parameters of its cluster. The other side replies with its own
// hello, which accepts the connection, or sends a refusal with a text and closes.
//
//   0          8        12        14     15
//   | magic    | bytes  | version | kind | 0 | body ...
//
//   hello    node u8, worker u8, to_node u8, 0, incarnation u32, to_incarnation u32, grant u32 of each access
//            domain, cluster size u16, fields u16, the cluster's id, then for each field: name size u16, name, value
//            u64; then token u64, address size u16, trouble size u16, address, trouble An incarnation of 0 is a probe:
//            the sender is not a member and only asks whether it could be one. The receiver calls back: it sends its
//            own hello to the address, with the token, to which only the probing process replies. Then it replies to
//            the probe; any reply ends the probe's connection. In all other hellos token, address and trouble are
//            empty.
//   refusal  node u8, text. The same in every version, so that another version can be refused.
//
// Nothing is read beyond the handshake: frames (frame.h) may follow at once. Pure functions; what they decode comes
// from anybody who can reach the port.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "weft/base/bytes.h"
#include "weft/fabric/region.h"
#include "weft/status.h"
#include "weft/wires/interconnect.h"

namespace weft {

inline constexpr char kTcpMagic[9] = "weft-tcp";  // 8 bytes without the 0
inline constexpr uint16_t kTcpVersion = 3;        // of the exchange and the frames
inline constexpr size_t kTcpPrefixBytes = 16;
inline constexpr size_t kTcpHelloBytesMax = 8192;  // prefix included
inline constexpr size_t kTcpNameBytesMax = 64;     // of a field's name and of the cluster's id
inline constexpr size_t kTcpFieldsMax = 64;
inline constexpr size_t kTcpRefusalBytesMax = 512;
inline constexpr size_t kTcpAddressBytesMax = 260;  // a host name of 253 and a port
inline constexpr size_t kTcpTroubleBytesMax = 256;

struct TcpHello {
  NodeId node;
  uint32_t incarnation = 0;
  WorkerId worker;
  NodeId to_node;
  uint32_t to_incarnation = 0;
  DomainGrants grants{};  // that the sender's regions currently give the receiver; later changes are sent as frames
  HandshakeParams params;
  JoinProbe probe{};
};

enum class TcpMessageKind : uint8_t { kHello = 1, kRefusal = 2 };

struct TcpPrefix {
  uint32_t bytes;  // in total, prefix included
  uint16_t version;
  TcpMessageKind kind;
};

// An error if our own parameters cannot be encoded: a name too long, or too many fields.
Result<void> tcp_check_params(const HandshakeParams& params);

std::string tcp_encode_hello(const TcpHello& hello);
std::string tcp_encode_refusal(NodeId from, const std::string& why);

// `bytes` are the first kTcpPrefixBytes.
Result<TcpPrefix> tcp_decode_prefix(ByteView bytes);
// `body` is everything after the prefix.
Result<TcpHello> tcp_decode_hello(ByteView body);
// Which node the other side claims to be, and why it refuses, printable.
struct TcpRefusal {
  NodeId node;
  std::string why;
};
TcpRefusal tcp_decode_refusal(ByteView body);

}  // namespace weft
