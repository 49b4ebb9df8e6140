#include "weft/wires/shm/messages.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weft {
namespace {

constexpr size_t kTextBytesMax = 1024;
constexpr size_t kFieldsMax = 256;

class Encoder {
 public:
  explicit Encoder(ShmKind kind) { put(ShmHead{kShmMagic, kShmVersion, static_cast<uint8_t>(kind), {}}); }

  template <class T>
  Encoder& put(const T& value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    store(bytes_.data() + at, value);
    return *this;
  }
  Encoder& text(const std::string& text) {
    const size_t bytes = std::min(text.size(), kTextBytesMax);
    put(static_cast<uint16_t>(bytes));
    const ByteView view = as_bytes(text).first(bytes);
    bytes_.insert(bytes_.end(), view.begin(), view.end());
    return *this;
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Returns zeroes after a read beyond the end; whole() tells.
class Decoder {
 public:
  explicit Decoder(ByteView message)
      : rest_(message.size() < sizeof(ShmHead) ? ByteView() : message.subspan(sizeof(ShmHead))) {}

  template <class T>
  T get() {
    if (rest_.size() < sizeof(T)) return fail(), T{};
    const T value = load<T>(rest_.data());
    rest_ = rest_.subspan(sizeof(T));
    return value;
  }
  std::string text() {
    const auto bytes = get<uint16_t>();
    if (bytes > kTextBytesMax || bytes > rest_.size()) return fail(), std::string();
    std::string out(as_text(rest_.first(bytes)));
    rest_ = rest_.subspan(bytes);
    return out;
  }
  bool failed() const { return failed_; }
  bool whole() const { return !failed_ && rest_.empty(); }

 private:
  void fail() {
    failed_ = true;
    rest_ = {};
  }
  ByteView rest_;
  bool failed_ = false;
};

Error malformed(const char* what, ByteView message) {
  return Error{Code::kBadPacket, std::string("set-up: ") + what + " of " + std::to_string(message.size()) + " bytes"};
}

}  // namespace

std::vector<std::byte> shm_encode(ShmKind kind) { return Encoder(kind).take(); }

std::vector<std::byte> shm_encode(const ShmHello& hello) {
  Encoder out(ShmKind::kHello);
  out.put(hello.from.value).put(hello.to.value).put(hello.from_incarnation).put(hello.to_incarnation);
  out.text(hello.params.cluster);
  out.put(static_cast<uint16_t>(hello.params.fields.size()));
  for (const auto& [name, value] : hello.params.fields) out.text(name).put(value);
  return out.take();
}

std::vector<std::byte> shm_encode(const ShmBase& base) {
  return Encoder(ShmKind::kBase).put(base.workers).put(base.ring_bytes).take();
}

std::vector<std::byte> shm_encode(std::span<const ShmRegionEntry> regions) {
  Encoder out(ShmKind::kRegions);
  out.put(static_cast<uint16_t>(regions.size()));
  for (const ShmRegionEntry& region : regions) {
    out.put(region.id.value).put(static_cast<uint8_t>(region.domain)).put(region.bytes);
  }
  return out.take();
}

std::vector<std::byte> shm_encode_refusal(const std::string& why) { return Encoder(ShmKind::kRefuse).text(why).take(); }

Result<ShmKind> shm_kind(ByteView message) {
  if (message.size() < sizeof(ShmHead)) return malformed("a message", message);
  const auto head = load<ShmHead>(message.data());
  if (head.magic != kShmMagic) return malformed("something else than a set-up message", message);
  if (head.kind < static_cast<uint8_t>(ShmKind::kHello) || head.kind > static_cast<uint8_t>(ShmKind::kReady)) {
    return Error{Code::kBadPacket, "set-up: message kind " + std::to_string(head.kind)};
  }
  const auto kind = static_cast<ShmKind>(head.kind);
  if (head.version != kShmVersion && kind != ShmKind::kRefuse) {
    return Error{Code::kBadPacket, "shm version: one side has " + std::to_string(kShmVersion) + ", the other " +
                                       std::to_string(head.version)};
  }
  return kind;
}

Result<ShmHello> shm_decode_hello(ByteView message) {
  Decoder in(message);
  ShmHello hello;
  hello.from = NodeId(in.get<uint8_t>());
  hello.to = NodeId(in.get<uint8_t>());
  hello.from_incarnation = in.get<uint32_t>();
  hello.to_incarnation = in.get<uint32_t>();
  hello.params.cluster = in.text();
  const auto fields = in.get<uint16_t>();
  if (fields > kFieldsMax) return malformed("a hello with too many terms", message);
  for (size_t i = 0; i < fields && !in.failed(); ++i) {
    std::string name = in.text();
    const auto value = in.get<uint64_t>();
    hello.params.fields.emplace_back(std::move(name), value);
  }
  if (!in.whole() || hello.from.value >= kNodesMax) return malformed("a malformed hello", message);
  return hello;
}

Result<ShmBase> shm_decode_base(ByteView message) {
  Decoder in(message);
  ShmBase base;
  base.workers = in.get<uint32_t>();
  base.ring_bytes = in.get<uint64_t>();
  if (!in.whole()) return malformed("a malformed base", message);
  return base;
}

Result<std::vector<ShmRegionEntry>> shm_decode_regions(ByteView message) {
  Decoder in(message);
  const auto count = in.get<uint16_t>();
  if (count > kShmRegionsPerMessage) return malformed("too many regions", message);
  std::vector<ShmRegionEntry> regions;
  for (size_t i = 0; i < count; ++i) {
    const RegionId id(in.get<uint16_t>());
    const auto domain = in.get<uint8_t>();
    if (domain >= kDomains) return malformed("a region of an unknown domain", message);
    regions.push_back({id, static_cast<Domain>(domain), in.get<uint64_t>()});
  }
  if (!in.whole()) return malformed("malformed regions", message);
  return regions;
}

std::string shm_decode_refusal(ByteView message) {
  Decoder in(message);
  std::string why = in.text();
  return in.whole() && !why.empty() ? why : "refused without a reason";
}

}  // namespace weft
