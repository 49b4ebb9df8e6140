// Packets that no honest peer sends: a port refuses each with an error that names the fault. Whatever bytes arrive, it
// reads nothing outside the packet and delivers nothing malformed.
#include <gtest/gtest.h>

#include <functional>

#include "weft/base/random.h"
#include "weft/fabric/local.h"
#include "weft/fabric/names_testing.h"
#include "weft/fabric/port_testing.h"

namespace weft {
namespace {

using testing::Bytes;
using testing::HandWire;
using testing::Listener;

constexpr PortOptions kOptionsB{.self = kB, .worker = kW0, .nodes = 3, .queued_bytes_max = 64 << 10};

// Packets that an honest port at A sends to B: small messages, then one of three fragments with small ones behind it.
std::vector<Bytes> honest_packets() {
  HandWire wire;
  Listener a({.self = kA, .worker = kW0, .nodes = 3}, &wire);
  a.send(kB, Flow::kCommit, 0, "first");
  a.send(kB, Flow::kCommit, 1, "second message");
  a.port.flush();
  a.send(kB, Flow::kCommit, 2, std::string(20'000, 'p'), 5);
  a.send(kB, Flow::kCommit, 3, "behind");
  a.port.flush();
  std::vector<Bytes> out;
  for (auto& sent : wire.out) out.push_back(sent.bytes);
  return out;
}

template <class T>
void poke(Bytes& packet, size_t offset, T value) {
  store(packet.data() + offset, value);
}
constexpr size_t kMessage = sizeof(PacketHeader);  // where a packet's first message begins

// Sets the byte that has a message's kind and fragment.
void poke_kind(Bytes& packet, size_t message, int kind, int fragment) {
  poke(packet, message + 3, static_cast<uint8_t>(kind | fragment << 5));
}

struct Case {
  const char* name;
  size_t packet;  // which of the honest packets is corrupted
  void (*spoil)(Bytes&);
  const char* error;
};

const Case kCases[] = {
    {"empty", 0, [](Bytes& p) { p.clear(); }, "packet bytes 0, at least 16"},
    {"short", 0, [](Bytes& p) { p.resize(15); }, "packet bytes 15, at least 16"},
    {"header only", 0, [](Bytes& p) { p.resize(16), poke<uint16_t>(p, 0, 16); }, "packet bytes 16, more than 16"},
    {"length", 0, [](Bytes& p) { poke<uint16_t>(p, 0, 4000); }, "packet bytes in the header 4000, received"},
    {"cut", 0, [](Bytes& p) { p.resize(24); }, "packet bytes in the header 56, received 24"},
    {"odd", 0, [](Bytes& p) { p.resize(53), poke<uint16_t>(p, 0, 53); }, "packet bytes 53, a multiple of 8"},
    {"oversize", 0, [](Bytes& p) { p.resize(8200), poke<uint16_t>(p, 0, 8200); }, "packet bytes 8200, at most 8192"},
    {"flow", 0, [](Bytes& p) { poke<uint8_t>(p, 4, 4); }, "flow 4, below 4"},
    {"source", 0, [](Bytes& p) { poke<uint8_t>(p, 5, 2); }, "source 2, must be 0"},
    {"worker", 0, [](Bytes& p) { poke<uint8_t>(p, 6, 9); }, "worker 9, must be 0"},
    {"reserved", 0, [](Bytes& p) { poke<uint8_t>(p, 7, 1); }, "reserved byte 1, must be 0"},
    {"sequence", 1, [](Bytes& p) { poke<uint32_t>(p, 12, 2); }, "sequence 2, must be 1"},
    {"replayed", 1, [](Bytes& p) { poke<uint32_t>(p, 12, 0); }, "sequence 0, must be 1"},
    {"epoch", 1, [](Bytes& p) { poke<uint32_t>(p, 8, 0); }, "epoch 0, not before 1"},
    {"count low", 0, [](Bytes& p) { poke<uint16_t>(p, 2, 1); }, "message count 1, must be 2"},
    {"count high", 0, [](Bytes& p) { poke<uint16_t>(p, 2, 999); }, "message count 999, must be 2"},
    {"message too long", 0, [](Bytes& p) { poke<uint32_t>(p, kMessage, 33); }, "message bytes 33, at most 32"},
    {"message huge", 0, [](Bytes& p) { poke<uint32_t>(p, kMessage, ~0U); }, "message bytes 16777215, at most 32"},
    {"no handler", 0, [](Bytes& p) { poke_kind(p, kMessage, 4, 0); }, "kind without handler 4"},
    {"kind", 0, [](Bytes& p) { poke_kind(p, kMessage, 31, 0); }, "kind without handler 31"},
    {"piece", 0, [](Bytes& p) { poke_kind(p, kMessage, 0, 4); }, "piece 4, at most 3"},
    {"piece of all bits", 0, [](Bytes& p) { poke_kind(p, kMessage, 0, 7); }, "piece 7, at most 3"},
    {"middle of nothing", 0, [](Bytes& p) { poke_kind(p, kMessage, 0, kMiddle); }, "piece out of place 2"},
    {"last of nothing", 0, [](Bytes& p) { poke_kind(p, kMessage, 0, kLast); }, "piece out of place 3"},
    {"first not in front", 0, [](Bytes& p) { poke_kind(p, kMessage + 16, 1, kFirst); }, "piece out of place 1"},
    {"first too short", 0, [](Bytes& p) { poke_kind(p, kMessage, 0, kFirst); }, "first piece 5, at least 8"},
    {"total 0", 1, [](Bytes& p) { poke<uint64_t>(p, kMessage + 8, 0); }, "message bytes 0, at most 1048576"},
    {"total huge", 1, [](Bytes& p) { poke<uint64_t>(p, kMessage + 8, 1 << 21); },
     "message bytes 2097152, at most 1048576"},
    {"total small", 1, [](Bytes& p) { poke<uint64_t>(p, kMessage + 8, 100); }, "bytes of a piece 8160, at most 100"},
    {"first again", 2, [](Bytes& p) { poke_kind(p, kMessage, 2, kFirst); }, "piece out of place 1"},
    {"whole between", 2, [](Bytes& p) { poke_kind(p, kMessage, 2, kUnfragmented); }, "piece out of place 0"},
    {"last too early", 2, [](Bytes& p) { poke_kind(p, kMessage, 2, kLast); },
     "bytes of all pieces 16328, must be 20000"},
    {"kind changes", 2, [](Bytes& p) { poke_kind(p, kMessage, 1, kMiddle); }, "kind of a piece 1, must be 2"},
    {"tag changes", 2, [](Bytes& p) { poke<uint32_t>(p, kMessage + 4, 6); }, "tag of a fragment 6, must be 5"},
    {"highest bit of the tag changes", 2, [](Bytes& p) { poke<uint32_t>(p, kMessage + 4, 5 | 1U << 31); },
     "tag of a fragment 2147483653, must be 5"},
    {"never the last", 3, [](Bytes& p) { poke_kind(p, kMessage, 2, kMiddle); }, "piece out of place 0"},
};

TEST(PortHostileTest, EachFaultClosesThePeerWithItsName) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    std::vector<Bytes> packets = honest_packets();
    ASSERT_EQ(packets.size(), 4U);
    c.spoil(packets[c.packet]);
    HandWire wire;
    Listener b(kOptionsB, &wire);
    for (const Bytes& p : packets) wire.in.emplace_back(kA, p);
    for (int i = 0; i < 5; ++i) b.port.poll();
    ASSERT_EQ(b.bad.size(), 1U);
    EXPECT_EQ(b.bad[0].first, kA);
    EXPECT_EQ(b.bad[0].second.code, Code::kBadPacket);
    EXPECT_NE(b.bad[0].second.detail.find(c.error), std::string::npos) << b.bad[0].second.detail;
    EXPECT_TRUE(b.port.closed(kA));
    EXPECT_FALSE(b.port.closed(kC));
    EXPECT_EQ(b.got.size(), c.packet == 0 ? 0U : 2U) << "nothing of the bad packet, nor of what follows it";
  }
}

TEST(PortHostileTest, AClosedPeerIsSilentAndTheOthersGoOn) {
  HandWire wire;
  Listener b(kOptionsB, &wire);
  b.send(kA, Flow::kCommit, 0, "open when it closes");
  wire.in.emplace_back(kA, Bytes(40));
  b.port.poll();
  EXPECT_TRUE(b.port.closed(kA));
  for (int i = 0; i < 1000; ++i) b.send(kA, Flow::kCommit, 0, std::string(1000, 'x'));
  b.send(kC, Flow::kCommit, 0, "still there");
  EXPECT_TRUE(b.port.flush());
  ASSERT_EQ(wire.out.size(), 1U);
  EXPECT_EQ(wire.out[0].to, kC);
  EXPECT_FALSE(b.port.pending());
  HandWire other;
  Listener c({.self = kC, .worker = kW0, .nodes = 3}, &other);
  c.send(kB, Flow::kCommit, 0, "hello");
  c.port.flush();
  wire.in.emplace_back(kC, other.out[0].bytes);
  b.port.poll();
  ASSERT_EQ(b.got.size(), 1U);
  EXPECT_EQ(b.bad.size(), 1U) << "reported once";
}

TEST(PortHostileTest, APeerThatFloodsALaterEpochIsClosed) {
  HandWire from, to;
  Listener a({.self = kA, .worker = kW0, .nodes = 3}, &from);
  Listener b(kOptionsB, &to);
  a.port.set_epoch(Epoch(9));
  for (int i = 0; i < 20; ++i) a.send(kB, Flow::kExecution, 0, std::string(8000, 'x'));
  a.port.flush();
  for (auto& sent : from.out) to.in.emplace_back(kA, sent.bytes);
  for (int i = 0; i < 5; ++i) b.port.poll();
  ASSERT_EQ(b.bad.size(), 1U);
  EXPECT_NE(b.bad[0].second.detail.find("bytes held for a later epoch"), std::string::npos);
  b.port.set_epoch(Epoch(9));
  while (b.port.poll()) {
  }
  EXPECT_TRUE(b.got.empty());
}

TEST(PortHostileTest, ACorruptPacketOnTheLocalWire) {
  LocalFabric fabric({.nodes = 3});
  Listener b(kOptionsB, fabric.wire(kB, kW0));
  Bytes packet = honest_packets()[0];
  poke<uint32_t>(packet, kMessage, 5000);
  ASSERT_TRUE(fabric.wire(kA, kW0)->send(kB, Flow::kCommit, packet));
  b.port.poll();
  ASSERT_EQ(b.bad.size(), 1U);
  EXPECT_NE(b.bad[0].second.detail.find("message bytes 5000"), std::string::npos) << b.bad[0].second.detail;
}

// Bodies are all of one letter per kind and at least one known length, so a delivered message can be judged.
TEST(PortHostileTest, RandomMutationsNeverBreakThePort) {
  const std::vector<Bytes> honest = honest_packets();
  uint64_t closed = 0, whole = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    std::vector<Bytes> packets = honest;
    for (uint64_t n = random.between(1, 4); n > 0; --n) {
      Bytes& p = packets[random.below(packets.size())];
      if (p.empty()) continue;
      // Most of a large packet is body: aim at the headers half of the time.
      const size_t at = random.below(random.chance(50) ? std::min<size_t>(p.size(), 48) : p.size());
      switch (random.below(5)) {
        case 0:
          p[at] = static_cast<std::byte>(random.next());
          break;
        case 1:
          p[at] ^= static_cast<std::byte>(1U << random.below(8));
          break;
        case 2:
          p.resize(random.chance(50) ? at : align_up(at, 8));
          break;
        case 3:
          p.insert(p.begin() + static_cast<ptrdiff_t>(at), 8, static_cast<std::byte>(random.next()));
          break;
        default:
          std::swap(p, packets[random.below(packets.size())]);
          break;
      }
      if (random.chance(60) && p.size() >= 16) poke<uint16_t>(p, 0, static_cast<uint16_t>(p.size()));
    }
    HandWire wire;
    Listener b(kOptionsB, &wire);
    for (const Bytes& p : packets) wire.in.emplace_back(kA, p);
    for (int i = 0; i < 6; ++i) b.port.poll();
    b.port.set_epoch(Epoch(~0U));
    for (int i = 0; i < 6; ++i) b.port.poll();
    EXPECT_FALSE(b.port.pending());
    EXPECT_LE(b.bad.size(), 1U);
    EXPECT_EQ(b.bad.size() == 1, b.port.closed(kA));
    EXPECT_TRUE(b.errors.empty());
    for (const auto& got : b.got) {
      EXPECT_EQ(got.source, kA);
      EXPECT_LT(got.kind, 4);
      EXPECT_LE(got.body.size(), size_t{1} << 20);
    }
    ++(b.bad.empty() ? whole : closed);
  }
  EXPECT_GT(closed, 1000U);
  EXPECT_GT(whole, 100U) << "some mutations only touch a body";
}

}  // namespace
}  // namespace weft
