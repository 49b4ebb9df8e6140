#include "weft/wires/tcp/frame.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/random.h"
#include "weft/wires/tcp/hello.h"

namespace weft {
namespace {

using Bytes = std::vector<std::byte>;

void put(Bytes& out, TcpFrameKind kind, Flow flow, ByteView payload) {
  const size_t at = out.size();
  out.resize(at + tcp_frame_bytes(payload.size()));
  std::memcpy(tcp_put_frame(out.data() + at, kind, flow, payload.size()), payload.data(), payload.size());
}

template <class T>
Bytes bytes_of(const T& head, size_t more = 0) {
  Bytes out(sizeof head + more);
  store(out.data(), head);
  return out;
}

TcpVerbRequest request(VerbKind kind, uint32_t bytes, uint8_t domain = kTcpReplies) {
  return {64, 1, 2, bytes, 1, 1, 0, static_cast<uint8_t>(kind), domain};
}

Bytes random_frame(Random& random) {
  Bytes out;
  switch (random.below(6)) {
    case 0:
      put(out, TcpFrameKind::kRequest, Flow{},
          bytes_of(request(VerbKind::kRead, static_cast<uint32_t>(random.below(kTcpVerbBytesMax + 1)))));
      break;
    case 1: {
      const size_t bytes = random.below(300);
      put(out, TcpFrameKind::kRequest, Flow{},
          bytes_of(request(VerbKind::kWrite, static_cast<uint32_t>(bytes), 0), bytes));
      break;
    }
    case 2:
      put(out, TcpFrameKind::kRequest, Flow{}, bytes_of(request(VerbKind::kFetchAdd, 8)));
      break;
    case 3:
      put(out, TcpFrameKind::kReply, Flow{}, bytes_of(TcpVerbReply{9, 0, 0, {}}, random.below(300)));
      break;
    case 4:
      put(out, TcpFrameKind::kGrant, Flow{}, bytes_of(TcpGrant{3, 0}));
      break;
    default:
      put(out, TcpFrameKind::kPacket, static_cast<Flow>(random.below(kFlows)), Bytes(random.between(1, 400)));
  }
  return out;
}

// Decodes from an allocation that ends where the bytes end, so that AddressSanitizer sees a read beyond the end.
TcpDecoded decode(const Bytes& bytes, TcpFrame* frame, TcpFault* fault) {
  const auto exact = std::make_unique<std::byte[]>(bytes.size());
  std::memcpy(exact.get(), bytes.data(), bytes.size());
  const TcpDecoded decoded = tcp_decode({exact.get(), bytes.size()}, frame, fault);
  if (decoded != TcpDecoded::kFrame) return decoded;
  EXPECT_LE(frame->frame_bytes, bytes.size());
  EXPECT_EQ(frame->frame_bytes % 8, 0U);
  uint64_t sum = 0;
  for (const std::byte b : frame->data) sum += static_cast<uint64_t>(b);  // readable
  EXPECT_LE(sum, 255 * frame->data.size());
  return decoded;
}

TEST(TcpFrameTest, WhatIsPutIsDecoded) {
  Random random(1);
  Bytes stream;
  std::vector<Bytes> frames;
  for (int i = 0; i < 500; ++i) {
    frames.push_back(random_frame(random));
    stream.insert(stream.end(), frames.back().begin(), frames.back().end());
  }
  ByteView left = stream;
  for (const Bytes& expected : frames) {
    TcpFrame frame;
    TcpFault fault;
    ASSERT_EQ(tcp_decode(left, &frame, &fault), TcpDecoded::kFrame) << fault.text;
    ASSERT_EQ(frame.frame_bytes, expected.size());
    ASSERT_EQ(static_cast<uint8_t>(frame.kind), static_cast<uint8_t>(expected[4]));
    left = left.subspan(frame.frame_bytes);
  }
  EXPECT_TRUE(left.empty());
}

TEST(TcpFrameTest, ATruncatedFrameIsPartial) {
  Random random(2);
  for (int i = 0; i < 50; ++i) {
    Bytes whole = random_frame(random);
    TcpFrame frame;
    TcpFault fault;
    ASSERT_EQ(decode(whole, &frame, &fault), TcpDecoded::kFrame) << fault.text;
    while (!whole.empty()) {
      whole.pop_back();
      ASSERT_EQ(decode(whole, &frame, &fault), TcpDecoded::kPartial);
    }
  }
}

TEST(TcpFrameTest, EachBadFieldIsNamed) {
  const auto refused = [](const Bytes& bytes, const char* words) {
    TcpFrame frame;
    TcpFault fault;
    EXPECT_EQ(decode(bytes, &frame, &fault), TcpDecoded::kBad) << words;
    EXPECT_NE(std::string(fault.text).find(words), std::string::npos) << fault.text;
  };
  const auto header = [](uint32_t bytes, uint8_t kind, uint8_t flow, uint16_t reserved) {
    return bytes_of(TcpFrameHeader{bytes, kind, flow, reserved});
  };
  refused(header(8, 0, 0, 0), "kind 0");
  refused(header(8, 5, 0, 0), "kind 5");
  refused(header(0, 1, 0, 0), "0 bytes");
  refused(header(kPacketBytesMax + 1, 1, 0, 0), "8193 bytes");
  refused(header(0xffffffff, 2, 0, 0), "4294967295 bytes");
  refused(header(39, 2, 0, 0), "39 bytes");
  refused(header(7, 3, 0, 0), "7 bytes");
  refused(header(16, 4, 0, 0), "16 bytes");
  refused(header(8, 1, 4, 0), "flow 4");
  refused(header(8, 4, 1, 0), "flow 1");
  refused(header(8, 1, 0, 9), "reserved field 9");
  const auto verb = [](TcpVerbRequest r, size_t data) {
    Bytes out;
    put(out, TcpFrameKind::kRequest, Flow{}, bytes_of(r, data));
    return out;
  };
  refused(verb(request(static_cast<VerbKind>(4), 8), 0), "kind 4");
  refused(verb(request(VerbKind::kRead, kTcpVerbBytesMax + 1), 0), "65537 bytes");
  refused(verb(request(VerbKind::kRead, 8), 8), "carries 8");
  refused(verb(request(VerbKind::kWrite, 16), 8), "carries 8");
  refused(verb(request(VerbKind::kFetchAdd, 16), 0), "atomic verb of 16");
  refused(verb(request(VerbKind::kRead, 8, 0), 0), "kind 0 wants no reply");
  refused(verb(request(VerbKind::kWrite, 8, kDomains), 8), "access domain 2, must be below 2");
  refused(verb(request(VerbKind::kRead, 8, kTcpReplies | 127), 0), "access domain 127, must be below 2");
  const auto reply = [](TcpVerbReply r, size_t data) {
    Bytes out;
    put(out, TcpFrameKind::kReply, Flow{}, bytes_of(r, data));
    return out;
  };
  refused(reply({0, 3, 0, {}}, 0), "status 3");
  refused(reply({0, 1, 0, {}}, 8), "carries 8");
  refused(reply({0, 0, 0, {1, 0}}, 8), "reserved");
  refused(reply({0, 0, kDomains, {}}, 8), "access domain 2, must be below 2");
  Bytes grant;
  put(grant, TcpFrameKind::kGrant, Flow{}, bytes_of(TcpGrant{3, kDomains}));
  refused(grant, "access domain 2, must be below 2");
}

TEST(TcpFrameTest, NoBytesAreTooStrange) {
  Random random(4);
  uint64_t bad = 0, sound = 0;
  for (int i = 0; i < 100'000; ++i) {
    Bytes bytes = random_frame(random);
    if (random.chance(20)) {
      bytes.assign(random.below(100), std::byte{});
      for (std::byte& b : bytes) b = static_cast<std::byte>(random.next());
    }
    for (uint64_t flips = random.below(4); flips != 0 && !bytes.empty(); --flips) {
      const size_t at =
          random.chance(70) ? random.below(std::min<size_t>(bytes.size(), 48)) : random.below(bytes.size());
      bytes[at] = static_cast<std::byte>(random.next());
    }
    if (random.chance(20)) bytes.resize(random.below(bytes.size() + 1));
    TcpFrame frame;
    TcpFault fault;
    const TcpDecoded decoded = decode(bytes, &frame, &fault);
    bad += decoded == TcpDecoded::kBad ? 1 : 0;
    sound += decoded == TcpDecoded::kFrame ? 1 : 0;
    ASSERT_EQ(decoded == TcpDecoded::kBad, fault.text[0] != '\0');
  }
  EXPECT_GT(bad, 10'000U);
  EXPECT_GT(sound, 10'000U);
}

TcpHello some_hello() {
  return {NodeId(3),
          9,
          WorkerId(2),
          NodeId(5),
          4,
          {1, 7},
          {"cluster", {{"workers", 4}, {"hash_seed", 0x1234}}},
          {99, "host:1", "no\nway"}};
}

TEST(TcpHelloTest, WhatIsSaidIsUnderstood) {
  const std::string said = tcp_encode_hello(some_hello());
  auto prefix = tcp_decode_prefix(as_bytes(said));
  ASSERT_TRUE(prefix);
  EXPECT_EQ(prefix->bytes, said.size());
  EXPECT_EQ(prefix->version, kTcpVersion);
  auto hello = tcp_decode_hello(as_bytes(said).subspan(kTcpPrefixBytes));
  ASSERT_TRUE(hello) << hello.error().text();
  EXPECT_EQ(hello->node, NodeId(3));
  EXPECT_EQ(hello->incarnation, 9U);
  EXPECT_EQ(hello->worker, WorkerId(2));
  EXPECT_EQ(hello->to_node, NodeId(5));
  EXPECT_EQ(hello->to_incarnation, 4U);
  EXPECT_EQ(hello->grants, (DomainGrants{1, 7}));
  EXPECT_EQ(hello->probe.token, 99U);
  EXPECT_EQ(hello->probe.address, "host:1");
  EXPECT_EQ(hello->probe.trouble, "no?way");
  EXPECT_EQ(mismatch(NodeId(3), some_hello().params, NodeId(5), hello->params), "");
  const auto refusal =
      tcp_decode_refusal(as_bytes(tcp_encode_refusal(NodeId(2), "no\nthanks")).subspan(kTcpPrefixBytes));
  EXPECT_EQ(refusal.node, NodeId(2));
  EXPECT_EQ(refusal.why, "no?thanks");
}

TEST(TcpHelloTest, DifferencesAreNamedWithBothValues) {
  const HandshakeParams ours = some_hello().params;
  HandshakeParams theirs = ours;
  theirs.cluster = "other";
  EXPECT_EQ(mismatch(NodeId(1), ours, NodeId(2), theirs), "cluster is \"cluster\" at node 1 and \"other\" at node 2");
  theirs = ours;
  theirs.fields[1].second = 5;
  EXPECT_EQ(mismatch(NodeId(1), ours, NodeId(2), theirs), "hash_seed is 4660 at node 1 and 5 at node 2");
  theirs.fields.pop_back();
  EXPECT_EQ(mismatch(NodeId(1), ours, NodeId(2), theirs), "hash_seed is 4660 at node 1 and not known at node 2");
  EXPECT_EQ(mismatch(NodeId(2), theirs, NodeId(1), ours), "hash_seed is not known at node 2 and 4660 at node 1");
}

TEST(TcpHelloTest, NoHelloIsTooStrange) {
  Random random(5);
  const std::string sound = tcp_encode_hello(some_hello());
  uint64_t accepted = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string bytes = sound;
    for (uint64_t flips = random.below(4); flips != 0; --flips) {
      bytes[random.below(bytes.size())] = static_cast<char>(random.next());
    }
    if (random.chance(30)) bytes.resize(random.below(bytes.size() + 1));
    const std::unique_ptr<char[]> exact(new char[bytes.size()]);
    std::memcpy(exact.get(), bytes.data(), bytes.size());
    const ByteView view = as_bytes({exact.get(), bytes.size()});
    const auto prefix = tcp_decode_prefix(view);
    EXPECT_TRUE(!prefix || (*prefix).bytes <= kTcpHelloBytesMax);
    if (view.size() < kTcpPrefixBytes) continue;
    const auto hello = tcp_decode_hello(view.subspan(kTcpPrefixBytes));
    if (hello) {
      ++accepted;
      EXPECT_LT((*hello).node.value, kNodesMax);
    }
    EXPECT_LE(tcp_decode_refusal(view.subspan(kTcpPrefixBytes)).why.size(), kTcpRefusalBytesMax);
  }
  EXPECT_GT(accepted, 0U);
}

}  // namespace
}  // namespace weft
