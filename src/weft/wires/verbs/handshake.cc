#include "weft/wires/verbs/handshake.h"

#include <cstring>

#include "weft/fabric/region.h"

namespace weft {
namespace {

// The bytes on the wire; fields that a kind does not use are 0.
struct Layout {
  uint8_t version;
  uint8_t kind;
  uint16_t region;
  uint32_t grant;
  uint32_t asked;
  uint32_t region_key;
  uint64_t region_base;
  uint64_t region_bytes;
  uint32_t number;
  uint32_t sequence;
  uint16_t lid;
  uint8_t mtu;
  uint8_t domain;
  uint8_t reserved[4];
  uint8_t gid[16];
};
static_assert(sizeof(Layout) == kVerbsMessageBytes);

bool has_address(VerbsMessageKind kind) {
  return kind == VerbsMessageKind::kHello || kind == VerbsMessageKind::kAsk || kind == VerbsMessageKind::kOpen;
}

bool check_address(const Layout& in, TcpFault* fault) {
  if (in.number == 0 || in.number > kVerbsNumberMax || in.sequence > kVerbsNumberMax) {
    fault->set("bad verbs message: queue pair %u from packet %u, both are at most %u", in.number, in.sequence,
               kVerbsNumberMax);
    return false;
  }
  if (in.mtu < IBV_MTU_256 || in.mtu > IBV_MTU_4096) {
    fault->set("bad verbs message: an MTU of kind %u, must be %d to %d", in.mtu, IBV_MTU_256, IBV_MTU_4096);
    return false;
  }
  return true;
}

bool check_region(const Layout& in, TcpFault* fault) {
  if (in.region >= Regions::kRegionsMax) {
    fault->set("bad verbs message: region %u, must be below %zu", in.region, Regions::kRegionsMax);
    return false;
  }
  if (in.region_base > UINT64_MAX - in.region_bytes) {
    fault->set("bad verbs message: region %u goes round the end of memory", in.region);
    return false;
  }
  return true;
}

}  // namespace

std::string verbs_encode(const VerbsMessage& message) {
  Layout out{};
  out.version = message.version;
  out.kind = static_cast<uint8_t>(message.kind);
  out.domain = static_cast<uint8_t>(message.domain);
  out.region = message.region;
  out.grant = message.grant;
  out.asked = message.asked;
  out.region_key = message.region_key;
  out.region_base = message.region_base;
  out.region_bytes = message.region_bytes;
  out.number = message.address.number;
  out.sequence = message.address.sequence;
  out.lid = message.address.lid;
  out.mtu = message.address.mtu;
  std::memcpy(out.gid, message.address.gid.raw, sizeof out.gid);
  return {reinterpret_cast<const char*>(&out), sizeof out};
}

bool verbs_decode(ByteView bytes, VerbsMessage* message, TcpFault* fault) {
  if (bytes.size() != kVerbsMessageBytes) {
    fault->set("bad verbs message: %zu bytes, must be %zu", bytes.size(), kVerbsMessageBytes);
    return false;
  }
  const auto in = load<Layout>(bytes.data());
  if (in.version != kVerbsVersion) {
    fault->set("verbs version is %u at the other side and %u here", in.version, kVerbsVersion);
    return false;
  }
  if (in.kind < static_cast<uint8_t>(VerbsMessageKind::kHello) ||
      in.kind > static_cast<uint8_t>(VerbsMessageKind::kOpen)) {
    fault->set("bad verbs message: kind %u", in.kind);
    return false;
  }
  if (in.domain >= kDomains) {
    fault->set("bad verbs message: access domain %u, must be below %d", in.domain, kDomains);
    return false;
  }
  message->version = in.version;
  message->domain = static_cast<Domain>(in.domain);
  message->kind = static_cast<VerbsMessageKind>(in.kind);
  if (has_address(message->kind) && !check_address(in, fault)) return false;
  if (message->kind == VerbsMessageKind::kRegion && !check_region(in, fault)) return false;
  message->region = in.region;
  message->grant = in.grant;
  message->asked = in.asked;
  message->region_key = in.region_key;
  message->region_base = in.region_base;
  message->region_bytes = in.region_bytes;
  message->address.number = in.number;
  message->address.sequence = in.sequence;
  message->address.lid = in.lid;
  message->address.mtu = in.mtu;
  std::memcpy(message->address.gid.raw, in.gid, sizeof in.gid);
  return true;
}

}  // namespace weft
