// The shm interconnect between real processes: children are forked while this process has one thread, run their own
// interconnect in one loop, and are killed in the middle of it. A child ends by _exit; 0 means success.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "weft/fabric/names_testing.h"
#include "weft/wires/shm/shm_testing.h"

namespace weft {
namespace {

using Kind = InterconnectEvent::Kind;
constexpr NodeId kParent(0), kChild(1);

// A forked process, killed if the test ends before it does.
class Child {
 public:
  explicit Child(const std::function<int()>& body) : pid_(fork()) {
    if (pid_ != 0) return;
    // Closes the parent's sockets and eventfds: held open in the child, they would hide the parent's death.
    syscall(SYS_close_range, 3U, ~0U, 0U);
    _exit(body());
  }
  ~Child() {
    if (pid_ > 0) kill_now();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill_now() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  int result() {
    int status = -1;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_;
};

ShmOptions child_options(uint32_t incarnation) {
  ShmOptions options = shm_test_options(1);
  options.incarnation = incarnation;
  options.ring_bytes = 64 << 10;
  return options;
}

// Sends packets numbered per channel, as many as the ring takes, and checks what it receives.
class Stream {
 public:
  explicit Stream(NodeId peer) : peer_(peer) {}
  bool send(ShmWire* wire, uint64_t limit = ~uint64_t{0}) {
    bool sent = false;
    for (size_t flow = 0; flow < kFlows; ++flow) {
      for (int burst = 0; burst < 8 && out_[flow] < limit; ++burst) {
        std::array<std::byte, 1024> bytes{};
        const size_t size = 16 + out_[flow] * 37 % 1000;
        store(bytes.data(), flow);
        store(bytes.data() + 8, out_[flow]);
        if (!wire->send(peer_, static_cast<Flow>(flow), {bytes.data(), size})) break;
        ++out_[flow];
        sent = true;
      }
    }
    return sent;
  }
  bool receive(ShmWire* wire) {
    std::array<Packet, 16> packets;
    const size_t n = wire->poll(packets);
    for (size_t i = 0; i < n; ++i) {
      const auto flow = load<size_t>(packets[i].bytes.data());
      if (packets[i].source != peer_ || flow >= kFlows || load<uint64_t>(packets[i].bytes.data() + 8) != in_[flow] ||
          packets[i].bytes.size() != 16 + in_[flow] * 37 % 1000) {
        wrong_ = true;
        break;
      }
      ++in_[flow];
    }
    wire->release();
    return n != 0;
  }
  uint64_t sent() const { return *std::min_element(out_.begin(), out_.end()); }
  uint64_t received() const { return *std::min_element(in_.begin(), in_.end()); }
  bool wrong() const { return wrong_; }

 private:
  const NodeId peer_;
  std::array<uint64_t, kFlows> out_{}, in_{};
  bool wrong_ = false;
};

// In the child: connects to the parent. False if that hangs.
bool meet(ShmNode& self, const InterconnectPeer& peer) {
  self.interconnect->join(peer);
  self.wire()->accept_incarnation(peer.node, peer.incarnation);
  return shm_wait([&] { return self.find(Kind::kUp, peer.node) != nullptr; }, [&] { self.step(); });
}

class ShmProcessTest : public ::testing::Test {
 protected:
  // Addresses contain the parent's process id, so they are made before the fork.
  const ShmOptions parent_options_ = shm_test_options(0);
  const InterconnectPeer parent_{kParent, 1, parent_options_.address};
  InterconnectPeer child_{kChild, 1, child_options(1).address};
};

TEST_F(ShmProcessTest, PacketsInOrderBothWays) {
  constexpr uint64_t kPackets = 5'000;
  const ShmOptions options = child_options(1);
  const auto both = [](ShmNode& self, NodeId peer) {
    Stream stream(peer);
    return shm_wait([&] { return stream.wrong() || (stream.sent() == kPackets && stream.received() == kPackets); },
                    [&] {
                      stream.send(self.wire(), kPackets);
                      stream.receive(self.wire());
                    }) &&
           !stream.wrong();
  };
  Child child([&] {
    ShmNode self(options);
    if (!meet(self, parent_)) return 1;
    if (!both(self, kParent)) return 2;
    // Leaving now would lose what the parent has not polled yet.
    return shm_wait([&] { return self.find(Kind::kDown, kParent) != nullptr; }, [&] { self.step(); }) ? 0 : 3;
  });
  {
    ShmNode self(parent_options_);
    ASSERT_TRUE(meet(self, child_));
    EXPECT_TRUE(both(self, kChild));
  }
  EXPECT_EQ(child.result(), 0);
}

TEST_F(ShmProcessTest, VerbsOfAllSizesAndAtomicsBesideTheOwner) {
  constexpr uint64_t kAdds = 50'000;
  const ShmOptions options = child_options(1);
  Child child([&] {
    ShmNode self(options);
    if (!meet(self, parent_)) return 1;
    self.wire()->poll({});
    std::vector<uint64_t> out(8192), in(8192);
    std::vector<Completion> done(8);
    uint64_t old = 0;
    const auto run = [&](VerbKind kind, uint64_t offset, void* local, uint32_t bytes, uint64_t operand) {
      Verb v;
      v.kind = kind;
      v.offset = offset;
      v.local = static_cast<std::byte*>(local);
      v.bytes = bytes;
      v.operand = operand;
      self.wire()->post(kParent, Domain::kEngine, {&v, 1});
      return self.wire()->poll_completions(Domain::kEngine, done) == 1 && done[0].status == VerbStatus::kDone;
    };
    // The parent grants access when it sees us.
    if (!shm_wait(
            [&] {
              self.wire()->reset(kParent, Domain::kEngine);
              return run(VerbKind::kFetchAdd, 0, &old, 8, 0);
            },
            [] {})) {
      return 2;
    }
    for (uint64_t i = 0; i < kAdds; ++i) {
      if (!run(VerbKind::kFetchAdd, 0, &old, 8, 1)) return 3;
    }
    for (const uint32_t bytes : {8U, 64U, 1000U, 4096U, 65536U}) {
      for (size_t i = 0; i < out.size(); ++i) out[i] = i * 31 + bytes;
      if (!run(VerbKind::kWrite, 4096, out.data(), bytes, 0)) return 4;
      if (!run(VerbKind::kRead, 4096, in.data(), bytes, 0)) return 5;
      if (std::memcmp(in.data(), out.data(), bytes) != 0) return 6;
    }
    return run(VerbKind::kFetchAdd, 8, &old, 8, 1) ? 0 : 7;
  });
  ShmNode self(parent_options_);
  ASSERT_TRUE(meet(self, child_));
  self.regions.grant(kChild, Domain::kEngine);  // not earlier: the child would finish and exit before it was seen here
  auto* const words = reinterpret_cast<uint64_t*>(self.region->base());
  for (uint64_t i = 0; i < kAdds; ++i) __atomic_fetch_add(words, 1, __ATOMIC_SEQ_CST);
  EXPECT_TRUE(shm_wait([&] { return __atomic_load_n(words + 1, __ATOMIC_SEQ_CST) == 1; }, [&] { self.step(); }));
  EXPECT_EQ(__atomic_load_n(words, __ATOMIC_SEQ_CST), 2 * kAdds);
  for (size_t i = 0; i < 8192; ++i) ASSERT_EQ(load_shared(self.region->base() + 4096 + 8 * i), i * 31 + 65536);
  EXPECT_EQ(child.result(), 0);
}

// The child is killed at any point: in the middle of a frame, of a verb, of a wake-up.
TEST_F(ShmProcessTest, AKilledPeerIsNoticedLeavesNothingAndComesBack) {
  ShmNode self(parent_options_);
  self.regions.grant(kChild, Domain::kEngine);
  self.step();
  const ShmLeakCounts before = ShmLeakCounts::now();
  for (uint32_t incarnation = 1; incarnation <= 8; ++incarnation) {
    const ShmOptions options = child_options(incarnation);
    child_.incarnation = incarnation;
    Child child([&] {
      ShmNode other(options);
      if (!meet(other, parent_)) return 1;
      Stream stream(kParent);
      std::vector<std::byte> bytes(65536);
      Verb write;
      write.kind = VerbKind::kWrite;
      write.local = bytes.data();
      write.bytes = 65536;
      write.signalled = false;
      std::vector<Completion> done(16);
      // Until it is killed.
      for (;;) {
        stream.send(other.wire());
        stream.receive(other.wire());
        other.wire()->post(kParent, Domain::kEngine, {&write, 1});
        other.wire()->poll_completions(Domain::kEngine, done);
        other.wire()->reset(kParent, Domain::kEngine);
      }
    });
    self.events.clear();
    ASSERT_TRUE(meet(self, child_));
    Stream stream(kChild);
    const auto traffic = [&] {
      stream.send(self.wire());
      stream.receive(self.wire());
    };
    ASSERT_TRUE(shm_wait([&] { return stream.received() > 500; }, traffic));
    for (uint32_t i = 0; i < 100 * incarnation; ++i) traffic();
    child.kill_now();
    if (incarnation % 2 == 0)
      self.regions.revoke(kChild, Domain::kEngine);  // before anyone learned of the death: it does not hang
    traffic();
    self.step();
    ASSERT_NE(self.find(Kind::kDown, kChild), nullptr) << "at once: the next control step";
    EXPECT_EQ(self.find(Kind::kDown, kChild)->incarnation, incarnation);
    self.regions.revoke(kChild, Domain::kEngine);
    self.regions.grant(kChild, Domain::kEngine);
    traffic();
    self.step();
    EXPECT_FALSE(stream.wrong()) << "half a frame was delivered";
    EXPECT_FALSE(self.wire()->send(kChild, Flow::kCommit, shm_text("gone")));
    EXPECT_EQ(ShmLeakCounts::now(), before) << "incarnation " << incarnation;
  }
}

// A third node does not notice that another died, except by its event.
TEST_F(ShmProcessTest, TheOthersGoOnWhenOneIsKilled) {
  const ShmOptions first = child_options(1);
  ShmOptions second = shm_test_options(2);
  const InterconnectPeer third{NodeId(2), 1, second.address};
  const auto echo = [&](const ShmOptions& options) {
    ShmNode other(options);
    if (!meet(other, options.node == kChild ? third : child_) || !meet(other, parent_)) return 1;
    std::array<Packet, 4> packets;
    while (other.find(Kind::kDown, kParent) == nullptr) {
      const size_t n = other.wire()->poll(packets);
      for (size_t i = 0; i < n; ++i) other.wire()->send(kParent, Flow::kCommit, packets[i].bytes);
      other.wire()->release();
      other.step();
      sched_yield();
    }
    return other.find(Kind::kDown, kChild) != nullptr ? 0 : 2;
  };
  Child killed([&] { return echo(first); });
  Child lives([&] { return echo(second); });
  {
    ShmNode self(parent_options_);
    ASSERT_TRUE(meet(self, child_));
    ASSERT_TRUE(meet(self, third));
    self.wire()->poll({});
    std::array<Packet, 4> packets;
    uint64_t sent = 0, got = 0;
    const auto echoed = [&] {
      std::array<std::byte, 8> bytes{};
      if (sent - got < 100 && self.wire()->send(NodeId(2), Flow::kCommit, bytes)) ++sent;
      self.wire()->send(kChild, Flow::kCommit, bytes);
      const size_t n = self.wire()->poll(packets);
      for (size_t i = 0; i < n; ++i) got += packets[i].source == NodeId(2);
      self.wire()->release();
    };
    ASSERT_TRUE(shm_wait([&] { return got > 1000; }, echoed));
    killed.kill_now();
    ASSERT_TRUE(shm_wait([&] { return self.find(Kind::kDown, kChild) != nullptr; }, [&] { echoed(), self.step(); }));
    const uint64_t then = got;
    ASSERT_TRUE(shm_wait([&] { return got > then + 1000; }, echoed));
    EXPECT_EQ(self.find(Kind::kDown, NodeId(2)), nullptr);
  }
  EXPECT_EQ(lives.result(), 0);
}

TEST_F(ShmProcessTest, ASleepingWorkerIsWokenAcrossProcesses) {
  constexpr uint64_t kRounds = 2000;
  const ShmOptions options = child_options(1);
  // Each sleeps until the other's packet arrives, and replies. False: a wake-up was lost.
  const auto ping_pong = [](ShmNode& self, NodeId peer, bool begins) {
    std::array<Packet, 4> packets;
    std::array<std::byte, 8> ball{};
    uint64_t played = 0;
    self.wire()->poll({});
    if (begins) self.wire()->send(peer, Flow::kControl, ball);
    while (played < kRounds) {
      const size_t n = self.wire()->poll(packets);
      self.wire()->release();
      for (size_t i = 0; i < n; ++i) {
        ++played;
        if (begins && played == kRounds) break;
        if (!self.wire()->send(peer, Flow::kControl, ball)) return false;
      }
      if (n != 0) continue;
      self.interconnect->set_sleeping(kW0, true);
      if (!self.wire()->pending()) {
        pollfd event_fd{.fd = self.interconnect->wait_fd(kW0), .events = POLLIN, .revents = 0};
        if (poll(&event_fd, 1, 30'000) != 1) return false;
      }
      self.interconnect->set_sleeping(kW0, false);
    }
    return true;
  };
  Child child([&] {
    ShmNode self(options);
    if (!meet(self, parent_)) return 1;
    if (!ping_pong(self, kParent, false)) return 2;
    return shm_wait([&] { return self.find(Kind::kDown, kParent) != nullptr; }, [&] { self.step(); }) ? 0 : 3;
  });
  {
    ShmNode self(parent_options_);
    ASSERT_TRUE(meet(self, child_));
    EXPECT_TRUE(ping_pong(self, kChild, true));
    EXPECT_GT(self.wire()->counters().wakes, 0U);
  }
  EXPECT_EQ(child.result(), 0);
}

// A peer dies while the worker sleeps: it is woken, to drop the link.
TEST_F(ShmProcessTest, ADeathWakesASleepingWorker) {
  const ShmOptions options = child_options(1);
  Child child([&] {
    ShmNode self(options);
    if (!meet(self, parent_)) return 1;
    for (;;) pause();
  });
  ShmNode self(parent_options_);
  ASSERT_TRUE(meet(self, child_));
  self.wire()->poll({});
  self.interconnect->set_sleeping(kW0, false);
  self.interconnect->set_sleeping(kW0, true);
  ASSERT_FALSE(self.wire()->pending());
  child.kill_now();
  ASSERT_TRUE(shm_wait([&] { return self.find(Kind::kDown, kChild) != nullptr; }, [&] { self.step(); }));
  pollfd event_fd{.fd = self.interconnect->wait_fd(kW0), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&event_fd, 1, 0), 1);
  self.interconnect->set_sleeping(kW0, false);
  EXPECT_EQ(poll(&event_fd, 1, 0), 0) << "silent again";
}

}  // namespace
}  // namespace weft
