// One-sided verbs over the sim wire.
#include "weft/sim/verbs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "weft/fabric/domains_testing.h"
#include "weft/store/owner_testing.h"
#include "weft/store/record.h"
#include "weft/store/table.h"

namespace weft {
namespace {

constexpr NodeId kInitiator{0};
constexpr NodeId kTarget{1};

class VerbsTest : public ::testing::Test {
 protected:
  VerbsTest() { open({.jitter_ns = 700, .queue_verbs = 16, .line_gap_ns = 100}); }

  void open(const NetworkConfig& config) {
    network_ = std::make_unique<Network>(config, 2, 1, 5, &events_, nullptr);
    region_ = std::move(*Region::create(1 << 20));
    id_ = network_->regions(kTarget)->add(region_.get());
    network_->regions(kTarget)->grant(kInitiator, Domain::kEngine);
  }

  SimWire* wire() { return network_->wire(kInitiator, WorkerId(0)); }

  bool post(const std::vector<Verb>& verbs) {
    const bool taken = wire()->post(kTarget, Domain::kEngine, verbs);
    network_->depart(kInitiator, WorkerId(0), events_.now_ns());
    return taken;
  }

  std::vector<Completion> run_all() {
    while (events_.run_one()) {
    }
    std::vector<Completion> out(64);
    out.resize(wire()->poll_completions(Domain::kEngine, out));
    return out;
  }

  Verb verb(VerbKind kind, uint64_t offset, uint32_t bytes, void* local, uint64_t tag) {
    Verb v;
    v.kind = kind;
    v.region = id_;
    v.offset = offset;
    v.bytes = bytes;
    v.local = static_cast<std::byte*>(local);
    v.tag = tag;
    return v;
  }

  Events events_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<Region> region_;
  RegionId id_;
};

TEST_F(VerbsTest, DomainsAreApart) {
  std::unique_ptr<Region> far;
  expect_domains_are_apart({.regions = *network_->regions(kTarget),
                            .initiator = kInitiator,
                            .engine = id_,
                            .far = far,
                            .one =
                                [&](Domain domain, const Verb& verb) {
                                  EXPECT_TRUE(wire()->post(kTarget, domain, {&verb, 1}));
                                  network_->depart(kInitiator, WorkerId(0), events_.now_ns());
                                  while (events_.run_one()) {
                                  }
                                  Completion done{};
                                  EXPECT_EQ(wire()->poll_completions(domain, {&done, 1}), 1U);
                                  return done.status;
                                },
                            .reset = [&](Domain domain) { wire()->reset(kTarget, domain); },
                            .until = [](const auto& holds) { return holds() || holds(); }});
}

TEST_F(VerbsTest, OnePostTakesEffectInOrder) {
  std::vector<char> text(300, 'w');
  std::vector<char> back(300, ' ');
  uint64_t old_cas = 0;
  uint64_t old_faa = 0;
  Verb cas = verb(VerbKind::kCompareSwap, 0, 8, &old_cas, 3);
  cas.compare = 0x7777777777777777;
  cas.operand = 40;
  Verb faa = verb(VerbKind::kFetchAdd, 0, 8, &old_faa, 4);
  faa.operand = 2;
  ASSERT_TRUE(
      post({verb(VerbKind::kWrite, 0, 300, text.data(), 1), verb(VerbKind::kRead, 0, 300, back.data(), 2), cas, faa}));
  const auto done = run_all();
  ASSERT_EQ(done.size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(done[i].tag, i + 1);
    EXPECT_EQ(done[i].status, VerbStatus::kDone);
    EXPECT_EQ(done[i].peer, kTarget);
  }
  EXPECT_EQ(back, text);
  EXPECT_EQ(old_cas, 0x7777777777777777U);
  EXPECT_EQ(old_faa, 40U);
  EXPECT_EQ(load<uint64_t>(region_->base()), 42U);
  cas.compare = 1;
  ASSERT_TRUE(post({cas}));
  run_all();
  EXPECT_EQ(old_cas, 42U);
  EXPECT_EQ(load<uint64_t>(region_->base()), 42U);
}

// I1, for every two kinds: the second takes effect before the first if and only if the wire allows it, and the answers
// keep the order of posting. What a verb read or wrote shows when it took effect: the test counts up in the word that
// is read.
TEST_F(VerbsTest, AVerbOvertakesWhatItMay) {
  open({.jitter_ns = 700, .queue_verbs = 16, .line_gap_ns = 100, .late_percent = 50, .hasty_percent = 80});
  using enum VerbKind;
  constexpr uint64_t kOffsets[] = {0, 256};
  const auto overtakes = [&](VerbKind first, VerbKind second, bool follows, bool together) {
    int count = 0;
    for (int round = 0; round < 200; ++round) {
      uint64_t local[] = {1, 1};
      uint64_t when[] = {0, 0};
      const VerbKind kinds[] = {first, second};
      std::vector<Verb> verbs;
      for (size_t i = 0; i < 2; ++i) {
        verbs.push_back(verb(kinds[i], kOffsets[i], 8, &local[i], i + 1));
        verbs.back().operand = 1;  // for an atomic; a CAS expects 0
        store(region_->base() + kOffsets[i], uint64_t{0});
      }
      verbs[1].ordered_after_previous = follows;
      if (together) {
        EXPECT_TRUE(post(verbs));
      } else {
        EXPECT_TRUE(post({verbs[0]}));
        EXPECT_TRUE(post({verbs[1]}));
      }
      for (uint64_t event = 1;; ++event) {
        for (size_t i = 0; i < 2; ++i) {
          if (kinds[i] == kRead) store(region_->base() + kOffsets[i], event);
        }
        const bool more = events_.run_one();
        for (size_t i = 0; i < 2; ++i) {
          if (kinds[i] != kRead && when[i] == 0 && load<uint64_t>(region_->base() + kOffsets[i]) == 1) when[i] = event;
        }
        if (!more) break;
      }
      const auto done = run_all();
      EXPECT_EQ(done.size(), 2U);
      EXPECT_EQ(done.empty() ? 0 : done[0].tag, 1U);
      for (size_t i = 0; i < 2; ++i) {
        if (kinds[i] == kRead) when[i] = local[i];
      }
      count += when[1] < when[0] ? 1 : 0;
    }
    return count;
  };
  for (const VerbKind first : {kRead, kWrite, kCompareSwap, kFetchAdd}) {
    for (const VerbKind second : {kRead, kWrite, kCompareSwap, kFetchAdd}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(first) << " then " << static_cast<int>(second));
      const bool may = first != kWrite && second != kRead;
      EXPECT_EQ(overtakes(first, second, true, true), 0);
      EXPECT_EQ(overtakes(first, second, false, true) > 0, may);
      EXPECT_EQ(overtakes(first, second, true, false) > 0, may) << "of another post";
    }
  }
}

// A READ that a WRITE overtakes in the middle sees part of the WRITE.
TEST_F(VerbsTest, AWriteOvertakesAReadInItsMiddle) {
  open({.jitter_ns = 700, .queue_verbs = 16, .line_gap_ns = 100, .late_percent = 0, .hasty_percent = 100});
  constexpr uint32_t kBytes = 2048;
  const std::vector<uint8_t> text(kBytes, 1);
  int torn = 0;
  for (int round = 0; round < 50; ++round) {
    std::memset(region_->base(), 0, kBytes);
    std::vector<uint8_t> back(kBytes, 7);
    std::vector<uint8_t> copy = text;
    ASSERT_TRUE(post({verb(VerbKind::kRead, 0, kBytes, back.data(), 1)}));
    ASSERT_TRUE(post({verb(VerbKind::kWrite, 0, kBytes, copy.data(), 2)}));
    ASSERT_EQ(run_all().size(), 2U);
    const auto ones = std::count(back.begin(), back.end(), 1);
    ASSERT_EQ(ones + std::count(back.begin(), back.end(), 0), kBytes);
    if (ones != 0 && ones != kBytes) ++torn;
    EXPECT_EQ(std::memcmp(region_->base(), text.data(), kBytes), 0);
  }
  EXPECT_GT(torn, 0);
}

// I3: a verb that has overtaken one that is then refused is reported as flushed: nobody knows that it took effect.
TEST_F(VerbsTest, WhatOvertookARefusedVerbIsFlushed) {
  open({.jitter_ns = 0, .queue_verbs = 16, .line_gap_ns = 100, .late_percent = 100, .hasty_percent = 100});
  uint64_t back = 9;
  uint64_t value = 5;
  ASSERT_TRUE(post({verb(VerbKind::kRead, 0, 8, &back, 1)}));
  ASSERT_TRUE(post({verb(VerbKind::kWrite, 64, 8, &value, 2)}));
  while (load<uint64_t>(region_->base() + 64) != 5) ASSERT_TRUE(events_.run_one());
  ASSERT_EQ(back, 9U);
  network_->regions(kTarget)->revoke(kInitiator, Domain::kEngine);
  auto done = run_all();
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].status, VerbStatus::kRefused);
  EXPECT_EQ(done[1].status, VerbStatus::kFlushed);
  EXPECT_EQ(back, 9U);
  // And nothing overtakes a verb whose target does not resolve.
  network_->regions(kTarget)->grant(kInitiator, Domain::kEngine);
  wire()->reset(kTarget, Domain::kEngine);
  value = 6;
  ASSERT_TRUE(post({verb(VerbKind::kRead, region_->bytes(), 8, &back, 3)}));
  ASSERT_TRUE(post({verb(VerbKind::kWrite, 64, 8, &value, 4)}));
  done = run_all();
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].status, VerbStatus::kRefused);
  EXPECT_EQ(load<uint64_t>(region_->base() + 64), 5U);
}

TEST_F(VerbsTest, UnsignalledVerbsReportNothingButHaveHappened) {
  uint64_t value = 77;
  uint64_t back = 0;
  Verb write = verb(VerbKind::kWrite, 64, 8, &value, 1);
  write.signalled = false;
  Verb first = verb(VerbKind::kRead, 64, 8, &back, 2);
  first.signalled = false;
  uint64_t last = 0;
  ASSERT_TRUE(post({write, first, verb(VerbKind::kRead, 64, 8, &last, 3)}));
  const auto done = run_all();
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].tag, 3U);
  EXPECT_EQ(back, 77U);
  EXPECT_EQ(last, 77U);
}

TEST_F(VerbsTest, AWriteTakesItsBytesAtTheDoorbell) {
  uint64_t value = 1;
  ASSERT_TRUE(post({verb(VerbKind::kWrite, 0, 8, &value, 1)}));
  value = 2;
  run_all();
  EXPECT_EQ(load<uint64_t>(region_->base()), 1U);
}

// I2: where atomics are not atomic with the processor's.
TEST_F(VerbsTest, AnAtomicLooksAndThenStores) {
  NetworkConfig config;
  config.atomic_with_cpu = false;
  config.local_atomics = true;
  open(config);
  LocalAtomics* const words = network_->local_atomics(kTarget);
  const RegionId id = id_;
  uint64_t old = 0;
  Verb swap = verb(VerbKind::kCompareSwap, 0, 8, &old, 1);
  const auto looked = [&](uint64_t from, uint64_t to) {
    swap.compare = from;
    swap.operand = to;
    const uint64_t before = network_->verbs();
    ASSERT_TRUE(post({swap}));
    while (network_->verbs() == before) ASSERT_TRUE(events_.run_one());
    EXPECT_EQ(load<uint64_t>(region_->base()), from) << "it has not stored yet";
  };
  looked(0, 1);
  store(region_->base(), uint64_t{7});
  run_all();
  EXPECT_EQ(load<uint64_t>(region_->base()), 1U) << "what the processor stored is lost";
  looked(1, 2);
  EXPECT_FALSE(words->swap(id, 0, 1, 8)) << "the peer's came first";
  EXPECT_EQ(load<uint64_t>(region_->base()), 2U);
  EXPECT_TRUE(words->swap(id, 0, 2, 9));
  run_all();
  EXPECT_EQ(load<uint64_t>(region_->base()), 9U);
  looked(9, 10);
  network_->regions(kTarget)->revoke(kInitiator, Domain::kEngine);
  const auto done = run_all();
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, VerbStatus::kRefused);
  EXPECT_EQ(load<uint64_t>(region_->base()), 9U) << "nothing lands after it was revoked";
}

// I2: a long READ sees lines of different times; no line is torn.
TEST_F(VerbsTest, LongReadsAreTornByLineInAnyOrder) {
  constexpr uint32_t kBytes = 1024;
  int torn = 0;
  bool backwards = false;
  for (int round = 0; round < 50; ++round) {
    std::memset(region_->base(), 0, kBytes);
    std::array<uint8_t, kBytes> back{};
    ASSERT_TRUE(post({verb(VerbKind::kRead, 0, kBytes, back.data(), 1)}));
    for (uint8_t version = 1; events_.run_one(); ++version) std::memset(region_->base(), version, kBytes);
    for (uint32_t line = 0; line < kBytes; line += 64) {
      EXPECT_TRUE(
          std::all_of(back.begin() + line, back.begin() + line + 64, [&](uint8_t b) { return b == back[line]; }));
      if (line > 0 && back[line] < back[line - 64]) backwards = true;
    }
    if (back.front() != back.back()) ++torn;
    run_all();
  }
  EXPECT_GT(torn, 25);
  EXPECT_TRUE(backwards);
}

// A table installs new versions of a record while READs of it are in flight: a copy that passes the record's check is
// one version, from 8 bytes to 64 KiB.
TEST_F(VerbsTest, AReadOfARecordIsWholeOrSeenToBeTorn) {
  for (const uint32_t bytes : {8U, 40U, 300U, 4'000U, 65'536U}) {
    TableOptions options;
    options.spec.name = "records";
    options.spec.value_bytes_max = bytes;
    options.spec.capacity = 16;
    auto region = std::move(*Region::create(Table::region_bytes(options)));
    auto table = std::move(*Table::create(options, region.get()));
    id_ = network_->regions(kTarget)->add(region.get());
    const uint64_t number = 7;
    const HashedKey key = table->hashed(as_bytes({reinterpret_cast<const char*>(&number), sizeof number}));
    const Owner owner = make_owner(kTarget, WorkerId(0), 1);
    RecordSlot slot;
    const auto install = [&] {
      const LockResult lock = table->lock(key, owner, Write::kPut, std::nullopt, bytes);
      ASSERT_EQ(lock.code, Code::kOk);
      slot = lock.locked.record;
      const std::vector<std::byte> value(bytes, static_cast<std::byte>(lock.locked.base.value + 1));
      table->commit(key, owner, Write::kPut, value, lock.locked);
    };
    install();
    int whole = 0;
    int torn = 0;
    for (int round = 0; round < 30; ++round) {
      std::vector<uint64_t> copy(slot.bytes() / 8);
      auto* const local = reinterpret_cast<std::byte*>(copy.data());
      const uint64_t offset = slot.offset();
      ASSERT_TRUE(post({verb(VerbKind::kRead, offset, static_cast<uint32_t>(slot.bytes()), local, 1)}));
      // Now and then nothing writes, so that long reads have a chance too.
      for (int event = 0; events_.run_one(); ++event) {
        if (round % 3 != 0 && event % 2 == 0) install();
      }
      ASSERT_EQ(slot.offset(), offset) << "a value of the same size stays where it is";
      RecordView view;
      if (!parse_record_copy(local, slot.bytes(), &view)) {
        ++torn;
      } else {
        ++whole;
        ASSERT_EQ(view.value.size(), bytes);
        const auto expected = static_cast<std::byte>(view.word.version().value);
        EXPECT_TRUE(std::all_of(view.value.begin(), view.value.end(), [&](std::byte b) { return b == expected; }));
      }
      run_all();
    }
    EXPECT_GT(whole, 0) << bytes;
    if (bytes > 64) {
      EXPECT_GT(torn, 0) << bytes;
    }
  }
}

TEST_F(VerbsTest, SixtyFourBytesWithinALineAreWhole) {
  for (int round = 0; round < 20; ++round) {
    std::array<uint8_t, 64> back{};
    ASSERT_TRUE(post({verb(VerbKind::kRead, 128, 64, back.data(), 1)}));
    for (uint8_t version = 1; events_.run_one(); ++version) std::memset(region_->base() + 128, version, 64);
    EXPECT_TRUE(std::all_of(back.begin(), back.end(), [&](uint8_t b) { return b == back[0]; }));
    run_all();
  }
}

// I3: a revoked peer's verbs do not land, not even the rest of one that has begun. Nor if access is granted again
// before the verb reaches the target.
TEST_F(VerbsTest, NothingLandsAfterRevoke) {
  for (int events_before = 0; events_before < 40; ++events_before) {
    std::memset(region_->base(), 0, 4096);
    network_->regions(kTarget)->grant(kInitiator, Domain::kEngine);
    std::vector<char> text(1024, 'w');
    ASSERT_TRUE(
        post({verb(VerbKind::kWrite, 0, 1024, text.data(), 1), verb(VerbKind::kWrite, 2048, 8, text.data(), 2)}));
    for (int i = 0; i < events_before / 2; ++i) events_.run_one();
    network_->regions(kTarget)->revoke(kInitiator, Domain::kEngine);
    if (events_before % 2 == 1) network_->regions(kTarget)->grant(kInitiator, Domain::kEngine);
    const std::vector<std::byte> before(region_->base(), region_->base() + 4096);
    const auto done = run_all();
    EXPECT_EQ(std::memcmp(before.data(), region_->base(), before.size()), 0);
    ASSERT_EQ(done.size(), 2U);
    if (done[0].status == VerbStatus::kRefused) {
      EXPECT_EQ(done[1].status, VerbStatus::kFlushed);
    }
    wire()->reset(kTarget, Domain::kEngine);
  }
}

TEST_F(VerbsTest, ARefusedVerbBreaksTheQueueUntilReset) {
  uint64_t value = 5;
  // One byte outside the region.
  ASSERT_TRUE(
      post({verb(VerbKind::kWrite, region_->bytes() - 7, 8, &value, 1), verb(VerbKind::kWrite, 0, 8, &value, 2)}));
  auto done = run_all();
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].status, VerbStatus::kRefused);
  EXPECT_EQ(done[1].status, VerbStatus::kFlushed);
  Verb unsignalled = verb(VerbKind::kWrite, 0, 8, &value, 3);
  unsignalled.signalled = false;
  ASSERT_TRUE(post({unsignalled}));
  done = run_all();
  ASSERT_EQ(done.size(), 1U) << "a verb that fails is reported, signalled or not";
  EXPECT_EQ(done[0].status, VerbStatus::kFlushed);
  EXPECT_EQ(load<uint64_t>(region_->base()), 0U);
  wire()->reset(kTarget, Domain::kEngine);
  ASSERT_TRUE(post({verb(VerbKind::kWrite, 0, 8, &value, 4)}));
  done = run_all();
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, VerbStatus::kDone);
  EXPECT_EQ(load<uint64_t>(region_->base()), 5U);
}

// What was posted while there was no connection takes no effect when it is back: the second part of a post would take
// effect without the first.
TEST_F(VerbsTest, WhatIsBehindACutVerbIsFlushedAlsoWhenTheConnectionIsBack) {
  for (const NodeId node : {kInitiator, kTarget}) network_->set_incarnation(node, 1);
  network_->sever(kInitiator, kTarget);
  uint64_t value = 5;
  std::vector<Verb> verbs{verb(VerbKind::kWrite, 0, 8, &value, 1), verb(VerbKind::kWrite, 8, 8, &value, 2)};
  verbs[1].ordered_after_previous = true;
  ASSERT_TRUE(post(verbs));
  ASSERT_TRUE(events_.run_one());  // the first one arrives
  network_->mend(kInitiator, kTarget);
  auto done = run_all();
  ASSERT_EQ(done.size(), 2U);
  for (const Completion& completion : done) EXPECT_EQ(completion.status, VerbStatus::kFlushed);
  EXPECT_EQ(load<uint64_t>(region_->base() + 8), 0U);
  wire()->reset(kTarget, Domain::kEngine);
  ASSERT_TRUE(post(verbs));
  done = run_all();
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[1].status, VerbStatus::kDone);
}

TEST_F(VerbsTest, BadRegionsOffsetsAndMissingGrantsAreRefused) {
  uint64_t value = 0;
  Verb wrong_region = verb(VerbKind::kRead, 0, 8, &value, 1);
  wrong_region.region = RegionId(200);
  Verb unaligned = verb(VerbKind::kFetchAdd, 4, 8, &value, 2);
  Verb far = verb(VerbKind::kRead, UINT64_MAX - 4, 8, &value, 3);
  for (const Verb& bad : {wrong_region, unaligned, far}) {
    ASSERT_TRUE(post({bad}));
    const auto done = run_all();
    ASSERT_EQ(done.size(), 1U);
    EXPECT_EQ(done[0].status, VerbStatus::kRefused);
    wire()->reset(kTarget, Domain::kEngine);
  }
}

TEST_F(VerbsTest, AFullQueueTakesAllOrNothing) {
  uint64_t value = 1;
  const Verb one = verb(VerbKind::kWrite, 0, 8, &value, 1);
  EXPECT_TRUE(post(std::vector<Verb>(15, one)));
  EXPECT_FALSE(post(std::vector<Verb>(2, one)));
  EXPECT_TRUE(post(std::vector<Verb>(1, one)));
  EXPECT_EQ(run_all().size(), 16U);
  EXPECT_TRUE(post(std::vector<Verb>(16, one)));
}

}  // namespace
}  // namespace weft
