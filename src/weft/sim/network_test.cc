// Packets of the sim wire, by themselves and under real ports.
#include "weft/sim/network.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "weft/fabric/port.h"

namespace weft {
namespace {

std::vector<std::byte> packet(NodeId source, Flow flow, uint32_t sequence, size_t bytes = 64) {
  std::vector<std::byte> out(bytes);
  PacketHeader header{};
  header.bytes = static_cast<uint16_t>(bytes);
  header.flow = static_cast<uint8_t>(flow);
  header.source = source.value;
  header.sequence = sequence;
  std::memcpy(out.data(), &header, sizeof header);
  return out;
}

PacketHeader header_of(const Packet& packet) {
  PacketHeader header{};
  std::memcpy(&header, packet.bytes.data(), sizeof header);
  return header;
}

class Waker final : public Wakeups {
 public:
  void wake(NodeId node, WorkerId worker) override { woken.emplace(node.value, worker.value); }
  std::multiset<std::pair<int, int>> woken;
};

TEST(Network, KeepsOrderWithinAChannelAndBreaksItAcross) {
  Events events;
  NetworkConfig config;
  config.jitter_ns = 100'000;
  Network network(config, 3, 1, 42, &events, nullptr);
  const WorkerId worker(0);
  for (uint32_t i = 0; i < 50; ++i) {
    for (uint8_t source = 0; source < 2; ++source) {
      for (const Flow flow : {Flow::kExecution, Flow::kCommit}) {
        ASSERT_TRUE(network.wire(NodeId(source), worker)->send(NodeId(2), flow, packet(NodeId(source), flow, i)));
      }
    }
    for (uint8_t source = 0; source < 2; ++source) network.depart(NodeId(source), worker, events.now_ns());
    events.run_until(events.now_ns() + 1000);
  }
  while (events.run_one()) {
  }
  std::map<std::pair<int, int>, uint32_t> next;
  std::vector<uint32_t> arrivals;
  Packet out[7];
  SimWire* wire = network.wire(NodeId(2), worker);
  EXPECT_TRUE(wire->pending());
  while (const size_t count = wire->poll(out)) {
    for (size_t i = 0; i < count; ++i) {
      const PacketHeader header = header_of(out[i]);
      EXPECT_EQ(out[i].source.value, header.source);
      EXPECT_EQ(header.sequence, (next[{header.source, header.flow}]++));
      arrivals.push_back(header.sequence);
    }
    wire->release();
  }
  EXPECT_FALSE(wire->pending());
  EXPECT_EQ(arrivals.size(), 200U);
  EXPECT_FALSE(std::is_sorted(arrivals.begin(), arrivals.end()));
}

// Between these two processes, in both directions; but not for a node's next process.
TEST(Network, ABrokenConnectionIsBrokenForGood) {
  Events events;
  Network network({.base_ns = 100, .jitter_ns = 0}, 3, 1, 1, &events, nullptr);
  for (uint8_t n = 0; n < 3; ++n) {
    network.set_incarnation(NodeId(n), n + 1);
    for (uint8_t peer = 0; peer < 3; ++peer)
      network.wire(NodeId(n), WorkerId(0))->accept_incarnation(NodeId(peer), peer + 1);
  }
  const auto arrives = [&](uint8_t from, uint8_t to, bool breaks) {
    SimWire* const sender = network.wire(NodeId(from), WorkerId(0));
    SimWire* const receiver = network.wire(NodeId(to), WorkerId(0));
    EXPECT_TRUE(sender->send(NodeId(to), Flow::kCommit, packet(NodeId(from), Flow::kCommit, 0)));
    network.depart(NodeId(from), WorkerId(0), events.now_ns());
    if (breaks) network.sever(NodeId(from), NodeId(to));
    events.run_until(events.now_ns() + 1000);
    Packet out[2];
    const size_t count = receiver->poll(out);
    receiver->release();
    return count == 1;
  };
  EXPECT_TRUE(arrives(0, 1, false));
  EXPECT_FALSE(arrives(0, 1, true)) << "what is under way is lost";
  EXPECT_FALSE(arrives(1, 0, false));
  EXPECT_FALSE(arrives(0, 1, false));
  EXPECT_TRUE(arrives(0, 2, false));
  EXPECT_TRUE(arrives(2, 1, false));
  network.set_incarnation(NodeId(1), 0);
  network.set_incarnation(NodeId(1), 9);
  network.wire(NodeId(0), WorkerId(0))->accept_incarnation(NodeId(1), 9);
  for (uint8_t peer = 0; peer < 3; peer += 2)
    network.wire(NodeId(1), WorkerId(0))->accept_incarnation(NodeId(peer), peer + 1);
  EXPECT_TRUE(arrives(0, 1, false));
  EXPECT_TRUE(arrives(1, 0, false));
}

TEST(Network, NothingArrivesBeforeTheStepThatSentItEnds) {
  Events events;
  Network network({.base_ns = 100, .jitter_ns = 0}, 2, 1, 1, &events, nullptr);
  SimWire* to = network.wire(NodeId(1), WorkerId(0));
  ASSERT_TRUE(
      network.wire(NodeId(0), WorkerId(0))->send(NodeId(1), Flow::kCommit, packet(NodeId(0), Flow::kCommit, 0)));
  events.run_until(1000);
  EXPECT_FALSE(to->pending());
  network.depart(NodeId(0), WorkerId(0), 2000);
  events.run_until(2099);
  EXPECT_FALSE(to->pending());
  events.run_until(2100);
  EXPECT_TRUE(to->pending());
}

TEST(Network, AFullChannelRefusesAndWakesTheSenderWhenThereIsRoom) {
  Events events;
  Waker waker;
  Network network({.channel_packets = 2}, 2, 2, 1, &events, nullptr);
  network.set_wakeups(&waker);
  const WorkerId worker(1);
  SimWire* from = network.wire(NodeId(0), worker);
  SimWire* to = network.wire(NodeId(1), worker);
  EXPECT_TRUE(from->send(NodeId(1), Flow::kCommit, packet(NodeId(0), Flow::kCommit, 0)));
  EXPECT_TRUE(from->send(NodeId(1), Flow::kCommit, packet(NodeId(0), Flow::kCommit, 1)));
  EXPECT_FALSE(from->send(NodeId(1), Flow::kCommit, packet(NodeId(0), Flow::kCommit, 2)));
  EXPECT_TRUE(from->send(NodeId(1), Flow::kExecution, packet(NodeId(0), Flow::kExecution, 0)));
  EXPECT_EQ(network.refused_sends(), 1U);
  network.depart(NodeId(0), worker, 0);
  while (events.run_one()) {
  }
  EXPECT_EQ(waker.woken.count({1, 1}), 3U);
  // A channel has room again after release, not after arrival.
  EXPECT_FALSE(from->send(NodeId(1), Flow::kCommit, packet(NodeId(0), Flow::kCommit, 2)));
  Packet out[8];
  EXPECT_EQ(to->poll(out), 3U);
  EXPECT_EQ(waker.woken.count({0, 1}), 0U);
  to->release();
  EXPECT_EQ(waker.woken.count({0, 1}), 1U);
  EXPECT_TRUE(from->send(NodeId(1), Flow::kCommit, packet(NodeId(0), Flow::kCommit, 2)));
}

// A ring of ports that forward messages of all sizes, over channels of a few packets.
struct Relay {
  Port* port = nullptr;
  NodeId self;
  int nodes = 0;
  uint64_t got = 0;
  std::map<std::pair<int, int>, uint64_t> next;  // by (origin, hops): in order per channel

  static void on_message(void* context, std::span<const Message> run) {
    for (const Message& message : run) static_cast<Relay*>(context)->handle(message);
  }
  void handle(const Message& message) {
    ++got;
    uint64_t fields[3];  // origin, hops left, number
    std::memcpy(fields, message.body.data(), sizeof fields);
    EXPECT_EQ(fields[2], (next[{static_cast<int>(fields[0]), static_cast<int>(fields[1])}]++));
    for (size_t i = sizeof fields; i < message.body.size(); ++i) {
      ASSERT_EQ(message.body[i], static_cast<std::byte>(fields[2] & 0xff));
    }
    if (fields[1] == 0) return;
    send(fields[0], fields[1] - 1, fields[2], message.body.size());
  }
  void send(uint64_t origin, uint64_t hops, uint64_t number, size_t bytes) {
    const NodeId to(static_cast<uint8_t>((self.value + 1) % nodes));
    const Flow flow = origin % 2 == 0 ? Flow::kExecution : Flow::kCommit;
    std::byte* body = port->reserve(to, flow, 3, bytes);
    const uint64_t fields[3] = {origin, hops, number};
    std::memset(body, static_cast<int>(number & 0xff), bytes);
    std::memcpy(body, fields, sizeof fields);
  }
};

TEST(Network, PortsDeliverEverythingOverTinyChannels) {
  constexpr int kNodes = 3;
  constexpr uint64_t kMessages = 60;
  constexpr uint64_t kHops = 4;
  Events events;
  Network network({.jitter_ns = 5'000, .channel_packets = 2}, kNodes, 1, 9, &events, nullptr);
  std::vector<std::unique_ptr<Port>> ports;
  std::vector<Relay> relays(kNodes);
  for (uint8_t n = 0; n < kNodes; ++n) {
    PortOptions options;
    options.self = NodeId(n);
    options.nodes = kNodes;
    ports.push_back(std::make_unique<Port>(options, network.wire(NodeId(n), WorkerId(0)), nullptr));
    ports.back()->set_epoch(Epoch(1));
    relays[n] = {ports.back().get(), NodeId(n), kNodes, 0, {}};
    ports.back()->set_handler(3, Relay::on_message, &relays[n]);
  }
  for (uint64_t i = 0; i < kMessages; ++i) {
    for (Relay& relay : relays) relay.send(relay.self.value, kHops, i, i % 7 == 0 ? 20'000 : 24 + i * 8);
  }
  for (int round = 0; round < 100'000; ++round) {
    bool busy = false;
    for (uint8_t n = 0; n < kNodes; ++n) {
      busy |= ports[n]->flush();
      busy |= ports[n]->poll();
      network.depart(NodeId(n), WorkerId(0), events.now_ns());
    }
    if (!busy && !events.run_one() && !ports[0]->pending()) break;
  }
  for (const Relay& relay : relays) EXPECT_EQ(relay.got, kMessages * (kHops + 1));
  EXPECT_GT(network.refused_sends(), 0U);
}

}  // namespace
}  // namespace weft
