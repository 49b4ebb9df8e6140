// A node's memory for verbs: every peer has its own ring, and who may access it follows the view (rule O3).
#include "weft/txn/verb_memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace weft {
namespace {

class VerbMemoryTest : public ::testing::Test {
 protected:
  VerbMemoryTest() {
    options_.nodes = 3;
    options_.replicas = 2;
    options_.workers = 2;
    options_.protocol = "drtmr";
    options_.limits.ring_bytes = 4096;
    view_ = make_view(3, 2, 3);
  }
  void start(bool shared = false, PlantedBugs bugs = {}) {
    table_ = std::move(*Region::create(1 << 20));
    regions_.add(table_.get());
    memory_ = std::make_unique<VerbMemory>(options_, bugs, shared, &regions_, RegionId(1));
    ASSERT_TRUE(memory_->make(options_));
  }
  // Bit n: node n may access this node's memory.
  unsigned access() const {
    unsigned mask = 0;
    for (uint8_t n = 0; n < 3; ++n) mask |= regions_.granted(NodeId(n), Domain::kEngine) ? 1U << n : 0U;
    return mask;
  }
  View view_of(uint32_t epoch) const {
    View out = view_;
    out.epoch = Epoch(epoch);
    return out;
  }

  Options options_;
  View view_;
  std::unique_ptr<Region> table_;
  Regions regions_;
  std::unique_ptr<VerbMemory> memory_;
};

TEST_F(VerbMemoryTest, EveryWorkersRingOfEveryWriterIsItsOwn) {
  options_.limits.ring_bytes = 5000;
  start();
  EXPECT_EQ(memory_->ring_bytes(), 4992U) << "entries are multiples of 32";
  const Region* region = regions_.find(memory_->ring_region());
  ASSERT_NE(region, nullptr);
  std::vector<bool> used(region->bytes() / kRingAlign);
  for (uint8_t w = 0; w < 2; ++w) {
    for (uint8_t n = 0; n < 3; ++n) {
      const uint64_t at = memory_->ring_offset(WorkerId(w), NodeId(n));
      EXPECT_EQ(memory_->ring(WorkerId(w), NodeId(n)), region->base() + at);
      ASSERT_LE(at + memory_->ring_bytes(), region->bytes());
      for (uint64_t i = at / kRingAlign; i < (at + memory_->ring_bytes()) / kRingAlign; ++i) {
        EXPECT_FALSE(used[i]);
        used[i] = true;
      }
    }
  }
}

TEST_F(VerbMemoryTest, NoPeerReachesTheMemoryOfTheWorkersOwnVerbs) {
  start();
  EXPECT_EQ(memory_->request_buffers(WorkerId(1)), memory_->request_buffers(WorkerId(0)) + memory_->request_bytes());
  for (uint16_t id = 0; id < regions_.count(); ++id) {
    const Region* region = regions_.find(RegionId(id));
    for (uint8_t w = 0; w < 2; ++w) {
      const std::byte* at = memory_->request_buffers(WorkerId(w));
      EXPECT_TRUE(at + memory_->request_bytes() <= region->base() || at >= region->base() + region->bytes());
    }
  }
}

TEST_F(VerbMemoryTest, NobodyHasAccessBeforeItIsGrantedAndThenTheMembersHave) {
  start();
  EXPECT_EQ(access(), 0U);
  view_.members.erase(view_.members.begin() + 1);
  memory_->grant_access(view_);
  EXPECT_EQ(access(), 0b101U);
}

TEST_F(VerbMemoryTest, AccessStopsForAllWhenAViewIsAdopted) {  // rule O3
  start();
  memory_->grant_access(view_of(1));
  EXPECT_EQ(access(), 0b111U);
  const uint32_t before = regions_.grant_of(NodeId(1), Domain::kEngine);
  EXPECT_TRUE(memory_->stop_access(Epoch(2)));
  EXPECT_EQ(access(), 0U) << "those that stay too";
  memory_->grant_access(view_of(2));
  EXPECT_EQ(access(), 0b111U);
  EXPECT_NE(regions_.grant_of(NodeId(1), Domain::kEngine), before)
      << "what was posted under the old grant does not land";
}

TEST_F(VerbMemoryTest, WhoIsStoppedInTheMiddleOfAVerbIsWaitedForByTheRecoveryAlone) {  // rule O3
  start();
  memory_->grant_access(view_of(1));
  {
    const Regions::Section stopped(regions_, NodeId(1), Domain::kEngine);
    EXPECT_FALSE(memory_->stop_access(Epoch(2))) << "it returns, and says that a verb may still land";
    EXPECT_EQ(access(), 0U);
    EXPECT_FALSE(memory_->stop_access(Epoch(2))) << "for every worker that asks";
  }
  EXPECT_TRUE(memory_->stop_access(Epoch(2)));
}

TEST_F(VerbMemoryTest, OtherWorkersThatAdoptTheSameViewStopNothingMore) {
  start();
  memory_->grant_access(view_of(1));
  memory_->stop_access(Epoch(2));
  memory_->grant_access(view_of(2));
  const uint32_t grant = regions_.grant_of(NodeId(1), Domain::kEngine);
  memory_->stop_access(Epoch(2));
  memory_->stop_access(Epoch(1));
  memory_->grant_access(view_of(2));
  EXPECT_EQ(regions_.grant_of(NodeId(1), Domain::kEngine), grant);
}

TEST_F(VerbMemoryTest, AViewThatIsOverGrantsNothing) {
  start();
  memory_->stop_access(Epoch(3));
  memory_->grant_access(view_of(2));
  EXPECT_EQ(access(), 0U);
  memory_->grant_access(view_of(3));
  EXPECT_EQ(access(), 0b111U);
}

TEST_F(VerbMemoryTest, WhenItIsMadeAnewNothingOfTheEarlierLifeIsLeft) {
  start();
  Region* region = regions_.find(RegionId(1));
  region->base()[100] = std::byte{1};
  ASSERT_TRUE(memory_->make(options_));
  EXPECT_EQ(regions_.find(RegionId(1)), region);
  EXPECT_EQ(region->base()[100], std::byte{0});
}

TEST_F(VerbMemoryTest, LargerRingsTakeThePlaceOfTheOldOnes) {
  start();
  options_.limits.ring_bytes = 8 << 20;
  ASSERT_TRUE(memory_->make(options_));
  EXPECT_EQ(regions_.count(), 2U);
  EXPECT_GE(regions_.find(RegionId(1))->bytes(), 6 * memory_->ring_bytes());
  EXPECT_EQ(memory_->ring(WorkerId(0), NodeId(0)), regions_.find(RegionId(1))->base());
}

TEST_F(VerbMemoryTest, MemoryThatOtherProcessesHaveMappedDoesNotGrow) {
  start(true);
  Region* region = regions_.find(RegionId(1));
  options_.limits.ring_bytes = 8 << 20;
  const Result<void> made = memory_->make(options_);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kBadOption);
  EXPECT_EQ(regions_.find(RegionId(1)), region);
}

TEST_F(VerbMemoryTest, MoreTransactionsAndLargerOnesHaveMoreMemory) {
  start();
  const size_t before = memory_->request_bytes();
  options_.limits.transactions_in_flight_max = 128;
  ASSERT_TRUE(memory_->make(options_));
  const size_t more = memory_->request_bytes();
  EXPECT_GT(more, before);
  options_.limits.txn_bytes_max *= 2;
  ASSERT_TRUE(memory_->make(options_));
  EXPECT_GT(memory_->request_bytes(), more);
}

}  // namespace
}  // namespace weft
