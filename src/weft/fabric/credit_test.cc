#include "weft/fabric/credit.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "weft/fabric/local.h"
#include "weft/fabric/names_testing.h"
#include "weft/fabric/port.h"

namespace weft {
namespace {

TEST(CreditTest, TakesUpToTheLimitPerPeer) {
  Credit credit(2, 100);
  EXPECT_TRUE(credit.take(NodeId(0), 60));
  EXPECT_FALSE(credit.take(NodeId(0), 41));
  EXPECT_TRUE(credit.take(NodeId(0), 40));
  EXPECT_TRUE(credit.take(NodeId(1), 100));
  EXPECT_EQ(credit.in_use(NodeId(0)), 100U);
  EXPECT_EQ(credit.refused(), 1U);
  credit.give(NodeId(0), 60);
  EXPECT_EQ(credit.in_use(NodeId(0)), 40U);
  EXPECT_TRUE(credit.fits(100));
  EXPECT_FALSE(credit.fits(101));
  EXPECT_FALSE(credit.take(NodeId(1), ~0U));
}

TEST(CreditDeathTest, GivingWhatWasNotTaken) {
  Credit credit(1, 100);
  EXPECT_TRUE(credit.take(NodeId(0), 10));
  EXPECT_DEATH(credit.give(NodeId(0), 11), "give back");
}

// A node that sends requests to all others, as far as its credit allows, and replies to theirs.
class Node {
 public:
  static constexpr uint8_t kAsk = 0, kAnswer = 1;

  Node(int nodes, uint8_t self, LocalFabric& fabric, uint64_t limit, bool batching)
      : nodes_(nodes),
        self_(self),
        credit_(nodes, limit),
        port_({.self = self_,
               .worker = kW0,
               .nodes = nodes,
               .queued_bytes_max = Credit::queue_bytes_for(limit),
               .batching = batching},
              fabric.wire(self_, kW0), nullptr) {
    port_.set_handler(
        kAsk,
        [](void* context, std::span<const Message> run) {
          for (const Message& m : run) {
            std::byte* at = static_cast<Node*>(context)->port_.reserve(m.source, Flow::kCommit, kAnswer, m.body.size());
            if (!m.body.empty()) std::memcpy(at, m.body.data(), m.body.size());
          }
        },
        this);
    port_.set_handler(
        kAnswer,
        [](void* context, std::span<const Message> run) {
          auto* node = static_cast<Node*>(context);
          for (const Message& m : run) {
            node->credit_.give(m.source, cost(m.body.size()));
            ++node->answers_;
          }
        },
        this);
  }

  static uint32_t cost(size_t bytes) { return static_cast<uint32_t>(2 * wire_bytes_max(bytes)); }

  // Sends requests to every other node until its credit is used up.
  void ask_all(size_t bytes) {
    for (int n = 0; n < nodes_; ++n) {
      const NodeId peer(static_cast<uint8_t>(n));
      if (peer == self_) continue;
      while (credit_.take(peer, cost(bytes))) {
        std::memset(port_.reserve(peer, Flow::kCommit, kAsk, bytes), 'q', bytes);
        ++asked_;
      }
    }
  }
  void step() {
    port_.flush();
    port_.poll();
  }
  bool idle() const {
    for (int n = 0; n < nodes_; ++n) {
      if (credit_.in_use(NodeId(static_cast<uint8_t>(n))) != 0) return false;
    }
    return !port_.pending();
  }

  const int nodes_;
  const NodeId self_;
  Credit credit_;
  Port port_;
  uint64_t asked_ = 0;
  uint64_t answers_ = 0;
};

// Every ring is full of requests and every credit is used up before anybody polls; then all replies get through.
TEST(CreditTest, FullRingsNeverWaitForEachOther) {
  for (const bool batching : {true, false}) {
    for (const size_t bytes : {size_t{0}, size_t{40}, size_t{5000}, size_t{100'000}}) {
      SCOPED_TRACE("bytes " + std::to_string(bytes));
      LocalFabric fabric({.nodes = 3, .ring_bytes = 32 << 10});
      std::vector<std::unique_ptr<Node>> nodes;
      for (uint8_t n = 0; n < 3; ++n) nodes.push_back(std::make_unique<Node>(3, n, fabric, 1 << 20, batching));
      for (int round = 0; round < 3; ++round) {
        for (auto& node : nodes) node->ask_all(bytes), node->port_.flush();
        for (uint8_t n = 0; n < 3; ++n) {
          EXPECT_GT(fabric.wire(NodeId(n), kW0)->counters().packets_refused, 0U) << "the rings were full";
          EXPECT_GT(nodes[n]->credit_.refused(), 0U);
        }
        int steps = 0;
        while (!(nodes[0]->idle() && nodes[1]->idle() && nodes[2]->idle()) && ++steps < 1'000'000) {
          for (auto& node : nodes) node->step();
        }
      }
      for (auto& node : nodes) {
        EXPECT_TRUE(node->idle()) << "somebody still waits";
        EXPECT_EQ(node->answers_, node->asked_);
      }
    }
  }
}

TEST(CreditTest, FullRingsNeverWaitForEachOtherAcrossThreads) {
  LocalFabric fabric({.nodes = 2, .ring_bytes = 32 << 10});
  Node a(2, 0, fabric, 256 << 10, true);
  Node b(2, 1, fabric, 256 << 10, true);
  std::atomic<int> idle{0};
  const auto run = [&idle](Node& node) {
    for (int round = 0; round < 100; ++round) {
      node.ask_all(300);
      node.step();
    }
    while (!node.idle()) node.step();
    idle.fetch_add(1);
    while (idle.load() != 2) {
      node.step();
      std::this_thread::yield();
    }
  };
  std::thread other([&] { run(b); });
  run(a);
  other.join();
  EXPECT_EQ(a.answers_, a.asked_);
  EXPECT_EQ(b.answers_, b.asked_);
  EXPECT_GT(a.asked_, 0U);
}

}  // namespace
}  // namespace weft
