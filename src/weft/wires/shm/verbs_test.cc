#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "weft/fabric/domains_testing.h"
#include "weft/fabric/names_testing.h"
#include "weft/wires/shm/shm_testing.h"

namespace weft {
namespace {

using Kind = InterconnectEvent::Kind;

Verb verb(VerbKind kind, uint64_t offset, void* local, uint32_t bytes, uint64_t tag) {
  Verb v;
  v.kind = kind;
  v.offset = offset;
  v.bytes = bytes;
  v.local = static_cast<std::byte*>(local);
  v.tag = tag;
  return v;
}

ShmOptions few_completions(int node) {
  ShmOptions options = shm_test_options(node);
  options.completions_max = 16;
  return options;
}

class ShmVerbTest : public ::testing::Test {
 protected:
  ShmVerbTest() {
    shm_connect_all({&a_, &b_});
    b_.regions.grant(kA, Domain::kEngine);
  }
  std::vector<Completion> completions() {
    std::vector<Completion> out(100);
    out.resize(a_.wire()->poll_completions(Domain::kEngine, out));
    return out;
  }
  VerbStatus one(const Verb& v) {
    EXPECT_TRUE(a_.wire()->post(kB, Domain::kEngine, {&v, 1}));
    return completions().at(0).status;
  }

  std::unique_ptr<Region> far_;
  ShmNode a_{few_completions(0)};
  ShmNode b_{few_completions(1)};
};

TEST_F(ShmVerbTest, DomainsAreApart) {
  const auto step = [&] {
    a_.step(), b_.step();
    a_.wire()->poll({});
    a_.wire()->release();
  };
  expect_domains_are_apart({.regions = b_.regions,
                            .initiator = kA,
                            .engine = RegionId(0),
                            .far = far_,
                            .sharing = RegionSharing::kShared,
                            .one =
                                [&](Domain domain, const Verb& verb) {
                                  EXPECT_TRUE(a_.wire()->post(kB, domain, {&verb, 1}));
                                  Completion done{};
                                  EXPECT_EQ(a_.wire()->poll_completions(domain, {&done, 1}), 1U);
                                  return done.status;
                                },
                            .reset = [&](Domain domain) { a_.wire()->reset(kB, domain); },
                            .until = [&](const auto& holds) { return shm_wait(holds, step); }});
}

TEST_F(ShmVerbTest, OneDoorbellCarriesOutVerbsInOrder) {
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
  ASSERT_TRUE(a_.wire()->post(kB, Domain::kEngine, verbs));
  EXPECT_STREQ(in, out);
  EXPECT_EQ(old_add, 0U);
  EXPECT_EQ(old_swap, 5U);
  EXPECT_EQ(old_miss, 77U);
  EXPECT_EQ(load_shared(b_.region->base() + 128), 77U) << "seen through B's own mapping";
  EXPECT_TRUE(a_.wire()->pending());
  const auto done = completions();
  ASSERT_EQ(done.size(), 4U) << "the unsignalled one reports nothing";
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(done[i].tag, i + 2);
    EXPECT_EQ(done[i].status, VerbStatus::kDone);
    EXPECT_EQ(done[i].peer, kB);
  }
  EXPECT_FALSE(a_.wire()->pending());
}

TEST_F(ShmVerbTest, CopiesAnyLengthAndPadsTheLastWord) {
  std::vector<uint64_t> out(8192), in(8192);
  for (const uint32_t bytes : {8U, 13U, 64U, 100U, 1000U, 4096U, 65536U}) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = i * 0x9e3779b97f4a7c15 + bytes;
    std::fill(in.begin(), in.end(), 0);
    store_shared(b_.region->base() + 4096 + bytes / 8 * 8, ~uint64_t{0});
    ASSERT_EQ(one(verb(VerbKind::kWrite, 4096, out.data(), bytes, 1)), VerbStatus::kDone);
    ASSERT_EQ(one(verb(VerbKind::kRead, 4096, in.data(), bytes, 1)), VerbStatus::kDone);
    EXPECT_EQ(std::memcmp(in.data(), out.data(), bytes), 0) << bytes;
    EXPECT_EQ(std::memcmp(b_.region->base() + 4096, out.data(), bytes), 0) << bytes;
    if (bytes % 8 != 0) {
      EXPECT_EQ(load_shared(b_.region->base() + 4096 + bytes / 8 * 8) >> (bytes % 8 * 8), 0U);
    }
  }
}

TEST_F(ShmVerbTest, ARefusedVerbBreaksTheQueueUntilReset) {
  uint64_t word = 1;
  const Verb good = verb(VerbKind::kWrite, 0, &word, 8, 1);
  std::vector<Verb> verbs = {good, verb(VerbKind::kRead, (2 << 20) - 4, &word, 8, 2), good};
  for (Verb& v : verbs) v.signalled = false;
  ASSERT_TRUE(a_.wire()->post(kB, Domain::kEngine, verbs));
  auto done = completions();
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].status, VerbStatus::kRefused);
  EXPECT_EQ(done[0].tag, 2U);
  EXPECT_EQ(done[1].status, VerbStatus::kFlushed);
  EXPECT_EQ(one(good), VerbStatus::kFlushed);
  const auto fresh = [&](const Verb& v) {
    a_.wire()->reset(kB, Domain::kEngine);
    return one(v);
  };
  EXPECT_EQ(fresh(good), VerbStatus::kDone);
  EXPECT_EQ(fresh(verb(VerbKind::kFetchAdd, 4, &word, 8, 9)), VerbStatus::kRefused) << "misaligned";
  EXPECT_EQ(fresh(verb(VerbKind::kRead, ~uint64_t{0} - 7, &word, 8, 9)), VerbStatus::kRefused) << "overflow";
  EXPECT_EQ(fresh(verb(VerbKind::kRead, 8, &word, 2 << 20, 9)), VerbStatus::kRefused) << "too long";
  Verb other = good;
  other.region = RegionId(1);
  EXPECT_EQ(fresh(other), VerbStatus::kRefused) << "no such region";
  b_.regions.revoke(kA, Domain::kEngine);
  EXPECT_EQ(fresh(good), VerbStatus::kRefused) << "no grant";
  b_.regions.grant(kA, Domain::kEngine);
  EXPECT_EQ(fresh(good), VerbStatus::kDone);
  ASSERT_TRUE(a_.wire()->post(kC, Domain::kEngine, {&good, 1}));
  EXPECT_EQ(completions().at(0).status, VerbStatus::kRefused) << "nobody there";
  ASSERT_TRUE(b_.wire()->post(kA, Domain::kEngine, {&good, 1}));
  std::vector<Completion> other_way(1);
  ASSERT_EQ(b_.wire()->poll_completions(Domain::kEngine, other_way), 1U);
  EXPECT_EQ(other_way[0].status, VerbStatus::kRefused) << "A granted nothing";
}

TEST_F(ShmVerbTest, OwnRegionsAreReachedWithAGrantToOneself) {
  uint64_t old = 7;
  Verb add = verb(VerbKind::kFetchAdd, 8, &old, 8, 1);
  add.operand = 3;
  ASSERT_TRUE(a_.wire()->post(kA, Domain::kEngine, {&add, 1}));
  EXPECT_EQ(completions().at(0).status, VerbStatus::kRefused);
  a_.wire()->reset(kA, Domain::kEngine);
  a_.regions.grant(kA, Domain::kEngine);
  ASSERT_TRUE(a_.wire()->post(kA, Domain::kEngine, {&add, 1}));
  EXPECT_EQ(completions().at(0).status, VerbStatus::kDone);
  EXPECT_EQ(load_shared(a_.region->base() + 8), 3U);
}

TEST_F(ShmVerbTest, NoRoomForCompletionsTakesNothing) {
  uint64_t old = 0;
  std::vector<Verb> verbs(10, verb(VerbKind::kFetchAdd, 0, &old, 8, 0));
  for (Verb& v : verbs) v.operand = 1;
  ASSERT_TRUE(a_.wire()->post(kB, Domain::kEngine, verbs));
  EXPECT_FALSE(a_.wire()->post(kB, Domain::kEngine, verbs));
  EXPECT_EQ(load_shared(b_.region->base()), 10U);
  EXPECT_EQ(completions().size(), 10U);
  EXPECT_TRUE(a_.wire()->post(kB, Domain::kEngine, verbs));
}

TEST_F(ShmVerbTest, RegionsAddedLaterAreReachedAndPrivateOnesNot) {
  auto hidden = Region::create(2 << 20);
  auto later = Region::create(4 << 20, RegionKind::kHost, RegionSharing::kShared);
  ASSERT_TRUE(hidden && later);
  b_.regions.add(hidden->get());
  const RegionId id = b_.regions.add(later->get());
  uint64_t word = 42;
  Verb v = verb(VerbKind::kWrite, (4 << 20) - 8, &word, 8, 1);
  v.region = id;
  EXPECT_TRUE(shm_wait(
      [&] {
        a_.wire()->reset(kB, Domain::kEngine);
        return one(v) == VerbStatus::kDone;
      },
      [&] { a_.step(), b_.step(); }));
  EXPECT_EQ(load_shared((*later)->base() + (4 << 20) - 8), 42U);
  v.region = RegionId(1);
  v.offset = 0;
  EXPECT_EQ(one(v), VerbStatus::kRefused);
}

TEST_F(ShmVerbTest, AtomicsAddUpWithALocalWriter) {
  constexpr uint64_t kRounds = 20'000;
  std::thread local([&] {
    auto* const word = reinterpret_cast<uint64_t*>(b_.region->base());
    for (uint64_t i = 0; i < 8 * kRounds; ++i) __atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
  });
  uint64_t old = 0;
  std::vector<Verb> verbs(8, verb(VerbKind::kFetchAdd, 0, &old, 8, 0));
  for (Verb& v : verbs) v.operand = 1, v.signalled = false;
  for (uint64_t i = 0; i < kRounds; ++i) ASSERT_TRUE(a_.wire()->post(kB, Domain::kEngine, verbs));
  local.join();
  EXPECT_EQ(load_shared(b_.region->base()), 2 * 8 * kRounds);
}

// Every word of a READ was written as such: 8 bytes are never torn, whatever the length.
TEST_F(ShmVerbTest, ReadsBesideALocalWriterTearOnlyBetweenWords) {
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t i = 1; !stop.load(std::memory_order_relaxed); ++i) {
      const uint64_t pattern = (i << 32) | (i & 0xffffffff);
      for (size_t at = 0; at < 65536; at += 8) store_shared(b_.region->base() + at, pattern);
    }
  });
  std::vector<uint64_t> in(8192);
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(one(verb(VerbKind::kRead, 0, in.data(), 65536, 1)), VerbStatus::kDone);
    for (const uint64_t word : in) ASSERT_EQ(word >> 32, word & 0xffffffff);
  }
  stop.store(true);
  writer.join();
}

TEST_F(ShmVerbTest, NothingLandsAfterRevokeReturns) {
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    std::vector<uint64_t> value(512);
    std::vector<Completion> done(16);
    for (uint64_t i = 1; !stop.load(std::memory_order_relaxed); ++i) {
      std::fill(value.begin(), value.end(), i);
      const std::vector<Verb> verbs(4, verb(VerbKind::kWrite, 0, value.data(), 4096, i));
      EXPECT_TRUE(a_.wire()->post(kB, Domain::kEngine, verbs));
      const size_t n = a_.wire()->poll_completions(Domain::kEngine, done);
      if (n != 0 && done[n - 1].status != VerbStatus::kDone) {
        a_.wire()->reset(kB, Domain::kEngine);
        std::this_thread::yield();
      }
    }
  });
  std::byte* const base = b_.region->base();
  for (int round = 0; round < 200; ++round) {
    b_.regions.revoke(kA, Domain::kEngine);
    for (size_t at = 0; at < 4096; at += 8) store_shared(base + at, 0);
    std::this_thread::yield();
    for (size_t at = 0; at < 4096; at += 8) ASSERT_EQ(load_shared(base + at), 0U) << "landed later";
    b_.regions.grant(kA, Domain::kEngine);
    while (load_shared(base) == 0) std::this_thread::yield();
  }
  stop.store(true);
  writer.join();
}

TEST_F(ShmVerbTest, ALostPeerRefusesAndANewIncarnationTakesVerbsAgain) {
  uint64_t word = 5;
  const Verb v = verb(VerbKind::kWrite, 0, &word, 8, 1);
  b_.interconnect.reset();
  EXPECT_TRUE(shm_wait([&] { return a_.find(Kind::kDown, kB) != nullptr; }, [&] { a_.step(); }));
  a_.wire()->poll({});
  EXPECT_EQ(one(v), VerbStatus::kRefused);
  EXPECT_EQ(one(v), VerbStatus::kFlushed);
  ShmOptions options = shm_test_options(1);
  options.incarnation = 2;
  ShmNode again(options);
  a_.events.clear();
  shm_connect_all({&a_, &again});
  again.regions.grant(kA, Domain::kEngine);
  EXPECT_EQ(one(v), VerbStatus::kDone) << "no reset needed";
  EXPECT_EQ(load_shared(again.region->base()), 5U);
}

}  // namespace
}  // namespace weft
