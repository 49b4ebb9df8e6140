// What a view takes from a node is stale until it is discarded, whatever views come between.
#include "weft/txn/partition_sweep.h"

#include <gtest/gtest.h>

#include <mutex>
#include <vector>

namespace weft {
namespace {

using SweptPartitions = std::vector<bool>;

// Three nodes with two replicas: node 0 has partitions 0 (its primary) and 2 (a backup), and no part in 1.
class PartitionSweepTest : public testing::Test {
 protected:
  static constexpr NodeId kSelf{0};
  static constexpr size_t kOwn = 0;
  static constexpr size_t kForeign = 1;
  static constexpr size_t kBacked = 2;

  explicit PartitionSweepTest(PlantedBugs bugs = {}) : sweep_(kSelf, bugs) {}

  // The view after `before`, in which one node has that partition and another one fills it.
  static View moved(const View& before, size_t partition, NodeId primary, NodeId fills) {
    View next = with_next_epoch(before);
    Placement& placement = next.partitions[partition];
    placement = {};
    placement.replicas[0] = primary;
    placement.count = 1;
    placement.in_sync = NodeSet::of(primary);
    placement.catching_up = NodeSet::of(fills);
    return next;
  }
  View left(size_t partition) const { return moved(view_, partition, NodeId(1), NodeId(2)); }
  View fills(size_t partition) const { return moved(view_, partition, NodeId(1), kSelf); }

  const View view_ = make_view(3, 2, 3);
  PartitionSweep sweep_;
};

TEST_F(PartitionSweepTest, NothingIsStaleBeforeTheFirstChange) {
  EXPECT_FALSE(sweep_.has_stale());
  EXPECT_EQ(sweep_.stale(), SweptPartitions());
  sweep_.discarded({true, true, true});
  EXPECT_FALSE(sweep_.has_stale()) << "there is nothing to forget";
}

TEST_F(PartitionSweepTest, NothingIsStaleUntilAReplicaIsDropped) {
  const View same = with_next_epoch(view_);
  sweep_.note_view(view_, same);
  EXPECT_FALSE(sweep_.has_stale());
  EXPECT_EQ(sweep_.stale(), SweptPartitions({false, false, false}));
  sweep_.note_view(same, left(kOwn));
  EXPECT_TRUE(sweep_.has_stale());
  EXPECT_EQ(sweep_.stale(), SweptPartitions({true, false, false}));
}

TEST_F(PartitionSweepTest, ABackupThatIsDroppedIsStaleToo) {
  sweep_.note_view(view_, left(kBacked));
  EXPECT_EQ(sweep_.stale(), SweptPartitions({false, false, true}));
}

TEST_F(PartitionSweepTest, ABackupThatBecomesThePrimaryIsNotStale) {
  sweep_.note_view(view_, moved(view_, kBacked, kSelf, NodeId(1)));
  EXPECT_FALSE(sweep_.has_stale());
}

TEST_F(PartitionSweepTest, WhatThisNodeNeverHadIsNotStale) {
  sweep_.note_view(view_, moved(view_, kForeign, NodeId(2), NodeId(1)));
  EXPECT_FALSE(sweep_.has_stale()) << "others exchange it";
  sweep_.note_view(view_, fills(kForeign));
  EXPECT_FALSE(sweep_.has_stale()) << "this node begins to fill it";
}

TEST_F(PartitionSweepTest, WhatIsStaleStaysSoUntilItIsDiscarded) {
  const View gone = left(kOwn);
  sweep_.note_view(view_, gone);
  View back = view_;
  back.epoch = Epoch(gone.epoch.value + 1);
  sweep_.note_view(gone, back);
  EXPECT_TRUE(sweep_.stale()[kOwn]) << "also if it holds the partition again";
  sweep_.discarded({false, true, true});
  EXPECT_TRUE(sweep_.has_stale());
  sweep_.discarded({});
  EXPECT_TRUE(sweep_.has_stale());
  sweep_.discarded(sweep_.stale());
  EXPECT_FALSE(sweep_.has_stale());
  EXPECT_EQ(sweep_.stale(), SweptPartitions({false, false, false}));
}

TEST_F(PartitionSweepTest, PartitionsAreDiscardedOneByOne) {
  const View first = left(kOwn);
  sweep_.note_view(view_, first);
  sweep_.note_view(first, moved(first, kBacked, NodeId(1), NodeId(2)));
  EXPECT_EQ(sweep_.stale(), SweptPartitions({true, false, true})) << "the views add up";
  sweep_.discarded({true});
  EXPECT_EQ(sweep_.stale(), SweptPartitions({false, false, true})) << "a short list says nothing about the others";
  EXPECT_TRUE(sweep_.has_stale());
  sweep_.discarded({false, false, true, true});
  EXPECT_FALSE(sweep_.has_stale()) << "nor does a long one about what there is not";
}

TEST_F(PartitionSweepTest, WhatIsTakenAwayAgainIsStaleAgain) {
  sweep_.note_view(view_, left(kOwn));
  sweep_.discarded(sweep_.stale());
  ASSERT_FALSE(sweep_.has_stale());
  sweep_.note_view(view_, left(kOwn));
  EXPECT_TRUE(sweep_.stale()[kOwn]);
}

TEST_F(PartitionSweepTest, AWholeReplicaThatFillsHasMissedAView) {
  sweep_.note_view(view_, fills(kOwn));
  EXPECT_EQ(sweep_.stale(), SweptPartitions({true, false, false}));
}

TEST_F(PartitionSweepTest, WhatWasFillingAndGoesOnIsNotStale) {
  const View filling = fills(kOwn);
  sweep_.note_view(filling, with_next_epoch(filling));
  EXPECT_FALSE(sweep_.has_stale()) << "goes on filling";
  sweep_.note_view(filling, view_);
  EXPECT_FALSE(sweep_.has_stale()) << "is whole";
  sweep_.note_view(filling, left(kOwn));
  EXPECT_TRUE(sweep_.has_stale()) << "is neither";
}

TEST_F(PartitionSweepTest, ViewsOfOneClusterHaveTheSamePartitions) {
  EXPECT_DEATH(sweep_.note_view(view_, make_view(3, 2, 6)), "the same partitions");
}

TEST_F(PartitionSweepTest, AStageBeginsAtTheFirstRecordOfTheFirstTable) {
  using Stage = PartitionSweep::Stage;
  const std::scoped_lock lock(sweep_.mutex());
  PartitionSweep::Progress& at = sweep_.progress();
  EXPECT_EQ(at.epoch, 0U) << "of no view";
  EXPECT_EQ(at.stage, Stage::kDiscard);
  at.epoch = 7;
  at.table = 2;
  at.words = true;
  at.partition = 1;
  at.cursor = 99;
  at.begin(Stage::kSettle, {false, true});
  EXPECT_EQ(at.stage, Stage::kSettle);
  EXPECT_EQ(at.partitions, SweptPartitions({false, true}));
  EXPECT_EQ(at.table, 0U);
  EXPECT_FALSE(at.words);
  EXPECT_EQ(at.partition, 0U);
  EXPECT_EQ(at.cursor, 0U);
  EXPECT_EQ(at.epoch, 7U) << "the stages of a view follow each other";
  EXPECT_EQ(&sweep_.progress(), &at) << "one walk for all workers";
}

class PartitionSweepFills : public PartitionSweepTest {
 protected:
  PartitionSweepFills() : PartitionSweepTest({.mask = static_cast<uint64_t>(PlantedBug::kFillsStale)}) {}
};

TEST_F(PartitionSweepFills, ThePlantedBugFillsOverWhatAMissedViewLeft) {
  sweep_.note_view(view_, fills(kOwn));
  EXPECT_FALSE(sweep_.has_stale());
  sweep_.note_view(view_, left(kOwn));
  EXPECT_TRUE(sweep_.has_stale()) << "what it sees itself it notes all the same";
}

}  // namespace
}  // namespace weft
