#include "weft/wires/shm/shm.h"
#include "weft/fabric/names_testing.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/fabric/message.h"
#include "weft/fabric/port.h"
#include "weft/wires/shm/shm_testing.h"

namespace weft {
namespace {

using Kind = InterconnectEvent::Kind;

std::string drain(Wire* wire, NodeId from) {
  std::string out;
  std::vector<Packet> packets(16);
  for (size_t n = wire->poll(packets); n != 0; n = wire->poll(packets)) {
    for (size_t i = 0; i < n; ++i) {
      if (packets[i].source == from) out += as_text(packets[i].bytes);
    }
    wire->release();
  }
  return out;
}

TEST(ShmTest, CarriesPacketsPerWorkerAndFlowInOrder) {
  ShmOptions options[3] = {shm_test_options(0), shm_test_options(1), shm_test_options(2)};
  for (ShmOptions& o : options) o.workers = 2;
  ShmNode a(options[0]), b(options[1]), c(options[2]);
  shm_connect_all({&a, &b, &c}, 2);
  EXPECT_EQ(a.interconnect->name(), "shm");
  EXPECT_FALSE(b.wire()->pending());
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(a.wire()->send(kB, Flow::kExecution, shm_text("e" + std::to_string(i))));
    ASSERT_TRUE(a.wire()->send(kB, Flow::kControl, shm_text("c" + std::to_string(i))));
  }
  ASSERT_TRUE(c.wire()->send(kB, Flow::kCommit, shm_text("from C")));
  ASSERT_TRUE(b.wire(1)->send(kC, Flow::kCommit, shm_text("from B")));
  EXPECT_TRUE(b.wire(0)->pending());
  EXPECT_FALSE(b.wire(1)->pending());
  EXPECT_TRUE(c.wire(1)->pending());
  std::vector<Packet> packets(4);
  std::string execution, control, from_c;
  for (size_t n = b.wire()->poll(packets); n != 0; n = b.wire()->poll(packets)) {
    for (size_t i = 0; i < n; ++i) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(packets[i].bytes.data()) % 8, 0U);
      const std::string_view s = as_text(packets[i].bytes);
      (packets[i].source == kC ? from_c : s[0] == 'e' ? execution : control) += s.back();
    }
    b.wire()->release();
  }
  EXPECT_EQ(execution, "0123456789");
  EXPECT_EQ(control, "0123456789");
  EXPECT_EQ(from_c, "C");
  EXPECT_EQ(drain(c.wire(1), kB), "from B");
  EXPECT_EQ(a.wire()->counters().packets_sent, 20U);
  EXPECT_EQ(b.wire()->counters().packets_received, 21U);
}

TEST(ShmTest, AFullRingRefusesAndLeavesOtherFlowsAlone) {
  ShmOptions options = shm_test_options(0);
  options.ring_bytes = 32 << 10;
  ShmNode a(options), b(shm_test_options(1));
  shm_connect_all({&a, &b});
  const std::vector<std::byte> packet(8000);
  int sent = 0;
  while (a.wire()->send(kB, Flow::kCommit, packet)) ++sent;
  EXPECT_EQ(sent, 4);
  EXPECT_EQ(a.wire()->counters().packets_refused, 1U);
  EXPECT_TRUE(a.wire()->send(kB, Flow::kControl, packet));
  drain(b.wire(), kA);
  EXPECT_TRUE(a.wire()->send(kB, Flow::kCommit, packet)) << "there is room again";
}

TEST(ShmTest, JoinMayComeFirstOrLastAndTheSocketMayBeAFile) {
  const std::string folder = ::testing::TempDir() + "weft-shm-" + std::to_string(getpid());
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  ShmOptions options = shm_test_options(1);
  options.address = folder + "/b";
  { const Fd left_behind = std::move(*shm_listen(options.address)); }
  EXPECT_EQ(access(options.address.c_str(), F_OK), 0) << "as a killed process leaves it";
  {
    ShmNode a(shm_test_options(0));
    a.interconnect->join({kB, 1, options.address});
    for (int i = 0; i < 3; ++i) a.step();
    ShmNode b(options);
    EXPECT_FALSE(ShmInterconnect::create(options, &b.clock)) << "the address is taken";
    EXPECT_TRUE(
        shm_wait([&] { return b.interconnect->control_fd() >= 0 && a.events.empty(); }, [&] { a.step(), b.step(); }));
    b.interconnect->join(a.who);
    EXPECT_TRUE(shm_wait([&] { return a.find(Kind::kUp, kB) != nullptr && b.find(Kind::kUp, kA) != nullptr; },
                         [&] { a.step(), b.step(); }));
    EXPECT_EQ(a.events.size() + b.events.size(), 2U);
  }
  EXPECT_NE(access(options.address.c_str(), F_OK), 0) << "unlinked";
  EXPECT_EQ(rmdir(folder.c_str()), 0);
}

TEST(ShmTest, NothingIsCarriedWithoutAdmissionAndEarlyPacketsWait) {
  ShmNode a(shm_test_options(0)), b(shm_test_options(1));
  shm_connect_all({&a, &b});
  b.wire()->accept_incarnation(kA, 0);
  ASSERT_TRUE(a.wire()->send(kB, Flow::kCommit, shm_text("early")));
  EXPECT_FALSE(b.wire()->pending());
  EXPECT_EQ(drain(b.wire(), kA), "");
  EXPECT_FALSE(b.wire()->send(kA, Flow::kCommit, shm_text("no")));
  b.wire()->accept_incarnation(kA, 2);
  EXPECT_EQ(drain(b.wire(), kA), "") << "another incarnation";
  b.wire()->accept_incarnation(kA, 1);
  EXPECT_TRUE(b.wire()->pending());
  EXPECT_EQ(drain(b.wire(), kA), "early");
  EXPECT_TRUE(b.wire()->send(kA, Flow::kCommit, shm_text("yes")));
  EXPECT_EQ(drain(a.wire(), kB), "yes");
}

TEST(ShmTest, AnAdmissionThatEndsInTheMiddleOfABurstKeepsThePacketsHandedOut) {
  ShmNode a(shm_test_options(0)), b(shm_test_options(1));
  shm_connect_all({&a, &b});
  ASSERT_TRUE(a.wire()->send(kB, Flow::kCommit, shm_text("one")));
  ASSERT_TRUE(a.wire()->send(kB, Flow::kCommit, shm_text("two")));
  std::vector<Packet> packets(1);
  ASSERT_EQ(b.wire()->poll(packets), 1U);
  b.wire()->accept_incarnation(kA, 0);
  a.interconnect.reset();
  b.step();
  EXPECT_NE(b.find(Kind::kDown, kA), nullptr);
  EXPECT_EQ(as_text(packets[0].bytes), "one") << "still mapped";
  EXPECT_FALSE(b.wire()->send(kA, Flow::kCommit, shm_text("no")));
  b.wire()->release();
  EXPECT_TRUE(b.wire()->pending()) << "to drop the link";
  EXPECT_EQ(b.wire()->poll(packets), 0U);
}

TEST(ShmTest, LeaveEndsItOnBothSidesAndJoinMakesItAgain) {
  const ShmLeakCounts before = ShmLeakCounts::now();
  {
    ShmNode a(shm_test_options(0)), b(shm_test_options(1)), c(shm_test_options(2));
    const ShmLeakCounts alone = ShmLeakCounts::now();
    shm_connect_all({&a, &b, &c});
    for (int round = 0; round < 3; ++round) {
      ASSERT_TRUE(a.wire()->send(kB, Flow::kCommit, shm_text("stale")));
      b.interconnect->leave(kA);
      EXPECT_EQ(drain(b.wire(), kA), "");
      ASSERT_TRUE(shm_wait([&] { return a.find(Kind::kDown, kB) != nullptr; }, [&] { a.step(); }));
      EXPECT_EQ(b.find(Kind::kDown, kA), nullptr) << "it knows";
      a.events.clear();
      b.events.clear();
      drain(a.wire(), kB);
      shm_connect_all({&a, &b});
      ASSERT_TRUE(a.wire()->send(kB, Flow::kCommit, shm_text("fresh")));
      ASSERT_TRUE(c.wire()->send(kB, Flow::kCommit, shm_text("other")));
      EXPECT_EQ(drain(b.wire(), kA), "fresh");
      a.events.clear();
      b.events.clear();
    }
    for (ShmNode* node : {&a, &b, &c}) {
      for (const NodeId peer : {kA, kB, kC}) node->interconnect->leave(peer);
      drain(node->wire(), kA);
      node->step();
    }
    EXPECT_EQ(ShmLeakCounts::now(), alone) << "links leave nothing";
  }
  EXPECT_EQ(ShmLeakCounts::now(), before);
}

TEST(ShmTest, AHigherIncarnationReplacesTheOld) {
  ShmNode a(shm_test_options(0));
  ShmOptions options = shm_test_options(1);
  auto old = std::make_unique<ShmNode>(options);
  shm_connect_all({&a, old.get()});
  ASSERT_TRUE(old->wire()->send(kA, Flow::kCommit, shm_text("old")));
  options.incarnation = 2;
  options.address += "/again";
  ShmNode young(options);
  a.interconnect->join(young.who);
  young.interconnect->join(a.who);
  EXPECT_TRUE(
      shm_wait([&] { return a.events.size() == 2 && young.events.size() == 1; }, [&] { a.step(), young.step(); }));
  EXPECT_EQ(a.events.back().incarnation, 2U);
  young.wire()->accept_incarnation(kA, 1);
  ASSERT_TRUE(young.wire()->send(kA, Flow::kCommit, shm_text("young")));
  EXPECT_EQ(drain(a.wire(), kB), "") << "incarnation 1 is accepted and gone";
  EXPECT_FALSE(a.wire()->send(kB, Flow::kCommit, shm_text("no")));
  a.wire()->accept_incarnation(kB, 2);
  EXPECT_EQ(drain(a.wire(), kB), "young");
  // The old one finds out, and is refused when it connects again.
  EXPECT_TRUE(shm_wait([&] { return old->find(Kind::kDown, kA) != nullptr; }, [&] { old->step(); }));
}

// Two threads per node, both directions, all flows; packets are numbered per channel.
TEST(ShmTest, PacketsStayInOrderUnderLoadBothWays) {
  constexpr uint64_t kPackets = 20'000;
  ShmOptions options[2] = {shm_test_options(0), shm_test_options(1)};
  for (ShmOptions& o : options) o.ring_bytes = 64 << 10, o.workers = 2;
  ShmNode a(options[0]), b(options[1]);
  shm_connect_all({&a, &b}, 2);
  const auto work = [&](ShmNode& self, NodeId peer, int worker) {
    ShmWire* const wire = self.wire(worker);
    std::vector<Packet> packets(16);
    std::array<uint64_t, kFlows> next_out{}, next_in{};
    std::vector<std::byte> bytes(4096);
    const auto more = [](const auto& next) { return *std::min_element(next.begin(), next.end()) < kPackets; };
    RealClock clock;
    const uint64_t end = clock.now_ns() + 4 * kShmTestNs;
    while ((more(next_in) || more(next_out)) && clock.now_ns() < end) {
      bool busy = false;
      for (size_t flow = 0; flow < kFlows; ++flow) {
        for (int burst = 0; burst < 8 && next_out[flow] < kPackets; ++burst) {
          const size_t size = 16 + next_out[flow] * 37 % 1500;
          store(bytes.data(), flow);
          store(bytes.data() + 8, next_out[flow]);
          if (!wire->send(peer, static_cast<Flow>(flow), {bytes.data(), size})) break;
          ++next_out[flow];
          busy = true;
        }
      }
      const size_t n = wire->poll(packets);
      for (size_t i = 0; i < n; ++i) {
        const auto flow = load<size_t>(packets[i].bytes.data());
        ASSERT_LT(flow, size_t{kFlows});
        ASSERT_EQ(load<uint64_t>(packets[i].bytes.data() + 8), next_in[flow]) << "flow " << flow;
        ASSERT_EQ(packets[i].bytes.size(), 16 + next_in[flow] * 37 % 1500);
        ++next_in[flow];
      }
      wire->release();
      if (!busy && n == 0) std::this_thread::yield();
    }
    for (const uint64_t got : next_in) EXPECT_EQ(got, kPackets);
  };
  std::vector<std::thread> threads;
  for (int w = 0; w < 2; ++w) {
    threads.emplace_back(work, std::ref(a), kB, w);
    threads.emplace_back(work, std::ref(b), kA, w);
  }
  for (std::thread& thread : threads) thread.join();
}

// Blocks without a timeout on the eventfd: a lost wake-up hangs the test.
TEST(ShmTest, NoWakeUpIsLost) {
  constexpr uint64_t kPackets = 5'000;
  ShmNode a(shm_test_options(0)), b(shm_test_options(1));
  shm_connect_all({&a, &b});
  b.interconnect->set_sleeping(kW0, true);  // the first packet wakes it, however fast the others come
  std::thread sender([&] {
    for (uint64_t i = 0; i < kPackets; ++i) {
      std::byte packet[8];
      store(packet, i);
      while (!a.wire()->send(kB, Flow::kCommit, packet)) std::this_thread::yield();
      if (i % 16 == 0) std::this_thread::yield();
    }
  });
  std::vector<Packet> packets(16);
  for (uint64_t next = 0; next < kPackets;) {
    const size_t n = b.wire()->poll(packets);
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(load<uint64_t>(packets[i].bytes.data()), next++);
    b.wire()->release();
    if (n != 0) continue;
    b.interconnect->set_sleeping(kW0, true);
    if (!b.wire()->pending()) {
      pollfd event_fd{.fd = b.interconnect->wait_fd(kW0), .events = POLLIN, .revents = 0};
      poll(&event_fd, 1, -1);
    }
    b.interconnect->set_sleeping(kW0, false);
  }
  sender.join();
  EXPECT_GT(a.wire()->counters().wakes, 0U);
}

// Workers keep polling while the control thread ends and makes links: nothing is unmapped under them.
TEST(ShmTest, LinksComeAndGoUnderRunningWorkers) {
  ShmNode a(shm_test_options(0)), b(shm_test_options(1));
  shm_connect_all({&a, &b});
  const ShmLeakCounts before = ShmLeakCounts::now();
  std::atomic<bool> stop{false};
  const auto work = [&](ShmNode& self, NodeId peer) {
    std::vector<Packet> packets(8);
    std::vector<std::byte> bytes(1000);
    std::vector<Completion> done(16);
    Verb verb;
    verb.bytes = 512;
    verb.local = bytes.data();
    while (!stop.load(std::memory_order_relaxed)) {
      while (self.wire()->send(peer, Flow::kExecution, bytes)) continue;
      const size_t n = self.wire()->poll(packets);
      for (size_t i = 0; i < n; ++i) EXPECT_EQ(packets[i].bytes.size(), 1000U);
      self.wire()->release();
      self.wire()->post(peer, Domain::kEngine, {&verb, 1});
      self.wire()->poll_completions(Domain::kEngine, done);
      self.wire()->reset(peer, Domain::kEngine);
      std::this_thread::yield();
    }
  };
  std::thread worker_a(work, std::ref(a), kB), worker_b(work, std::ref(b), kA);
  for (int round = 0; round < 50; ++round) {
    ShmNode& leaver = round % 2 == 0 ? a : b;
    ShmNode& left = round % 2 == 0 ? b : a;
    leaver.interconnect->leave(left.who.node);
    EXPECT_TRUE(shm_wait([&] { return left.find(Kind::kDown, leaver.who.node) != nullptr; }, [&] { left.step(); }));
    a.events.clear();
    b.events.clear();
    a.interconnect->join(b.who);
    b.interconnect->join(a.who);
    EXPECT_TRUE(shm_wait([&] { return a.find(Kind::kUp, kB) != nullptr && b.find(Kind::kUp, kA) != nullptr; },
                         [&] { a.step(), b.step(); }));
  }
  // The workers drop the last of the old links in their next polls.
  EXPECT_TRUE(shm_wait([&] { return ShmLeakCounts::now() == before; }, [&] { a.step(), b.step(); }));
  stop.store(true);
  worker_a.join();
  worker_b.join();
}

// A peer writes invalid data into the rings it shares: its link ends with a named reason, others continue.
TEST(ShmTest, ABadLengthInARingClosesTheLinkByName) {
  ShmNode a(shm_test_options(0)), b(shm_test_options(1)), c(shm_test_options(2));
  shm_connect_all({&a, &b, &c});
  ASSERT_TRUE(a.wire()->send(kB, Flow::kCommit, shm_text("good")));
  ASSERT_TRUE(a.wire()->send(kB, Flow::kCommit, shm_text("evil")));
  // Finds the mapping of the rings that A writes and B reads by its content.
  std::ifstream maps("/proc/self/maps");
  int hit = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("weft rings") == std::string::npos) continue;
    auto* const begin = reinterpret_cast<std::byte*>(std::stoull(line, nullptr, 16));
    auto* const end = reinterpret_cast<std::byte*>(std::stoull(line.substr(line.find('-') + 1), nullptr, 16));
    for (std::byte* at = begin + 4096; at + 16 <= end; at += 64) {
      for (std::byte* word = at; word < at + 64 && word + 16 <= end; word += 8) {
        if (load<uint64_t>(word) == 4 && std::memcmp(word + 8, "evil", 4) == 0) {
          store(word, uint64_t{1} << 40);
          ++hit;
        }
      }
    }
  }
  ASSERT_EQ(hit, 1) << "one memory behind both mappings";
  EXPECT_EQ(drain(b.wire(), kA), "good");
  ASSERT_TRUE(shm_wait([&] { return b.find(Kind::kDown, kA) != nullptr; }, [&] { b.step(); }));
  EXPECT_NE(b.find(Kind::kDown, kA)->why.find("bad length in the ring of worker 0, flow 1"), std::string::npos)
      << b.find(Kind::kDown, kA)->why;
  ASSERT_TRUE(c.wire()->send(kB, Flow::kCommit, shm_text("fine")));
  EXPECT_EQ(drain(b.wire(), kC), "fine");
  EXPECT_FALSE(b.wire()->send(kA, Flow::kCommit, shm_text("no")));
}

// The port over the wire: messages larger than a packet, both ways.
TEST(ShmTest, APortWorksOverIt) {
  ShmNode a(shm_test_options(0)), b(shm_test_options(1));
  shm_connect_all({&a, &b});
  PortOptions options;
  options.nodes = 2;
  options.self = kA;
  Port port_a(options, a.wire(), nullptr);
  options.self = kB;
  Port port_b(options, b.wire(), nullptr);
  uint64_t sum = 0;
  const Handler count = [](void* context, std::span<const Message> run) {
    for (const Message& message : run) *static_cast<uint64_t*>(context) += message.body.size();
  };
  port_b.set_handler(3, count, &sum);
  uint64_t sent = 0;
  for (const size_t bytes : {8, 8, 5000, 100'000, 16}) {
    std::memset(port_a.reserve(kB, Flow::kCommit, 3, bytes), 1, bytes);
    sent += bytes;
    port_a.flush();
  }
  EXPECT_TRUE(shm_wait([&] { return sum == sent; }, [&] { port_a.flush(), port_b.poll(); }));
}

}  // namespace
}  // namespace weft
