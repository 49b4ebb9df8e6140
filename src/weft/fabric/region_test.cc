#include "weft/fabric/region.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "weft/base/bytes.h"
#include "weft/base/memory_file.h"

namespace weft {
namespace {

TEST(RegionTest, IsRoundedAlignedAndZero) {
  auto region = Region::create(5 << 20);
  ASSERT_TRUE(region);
  EXPECT_EQ((*region)->bytes(), size_t{6 << 20});
  EXPECT_EQ(reinterpret_cast<uintptr_t>((*region)->base()) % kHugePageBytes, 0U);
  EXPECT_EQ(load_shared((*region)->base() + (6 << 20) - 8), 0U);
}

TEST(RegionTest, RefusesWhatTheKernelCannotGive) {
  auto none = Region::create(0);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kBadOption);
  auto huge = Region::create(size_t{1} << 60);
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code, Code::kNoMemory);
}

class EveryRegionTest : public ::testing::TestWithParam<RegionSharing> {};

TEST_P(EveryRegionTest, PrefaultKeepsContentAndDiscardZeroes) {
  auto region = Region::create(2 << 20, RegionKind::kHost, GetParam());
  ASSERT_TRUE(region);
  std::byte* base = (*region)->base();
  store_shared(base + 4096, 7);
  (*region)->prefault(100, 100'000);
  EXPECT_EQ(load_shared(base + 4096), 7U);
  for (size_t at = 0; at < 65536; at += 8) store_shared(base + at, at + 1);
  (*region)->discard(4000, 20'000);
  for (size_t at = 0; at < 65536; at += 8) {
    ASSERT_EQ(load_shared(base + at), at >= 4000 && at < 24'000 ? 0 : at + 1) << at;
  }
  (*region)->discard(48, 16);
  EXPECT_EQ(load_shared(base + 40), 41U);
  EXPECT_EQ(load_shared(base + 48), 0U);
  EXPECT_EQ(load_shared(base + 64), 65U);
}

INSTANTIATE_TEST_SUITE_P(Region, EveryRegionTest, ::testing::Values(RegionSharing::kPrivate, RegionSharing::kShared),
                         [](const auto& sharing) {
                           return sharing.param == RegionSharing::kShared ? "Shared" : "Private";
                         });

TEST(RegionTest, SharedMemoryIsSeenThroughItsFileAndStaysItsSize) {
  auto region = Region::create(3 << 20, RegionKind::kHost, RegionSharing::kShared);
  ASSERT_TRUE(region);
  EXPECT_EQ((*region)->bytes(), size_t{4 << 20});
  EXPECT_EQ(reinterpret_cast<uintptr_t>((*region)->base()) % kHugePageBytes, 0U);
  EXPECT_TRUE(check_memory_file((*region)->fd(), 4 << 20));
  EXPECT_FALSE(check_memory_file((*region)->fd(), 2 << 20)) << "announced with another size";
  const Mapping other = Mapping::of_file((*region)->fd(), 4 << 20);
  ASSERT_NE(other.base(), nullptr);
  store_shared((*region)->base() + 8192, 7);
  EXPECT_EQ(load_shared(other.base() + 8192), 7U);
  (*region)->discard(0, 1 << 20);
  struct stat status {};
  ASSERT_EQ(fstat((*region)->fd(), &status), 0);
  EXPECT_EQ(status.st_blocks * 512, 0) << "the pages went back to the kernel";
  EXPECT_EQ(load_shared(other.base() + 8192), 0U) << "the other mapping sees it too";
  EXPECT_NE(ftruncate((*region)->fd(), 4096), 0);
}

TEST(RegionTest, WhatIsNoMemoryFileIsNotTakenForOne) {
  const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(check_memory_file(null.get(), 0));
  const Fd soft(memfd_create("soft", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(soft.get(), 4096), 0);
  auto unsealed = check_memory_file(soft.get(), 4096);
  ASSERT_FALSE(unsealed);
  EXPECT_NE(unsealed.error().detail.find("not sealed"), std::string::npos);
}

TEST(RegionsTest, ResolvesOnlyInsideAndOnlyWhatIsGranted) {
  auto region = Region::create(2 << 20);
  ASSERT_TRUE(region);
  Regions regions;
  const RegionId id = regions.add(region->get());
  EXPECT_EQ(regions.find(id), region->get());
  EXPECT_EQ(regions.find(RegionId(1)), nullptr);
  EXPECT_EQ(regions.find(RegionId(60000)), nullptr);
  const NodeId peer(3);
  EXPECT_EQ(Regions::Section(regions, peer, Domain::kEngine).resolve(id, 0, 8), nullptr);
  regions.grant(peer, Domain::kEngine);
  EXPECT_TRUE(regions.granted(peer, Domain::kEngine));
  {
    const Regions::Section section(regions, peer, Domain::kEngine);
    EXPECT_EQ(section.resolve(id, 8, 8), (*region)->base() + 8);
    EXPECT_NE(section.resolve(id, 0, 2 << 20), nullptr);
    EXPECT_EQ(section.resolve(id, 8, 2 << 20), nullptr);
    EXPECT_EQ(section.resolve(id, ~uint64_t{0} - 3, 8), nullptr) << "offset + bytes overflows";
    EXPECT_EQ(section.resolve(id, 8, ~uint64_t{0}), nullptr);
    EXPECT_EQ(section.resolve(RegionId(1), 0, 8), nullptr);
  }
  EXPECT_EQ(Regions::Section(regions, NodeId(4), Domain::kEngine).resolve(id, 0, 8), nullptr);
  EXPECT_EQ(Regions::Section(regions, NodeId(200), Domain::kEngine).resolve(id, 0, 8), nullptr);
  regions.revoke(peer, Domain::kEngine);
  EXPECT_FALSE(regions.granted(peer, Domain::kEngine));
  EXPECT_EQ(Regions::Section(regions, peer, Domain::kEngine).resolve(id, 0, 8), nullptr);
}

// The shm wire learns of grants, and revoke waits for it.
TEST(RegionsTest, RemotePostersHearOfGrantsAndAreWaitedFor) {
  struct TestInitiators final : RemoteInitiators {
    void publish(NodeId peer, Domain domain, uint32_t grants) override {
      if (domain == Domain::kEngine) published[peer.value] = grants;
    }
    bool inside(NodeId, Domain) override { return --visits > 0; }
    std::array<uint32_t, kNodesMax + 1> published{};
    int visits = 3;
  } initiators;
  Regions regions;
  regions.grant(NodeId(5), Domain::kEngine);
  regions.set_remote_initiators(&initiators);
  EXPECT_EQ(initiators.published[5], regions.grant_of(NodeId(5), Domain::kEngine));
  EXPECT_EQ(initiators.published[6], 0U);
  regions.grant(NodeId(6), Domain::kEngine);
  EXPECT_EQ(initiators.published[6], 1U);
  regions.revoke(NodeId(5), Domain::kEngine);
  EXPECT_EQ(initiators.published[5], 2U);
  EXPECT_EQ(initiators.visits, 0);
  regions.set_remote_initiators(nullptr);
  regions.grant(NodeId(5), Domain::kEngine);
  EXPECT_EQ(initiators.published[5], 2U);
}

// Who closes waits for nobody, and what happens in one domain does not show in another.
TEST(RegionsTest, ADomainIsClosedWhenTheLastAccessToItIsOver) {
  auto region = Region::create(2 << 20);
  auto other = Region::create(2 << 20);
  ASSERT_TRUE(region && other);
  Regions regions;
  const RegionId id = regions.add(region->get());
  const RegionId far = regions.add(other->get(), Domain::kFar);
  EXPECT_EQ(regions.domain_of(id), Domain::kEngine);
  EXPECT_EQ(regions.domain_of(far), Domain::kFar);
  const NodeId peer(3);
  const uint64_t before = regions.changes();
  regions.grant(peer, Domain::kEngine);
  regions.grant(peer, Domain::kFar);
  regions.grant(peer, Domain::kFar);
  EXPECT_EQ(regions.changes(), before + 2);
  {
    const Regions::Section stopped(regions, peer, Domain::kEngine);  // in the middle of a copy
    EXPECT_NE(stopped.resolve(id, 0, 8), nullptr);
    EXPECT_EQ(stopped.resolve(far, 0, 8), nullptr) << "of another domain";
    regions.close(peer, Domain::kEngine);
    EXPECT_FALSE(regions.closed(peer, Domain::kEngine));
    EXPECT_TRUE(regions.closed(peer, Domain::kFar)) << "nobody is inside it";
    EXPECT_TRUE(regions.closed(NodeId(4), Domain::kEngine));
    EXPECT_EQ(Regions::Section(regions, peer, Domain::kEngine).resolve(id, 0, 8), nullptr) << "no new access begins";
    EXPECT_NE(Regions::Section(regions, peer, Domain::kFar).resolve(far, 0, 8), nullptr);
    EXPECT_EQ(Regions::Section(regions, peer, Domain::kFar).resolve(id, 0, 8), nullptr);
    regions.revoke(peer, Domain::kFar);
    EXPECT_EQ(regions.grants_of(peer), DomainGrants{});
  }
  EXPECT_TRUE(regions.closed(peer, Domain::kEngine));
}

// After revoke returns, plain stores of the owner race with nothing; ThreadSanitizer would report a race.
TEST(RegionsTest, NothingLandsAfterRevoke) {
  auto region = Region::create(2 << 20);
  ASSERT_TRUE(region);
  Regions regions;
  const RegionId id = regions.add(region->get());
  const NodeId peer(1);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> landed{0};
  std::thread writer([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      const Regions::Section section(regions, peer, Domain::kEngine);
      std::byte* at = section.resolve(id, 0, 8);
      if (at == nullptr) continue;
      store(at, load<uint64_t>(at) + 1);
      landed.fetch_add(1, std::memory_order_relaxed);
    }
  });
  for (int round = 0; round < 300; ++round) {
    const uint64_t before = landed.load();
    regions.grant(peer, Domain::kEngine);
    while (landed.load() == before) std::this_thread::yield();
    regions.revoke(peer, Domain::kEngine);
    const auto value = load<uint64_t>((*region)->base());
    EXPECT_EQ(value, landed.load());
    store((*region)->base(), value);
  }
  stop.store(true);
  writer.join();
}

}  // namespace
}  // namespace weft
