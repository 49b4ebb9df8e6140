// Who may connect, and what strangers can do to connected peers.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "weft/base/memory_file.h"
#include "weft/base/random.h"
#include "weft/fabric/names_testing.h"
#include "weft/wires/shm/messages.h"
#include "weft/wires/shm/shm_testing.h"
#include "weft/wires/shm/socket.h"

namespace weft {
namespace {

using Kind = InterconnectEvent::Kind;
constexpr NodeId kNobody(static_cast<uint8_t>(kNodesMax));

// Joins two nodes that differ; both report the reason, in the same words.
void expect_refused(const ShmOptions& a_options, const ShmOptions& b_options, const std::string& why) {
  ShmNode a(a_options), b(b_options);
  a.interconnect->join(b.who);
  b.interconnect->join(a.who);
  ASSERT_TRUE(shm_wait([&] { return a.find(Kind::kRefused, kB) != nullptr && b.find(Kind::kRefused, kA) != nullptr; },
                       [&] { a.step(), b.step(); }));
  EXPECT_EQ(a.find(Kind::kRefused, kB)->why, why);
  EXPECT_EQ(b.find(Kind::kRefused, kA)->why, why);
  EXPECT_EQ(a.find(Kind::kUp, kB), nullptr);
  EXPECT_EQ(b.find(Kind::kUp, kA), nullptr);
}

TEST(ShmSetupTest, RefusesByNameWithBothValues) {
  ShmOptions a = shm_test_options(0), b = shm_test_options(1);
  a.params.cluster = "alpha";
  b.params.cluster = "beta";
  expect_refused(a, b, "cluster is \"beta\" at node 1 and \"alpha\" at node 0");
  b.params.cluster = "alpha";
  b.workers = 2;
  expect_refused(a, b, "workers is 2 at node 1 and 1 at node 0");
  b.workers = 1;
  a.params.fields = {{"wire version", 1000}};
  expect_refused(a, b, "wire version is " + std::to_string(kWireVersion) + " at node 1 and 1000 at node 0");
  a.params.fields = {{"value_bytes_max", 1024}, {"hash seed", 5}};
  b.params.fields = {{"hash seed", 6}, {"value_bytes_max", 1024}};
  expect_refused(a, b, "hash seed is 6 at node 1 and 5 at node 0");
  b.params.fields = {{"hash seed", 5}};
  expect_refused(a, b, "value_bytes_max is not known at node 1 and 1024 at node 0");
  b.params.fields = {{"hash seed", 5}, {"value_bytes_max", 1024}, {"more", 1}};
  expect_refused(a, b, "more is 1 at node 1 and not known at node 0");
}

TEST(ShmSetupTest, TheWrongIncarnationIsRefusedAndTheRightOneComesLater) {
  ShmNode a(shm_test_options(0)), b(shm_test_options(1));
  a.interconnect->join({kB, 2, b.who.address});
  b.interconnect->join(a.who);
  ASSERT_TRUE(shm_wait([&] { return !a.events.empty() && !b.events.empty(); }, [&] { a.step(), b.step(); }));
  EXPECT_EQ(a.events[0].kind, Kind::kRefused);
  EXPECT_EQ(a.events[0].why,
            "incarnation: node 0 incarnation 1 means node 1 incarnation 2, this is node 1 incarnation 1");
  EXPECT_EQ(b.events[0].why, a.events[0].why);
  a.interconnect->join(b.who);
  EXPECT_TRUE(shm_wait([&] { return a.find(Kind::kUp, kB) != nullptr && b.find(Kind::kUp, kA) != nullptr; },
                       [&] { a.step(), b.step(); }));
  // A second node that claims to be A, and an older A.
  for (const uint32_t incarnation : {1U, 2U}) {
    b.events.clear();
    if (incarnation == 2) b.interconnect->join({kA, 9, a.who.address});
    ShmOptions options = shm_test_options(0);
    options.address += "/other";
    options.incarnation = incarnation;
    options.setup_ms_max = 100;
    ShmNode other(options);
    other.interconnect->join(b.who);
    ASSERT_TRUE(shm_wait([&] { return other.find(Kind::kRefused, kB) != nullptr; }, [&] { other.step(), b.step(); }));
    EXPECT_EQ(other.find(Kind::kUp, kB), nullptr);
    EXPECT_EQ(other.find(Kind::kRefused, kB)->why, incarnation == 1
                                                       ? "set-up: not finished within 100 ms"
                                                       : "incarnation: node 0 is expected in 9 and came in 2");
  }
}

TEST(ShmSetupTest, OptionsAreRefusedWithTheLimitAndTheValue) {
  RealClock clock;
  const auto fails = [&](const std::function<void(ShmOptions&)>& change) {
    ShmOptions options = shm_test_options(0);
    change(options);
    const auto made = ShmInterconnect::create(options, &clock);
    return made ? std::string() : made.error().detail;
  };
  EXPECT_EQ(fails([](ShmOptions& o) { o.address = "@" + std::string(200, 'x'); }).find("the socket address"), 0U);
  EXPECT_NE(fails([](ShmOptions& o) { o.address = "/no/such/folder/x"; }).find("bind"), std::string::npos);
  EXPECT_NE(fails([](ShmOptions& o) { o.workers = 129; }).find("129 of at most 128"), std::string::npos);
  EXPECT_NE(fails([](ShmOptions& o) { o.ring_bytes = 100; }).find("ring_bytes 100"), std::string::npos);
}

TEST(ShmSetupTest, WhoConnectsBeforeTheIncarnationIsKnownWaits) {
  ShmOptions options = shm_test_options(1);
  options.incarnation = 0;
  ShmNode a(shm_test_options(0)), b(options);
  a.interconnect->join({kB, 7, b.who.address});
  for (int i = 0; i < 1000; ++i) a.step(), b.step();
  EXPECT_TRUE(a.events.empty());
  b.interconnect->set_incarnation(7);
  b.interconnect->join(a.who);
  EXPECT_TRUE(shm_wait([&] { return a.find(Kind::kUp, kB) != nullptr && b.find(Kind::kUp, kA) != nullptr; },
                       [&] { a.step(), b.step(); }));
}

// A stranger's connection to B, used by hand.
class ShmStrangerTest : public ::testing::Test {
 protected:
  static ShmOptions impatient() {
    ShmOptions options = shm_test_options(1);
    options.setup_ms_max = 300;
    options.strangers_max = 8;
    return options;
  }
  Fd connect() {
    auto socket = shm_connect(b_.who.address);
    EXPECT_TRUE(socket);
    return std::move(*socket);
  }
  // Steps B until it has refused somebody, and returns why.
  std::string refusal() {
    EXPECT_TRUE(shm_wait([&] { return b_.count(Kind::kRefused) != 0; }, [&] { b_.step(); }));
    for (const InterconnectEvent& event : b_.events) {
      if (event.kind == Kind::kRefused) return event.why;
    }
    return {};
  }
  // B's refusal after a valid hello; `next` sends what follows.
  std::string refusal_after_hello(const std::function<void(int)>& next) {
    b_.events.clear();
    b_.interconnect->join({kA, 1, "@nowhere"});
    const Fd socket = connect();
    const ShmHello hello{kA, kB, 1, 1, {"test", {{"wire version", kWireVersion}, {"workers", 1}}}};
    EXPECT_TRUE(shm_send(socket.get(), shm_encode(hello)));
    ShmMessage answer;
    EXPECT_TRUE(
        shm_wait([&] { return shm_receive(socket.get(), answer) == ShmReceived::kMessage; }, [&] { b_.step(); }));
    EXPECT_TRUE(shm_decode_hello(answer.bytes));
    next(socket.get());
    std::string why = refusal();
    b_.interconnect->leave(kA);
    return why;
  }

  ShmNode b_{impatient()};
};

TEST_F(ShmStrangerTest, GarbageIsTurnedAway) {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    b_.events.clear();
    const Fd socket = connect();
    std::vector<std::byte> bytes(random.between(1, 300));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
    if (round % 3 != 0 && bytes.size() >= sizeof(ShmHead)) {
      store(bytes.data(), ShmHead{kShmMagic, kShmVersion, static_cast<uint8_t>(1 + random.below(6)), {}});
    }
    ASSERT_TRUE(shm_send(socket.get(), bytes));
    EXPECT_FALSE(refusal().empty());
  }
  EXPECT_EQ(b_.find(Kind::kUp, kA), nullptr);
}

TEST_F(ShmStrangerTest, ACutOrChangedHelloIsTurnedAway) {
  const ShmHello hello{kA, kB, 1, 1, {"test", {{"wire version", kWireVersion}, {"workers", 1}}}};
  const auto whole = shm_encode(hello);
  for (size_t bytes = 1; bytes < whole.size(); ++bytes) {
    b_.events.clear();
    const Fd socket = connect();
    ASSERT_TRUE(shm_send(socket.get(), ByteView(whole).first(bytes)));
    EXPECT_NE(refusal().find("set-up: "), std::string::npos) << bytes;
  }
  b_.events.clear();
  const Fd socket = connect();
  auto version = whole;
  store(version.data() + 8, uint32_t{9});
  ASSERT_TRUE(shm_send(socket.get(), version));
  EXPECT_EQ(refusal(), "shm version: one side has 2, the other 9");
  ShmMessage answer;
  ASSERT_EQ(shm_receive(socket.get(), answer), ShmReceived::kMessage);
  EXPECT_EQ(shm_decode_refusal(answer.bytes), "shm version: one side has 2, the other 9");
}

TEST_F(ShmStrangerTest, WhatIsSharedIsChecked) {
  const Fd event_fd(eventfd(0, EFD_NONBLOCK));
  const Fd blocking(eventfd(0, 0));
  Fd control = std::move(*make_memory_file("b", kShmControlBytes));
  const size_t ring = 32 << 10;
  Fd rings = std::move(*make_memory_file("r", ShmOutbox::bytes(1, ring)));
  const Fd soft(memfd_create("soft", MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(soft.get(), static_cast<off_t>(ShmOutbox::bytes(1, ring))), 0);
  const auto base = [&](const ShmBase& said, const std::vector<int>& fds) {
    return refusal_after_hello([&](int socket) { EXPECT_TRUE(shm_send(socket, shm_encode(said), fds)); });
  };
  EXPECT_NE(base({2, ring}, {control.get(), rings.get(), event_fd.get()}).find("workers: 1 at node 1, 2"),
            std::string::npos);
  EXPECT_NE(base({1, ring}, {control.get(), rings.get()}).find("2 descriptors"), std::string::npos);
  EXPECT_NE(base({1, 100}, {control.get(), rings.get(), event_fd.get()}).find("ring bytes: 100"), std::string::npos);
  EXPECT_NE(base({1, uint64_t{1} << 60}, {control.get(), rings.get(), event_fd.get()}).find("ring bytes"),
            std::string::npos);
  EXPECT_NE(base({1, 64 * ring}, {control.get(), rings.get(), event_fd.get()}).find("was announced"),
            std::string::npos);
  EXPECT_NE(base({1, ring}, {rings.get(), rings.get(), event_fd.get()}).find("was announced"), std::string::npos);
  EXPECT_NE(base({1, ring}, {control.get(), soft.get(), event_fd.get()}).find("not sealed"), std::string::npos);
  EXPECT_NE(base({1, ring}, {control.get(), rings.get(), blocking.get()}).find("eventfd"), std::string::npos);
  EXPECT_NE(base({1, ring}, {control.get(), rings.get(), control.get()}).find("eventfd"), std::string::npos);
  const auto region = [&](const ShmRegionEntry& entry, const std::vector<int>& fds) {
    return refusal_after_hello([&](int socket) {
      const std::vector<int> good = {control.get(), rings.get(), event_fd.get()};
      EXPECT_TRUE(shm_send(socket, shm_encode(ShmBase{1, ring}), good));
      EXPECT_TRUE(shm_send(socket, shm_encode(std::span(&entry, 1)), fds));
    });
  };
  Fd memory = std::move(*make_memory_file("m", kHugePageBytes));
  EXPECT_NE(region({RegionId(0), Domain::kEngine, 4096}, {memory.get()}).find("region 0: 4096 bytes"),
            std::string::npos);
  EXPECT_NE(region({RegionId(0), Domain::kEngine, 2 * kHugePageBytes}, {memory.get()}).find("was announced"),
            std::string::npos);
  EXPECT_NE(region({RegionId(300), Domain::kEngine, kHugePageBytes}, {memory.get()}).find("no id"), std::string::npos);
  EXPECT_NE(region({RegionId(0), Domain::kEngine, kHugePageBytes}, {}).find("1 regions with 0"), std::string::npos);
  EXPECT_NE(refusal_after_hello([](int socket) {
              EXPECT_TRUE(shm_send(socket, shm_encode(ShmKind::kReady)));
            }).find("out of order"),
            std::string::npos);
}

// A peer that dies at any point of the set-up leaves nothing behind and can connect again.
TEST_F(ShmStrangerTest, ASetUpThatBreaksOffAnywhereLeavesNothing) {
  const ShmLeakCounts before = ShmLeakCounts::now();
  ShmOptions options = shm_test_options(0);
  bool was_up = false;
  for (int steps = 0; steps < 16; ++steps) {
    b_.interconnect->join({kA, 1, options.address});
    {
      ShmNode a(options);
      a.interconnect->join(b_.who);
      for (int i = 0; i < steps; ++i) (i % 2 == 0 ? b_ : a).step();
      was_up = was_up || a.find(Kind::kUp, kB) != nullptr;
    }
    for (int i = 0; i < 3; ++i) b_.step();
    b_.wire()->poll({});
    b_.step();
    EXPECT_EQ(ShmLeakCounts::now(), before) << steps;
  }
  EXPECT_TRUE(was_up) << "the last ones got through";
  b_.events.clear();
  ShmNode a(options);
  shm_connect_all({&a, &b_});
}

// Strangers that send nothing, or half a message, or hang up do not keep a good peer out, and are dropped in time.
TEST_F(ShmStrangerTest, StrangersDoNotDisturbGoodPeersAndAreBounded) {
  const ShmLeakCounts before = ShmLeakCounts::now();
  {
    std::vector<Fd> strangers;
    for (int i = 0; i < 40; ++i) {
      strangers.push_back(connect());
      if (i % 4 == 0) shm_send(strangers.back().get(), shm_text("GET / HTTP/1.1"));
      if (i % 4 == 1) strangers.pop_back();
      b_.step();
      EXPECT_LE(ShmLeakCounts::now().fds, before.fds + strangers.size() + 8) << "B keeps strangers_max";
    }
    ShmNode a(shm_test_options(0));
    a.interconnect->join(b_.who);
    b_.interconnect->join(a.who);
    ASSERT_TRUE(shm_wait([&] { return a.find(Kind::kUp, kB) != nullptr && b_.find(Kind::kUp, kA) != nullptr; },
                         [&] { a.step(), b_.step(); }));
    a.wire()->accept_incarnation(kB, 1);
    b_.wire()->accept_incarnation(kA, 1);
    ASSERT_TRUE(a.wire()->send(kB, Flow::kCommit, shm_text("hello")));
    EXPECT_TRUE(b_.wire()->pending());
    // All the silent ones are dropped after setup_ms_max.
    ASSERT_TRUE(shm_wait([&] { return b_.count(Kind::kRefused) >= 30; }, [&] { b_.step(); }));
    EXPECT_NE(b_.find(Kind::kRefused, kNobody), nullptr);
    EXPECT_EQ(b_.find(Kind::kDown, kA), nullptr);
  }
  ASSERT_TRUE(shm_wait([&] { return b_.find(Kind::kDown, kA) != nullptr; }, [&] { b_.step(); }));
  b_.wire()->poll({});
  b_.step();
  EXPECT_EQ(ShmLeakCounts::now(), before);
}

TEST_F(ShmStrangerTest, ALivePeerThatSpeaksOutOfTurnIsClosedByName) {
  ShmNode a(shm_test_options(0));
  shm_connect_all({&a, &b_});
  // A's end of the connection is the socket whose peer has B's address.
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_un name{};
    socklen_t bytes = sizeof name;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&name), &bytes) != 0 || bytes <= sizeof(sa_family_t)) continue;
    if (b_.who.address.substr(1) != std::string(name.sun_path + 1, bytes - sizeof(sa_family_t) - 1)) continue;
    EXPECT_TRUE(shm_send(fd, shm_text("what is this")));
  }
  ASSERT_TRUE(shm_wait([&] { return b_.find(Kind::kDown, kA) != nullptr; }, [&] { b_.step(); }));
  EXPECT_NE(b_.find(Kind::kDown, kA)->why.find("set-up: a message of 12 bytes"), std::string::npos);
}

TEST_F(ShmStrangerTest, OnlyTheSameUserIsTalkedTo) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const pid_t child = fork();
  if (child == 0) {
    const bool ok = setuid(65534) == 0;
    const auto socket = shm_connect(b_.who.address);
    if (socket) static_cast<void>(shm_send((*socket).get(), shm_text("let me in")));  // refused before, perhaps
    _exit(ok && socket ? 0 : 1);
  }
  EXPECT_NE(refusal().find("runs as uid 65534, this one as 0"), std::string::npos) << refusal();
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace weft
