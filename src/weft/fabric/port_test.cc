#include "weft/fabric/port.h"
#include "weft/fabric/names_testing.h"

#include <gtest/gtest.h>

#include <map>

#include "weft/fabric/local.h"
#include "weft/fabric/port_testing.h"

namespace weft {
namespace {

using testing::Bytes;
using testing::HandWire;
using testing::Listener;

struct Pair {
  explicit Pair(bool batching = true, size_t ring_bytes = 256 << 10)
      : fabric({.nodes = 2, .ring_bytes = ring_bytes}),
        a({.self = kA, .worker = kW0, .nodes = 2, .batching = batching}, fabric.wire(kA, kW0)),
        b({.self = kB, .worker = kW0, .nodes = 2, .batching = batching}, fabric.wire(kB, kW0)) {}
  LocalFabric fabric;
  Listener a, b;
};

TEST(PortTest, BatchesMessagesIntoOnePacketAndDeliversThemInOneBurst) {
  Pair p;
  for (int i = 0; i < 20; ++i) p.a.send(kB, Flow::kExecution, static_cast<uint8_t>(i / 10), std::to_string(i), 7);
  EXPECT_TRUE(p.a.port.has_open(kB, Flow::kExecution));
  EXPECT_FALSE(p.a.port.has_open(kB, Flow::kCommit));
  EXPECT_TRUE(p.a.port.pending());
  EXPECT_FALSE(p.b.port.poll()) << "nothing leaves before flush";
  EXPECT_TRUE(p.a.port.flush());
  EXPECT_FALSE(p.a.port.flush());
  EXPECT_FALSE(p.a.port.pending());
  EXPECT_TRUE(p.b.port.pending());
  EXPECT_TRUE(p.b.port.poll());
  ASSERT_EQ(p.b.got.size(), 20U);
  for (int i = 0; i < 20; ++i) {
    const auto& got = p.b.got[static_cast<size_t>(i)];
    EXPECT_EQ(got.body, std::to_string(i));
    EXPECT_EQ(got.source, kA);
    EXPECT_EQ(got.tag, 7U);
    EXPECT_EQ(got.run, 10U);
  }
  EXPECT_EQ(p.b.bursts, std::vector<size_t>{20});
  EXPECT_EQ(p.a.port.counters().packets_sent, 1U);
  EXPECT_EQ(p.a.port.counters().messages_sent, 20U);
  EXPECT_EQ(p.a.port.counters().bytes_sent, 16U + 20 * 16);
  EXPECT_EQ(p.b.port.counters().packets_received, 1U);
  EXPECT_EQ(p.b.port.counters().messages_received, 20U);
  EXPECT_FALSE(p.b.port.poll());
}

TEST(PortTest, FlowsDoNotSharePackets) {
  Pair p;
  for (const Flow flow : {Flow::kExecution, Flow::kCommit, Flow::kRecovery, Flow::kControl}) p.a.send(kB, flow, 0, "x");
  p.a.port.flush();
  EXPECT_EQ(p.a.port.counters().packets_sent, 4U);
  p.b.port.poll();
  EXPECT_EQ(p.b.bursts, std::vector<size_t>{4}) << "but they share a burst";
}

TEST(PortTest, WithoutBatchingEachMessageIsAPacketAndABurst) {
  Pair p(false);
  for (int i = 0; i < 5; ++i) p.a.send(kB, Flow::kExecution, 0, std::to_string(i));
  p.a.send(kA, Flow::kExecution, 0, "own 1");
  p.a.send(kA, Flow::kExecution, 0, "own 2");
  EXPECT_TRUE(p.b.port.poll()) << "sent without flush";
  p.a.port.poll();
  p.a.port.flush();
  p.b.port.poll();
  EXPECT_EQ(p.a.port.counters().packets_sent, 5U);
  EXPECT_EQ(p.b.got.size(), 5U);
  EXPECT_EQ(p.b.bursts, std::vector<size_t>(5, 1));
  EXPECT_EQ(p.a.bursts, std::vector<size_t>(2, 1));
}

TEST(PortTest, OwnMessagesAreDeliveredByTheNextPollAndNotCountedAsNetwork) {
  Pair p;
  p.a.send(kA, Flow::kCommit, 1, "mine");
  p.a.send(kA, Flow::kCommit, 1, std::string(100'000, 'x'));
  EXPECT_TRUE(p.a.port.pending());
  EXPECT_FALSE(p.a.port.flush());
  EXPECT_TRUE(p.a.port.poll());
  ASSERT_EQ(p.a.got.size(), 2U);
  EXPECT_EQ(p.a.got[0].body, "mine");
  EXPECT_EQ(p.a.got[0].source, kA);
  EXPECT_EQ(p.a.got[1].body.size(), 100'000U);
  EXPECT_EQ(p.a.port.counters().messages_sent + p.a.port.counters().messages_received, 0U);
  EXPECT_EQ(p.a.port.counters().burst_messages, 2U);
  EXPECT_FALSE(p.a.port.pending());
}

// Each message "n" is answered with "n - 1", to both nodes, while the burst is being delivered.
TEST(PortTest, HandlersAnswerWhileTheBurstIsDelivered) {
  Pair p;
  for (Listener* l : {&p.a, &p.b}) {
    l->on_run = [](Listener& self, std::span<const Message> run) {
      for (const Message& m : run) {
        const int n = std::stoi(std::string(as_text(m.body)));
        if (n == 0) continue;
        for (const NodeId to : {kA, kB}) self.send(to, Flow::kCommit, 2, std::to_string(n - 1));
      }
    };
  }
  p.a.send(kA, Flow::kExecution, 0, "8");
  p.a.port.poll();
  EXPECT_EQ(p.a.got.size(), 1U) << "a handler's loopback messages are delivered by the next poll";
  for (int i = 0; i < 50; ++i) {
    for (Listener* l : {&p.a, &p.b}) l->port.flush(), l->port.poll();
  }
  EXPECT_EQ(p.a.got.size() + p.b.got.size(), 511U);
}

TEST(PortTest, LargeMessagesSpanPacketsAndKeepTheirPlace) {
  Pair p;
  const std::vector<size_t> sizes = {kUnfragmentedBytesMax,
                                     kUnfragmentedBytesMax + 1,
                                     3,
                                     kFirstBytesMax + kUnfragmentedBytesMax,
                                     0,
                                     kUnfragmentedBytesMax * 5,
                                     1 << 20,
                                     1 << 20,
                                     kFirstBytesMax + 1,
                                     9};
  std::vector<std::string> bodies;
  size_t bound = 0;
  for (const size_t n : sizes) {
    bodies.emplace_back(n, static_cast<char>('a' + bodies.size()));
    p.a.send(kB, Flow::kCommit, 3, bodies.back(), ~static_cast<uint32_t>(n));
    bound += wire_bytes_max(n);
  }
  for (int i = 0; i < 100; ++i) p.a.port.flush(), p.b.port.poll();
  ASSERT_EQ(p.b.got.size(), bodies.size());
  for (size_t i = 0; i < bodies.size(); ++i) {
    EXPECT_TRUE(p.b.got[i].body == bodies[i]) << i;
    EXPECT_EQ(p.b.got[i].tag, ~static_cast<uint32_t>(sizes[i])) << "all of its bits";
  }
  EXPECT_LE(p.a.port.counters().bytes_sent, bound);
  EXPECT_EQ(p.a.port.counters().messages_sent, bodies.size());
  EXPECT_EQ(p.b.port.counters().messages_received, bodies.size());
}

TEST(PortTest, WireBytesMaxIsExactForAMessageAlone) {
  for (const size_t n :
       {size_t{0}, size_t{1}, kUnfragmentedBytesMax, kUnfragmentedBytesMax + 1, kFirstBytesMax + kUnfragmentedBytesMax,
        kFirstBytesMax + kUnfragmentedBytesMax + 1, size_t{100'001}, size_t{1} << 20}) {
    HandWire wire;
    Listener a({.self = kA, .worker = kW0, .nodes = 2}, &wire);
    a.send(kB, Flow::kCommit, 0, std::string(n, 'x'));
    a.port.flush();
    EXPECT_EQ(a.port.counters().bytes_sent, wire_bytes_max(n)) << n;
  }
}

TEST(PortTest, ABurstIsBoundedAndTheRestFollows) {
  Pair p;
  for (int i = 0; i < 5000; ++i) {
    p.a.send(kB, Flow::kExecution, 0, std::to_string(i));
    p.b.send(kB, Flow::kExecution, 1, std::to_string(i));
  }
  p.a.port.flush();
  while (p.b.port.poll()) {
  }
  int from_a = 0, own = 0;
  for (const auto& got : p.b.got) EXPECT_EQ(got.body, std::to_string(got.kind == 0 ? from_a++ : own++));
  EXPECT_EQ(from_a, 5000);
  EXPECT_EQ(own, 5000);
  for (const size_t n : p.b.bursts) EXPECT_LE(n, 2 * Receiver::kBurstMessages + kPacketBytesMax / 16);
}

TEST(PortTest, ARefusingWireKeepsOrderAndFillsPackets) {
  HandWire wire;
  wire.room = 0;
  Listener a({.self = kA, .worker = kW0, .nodes = 2}, &wire);
  HandWire there;
  Listener b({.self = kB, .worker = kW0, .nodes = 2}, &there);
  for (int i = 0; i < 3000; ++i) {
    a.send(kB, Flow::kCommit, 0, std::to_string(i));
    EXPECT_FALSE(a.port.flush());
  }
  EXPECT_TRUE(a.port.has_open(kB, Flow::kCommit));
  EXPECT_TRUE(a.port.pending());
  wire.room = 2;
  EXPECT_FALSE(a.port.poll()) << "poll retries too";
  EXPECT_EQ(wire.out.size(), 2U);
  wire.room = SIZE_MAX;
  EXPECT_TRUE(a.port.flush());
  EXPECT_FALSE(a.port.pending());
  EXPECT_EQ(wire.out.size(), 6U) << "packets take more messages while they wait";
  for (auto& sent : wire.out) there.in.emplace_back(kA, sent.bytes);
  while (b.port.poll()) {
  }
  ASSERT_EQ(b.got.size(), 3000U);
  for (int i = 0; i < 3000; ++i) EXPECT_EQ(b.got[static_cast<size_t>(i)].body, std::to_string(i));
}

TEST(PortTest, WhatWaitsIsCountedByFlow) {
  HandWire wire;
  wire.room = 0;
  Listener a({.self = kA, .worker = kW0, .nodes = 2, .queued_bytes_max = 64 << 10}, &wire);
  for (int i = 0; i < 20; ++i) a.send(kB, Flow::kCommit, 0, std::string(1000, 'x'));
  EXPECT_GT(a.port.queued_bytes(kB, Flow::kCommit), 8'000U);
  EXPECT_EQ(a.port.queued_bytes(kB, Flow::kControl), 0U) << "a lease is asked for whatever else waits";
  EXPECT_EQ(a.port.queued_bytes(kB, Flow::kExecution), 0U);
  wire.room = 100;
  a.port.poll();
  EXPECT_EQ(a.port.queued_bytes(kB, Flow::kCommit), 0U);
}

TEST(PortDeathTest, OverrunningTheQueueIsABugOfTheCaller) {
  HandWire wire;
  wire.room = 0;
  Listener a({.self = kA, .worker = kW0, .nodes = 2, .queued_bytes_max = 64 << 10}, &wire);
  EXPECT_DEATH(
      {
        for (int i = 0; i < 100; ++i) a.send(kB, Flow::kCommit, 0, std::string(1000, 'x'));
      },
      "queued_bytes_max");
  EXPECT_DEATH(
      {
        for (int i = 0; i < 100; ++i) a.send(kA, Flow::kCommit, 0, std::string(1000, 'x'));
      },
      "queued_bytes_max");
  EXPECT_DEATH(a.send(kB, Flow::kCommit, 0, std::string(2 << 20, 'x')), "message_bytes_max");
  EXPECT_DEATH(a.send(NodeId(2), Flow::kCommit, 0, "x"), "destination");
}

class CountingCostModel final : public CostModel {
 public:
  void charge(CostStep step, uint64_t n) override { steps[step] += n; }
  std::map<CostStep, uint64_t> steps;
};

TEST(PortTest, ChargesMessagesAndPacketsAtBothEnds) {
  LocalFabric fabric({.nodes = 2});
  CountingCostModel sent, received;
  Listener a({.self = kA, .worker = kW0, .nodes = 2}, fabric.wire(kA, kW0), &sent);
  Listener b({.self = kB, .worker = kW0, .nodes = 2}, fabric.wire(kB, kW0), &received);
  for (int i = 0; i < 7; ++i) a.send(kB, Flow::kExecution, 0, "x");
  a.send(kB, Flow::kCommit, 0, std::string(10'000, 'x'));
  b.send(kB, Flow::kCommit, 0, "own");
  a.port.flush();
  while (b.port.poll()) {
  }
  EXPECT_EQ(sent.steps[CostStep::kPacket], 3U);
  EXPECT_EQ(sent.steps[CostStep::kMessage], 8U);
  EXPECT_EQ(received.steps[CostStep::kPacket], 3U);
  EXPECT_EQ(received.steps[CostStep::kMessage], 9U);
}

TEST(PortEpochTest, OlderIsDroppedNewerWaitsAndExemptFlowsPass) {
  Pair p;
  p.b.port.set_epoch(Epoch(2));
  p.a.send(kB, Flow::kExecution, 0, "old");
  p.a.send(kB, Flow::kRecovery, 0, "recovery");
  p.a.send(kB, Flow::kControl, 0, "control");
  p.a.port.flush();
  p.b.port.poll();
  ASSERT_EQ(p.b.got.size(), 2U);
  EXPECT_EQ(p.b.got[0].body, "recovery");
  EXPECT_EQ(p.b.got[1].body, "control");
  EXPECT_EQ(p.b.port.counters().dropped_old_epoch, 1U);

  p.a.port.set_epoch(Epoch(3));
  p.a.send(kB, Flow::kExecution, 0, "new 1");
  p.a.send(kB, Flow::kControl, 0, "new control");
  p.a.port.flush();
  p.a.send(kB, Flow::kExecution, 0, "new 2 " + std::string(20'000, 'x'));
  p.a.send(kB, Flow::kExecution, 0, "new 3 " + std::string(20'000, 'x'));
  p.a.port.flush();
  while (p.b.port.poll()) {
  }
  ASSERT_EQ(p.b.got.size(), 3U);
  EXPECT_FALSE(p.b.port.pending()) << "held packets are not pending work";
  EXPECT_GT(p.b.port.counters().held_new_epoch, 0U);
  p.b.port.set_epoch(Epoch(3));
  EXPECT_EQ(p.b.port.epoch(), Epoch(3));
  EXPECT_TRUE(p.b.port.pending());
  p.a.send(kB, Flow::kExecution, 0, "new 4");
  p.a.port.flush();
  while (p.b.port.poll()) {
  }
  ASSERT_EQ(p.b.got.size(), 7U);
  for (size_t i = 3; i < 7; ++i) EXPECT_EQ(p.b.got[i].body.substr(0, 5), "new " + std::to_string(i - 2));
  EXPECT_FALSE(p.b.port.pending());
}

TEST(PortEpochTest, WhatHasNotLeftEndsWithItsEpoch) {
  Pair p;
  p.a.send(kB, Flow::kCommit, 0, "old");
  p.a.send(kA, Flow::kCommit, 0, "own, old");
  p.a.send(kA, Flow::kControl, 0, "own, exempt");
  p.a.port.set_epoch(Epoch(2));
  p.b.port.set_epoch(Epoch(2));
  p.a.send(kB, Flow::kCommit, 0, "new");
  p.a.port.flush();
  p.a.port.poll();
  while (p.b.port.poll()) {
  }
  ASSERT_EQ(p.b.got.size(), 1U);
  EXPECT_EQ(p.b.got[0].body, "new");
  ASSERT_EQ(p.a.got.size(), 1U);
  EXPECT_EQ(p.a.got[0].body, "own, exempt");
  EXPECT_EQ(p.a.port.counters().dropped_old_epoch, 2U);
}

// Credit is reset with the epoch, so the room it stands for must be free; and the peer sees no gap.
TEST(PortEpochTest, AFullQueueOfTheOldEpochLeavesRoomForTheNewOne) {
  HandWire from, to;
  Listener a({.self = kA, .worker = kW0, .nodes = 2, .queued_bytes_max = 64 << 10}, &from);
  Listener b({.self = kB, .worker = kW0, .nodes = 2}, &to);
  const auto fill_queue = [&](char byte) {
    for (int i = 0; i < 2; ++i) a.send(kB, Flow::kCommit, 0, std::string(25'000, byte));
    a.port.flush();
  };
  from.room = 2;  // only some fragments of the first message are sent
  a.send(kB, Flow::kControl, 0, "exempt");
  fill_queue('x');
  a.port.set_epoch(Epoch(2));
  b.port.set_epoch(Epoch(2));
  fill_queue('y');
  from.room = SIZE_MAX;
  a.port.flush();
  EXPECT_FALSE(a.port.pending());
  for (const HandWire::Sent& sent : from.out) to.in.emplace_back(kA, sent.bytes);
  while (b.port.poll() || b.port.pending()) {
  }
  ASSERT_EQ(b.got.size(), 3U);
  for (const testing::Got& got : b.got) EXPECT_TRUE(got.body == "exempt" || got.body == std::string(25'000, 'y'));
  EXPECT_TRUE(b.bad.empty()) << b.bad[0].second.text();
}

TEST(PortEpochTest, AHandlerThatSetsTheEpochEndsTheOldOnesOfItsBurst) {
  Pair p;
  p.b.on_run = [](Listener& self, std::span<const Message> run) {
    if (run[0].kind == 3) self.port.set_epoch(Epoch(2));
  };
  p.b.send(kB, Flow::kExecution, 3, "epoch 2");
  p.b.send(kB, Flow::kCommit, 0, "stale");
  p.b.send(kB, Flow::kControl, 0, "exempt");
  p.a.send(kB, Flow::kCommit, 0, "stale too");
  p.a.send(kB, Flow::kRecovery, 0, "exempt too");
  p.a.port.flush();
  p.b.port.poll();
  ASSERT_EQ(p.b.got.size(), 3U);
  EXPECT_EQ(p.b.got[1].body, "exempt");
  EXPECT_EQ(p.b.got[2].body, "exempt too");
  EXPECT_EQ(p.b.bursts[0], 5U) << "the hook saw them all";
  EXPECT_FALSE(p.b.port.pending());
}

// The burst hook keeps something for each message by its position.
TEST(PortEpochTest, MessagesKeepTheirPlacesWhenOthersAreDropped) {
  HandWire wire;
  struct Seen {
    Port* port;
    const Message* first = nullptr;
    std::vector<std::string> bodies;
    size_t any_epoch = 0;
  };
  Port port({.self = kA, .worker = kW0, .nodes = 2}, &wire, nullptr);
  Seen seen{&port, nullptr, {}, 0};
  port.set_burst_hook(
      [](void* context, std::span<Message> burst) {
        auto* s = static_cast<Seen*>(context);
        s->first = burst.data();
        for (const Message& m : burst) s->bodies.emplace_back(as_text(m.body));
      },
      &seen);
  for (uint8_t kind = 0; kind < 3; ++kind) {
    port.set_handler(
        kind,
        [](void* context, std::span<const Message> run) {
          auto* s = static_cast<Seen*>(context);
          for (const Message& m : run) {
            EXPECT_EQ(as_text(m.body), s->bodies[static_cast<size_t>(&m - s->first)]);
            EXPECT_NE(m.kind, 1) << "of the old epoch";
            s->any_epoch += m.kind == 2 ? 1 : 0;
          }
          if (run[0].kind == 0) s->port->set_epoch(Epoch(2));
        },
        &seen);
  }
  const auto send = [&](Flow flow, uint8_t kind, std::string_view body) {
    std::memcpy(port.reserve(kA, flow, kind, body.size()), body.data(), body.size());
  };
  send(Flow::kExecution, 0, "the epoch changes");
  send(Flow::kCommit, 1, "stale");
  send(Flow::kRecovery, 2, "exempt");
  send(Flow::kControl, 2, "exempt too");
  port.poll();
  EXPECT_EQ(seen.any_epoch, 2U);
}

TEST(PortEpochTest, AMessageCutByTheEpochChangeIsDroppedWhole) {
  HandWire from, to;
  Listener a({.self = kA, .worker = kW0, .nodes = 2}, &from);
  Listener b({.self = kB, .worker = kW0, .nodes = 2}, &to);
  a.send(kB, Flow::kCommit, 0, std::string(30'000, 'x'));
  a.port.flush();
  a.port.set_epoch(Epoch(2));
  a.send(kB, Flow::kCommit, 0, std::string(30'000, 'y'));
  a.port.flush();
  ASSERT_EQ(from.out.size(), 8U);
  for (size_t i = 0; i < 2; ++i) to.in.emplace_back(kA, from.out[i].bytes);
  b.port.poll();
  b.port.set_epoch(Epoch(2));
  for (size_t i = 2; i < 8; ++i) to.in.emplace_back(kA, from.out[i].bytes);
  while (b.port.poll() || b.port.pending()) {
  }
  ASSERT_EQ(b.got.size(), 1U);
  EXPECT_EQ(b.got[0].body, std::string(30'000, 'y'));
  EXPECT_TRUE(b.bad.empty());
}

}  // namespace
}  // namespace weft
