// Random messages of random sizes over random flows between several ports on the local wire: every message arrives
// once, complete, and in order on its channel. On one thread with random interleaving, and across threads.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "weft/base/random.h"
#include "weft/fabric/credit.h"
#include "weft/fabric/local.h"
#include "weft/fabric/names_testing.h"
#include "weft/fabric/port.h"

namespace weft {
namespace {

constexpr size_t kCredit = 4 << 20;
constexpr uint8_t kData = 1;
constexpr uint8_t kAck = 17;

// Sizes from nothing to 1 MiB, small ones most of the time, with the packet limits in between.
size_t draw_bytes(Random& random) {
  switch (random.below(100)) {
    case 0:
      return random.between(0, 1 << 20);
    case 1:
      return 1 << 20;
    case 2:
    case 3:
    case 4:
      return kUnfragmentedBytesMax - 8 + random.below(17);
    case 5:
    case 6:
      return kFirstBytesMax + kUnfragmentedBytesMax - 8 + random.below(17);
    case 7:
    case 8:
      return random.between(1000, 60'000);
    default:
      return random.below(random.chance(50) ? 40 : 400);
  }
}

// Sends numbered messages to all nodes, itself included, as far as its credit allows, and checks what it receives. Both
// ends of a channel draw the lengths from the same seed, and the bytes follow from the number.
class Peer {
 public:
  Peer(int nodes, uint8_t self, LocalFabric& fabric, uint64_t seed, bool batching, uint64_t per_channel)
      : self_(self),
        nodes_(static_cast<size_t>(nodes)),
        per_channel_(per_channel),
        random_(seed * 100 + self),
        credit_(nodes, kCredit),
        port_({.self = self_,
               .worker = kW0,
               .nodes = nodes,
               .queued_bytes_max = Credit::queue_bytes_for(kCredit),
               .batching = batching},
              fabric.wire(self_, kW0), nullptr) {
    for (size_t n = 0; n < nodes_; ++n) {
      for (size_t f = 0; f < kFlows; ++f) {
        out_.push_back({Random(channel_seed(seed, self, n, f)), 0});
        in_.push_back({Random(channel_seed(seed, n, self, f)), 0});
      }
    }
    port_.set_handler(
        kData, [](void* context, std::span<const Message> run) { static_cast<Peer*>(context)->receive(run); }, this);
    port_.set_handler(
        kAck,
        [](void* context, std::span<const Message> run) {
          for (const Message& m : run)
            static_cast<Peer*>(context)->credit_.give(m.source, load<uint32_t>(m.body.data()));
        },
        this);
  }

  void step() {
    for (uint64_t n = random_.below(20); n > 0; --n) send_one();
    if (random_.chance(60)) port_.flush();
    if (random_.chance(60)) port_.poll();
  }
  bool sent_all() const {
    for (const Channel& c : out_) {
      if (c.number < per_channel_) return false;
    }
    return true;
  }
  bool done() const {
    for (const Channel& c : in_) {
      if (c.number < per_channel_) return false;
    }
    for (size_t n = 0; n < nodes_; ++n) {
      if (credit_.in_use(NodeId(static_cast<uint8_t>(n))) != 0) return false;
    }
    return sent_all() && !port_.pending();
  }

 private:
  struct Channel {
    Random sizes;
    uint64_t number;
  };
  static uint64_t channel_seed(uint64_t seed, size_t from, size_t to, size_t flow) {
    return ((seed * 64 + from) * 64 + to) * kFlows + flow;
  }
  static uint64_t pattern(uint64_t number, size_t at) { return (number + 1) * 0x9e3779b97f4a7c15U + at; }
  static uint32_t cost(size_t bytes) { return static_cast<uint32_t>(wire_bytes_max(bytes) + wire_bytes_max(4)); }

  void send_one() {
    const size_t c = random_.below(out_.size());
    Channel& channel = out_[c];
    if (channel.number == per_channel_) return;
    Random sizes = channel.sizes;
    const size_t bytes = draw_bytes(sizes);
    const NodeId to(static_cast<uint8_t>(c / kFlows));
    if (!credit_.take(to, cost(bytes))) return;
    channel.sizes = sizes;
    std::byte* at = port_.reserve(to, static_cast<Flow>(c % kFlows), kData, bytes, static_cast<uint16_t>(c % kFlows));
    ASSERT_EQ(reinterpret_cast<uintptr_t>(at) % 8, 0U);
    for (size_t i = 0; i + 8 <= bytes; i += 8) store(at + i, pattern(channel.number, i));
    for (size_t i = bytes / 8 * 8; i < bytes; ++i) at[i] = static_cast<std::byte>(channel.number);
    ++channel.number;
  }

  void receive(std::span<const Message> run) {
    for (const Message& m : run) {
      Channel& channel = in_[m.source.value * size_t{kFlows} + m.tag];
      const size_t bytes = draw_bytes(channel.sizes);
      ASSERT_EQ(m.body.size(), bytes) << "message " << channel.number;
      bool same = true;
      for (size_t i = 0; i + 8 <= bytes; i += 8) {
        same &= load<uint64_t>(m.body.data() + i) == pattern(channel.number, i);
      }
      for (size_t i = bytes / 8 * 8; i < bytes; ++i) same &= m.body[i] == static_cast<std::byte>(channel.number);
      ASSERT_TRUE(same) << "message " << channel.number << " of " << bytes << " bytes";
      ++channel.number;
      store(port_.reserve(m.source, Flow::kControl, kAck, 4), cost(bytes));
    }
  }

  const NodeId self_;
  const size_t nodes_;
  const uint64_t per_channel_;
  Random random_;
  Credit credit_;
  Port port_;
  std::vector<Channel> out_, in_;
};

TEST(PortPropertyTest, OneThreadRandomInterleaving) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int nodes = static_cast<int>(random.between(1, 4));
    LocalFabric fabric({.nodes = nodes, .ring_bytes = random.between(32 << 10, 300 << 10)});
    std::vector<std::unique_ptr<Peer>> peers;
    for (int n = 0; n < nodes; ++n) {
      peers.push_back(std::make_unique<Peer>(nodes, static_cast<uint8_t>(n), fabric, seed, seed % 4 != 0, 200));
    }
    const auto all_done = [&] {
      for (const auto& p : peers) {
        if (!p->done()) return false;
      }
      return true;
    };
    for (uint64_t step = 0; !all_done(); ++step) {
      ASSERT_LT(step, 5'000'000U) << "a message is missing";
      peers[random.below(peers.size())]->step();
      ASSERT_FALSE(HasFatalFailure());
    }
  }
}

TEST(PortPropertyTest, TwoThreads) {
  for (const bool batching : {true, false}) {
    LocalFabric fabric({.nodes = 3, .ring_bytes = 64 << 10});
    Peer a(3, 0, fabric, 5, batching, 400);
    Peer b(3, 1, fabric, 5, batching, 400);
    Peer c(3, 2, fabric, 5, batching, 400);
    std::atomic<int> done{0};
    // Each continues until all have everything: the others may still wait for its replies.
    const auto run = [&done](std::initializer_list<Peer*> peers) {
      bool told = false;
      while (done.load() != 2) {
        bool all = true;
        for (Peer* p : peers) {
          p->step();
          all &= p->done();
          if (::testing::Test::HasFatalFailure()) std::abort();
        }
        if (all && !told) {
          told = true;
          done.fetch_add(1);
        }
        if (told) std::this_thread::yield();
      }
    };
    std::thread other([&] { run({&b, &c}); });
    run({&a});
    other.join();
  }
}

}  // namespace
}  // namespace weft
