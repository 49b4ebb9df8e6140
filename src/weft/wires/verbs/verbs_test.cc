// Specific to the verbs wire. wire_packets_test.cc and wire_verbs_test.cc have the tests for all wires between hosts.
#include "weft/wires/verbs/verbs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/fabric/names_testing.h"
#include "weft/wires/tcp/tls_testing.h"
#include "weft/wires/verbs/verbs_testing.h"

namespace weft {
namespace {

using Kind = InterconnectEvent::Kind;

class VerbsTest : public ::testing::Test {
 protected:
  void SetUp() override { net_ = std::make_unique<VerbsTestNet>(2); }

  Verb verb(VerbKind kind, uint64_t offset, void* local, uint32_t bytes, uint64_t tag = 0) {
    return net_->verb_to(1, kind, offset, local, bytes, tag);
  }
  std::vector<Completion> completions(size_t node, size_t count) {
    std::vector<Completion> done;
    EXPECT_TRUE(net_->until_polling([&] {
      std::vector<Completion> out(100);
      const size_t got = net_->wire(node).poll_completions(Domain::kEngine, out);
      done.insert(done.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(got));
      return done.size() >= count;
    })) << done.size()
        << " of " << count;
    return done;
  }
  void post(size_t from, NodeId to, const Verb& v) {
    EXPECT_TRUE(net_->until_polling([&] { return net_->wire(from).post(to, Domain::kEngine, {&v, 1}); }));
  }
  VerbStatus one(size_t from, NodeId to, const Verb& v) {
    post(from, to, v);
    return completions(from, 1).at(0).status;
  }
  std::byte* memory() { return net_->node(1).region->base(); }

  std::unique_ptr<VerbsTestNet> net_;
};

TEST_F(VerbsTest, AnEarlyPacketWaitsUntilItsSenderIsAdmitted) {
  net_->join(0, 1), net_->join(1, 0);
  net_->accept_incarnation(0, 1);
  ASSERT_TRUE(net_->until([&] { return net_->is_up(0, 1) && net_->is_up(1, 0); }));
  for (int i = 0; i < 50; ++i) net_->until_polling([] { return true; });
  EXPECT_FALSE(net_->wire(0).send(kB, Flow::kCommit, as_bytes("early"))) << "the other side has not accepted us yet";
  EXPECT_TRUE(net_->wire(1).send(kA, Flow::kCommit, as_bytes("x"))) << "accepted nobody: dropped";
  EXPECT_EQ(net_->wire(1).counters().packets_dropped, 1U);
  net_->accept_incarnation(1, 0);
  std::string got;
  bool sent = false;
  ASSERT_TRUE(net_->until([&] {
    sent = sent || net_->wire(0).send(kB, Flow::kCommit, as_bytes("early"));
    net_->receive(0);
    for (auto& [from, text] : net_->receive(1)) got += text;
    return !got.empty();
  }));
  EXPECT_EQ(got, "early");
}

TEST_F(VerbsTest, WhatWasPostedUnderOneGrantDoesNotLandUnderTheNext) {
  net_->connect(0, 1);
  uint64_t word = 42;
  const Verb write = verb(VerbKind::kWrite, 0, &word, 8, 1);
  ASSERT_EQ(one(0, kB, write), VerbStatus::kDone);
  store_shared(memory(), 0);
  net_->node(1).regions.revoke(kA, Domain::kEngine);
  net_->node(1).regions.grant(kA, Domain::kEngine);
  // Node 0 has received neither message.
  ASSERT_TRUE(net_->wire(0).post(kB, Domain::kEngine, {&write, 1}));
  EXPECT_EQ(completions(0, 1).at(0).status, VerbStatus::kRefused);
  EXPECT_EQ(load_shared(memory()), 0U);
  net_->wire(0).reset(kB, Domain::kEngine);
  EXPECT_EQ(one(0, kB, write), VerbStatus::kDone);
  EXPECT_EQ(load_shared(memory()), 42U);
}

// I1 of initiator_queue.h, without the device's fence: on Soft-RoCE a fenced atomic may wait for itself forever.
TEST_F(VerbsTest, WhatFollowsAReadIsHeldBackUntilItIsDone) {
  constexpr uint64_t kRounds = 300;
  constexpr uint32_t kLong = 64 << 10;
  constexpr uint64_t kHeld = 3;  // of a round
  net_->connect(0, 1);
  std::vector<uint64_t> copy(kLong / 8);
  uint64_t swapped = 0, added = 0, word = 0, back = 0;
  for (uint64_t i = 0; i < kRounds; ++i) {
    std::vector<Verb> verbs = {
        verb(VerbKind::kRead, 0, copy.data(), kLong, 1), verb(VerbKind::kCompareSwap, 8, &swapped, 8, 2),
        verb(VerbKind::kWrite, 16, &word, 8, 3),         verb(VerbKind::kRead, 16, &back, 8, 4),
        verb(VerbKind::kFetchAdd, 24, &added, 8, 5),
    };
    verbs[0].signalled = verbs[3].signalled = false;
    verbs[1].compare = i;
    verbs[1].operand = i + 1;
    verbs[4].operand = 1;
    word = i + 1;
    // It is behind them in the queue, but the bytes that it writes are copied now.
    uint64_t other = i + 1;
    const Verb write = verb(VerbKind::kWrite, 32, &other, 8, 6);
    ASSERT_TRUE(net_->until_polling([&] { return net_->wire(0).post(kB, Domain::kEngine, verbs); }));
    ASSERT_TRUE(net_->until_polling([&] { return net_->wire(0).post(kB, Domain::kEngine, {&write, 1}); }));
    other = 0;
    const auto done = completions(0, 4);
    ASSERT_EQ(done.size(), 4U);
    constexpr uint64_t kTags[] = {2, 3, 5, 6};
    for (size_t d = 0; d < done.size(); ++d) {
      EXPECT_EQ(done[d].tag, kTags[d]);
      ASSERT_EQ(done[d].status, VerbStatus::kDone);
    }
    EXPECT_EQ(copy[1], i) << "as it was before the CAS";
    EXPECT_EQ(copy[2], i) << "and the WRITE";
    EXPECT_EQ(swapped, i);
    EXPECT_EQ(back, i + 1);
    EXPECT_EQ(added, i);
    EXPECT_EQ(load_shared(memory() + 32), i + 1);
  }
  EXPECT_EQ(net_->wire(0).counters().held, kHeld * kRounds);
}

// With many such posts in flight at a time, and a queue that is lost in the middle of them.
TEST_F(VerbsTest, WhatIsHeldBackIsFlushedWithTheQueue) {
  constexpr uint64_t kPosts = 20;
  net_->connect(0, 1);
  std::vector<uint64_t> copy(8192);
  std::vector<uint64_t> old(kPosts);
  const auto post_all = [&] {
    for (uint64_t i = 0; i < kPosts; ++i) {
      Verb add = verb(VerbKind::kFetchAdd, 8, &old[i], 8, i);
      add.operand = 1;
      std::vector<Verb> verbs = {verb(VerbKind::kRead, 0, copy.data(), 8, 99), add};
      verbs[0].signalled = false;
      ASSERT_TRUE(net_->until_polling([&] { return net_->wire(0).post(kB, Domain::kEngine, verbs); }));
    }
  };
  post_all();
  auto done = completions(0, kPosts);
  ASSERT_EQ(done.size(), kPosts);
  for (uint64_t i = 0; i < kPosts; ++i) {
    EXPECT_EQ(done[i].tag, i);
    EXPECT_EQ(old[i], i);
  }
  net_->node(1).regions.revoke(kA, Domain::kEngine);
  post_all();
  done = completions(0, kPosts);
  EXPECT_NE(done.back().status, VerbStatus::kDone);
  EXPECT_EQ(load_shared(memory() + 8), kPosts) << "nothing lands after it was revoked";
}

TEST_F(VerbsTest, ALostPeerFlushes) {
  net_->connect(0, 1);
  uint64_t word = 1;
  const Verb add = verb(VerbKind::kFetchAdd, 0, &word, 8, 1);
  ASSERT_EQ(one(0, kB, add), VerbStatus::kDone);
  net_->node(1).interconnect.reset();
  const std::vector<Verb> adds(10, add);
  ASSERT_TRUE(net_->wire(0).post(kB, Domain::kEngine, adds));
  const auto done = completions(0, 10);
  for (size_t i = 0; i < done.size(); ++i) {
    EXPECT_TRUE(done[i].status == VerbStatus::kFlushed || (i == 0 && done[i].status == VerbStatus::kRefused));
  }
  ASSERT_TRUE(net_->until_polling([&] { return net_->find(0, Kind::kDown) != nullptr; }));
  EXPECT_EQ(one(0, kB, add), VerbStatus::kFlushed) << "nobody there";
}

TEST_F(VerbsTest, AnotherAdmissionFlushesAndEndsTheConnection) {
  net_->connect(0, 1);
  uint64_t word = 1;
  const Verb add = verb(VerbKind::kFetchAdd, 0, &word, 8, 1);
  ASSERT_EQ(one(0, kB, add), VerbStatus::kDone);
  ASSERT_TRUE(net_->wire(0).post(kB, Domain::kEngine, {&add, 1}));
  net_->wire(0).accept_incarnation(kB, 0);
  std::vector<Completion> out(2);
  ASSERT_EQ(net_->wire(0).poll_completions(Domain::kEngine, out), 1U);
  EXPECT_EQ(out[0].status, VerbStatus::kFlushed);
  ASSERT_TRUE(net_->until_polling([&] { return net_->find(1, Kind::kDown) != nullptr; }));
}

TEST_F(VerbsTest, ALateRegionIsReachedAndDiscardKeepsThePages) {
  net_->connect(0, 1);
  auto later = Region::create(2 << 20);
  ASSERT_TRUE(later);
  uint64_t word = 42;
  Verb write = verb(VerbKind::kWrite, 4096, &word, 8);
  ASSERT_EQ(one(0, kB, write), VerbStatus::kDone);
  write.region = net_->node(1).regions.add(later->get());
  ASSERT_TRUE(net_->until_polling([&] {
    net_->wire(0).reset(kB, Domain::kEngine);
    return one(0, kB, write) == VerbStatus::kDone;
  }));
  EXPECT_EQ(load_shared((*later)->base() + 4096), 42U);
  (*later)->discard(0, 2 << 20);
  EXPECT_EQ(load_shared((*later)->base() + 4096), 0U);
  ASSERT_EQ(one(0, kB, write), VerbStatus::kDone);
  EXPECT_EQ(load_shared((*later)->base() + 4096), 42U) << "the device and the process still mean the same page";
  net_->node(1).interconnect.reset();  // before the region is destroyed
}

TEST_F(VerbsTest, OwnRegionsAreReachedThroughTheDevice) {
  uint64_t old = 7;
  Verb swap = verb(VerbKind::kCompareSwap, 64, &old, 8, 1);
  swap.compare = 0, swap.operand = 99;
  ASSERT_TRUE(net_->wire(1).post(kB, Domain::kEngine, {&swap, 1}));
  EXPECT_EQ(completions(1, 1).at(0).status, VerbStatus::kFlushed) << "no grant to itself: no loopback";
  net_->grant(1, 1);
  EXPECT_EQ(one(1, kB, swap), VerbStatus::kDone);
  EXPECT_EQ(old, 0U);
  EXPECT_EQ(load_shared(memory() + 64), 99U);
  EXPECT_EQ(net_->wire(1).counters().compare_swaps, 1U);
  EXPECT_EQ(net_->wire(1).counters().queues_opened, 1U);
  net_->node(1).regions.revoke(kB, Domain::kEngine);
  EXPECT_EQ(one(1, kB, swap), VerbStatus::kRefused);
  net_->node(1).regions.grant(kB, Domain::kEngine);
  net_->wire(1).reset(kB, Domain::kEngine);
  EXPECT_EQ(one(1, kB, swap), VerbStatus::kDone);
  EXPECT_EQ(old, 99U);
}

// Where a device's atomics are not atomic with the CPU's, they are still atomic with each other.
TEST_F(VerbsTest, AtomicsOfAPeerAndOfTheOwnNodeAddUp) {
  constexpr uint64_t kRounds = 300;
  net_->connect(0, 1);
  net_->grant(1, 1);
  std::atomic<int> left{2};
  const auto adds = [&](size_t from) {
    uint64_t old = 0;
    Verb add = verb(VerbKind::kFetchAdd, 128, &old, 8);
    add.operand = 1;
    std::vector<Completion> out(64);
    for (uint64_t posted = 0, done = 0; done < kRounds;) {
      if (posted < kRounds && posted - done < 8)
        posted += net_->wire(from).post(kB, Domain::kEngine, {&add, 1}) ? 1 : 0;
      net_->receive(from);
      const size_t got = net_->wire(from).poll_completions(Domain::kEngine, out);
      for (size_t i = 0; i < got; ++i) ASSERT_EQ(out[i].status, VerbStatus::kDone);
      done += got;
    }
    left.fetch_sub(1);
    while (left.load() != 0) net_->receive(from);
  };
  std::thread peer([&] { adds(0); });
  adds(1);
  peer.join();
  EXPECT_EQ(load_shared(memory() + 128), 2 * kRounds);
  EXPECT_EQ(net_->wire(0).counters().fetch_adds, kRounds);
  EXPECT_EQ(net_->wire(1).counters().fetch_adds, kRounds);
  EXPECT_EQ(net_->wire(0).atomic_with_cpu(),
            net_->interconnect(0).nic().device().attributes.atomic_cap == IBV_ATOMIC_GLOB);
}

// The same with the synchronous swaps from any thread, by which a node locks its own records.
TEST_F(VerbsTest, SwapsOfAPeerAndOfTheLoopAddUp) {
  constexpr uint64_t kRounds = 200;
  net_ = std::make_unique<VerbsTestNet>(
      2, 1, [](size_t, VerbsOptions& options) { options.remote_lock_mode = RemoteLockMode::kNicLoopback; });
  LocalAtomics* const words = net_->interconnect(1).local_atomics();
  if (words == nullptr) GTEST_SKIP() << "its atomics are atomic with the CPU's";
  const RegionId id = net_->node(1).region_id;
  EXPECT_TRUE(words->swap(id, 192, 0, 1)) << "nobody reaches it yet";
  EXPECT_EQ(words->swaps(), 0U) << "so the CPU did it";
  net_->connect(0, 1);
  EXPECT_FALSE(words->swap(id, 192, 0, 2));
  EXPECT_TRUE(words->swap(id, 192, 1, 0));
  EXPECT_EQ(words->swaps(), 2U);
  const auto counts_on = [&](const std::function<bool(uint64_t)>& swap) {
    for (uint64_t done = 0; done < kRounds;) done += swap(load_shared(memory() + 192)) ? 1 : 0;
  };
  std::thread loop([&] { counts_on([&](uint64_t word) { return words->swap(id, 192, word, word + 1); }); });
  counts_on([&](uint64_t word) {
    uint64_t old = 0;
    Verb swap = verb(VerbKind::kCompareSwap, 192, &old, 8);
    swap.compare = word, swap.operand = word + 1;
    EXPECT_EQ(one(0, kB, swap), VerbStatus::kDone);
    return old == word;
  });
  loop.join();
  EXPECT_EQ(load_shared(memory() + 192), 2 * kRounds);
}

TEST_F(VerbsTest, NodesMustLockInTheSameWay) {
  VerbsTestNet net(2, 1, [](size_t n, VerbsOptions& options) {
    options.remote_lock_mode = n == 0 ? RemoteLockMode::kNicLoopback : RemoteLockMode::kMessages;
  });
  if (net.interconnect(0).local_atomics() == nullptr)
    GTEST_SKIP() << "atomics that are atomic with the CPU's need no choice";
  net.join(0, 1), net.join(1, 0);
  EXPECT_TRUE(net.until([&] { return net.find(0, Kind::kRefused, "loopback) is") != nullptr; })) << net.all_events(0);
}

TEST_F(VerbsTest, ATcpNodeIsRefusedByName) {
  auto plain = TcpInterconnect::create(tcp_test_options(2), nullptr, net_->clock());
  ASSERT_TRUE(plain);
  net_->interconnect(0).join({NodeId(2), 1, (*plain)->address()});
  (*plain)->join({kA, 1, net_->interconnect(0).address()});
  EXPECT_TRUE(net_->until([&] {
    (*plain)->control_step();
    return net_->find(0, Kind::kRefused,
                      "fabric verbs is not known at node 2 and " + std::to_string(kVerbsVersion) + " at node 0") !=
           nullptr;
  })) << net_->all_events(0);
}

TEST_F(VerbsTest, SetUpNeedsTheCredentialsOfTheCluster) {
  const std::string folder = ::testing::TempDir() + "weft_verbs_" + std::to_string(getpid()) + "_";
  const char* const names = "URI:weft://test/node/0,URI:weft://test/node/1,URI:weft://test/node/2";
  const Credential authority("authority"), other("other"), node("node", &authority, names),
      foreign("foreign", &other, names);
  ASSERT_TRUE(authority.write_certificate(folder + "ca"));
  for (const auto& [name, credential] : {std::pair("node", &node), std::pair("foreign", &foreign)}) {
    ASSERT_TRUE(credential->write_certificate(folder + name) && credential->write_key(folder + name + "_key"));
  }
  VerbsTestNet net(3, 1, [&](size_t n, VerbsOptions& options) {
    const std::string name = n == 2 ? "foreign" : "node";
    options.tcp.tls = TcpTlsFiles{folder + "ca", folder + name, folder + name + "_key"};
  });
  net.connect(0, 1);
  ASSERT_TRUE(net.wire(0).send(kB, Flow::kCommit, as_bytes("in")));
  ASSERT_TRUE(net.until([&] { return net.receive(0), !net.receive(1).empty(); }));
  net.join(0, 2), net.join(2, 0);
  EXPECT_TRUE(net.until([&] { return net.find(0, Kind::kRefused) && net.find(2, Kind::kRefused); }));
  EXPECT_FALSE(net.is_up(0, 2) || net.is_up(2, 0));
  for (const char* name : {"ca", "node", "node_key", "foreign", "foreign_key"}) unlink((folder + name).c_str());
}

TEST_F(VerbsTest, AWrongDeviceIsNamedWithWhatThereIs) {
  RealClock clock;
  const auto refused = [&](const VerbsDeviceSelector& choice, const std::string& words) {
    VerbsOptions options = VerbsFabric::options(0, 1, 1);
    options.device = choice;
    const auto interconnect = VerbsInterconnect::create(options, nullptr, &clock);
    ASSERT_FALSE(interconnect);
    EXPECT_NE(interconnect.error().text().find(words), std::string::npos) << interconnect.error().text();
  };
  const std::string name = net_->interconnect(0).nic().device().name;
  refused({"mlx9_0", 1, -1},
          "there is no RDMA device \"mlx9_0\": there are " + verbs_devices(VerbsFabric::library()).names());
  refused({name, 9, -1}, "device " + name + ": port 9, and it has the ports 1 to ");
  refused({name, 1, 200}, "device " + name + " port 1: there is no GID 200: there are ");
}

// A dead host closes no connection: its device just does not respond.
TEST_F(VerbsTest, ADeviceThatDoesNotAnswerIsNoticed) {
  const VerbsNic& nic = net_->interconnect(0).nic();
  auto cq = VerbsCq::create(nic, 16);
  ASSERT_TRUE(cq);
  VerbsQp::Options options;
  options.inline_bytes = 8;
  auto qp = VerbsQp::create(nic, **cq, options);
  ASSERT_TRUE(qp);
  QpAddress nobody = (*qp)->address();
  nobody.number = kVerbsNumberMax - 1;
  ASSERT_TRUE((*qp)->connect(nobody, true));
  uint64_t word = 1;
  ibv_sge part{reinterpret_cast<uint64_t>(&word), 8, 0};
  ibv_send_wr work{};
  work.sg_list = &part;
  work.num_sge = 1;
  work.opcode = IBV_WR_SEND;
  work.send_flags = IBV_SEND_INLINE;
  ASSERT_EQ((*qp)->post(&work), 0);
  ibv_wc wc[1];
  ASSERT_TRUE(net_->until([&] { return (*cq)->poll(wc) == 1; }));
  EXPECT_EQ(wc[0].status, IBV_WC_RETRY_EXC_ERR);
}

}  // namespace
}  // namespace weft
