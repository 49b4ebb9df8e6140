#include "weft/wires/tcp/hello.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace weft {
namespace {

template <class T>
void put(std::string& out, T value) {
  const size_t at = out.size();
  out.resize(at + sizeof value);
  std::memcpy(out.data() + at, &value, sizeof value);
}

std::string begin(TcpMessageKind kind) {
  std::string out(kTcpMagic, 8);
  put(out, uint32_t{0});
  put(out, kTcpVersion);
  put(out, static_cast<uint8_t>(kind));
  put(out, uint8_t{0});
  return out;
}

std::string finish(std::string out) {
  const auto bytes = static_cast<uint32_t>(out.size());
  std::memcpy(out.data() + 8, &bytes, sizeof bytes);
  return out;
}

// Reads from the front of a body; once something is missing, every later value is 0 and ok() is false.
class Taker {
 public:
  explicit Taker(ByteView bytes) : bytes_(bytes) {}
  template <class T>
  T take() {
    if (bytes_.size() < sizeof(T)) {
      ok_ = false;
      bytes_ = {};
      return {};
    }
    const T value = load<T>(bytes_.data());
    bytes_ = bytes_.subspan(sizeof(T));
    return value;
  }
  std::string take_text(size_t bytes) {
    if (bytes_.size() < bytes) {
      ok_ = false;
      bytes_ = {};
      return {};
    }
    std::string text(as_text(bytes_.subspan(0, bytes)));
    bytes_ = bytes_.subspan(bytes);
    return text;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return bytes_.empty(); }

 private:
  ByteView bytes_;
  bool ok_ = true;
};

Error bad(std::string what) { return {Code::kBadPacket, std::move(what)}; }

}  // namespace

Result<void> tcp_check_params(const HandshakeParams& params) {
  const auto limit = [](const std::string& what, size_t value, size_t max) {
    return Error{Code::kBadOption, what + " is " + std::to_string(value) + ", at most " + std::to_string(max)};
  };
  if (params.cluster.size() > kTcpNameBytesMax) {
    return limit("size of the cluster id", params.cluster.size(), kTcpNameBytesMax);
  }
  if (params.fields.size() > kTcpFieldsMax) {
    return limit("number of agreed terms", params.fields.size(), kTcpFieldsMax);
  }
  for (const auto& [name, value] : params.fields) {
    if (name.size() > kTcpNameBytesMax) return limit("size of the name of term " + name, name.size(), kTcpNameBytesMax);
  }
  return {};
}

std::string tcp_encode_hello(const TcpHello& hello) {
  std::string out = begin(TcpMessageKind::kHello);
  put(out, hello.node.value);
  put(out, hello.worker.value);
  put(out, hello.to_node.value);
  put(out, uint8_t{0});
  put(out, hello.incarnation);
  put(out, hello.to_incarnation);
  for (const uint32_t grant : hello.grants) put(out, grant);
  put(out, static_cast<uint16_t>(hello.params.cluster.size()));
  put(out, static_cast<uint16_t>(hello.params.fields.size()));
  out += hello.params.cluster;
  for (const auto& [name, value] : hello.params.fields) {
    put(out, static_cast<uint16_t>(name.size()));
    out += name;
    put(out, value);
  }
  const std::string address = hello.probe.address.substr(0, kTcpAddressBytesMax);
  const std::string trouble = hello.probe.trouble.substr(0, kTcpTroubleBytesMax);
  put(out, hello.probe.token);
  put(out, static_cast<uint16_t>(address.size()));
  put(out, static_cast<uint16_t>(trouble.size()));
  out += address;
  out += trouble;
  return finish(std::move(out));
}

std::string tcp_encode_refusal(NodeId from, const std::string& why) {
  std::string out = begin(TcpMessageKind::kRefusal);
  put(out, from.value);
  out += why.substr(0, kTcpRefusalBytesMax);
  return finish(std::move(out));
}

Result<TcpPrefix> tcp_decode_prefix(ByteView bytes) {
  if (bytes.size() < kTcpPrefixBytes) return bad("a hello of " + std::to_string(bytes.size()) + " bytes");
  const auto first = static_cast<uint8_t>(bytes[0]);
  if (as_text(bytes.subspan(0, 8)) != std::string_view(kTcpMagic, 8)) {
    // What a TLS record begins with: a handshake or an alert, and a version 3.x.
    if ((first == 0x16 || first == 0x15) && static_cast<uint8_t>(bytes[1]) == 3) {
      return bad("the other side speaks TLS and this node was configured without");
    }
    return bad("not a hello of this protocol: it begins with \"" +
               printable(std::string(as_text(bytes.subspan(0, 8)))) + "\"");
  }
  Taker taker(bytes.subspan(8));
  TcpPrefix prefix{};
  prefix.bytes = taker.take<uint32_t>();
  prefix.version = taker.take<uint16_t>();
  const auto kind = taker.take<uint8_t>();
  prefix.kind = static_cast<TcpMessageKind>(kind);
  if (kind != static_cast<uint8_t>(TcpMessageKind::kHello) && kind != static_cast<uint8_t>(TcpMessageKind::kRefusal)) {
    return bad("neither hello nor refusal but kind " + std::to_string(kind));
  }
  if (prefix.bytes < kTcpPrefixBytes || prefix.bytes > kTcpHelloBytesMax) {
    return bad("a hello of " + std::to_string(prefix.bytes) + " bytes, must be " + std::to_string(kTcpPrefixBytes) +
               " to " + std::to_string(kTcpHelloBytesMax));
  }
  return prefix;
}

Result<TcpHello> tcp_decode_hello(ByteView body) {
  Taker taker(body);
  TcpHello hello;
  hello.node = NodeId(taker.take<uint8_t>());
  hello.worker = WorkerId(taker.take<uint8_t>());
  hello.to_node = NodeId(taker.take<uint8_t>());
  taker.take<uint8_t>();
  hello.incarnation = taker.take<uint32_t>();
  hello.to_incarnation = taker.take<uint32_t>();
  for (uint32_t& grant : hello.grants) grant = taker.take<uint32_t>();
  const auto cluster_bytes = taker.take<uint16_t>();
  const auto fields = taker.take<uint16_t>();
  if (cluster_bytes > kTcpNameBytesMax) {
    return bad("a cluster id of " + std::to_string(cluster_bytes) + " bytes, at most " +
               std::to_string(kTcpNameBytesMax));
  }
  if (fields > kTcpFieldsMax) {
    return bad(std::to_string(fields) + " agreed terms, at most " + std::to_string(kTcpFieldsMax));
  }
  hello.params.cluster = taker.take_text(cluster_bytes);
  for (size_t i = 0; i < fields && taker.ok(); ++i) {
    const auto name_bytes = taker.take<uint16_t>();
    if (name_bytes > kTcpNameBytesMax) {
      return bad("a term's name of " + std::to_string(name_bytes) + " bytes, at most " +
                 std::to_string(kTcpNameBytesMax));
    }
    std::string name = taker.take_text(name_bytes);
    const auto value = taker.take<uint64_t>();
    hello.params.fields.emplace_back(std::move(name), value);
  }
  hello.probe.token = taker.take<uint64_t>();
  const auto address_bytes = taker.take<uint16_t>();
  const auto trouble_bytes = taker.take<uint16_t>();
  if (address_bytes > kTcpAddressBytesMax || trouble_bytes > kTcpTroubleBytesMax) {
    return bad("a knock with an address of " + std::to_string(address_bytes) + " bytes, at most " +
               std::to_string(kTcpAddressBytesMax) + ", and a trouble of " + std::to_string(trouble_bytes) +
               ", at most " + std::to_string(kTcpTroubleBytesMax));
  }
  hello.probe.address = printable(taker.take_text(address_bytes));
  hello.probe.trouble = printable(taker.take_text(trouble_bytes));
  if (!taker.ok()) return bad("a hello that ends too early");
  if (!taker.at_end()) return bad("a hello with bytes behind its end");
  if (hello.node.value >= kNodesMax) {
    return bad("node " + std::to_string(hello.node.value) + ", must be below " + std::to_string(kNodesMax));
  }
  return hello;
}

TcpRefusal tcp_decode_refusal(ByteView body) {
  if (body.empty()) return {NodeId(kNodesMax), "without a reason"};
  const auto node = static_cast<uint8_t>(body[0]);
  const ByteView text = body.subspan(1, std::min(body.size() - 1, kTcpRefusalBytesMax));
  return {NodeId(node < kNodesMax ? node : uint8_t{kNodesMax}), printable(std::string(as_text(text)))};
}

}  // namespace weft
