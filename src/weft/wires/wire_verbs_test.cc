// One-sided verbs over the wires between hosts: the same tests for each.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/random.h"
#include "weft/fabric/domains_testing.h"
#include "weft/fabric/names_testing.h"
#include "weft/wires/tcp/tcp_testing.h"
#include "weft/wires/verbs/verbs_testing.h"

namespace weft {
namespace {

// Node 0 posts to node 1's region.
template <class Fabric>
class WireVerbs : public ::testing::Test {
 protected:
  void SetUp() override {
    net_ = std::make_unique<InterconnectTestNet<Fabric>>(
        2, 1, [](size_t, typename Fabric::Options& options) { Fabric::tcp(options).completions_max = 2048; });
    net_->connect(0, 1);
  }

  Verb verb(VerbKind kind, uint64_t offset, void* local, uint32_t bytes, uint64_t tag) {
    return net_->verb_to(1, kind, offset, local, bytes, tag);
  }
  // Posts when there is room: a queue may have to be opened first.
  void post(std::span<const Verb> verbs) {
    EXPECT_TRUE(net_->until_polling([&] { return net_->wire(0).post(kB, Domain::kEngine, verbs); }));
  }
  void take_completions() {
    std::vector<Completion> out(100);
    const size_t count = net_->wire(0).poll_completions(Domain::kEngine, out);
    done_.insert(done_.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count));
  }
  // Waits for the completions of everything posted so far.
  std::vector<Completion> completions(size_t count) {
    EXPECT_TRUE(net_->until_polling([&] {
      take_completions();
      return done_.size() >= count;
    })) << done_.size()
        << " of " << count;
    return std::exchange(done_, {});
  }
  VerbStatus one(const Verb& v) {
    post({&v, 1});
    return completions(1).at(0).status;
  }
  std::byte* memory() { return net_->node(1).region->base(); }

  std::unique_ptr<Region> far_;  // outlives the wires
  std::unique_ptr<InterconnectTestNet<Fabric>> net_;
  std::vector<Completion> done_;
};
TYPED_TEST_SUITE(WireVerbs, HostFabrics, HostFabricNames);

TYPED_TEST(WireVerbs, DomainsAreApart) {
  auto& net = *this->net_;
  expect_domains_are_apart(
      {.regions = net.node(1).regions,
       .initiator = kA,
       .engine = net.node(1).region_id,
       .far = this->far_,
       .one =
           [&](Domain domain, const Verb& verb) {
             Completion done{};
             EXPECT_TRUE(net.until_polling([&] { return net.wire(0).post(kB, domain, {&verb, 1}); }));
             EXPECT_TRUE(net.until_polling([&] { return net.wire(0).poll_completions(domain, {&done, 1}) == 1; }));
             return done.status;
           },
       .reset = [&](Domain domain) { net.wire(0).reset(kB, domain); },
       .until = [&](const auto& holds) { return net.until_polling(holds); }});
}

TYPED_TEST(WireVerbs, OneDoorbellCarriesOutVerbsInOrder) {
  char out[16] = "hello, region!!";
  char in[16] = {};
  uint64_t old_add = 99, old_swap = 99, old_miss = 99;
  std::vector<Verb> verbs = {
      this->verb(VerbKind::kWrite, 64, out, 16, 1),
      this->verb(VerbKind::kRead, 64, in, 16, 2),
      this->verb(VerbKind::kFetchAdd, 128, &old_add, 8, 3),
      this->verb(VerbKind::kCompareSwap, 128, &old_swap, 8, 4),
      this->verb(VerbKind::kCompareSwap, 128, &old_miss, 8, 5),
  };
  verbs[0].signalled = false;
  verbs[1].signalled = false;
  verbs[2].operand = 5;
  verbs[3].compare = 5, verbs[3].operand = 77;
  verbs[4].compare = 5, verbs[4].operand = 1;
  this->post(verbs);
  const auto done = this->completions(3);
  ASSERT_EQ(done.size(), 3U) << "the unsignalled ones report nothing";
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(done[i].tag, i + 3);
    EXPECT_EQ(done[i].status, VerbStatus::kDone);
    EXPECT_EQ(done[i].peer, kB);
  }
  EXPECT_STREQ(in, out) << "an unsignalled READ is complete when a later verb is";
  EXPECT_EQ(old_add, 0U);
  EXPECT_EQ(old_swap, 5U);
  EXPECT_EQ(old_miss, 77U);
  EXPECT_EQ(load_shared(this->memory() + 128), 77U);
  EXPECT_EQ(this->net_->wire(0).counters().doorbells, 1U);
  EXPECT_EQ(this->net_->wire(0).counters().verbs, 5U);
  EXPECT_TRUE(this->net_->settles(0));
}

TYPED_TEST(WireVerbs, PostsAreDoneInOrder) {
  constexpr uint64_t kRounds = 50;
  std::vector<uint64_t> written(kRounds), old(kRounds);
  for (uint64_t i = 0; i < kRounds; ++i) {
    written[i] = 2 * i + 1;
    Verb write = this->verb(VerbKind::kWrite, 64, &written[i], 8, 0);
    write.signalled = false;
    this->post({&write, 1});
    Verb swap = this->verb(VerbKind::kCompareSwap, 64, &old[i], 8, i + 1);
    swap.compare = written[i];
    swap.operand = written[i] + 1;
    this->post({&swap, 1});
  }
  const auto done = this->completions(kRounds);
  ASSERT_EQ(done.size(), kRounds);
  for (uint64_t i = 0; i < kRounds; ++i) {
    EXPECT_EQ(done[i].tag, i + 1);
    EXPECT_EQ(old[i], written[i]) << "the WRITE of the post before";
  }
}

TYPED_TEST(WireVerbs, SizesUpToTheLargest) {
  Random random(3);
  std::vector<std::byte> out(TypeParam::kVerbBytesMax), in(TypeParam::kVerbBytesMax);
  for (const uint32_t bytes : {0U, 1U, 7U, 8U, 9U, 63U, 64U, 65U, 4096U, 65'529U, 65'536U}) {
    for (std::byte& b : out) b = static_cast<std::byte>(random.next());
    std::fill(in.begin(), in.end(), std::byte{0});
    store_shared(this->memory() + 8 + bytes / 8 * 8, ~uint64_t{0});
    ASSERT_EQ(this->one(this->verb(VerbKind::kWrite, 8, out.data(), bytes, 1)), VerbStatus::kDone);
    ASSERT_EQ(this->one(this->verb(VerbKind::kRead, 8, in.data(), bytes, 2)), VerbStatus::kDone);
    EXPECT_TRUE(std::equal(out.begin(), out.begin() + bytes, in.begin())) << bytes;
    if (bytes % 8 != 0) {
      EXPECT_EQ(load_shared(this->memory() + 8 + bytes / 8 * 8) >> (bytes % 8 * 8), 0U) << "padded with zeroes";
    }
  }
}

TYPED_TEST(WireVerbs, ARefusedVerbBreaksTheQueueUntilReset) {
  uint64_t word = 1;
  const Verb good = this->verb(VerbKind::kWrite, 0, &word, 8, 1);
  std::vector<Verb> verbs = {good, this->verb(VerbKind::kRead, (2 << 20) - 4, &word, 8, 2), good};
  for (Verb& v : verbs) v.signalled = false;
  this->post(verbs);
  auto done = this->completions(2);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].status, VerbStatus::kRefused);
  EXPECT_EQ(done[0].tag, 2U);
  EXPECT_EQ(done[1].status, VerbStatus::kFlushed);
  EXPECT_EQ(this->one(good), VerbStatus::kFlushed) << "until reset";
  this->net_->wire(0).reset(kB, Domain::kEngine);
  EXPECT_EQ(this->one(good), VerbStatus::kDone);
  EXPECT_EQ(this->one(this->verb(VerbKind::kFetchAdd, 4, &word, 8, 9)), VerbStatus::kRefused) << "misaligned";
  this->net_->wire(0).reset(kB, Domain::kEngine);
  Verb nowhere = good;
  nowhere.region = RegionId(7);
  EXPECT_EQ(this->one(nowhere), VerbStatus::kRefused);
  this->net_->wire(0).reset(kB, Domain::kEngine);
  EXPECT_EQ(this->one(good), VerbStatus::kDone);
}

TYPED_TEST(WireVerbs, WithoutAGrantNothingLands) {
  uint64_t word = 42;
  const Verb write = this->verb(VerbKind::kWrite, 0, &word, 8, 1);
  this->net_->node(1).regions.revoke(kA, Domain::kEngine);
  EXPECT_EQ(this->one(write), VerbStatus::kRefused);
  this->net_->wire(0).reset(kB, Domain::kEngine);
  EXPECT_EQ(this->one(write), VerbStatus::kRefused);
  EXPECT_EQ(load_shared(this->memory()), 0U);
  // A packet sent after the grant arrives after the message about it.
  this->net_->wire(0).reset(kB, Domain::kEngine);
  this->net_->node(1).regions.grant(kA, Domain::kEngine);
  ASSERT_TRUE(this->net_->wire(1).send(kA, Flow::kControl, as_bytes("granted")));
  ASSERT_TRUE(this->net_->until([&] { return this->net_->receive(1), !this->net_->receive(0).empty(); }));
  EXPECT_EQ(this->one(write), VerbStatus::kDone);
}

TYPED_TEST(WireVerbs, UnsignalledWritesDoNotClogTheQueue) {
  uint64_t word = 0;
  Verb write = this->verb(VerbKind::kWrite, 0, &word, 8, 0);
  write.signalled = false;
  uint64_t posted = 0;
  ASSERT_TRUE(this->net_->until_polling([&] {
    word = posted + 1;
    posted += this->net_->wire(0).post(kB, Domain::kEngine, {&write, 1}) ? 1 : 0;
    return posted == 4 * TypeParam::kVerbsMax;
  }));
  ASSERT_TRUE(this->net_->until_polling([&] { return load_shared(this->memory()) == posted; }));
  this->take_completions();
  EXPECT_TRUE(this->done_.empty());
}

// Both sides read as much as they can from each other and send packets: replies have their own room.
TYPED_TEST(WireVerbs, TwoFullEndsDoNotWaitForEachOther) {
  std::vector<std::byte> local(TypeParam::kVerbBytesMax);
  constexpr uint64_t kVerbs = 20 * TypeParam::kLoad;
  const std::string packet(kPacketBytesMax, 'p');
  uint64_t posted[2] = {}, done[2] = {}, sent[2] = {}, received[2] = {};
  const auto step = [&](size_t n, bool more) {
    Verb read = this->verb(VerbKind::kRead, 0, local.data(), TypeParam::kVerbBytesMax, 0);
    Verb write = this->verb(VerbKind::kWrite, 0, local.data(), TypeParam::kVerbBytesMax, 0);
    while (more && this->net_->wire(n).post(node_id(1 - n), Domain::kEngine, {&read, 1})) ++posted[n];
    while (more && this->net_->wire(n).post(node_id(1 - n), Domain::kEngine, {&write, 1})) ++posted[n];
    while (more && this->net_->wire(n).send(node_id(1 - n), Flow::kCommit, as_bytes(packet))) ++sent[n];
    received[n] += this->net_->receive(n).size();
    std::vector<Completion> out(64);
    for (size_t count; (count = this->net_->wire(n).poll_completions(Domain::kEngine, out)) != 0; done[n] += count) {
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(out[i].status, VerbStatus::kDone);
    }
  };
  ASSERT_TRUE(this->net_->until([&] { return step(0, true), step(1, true), done[0] > kVerbs && done[1] > kVerbs; }));
  ASSERT_TRUE(this->net_->until([&] {
    step(0, false), step(1, false);
    return done[0] == posted[0] && done[1] == posted[1] && received[1] == sent[0] && received[0] == sent[1];
  }));
}

// The writer, the target and the revoker are three threads.
TYPED_TEST(WireVerbs, NothingLandsAfterRevokeReturns) {
  std::atomic<bool> stop{false};
  std::thread target([&] {
    while (!stop.load(std::memory_order_relaxed)) this->net_->receive(1);
  });
  std::thread writer([&] {
    std::vector<uint64_t> value(512);
    std::vector<Completion> out(64);
    for (uint64_t i = 1; !stop.load(std::memory_order_relaxed); ++i) {
      std::fill(value.begin(), value.end(), i);
      const std::vector<Verb> verbs(4, this->verb(VerbKind::kWrite, 0, value.data(), 4096, i));
      this->net_->wire(0).post(kB, Domain::kEngine, verbs);
      this->net_->receive(0);
      const size_t count = this->net_->wire(0).poll_completions(Domain::kEngine, out);
      if (count != 0 && out[0].status != VerbStatus::kDone) this->net_->wire(0).reset(kB, Domain::kEngine);
    }
  });
  Regions& regions = this->net_->node(1).regions;
  for (int round = 0; round < 40 && !this->HasFatalFailure(); ++round) {
    regions.revoke(kA, Domain::kEngine);
    for (size_t at = 0; at < 4096; at += 8) store_shared(this->memory() + at, 0);
    for (int i = 0; i < 20; ++i) std::this_thread::yield();
    for (size_t at = 0; at < 4096; at += 8) EXPECT_EQ(load_shared(this->memory() + at), 0U) << "landed later";
    regions.grant(kA, Domain::kEngine);
    const uint64_t deadline_ns = this->net_->clock()->now_ns() + kInterconnectTestDeadlineNs;
    while (load_shared(this->memory()) == 0 && this->net_->clock()->now_ns() < deadline_ns) std::this_thread::yield();
    EXPECT_NE(load_shared(this->memory()), 0U) << "continues under the new grant";
  }
  stop.store(true);
  writer.join();
  target.join();
}

// join, leave and lost connections on the control thread while workers send, poll and sleep on theirs.
TYPED_TEST(WireVerbs, ComingAndGoingWhileWorkersWork) {
  constexpr size_t kWorkers = 2;
  InterconnectTestNet<TypeParam> net(2, kWorkers);
  net.grant(0, 1), net.grant(1, 0);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> received{0};
  std::array<std::atomic<uint64_t>, 2> left{};  // odd: the peer was left, and nothing from it may arrive
  std::vector<std::thread> threads;
  for (size_t n = 0; n < 2; ++n) {
    for (size_t w = 0; w < kWorkers; ++w) {
      threads.emplace_back([&, n, w] {
        typename TypeParam::Wire& wire = net.wire(n, w);
        wire.accept_incarnation(node_id(1 - n), 1);
        std::array<Packet, 16> packets;
        std::vector<Completion> out(64);
        uint64_t old = 0;
        Verb add;
        add.kind = VerbKind::kFetchAdd;
        add.region = net.node(1 - n).region_id;
        add.local = reinterpret_cast<std::byte*>(&old);
        add.operand = 1;
        while (!stop.load(std::memory_order_relaxed)) {
          wire.send(node_id(1 - n), Flow::kCommit, as_bytes("12345678"));
          wire.post(node_id(1 - n), Domain::kEngine, {&add, 1});
          const uint64_t before = left[n].load(std::memory_order_seq_cst);
          const size_t count = wire.poll(packets);
          // A poll that began after leave() returned, and ended before the next join(), delivered nothing.
          if (before % 2 == 1 && left[n].load(std::memory_order_seq_cst) == before) {
            EXPECT_EQ(count, 0U);
          }
          for (size_t i = 0; i < count; ++i) EXPECT_EQ(as_text(packets[i].bytes), "12345678");
          received.fetch_add(count, std::memory_order_relaxed);
          wire.release();
          for (size_t k = wire.poll_completions(Domain::kEngine, out); k != 0;
               k = wire.poll_completions(Domain::kEngine, out)) {
            if (out[0].status == VerbStatus::kRefused) wire.reset(node_id(1 - n), Domain::kEngine);
          }
        }
      });
    }
  }
  for (uint32_t round = 0; round < 10 + TypeParam::kLoad; ++round) {
    const uint64_t before = received.load();
    for (size_t n = 0; n < 2; ++n) net.join(n, 1 - n);
    EXPECT_TRUE(net.until([&] { return received.load() > before + 20; }));
    const size_t first = size_t{round % 2};
    for (const size_t n : {first, 1 - first}) {
      net.interconnect(n).leave(node_id(1 - n));
      left[n].fetch_add(1);
    }
    EXPECT_TRUE(net.until([&] { return net.interconnect(0).links() == 0 && net.interconnect(1).links() == 0; }));
    for (size_t n = 0; n < 2; ++n) left[n].fetch_add(1);
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace weft
