#include "weft/fabric/local.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "weft/base/bytes.h"
#include "weft/fabric/domains_testing.h"
#include "weft/fabric/names_testing.h"

namespace weft {
namespace {

std::vector<std::byte> text(std::string_view s) {
  const ByteView v = as_bytes(s);
  return {v.begin(), v.end()};
}

TEST(LocalWireTest, CarriesPacketsPerWorkerAndFlowInOrder) {
  LocalFabric fabric({.nodes = 3, .workers = 2});
  LocalWire* a = fabric.wire(kA, kW0);
  LocalWire* b = fabric.wire(kB, kW0);
  EXPECT_FALSE(b->pending());
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(a->send(kB, Flow::kExecution, text("e" + std::to_string(i))));
    ASSERT_TRUE(a->send(kB, Flow::kControl, text("c" + std::to_string(i))));
  }
  ASSERT_TRUE(fabric.wire(kC, kW0)->send(kB, Flow::kCommit, text("from C")));
  EXPECT_TRUE(b->pending());
  EXPECT_FALSE(fabric.wire(kB, kW1)->pending());
  EXPECT_FALSE(fabric.wire(kC, kW0)->pending());
  std::vector<Packet> packets(4);
  std::string execution, control;
  int from_c = 0;
  for (size_t n = b->poll(packets); n != 0; n = b->poll(packets)) {
    for (size_t i = 0; i < n; ++i) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(packets[i].bytes.data()) % 8, 0U);
      const std::string_view s = as_text(packets[i].bytes);
      if (packets[i].source == kC) {
        ++from_c;
      } else {
        (s[0] == 'e' ? execution : control) += s[1];
      }
    }
    b->release();
  }
  EXPECT_EQ(execution, "0123456789");
  EXPECT_EQ(control, "0123456789");
  EXPECT_EQ(from_c, 1);
  EXPECT_EQ(a->counters().packets_sent, 20U);
  EXPECT_EQ(b->counters().packets_received, 21U);
}

TEST(LocalWireTest, AFullRingRefusesAndLeavesOtherFlowsAlone) {
  LocalFabric fabric({.nodes = 2, .ring_bytes = 32 << 10});
  LocalWire* a = fabric.wire(kA, kW0);
  const std::vector<std::byte> packet(8000);
  int sent = 0;
  while (a->send(kB, Flow::kCommit, packet)) ++sent;
  EXPECT_EQ(sent, 4);
  EXPECT_EQ(a->counters().packets_refused, 1U);
  EXPECT_TRUE(a->send(kB, Flow::kControl, packet));
}

TEST(LocalWireTest, ABusyChannelDoesNotStarveTheOthers) {
  LocalFabric fabric({.nodes = 3});
  std::vector<Packet> packets(4);
  LocalWire* b = fabric.wire(kB, kW0);
  ASSERT_TRUE(fabric.wire(kC, kW0)->send(kB, Flow::kControl, text("x")));
  bool seen = false;
  for (int round = 0; round < 4 && !seen; ++round) {
    for (int i = 0; i < 8; ++i) ASSERT_TRUE(fabric.wire(kA, kW0)->send(kB, Flow::kExecution, text("busy")));
    const size_t n = b->poll(packets);
    for (size_t i = 0; i < n; ++i) seen |= packets[i].source == kC;
    b->release();
  }
  EXPECT_TRUE(seen);
}

class VerbTest : public ::testing::Test {
 protected:
  VerbTest() {
    auto made = Region::create(2 << 20);
    EXPECT_TRUE(made);
    region_ = std::move(*made);
    id_ = regions_.add(region_.get());
    regions_.grant(kA, Domain::kEngine);
    fabric_.set_regions(kB, &regions_);
    wire_ = fabric_.wire(kA, kW0);
  }
  std::vector<Completion> completions() {
    std::vector<Completion> out(100);
    out.resize(wire_->poll_completions(Domain::kEngine, out));
    return out;
  }
  Verb verb(VerbKind kind, uint64_t offset, void* local, uint32_t bytes, uint64_t tag) {
    Verb v;
    v.kind = kind;
    v.region = id_;
    v.offset = offset;
    v.bytes = bytes;
    v.local = static_cast<std::byte*>(local);
    v.tag = tag;
    return v;
  }

  LocalFabric fabric_{{.nodes = 3, .completions_max = 16}};
  std::unique_ptr<Region> region_;
  Regions regions_;
  RegionId id_;
  LocalWire* wire_;
};

TEST_F(VerbTest, DomainsAreApart) {
  std::unique_ptr<Region> far;
  expect_domains_are_apart({.regions = regions_,
                            .initiator = kA,
                            .engine = id_,
                            .far = far,
                            .one =
                                [&](Domain domain, const Verb& verb) {
                                  EXPECT_TRUE(wire_->post(kB, domain, {&verb, 1}));
                                  Completion done{};
                                  EXPECT_EQ(wire_->poll_completions(domain, {&done, 1}), 1U);
                                  return done.status;
                                },
                            .reset = [&](Domain domain) { wire_->reset(kB, domain); },
                            .until = [](const auto& holds) { return holds() || holds(); }});
}

TEST_F(VerbTest, OneDoorbellCarriesOutVerbsInOrder) {
  char out[16] = "hello, region!!";
  char in[16] = {};
  uint64_t old_add = 99, old_swap = 99, old_miss = 99;
  std::vector<Verb> verbs = {
      verb(VerbKind::kWrite, 64, out, 16, 1),
      verb(VerbKind::kRead, 64, in, 16, 2),
      verb(VerbKind::kFetchAdd, 128, &old_add, 8, 3),
      verb(VerbKind::kCompareSwap, 128, &old_swap, 8, 4),
      verb(VerbKind::kCompareSwap, 128, &old_miss, 8, 5),
  };
  verbs[0].signalled = false;
  verbs[2].operand = 5;
  verbs[3].compare = 5, verbs[3].operand = 77;
  verbs[4].compare = 5, verbs[4].operand = 1;
  ASSERT_TRUE(wire_->post(kB, Domain::kEngine, verbs));
  EXPECT_STREQ(in, out);
  EXPECT_EQ(old_add, 0U);
  EXPECT_EQ(old_swap, 5U);
  EXPECT_EQ(old_miss, 77U);
  EXPECT_EQ(load_shared(region_->base() + 128), 77U);
  EXPECT_TRUE(wire_->pending());
  const auto done = completions();
  ASSERT_EQ(done.size(), 4U) << "the unsignalled one reports nothing";
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(done[i].tag, i + 2);
    EXPECT_EQ(done[i].status, VerbStatus::kDone);
    EXPECT_EQ(done[i].peer, kB);
  }
  EXPECT_FALSE(wire_->pending());
  EXPECT_EQ(wire_->counters().doorbells, 1U);
  EXPECT_EQ(wire_->counters().verbs, 5U);
}

TEST_F(VerbTest, ARefusedVerbBreaksTheQueueUntilReset) {
  uint64_t word = 1;
  const Verb good = verb(VerbKind::kWrite, 0, &word, 8, 1);
  std::vector<Verb> verbs = {good, verb(VerbKind::kRead, (2 << 20) - 4, &word, 8, 2), good};
  for (Verb& v : verbs) v.signalled = false;
  ASSERT_TRUE(wire_->post(kB, Domain::kEngine, verbs));
  auto done = completions();
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].status, VerbStatus::kRefused);
  EXPECT_EQ(done[0].tag, 2U);
  EXPECT_EQ(done[1].status, VerbStatus::kFlushed);
  ASSERT_TRUE(wire_->post(kB, Domain::kEngine, {&good, 1}));
  EXPECT_EQ(completions().at(0).status, VerbStatus::kFlushed);
  wire_->reset(kB, Domain::kEngine);
  ASSERT_TRUE(wire_->post(kB, Domain::kEngine, {&good, 1}));
  EXPECT_EQ(completions().at(0).status, VerbStatus::kDone);

  const Verb misaligned = verb(VerbKind::kFetchAdd, 4, &word, 8, 9);
  ASSERT_TRUE(wire_->post(kB, Domain::kEngine, {&misaligned, 1}));
  EXPECT_EQ(completions().at(0).status, VerbStatus::kRefused);
  wire_->reset(kB, Domain::kEngine);
  regions_.revoke(kA, Domain::kEngine);
  ASSERT_TRUE(wire_->post(kB, Domain::kEngine, {&good, 1}));
  EXPECT_EQ(completions().at(0).status, VerbStatus::kRefused);
  ASSERT_TRUE(wire_->post(kC, Domain::kEngine, {&good, 1})) << "a node without regions";
  EXPECT_EQ(completions().at(0).status, VerbStatus::kRefused);
}

TEST_F(VerbTest, NoRoomForCompletionsTakesNothing) {
  uint64_t old = 0;
  std::vector<Verb> verbs(10, verb(VerbKind::kFetchAdd, 0, &old, 8, 0));
  for (Verb& v : verbs) v.operand = 1;
  ASSERT_TRUE(wire_->post(kB, Domain::kEngine, verbs));
  EXPECT_FALSE(wire_->post(kB, Domain::kEngine, verbs));
  EXPECT_EQ(load_shared(region_->base()), 10U);
  EXPECT_EQ(completions().size(), 10U);
  EXPECT_TRUE(wire_->post(kB, Domain::kEngine, verbs));
}

TEST_F(VerbTest, AtomicsOfTwoThreadsAddUp) {
  regions_.grant(kC, Domain::kEngine);
  const auto add = [&](NodeId node) {
    LocalWire* wire = fabric_.wire(node, kW0);
    uint64_t old = 0;
    std::vector<Verb> verbs(8, verb(VerbKind::kFetchAdd, 0, &old, 8, 0));
    for (Verb& v : verbs) v.operand = 1, v.signalled = false;
    for (int i = 0; i < 20'000; ++i) ASSERT_TRUE(wire->post(kB, Domain::kEngine, verbs));
  };
  std::thread other(add, kC);
  add(kA);
  other.join();
  EXPECT_EQ(load_shared(region_->base()), 2U * 8 * 20'000);
}

TEST_F(VerbTest, NothingLandsAfterRevokeReturns) {
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    std::vector<uint64_t> value(512);
    std::vector<Completion> done(16);
    for (uint64_t i = 1; !stop.load(std::memory_order_relaxed); ++i) {
      std::fill(value.begin(), value.end(), i);
      Verb v = verb(VerbKind::kWrite, 0, value.data(), 4096, i);
      std::vector<Verb> verbs(4, v);
      EXPECT_TRUE(wire_->post(kB, Domain::kEngine, verbs));
      const size_t n = wire_->poll_completions(Domain::kEngine, done);
      if (n != 0 && done[0].status != VerbStatus::kDone) {
        wire_->reset(kB, Domain::kEngine);
        std::this_thread::yield();
      }
    }
  });
  for (int round = 0; round < 200; ++round) {
    regions_.revoke(kA, Domain::kEngine);
    const uint64_t value = load_shared(region_->base());
    for (size_t at = 0; at < 4096; at += 8) ASSERT_EQ(load_shared(region_->base() + at), value) << "a write cut short";
    for (size_t at = 0; at < 4096; at += 8) store_shared(region_->base() + at, 0);
    std::this_thread::yield();
    for (size_t at = 0; at < 4096; at += 8) ASSERT_EQ(load_shared(region_->base() + at), 0U) << "landed later";
    regions_.grant(kA, Domain::kEngine);
    while (load_shared(region_->base()) == 0) std::this_thread::yield();
  }
  stop.store(true);
  writer.join();
}

// A receiver that blocks on a condition variable, without a timeout: a lost wake-up hangs the test.
TEST(LocalWakeTest, NoWakeUpIsLost) {
  constexpr uint64_t kPackets = 20'000;
  LocalFabric fabric({.nodes = 2});
  struct Wakeup {
    std::mutex mutex;
    std::condition_variable condition;
    bool notified = false;
  } wakeup;
  fabric.set_wake(
      kB, kW0,
      [](void* context) {
        auto* b = static_cast<Wakeup*>(context);
        const std::lock_guard lock(b->mutex);
        b->notified = true;
        b->condition.notify_one();
      },
      &wakeup);
  std::thread sender([&] {
    for (uint64_t i = 0; i < kPackets; ++i) {
      std::byte packet[8];
      store(packet, i);
      while (!fabric.wire(kA, kW0)->send(kB, Flow::kCommit, packet)) std::this_thread::yield();
      if (i % 64 == 0) std::this_thread::yield();
    }
  });
  LocalWire* b = fabric.wire(kB, kW0);
  std::vector<Packet> packets(16);
  for (uint64_t next = 0; next < kPackets;) {
    const size_t n = b->poll(packets);
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(load<uint64_t>(packets[i].bytes.data()), next++);
    b->release();
    if (n != 0) continue;
    fabric.set_sleeping(kB, kW0, true);
    if (!b->pending()) {
      std::unique_lock lock(wakeup.mutex);
      wakeup.condition.wait(lock, [&] { return wakeup.notified; });
      wakeup.notified = false;
    }
    fabric.set_sleeping(kB, kW0, false);
  }
  sender.join();
}

}  // namespace
}  // namespace weft
