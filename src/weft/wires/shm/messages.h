// The messages that two shm nodes exchange over their unix socket, and their decoding. Plain data.
//
// A message is the header below and a body; numbers are in native byte order, since both ends are on one machine. Both
// sides send, in this order: kHello (the one that connected first, the other when it agrees), kBase, kRegions as often
// as needed, kDone, and kReady when everything the other side shared is mapped. Later only kRegions, for regions that
// were added. kRefuse, sent instead of any of these, ends it.
//
//   0        8         12    13       16
//   | magic  | version | kind|   0    | body ...
//
// The header and kRefuse never change, so that different versions can tell each other that they differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/base/bytes.h"
#include "weft/fabric/region.h"
#include "weft/status.h"
#include "weft/types.h"
#include "weft/wires/interconnect.h"

namespace weft {

inline constexpr uint64_t kShmMagic = 0x316d687374666577;  // "weftshm1"
inline constexpr uint32_t kShmVersion = 2;                 // of these messages and of the layout of the shared memory

enum class ShmKind : uint8_t { kHello = 1, kRefuse, kBase, kRegions, kDone, kReady };

struct ShmHead {
  uint64_t magic;
  uint32_t version;
  uint8_t kind;  // ShmKind
  uint8_t zero[3];
};
static_assert(sizeof(ShmHead) == 16);

struct ShmHello {
  NodeId from;
  NodeId to;  // who the sender believes the receiver is
  uint32_t from_incarnation = 0;
  uint32_t to_incarnation = 0;
  HandshakeParams params;
};

// Sent with the descriptors of the control block, of the rings that the sender writes, and of each worker's eventfd.
struct ShmBase {
  uint32_t workers = 0;
  uint64_t ring_bytes = 0;
};

// Sent with as many descriptors, in the same order.
struct ShmRegionEntry {
  RegionId id;
  Domain domain = Domain::kEngine;
  uint64_t bytes = 0;
};
inline constexpr size_t kShmRegionsPerMessage = 64;

std::vector<std::byte> shm_encode(ShmKind kind);  // kDone, kReady
std::vector<std::byte> shm_encode(const ShmHello& hello);
std::vector<std::byte> shm_encode(const ShmBase& base);
std::vector<std::byte> shm_encode(std::span<const ShmRegionEntry> regions);
std::vector<std::byte> shm_encode_refusal(const std::string& why);

// The kind, if the header is valid. A kRefuse of any version is.
Result<ShmKind> shm_kind(ByteView message);
Result<ShmHello> shm_decode_hello(ByteView message);
Result<ShmBase> shm_decode_base(ByteView message);
Result<std::vector<ShmRegionEntry>> shm_decode_regions(ByteView message);
std::string shm_decode_refusal(ByteView message);

}  // namespace weft
