// What a view change leaves in the tables: discarded before the node catches up again, or in the background; tombstones
// are removed when a replica is in sync (docs/rules.md: dropped replica, catching up).
#include "weft/txn/partition_gc.h"

#include <vector>

#include "weft/txn/part_testing.h"

namespace weft {
namespace {

class PartitionGcTest : public PartTest {
 protected:
  explicit PartitionGcTest(PlantedBugs bugs = {}) : PartTest(Limits(), bugs), sweep_(kSelf, bugs) {}

  void SetUp() override { state_.views.went_active(view_); }

  // The node hears of the view, and its worker recovers into it.
  void change(const View& next) {
    sweep_.note_view(ctx_.view(), next);
    enter(next, false);
  }
  void settle_all() {
    int calls = 0;
    while (!gc_.settle()) ASSERT_LT(++calls, 1000);
  }
  void activate() {
    ctx_.views.activate(ctx_.view().epoch.value);
    state_.views.went_active(ctx_.views.shared());
    gc_.on_view_active();
  }
  uint64_t traces(PartitionId partition) { return table().leftovers(partition); }

  // The next view, in which this node has no part in that partition.
  View leaving_view(PartitionId partition) {
    View next = catching_up_view(partition, NodeId(1), NodeId(2));
    return next;
  }

  const uint64_t key_ = key_at(kSelf);
  const PartitionId partition_ = hashed(key_).partition;
  PartitionSweep sweep_;
  PartitionGc gc_{ctx_, sweep_};
};

// A key that was deleted since would come back.
TEST_F(PartitionGcTest, WhatFillsAgainIsDiscardedBeforeTheViewIsActive) {
  load_record(key_, "old");
  ASSERT_NE(traces(partition_), 0U);
  change(catching_up_view(partition_, NodeId(1), kSelf));
  EXPECT_FALSE(gc_.settle()) << "a slice at a time, so that leases go on";
  settle_all();
  EXPECT_EQ(traces(partition_), 0U);
  EXPECT_EQ(value_of(key_), "(absent)");
  EXPECT_FALSE(sweep_.has_stale());
}

TEST_F(PartitionGcTest, WhatThisNodeKeepsIsNotTouched) {
  const uint64_t kept = [&] {
    for (uint64_t key = 1;; ++key) {
      const PartitionId p = hashed(key).partition;
      if (p != partition_ && view_->placement(p).is_in_sync(kSelf)) return key;
    }
  }();
  load_record(kept, "kept");
  load_record(key_, "old");
  change(catching_up_view(partition_, NodeId(1), kSelf));
  settle_all();
  EXPECT_EQ(value_of(kept), "kept");
}

TEST_F(PartitionGcTest, WhatLeftIsDiscardedBesideTransactionsAndNotBefore) {
  load_record(key_, "old");
  change(leaving_view(partition_));
  settle_all();
  EXPECT_EQ(value_of(key_), "old") << "that would make the view wait";
  EXPECT_FALSE(gc_.step(0)) << "nor while the worker recovers";
  activate();
  int steps = 0;
  while (gc_.step(0)) ASSERT_LT(++steps, 1000);
  EXPECT_GT(steps, 1);
  EXPECT_EQ(traces(partition_), 0U);
  EXPECT_FALSE(sweep_.has_stale());
}

// A node may hear of it before the view that still serves the partition is active.
TEST_F(PartitionGcTest, WhatOnlyALaterViewTakesAwayIsStillServed) {
  load_record(key_, "old");
  View same = *view_;
  same.epoch = Epoch(2);
  change(same);
  sweep_.note_view(same, leaving_view(partition_));
  ASSERT_TRUE(sweep_.has_stale());
  settle_all();
  activate();
  for (int i = 0; i < 1000 && gc_.step(0); ++i) {
  }
  EXPECT_EQ(value_of(key_), "old");
  EXPECT_TRUE(sweep_.has_stale()) << "it is for the later view";
}

TEST_F(PartitionGcTest, OneWorkerDiscardsForAll) {
  const View left = leaving_view(partition_);
  change(left);
  settle_all();
  EXPECT_EQ(ctx_.id.value, ctx_.workers - 1);
  activate();
  EXPECT_TRUE(gc_.step(0));
}

TEST_F(PartitionGcTest, AnotherWorkerThatIsAtItIsWaitedFor) {
  load_record(key_, "old");
  change(catching_up_view(partition_, NodeId(1), kSelf));
  sweep_.mutex().lock();
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(gc_.settle());
  EXPECT_EQ(value_of(key_), "old");
  sweep_.mutex().unlock();
  settle_all();
  EXPECT_EQ(value_of(key_), "(absent)");
}

TEST_F(PartitionGcTest, WhenAllIsSettledEveryWorkerMayGoOn) {
  change(catching_up_view(partition_, NodeId(1), kSelf));
  settle_all();
  PartitionGc other(ctx_, sweep_);
  EXPECT_TRUE(other.settle());
  EXPECT_TRUE(gc_.settle());
}

// Finding 8 of recovery: until then they keep older copies away.
TEST_F(PartitionGcTest, TombstonesStayWhileAReplicaFillsAndGoWhenItIsWhole) {
  const View fills = catching_up_view(partition_, NodeId(1), kSelf);
  change(fills);
  settle_all();
  activate();
  std::vector<std::byte> scratch(256);
  table().install_if_newer(hashed(key_), Write::kErase, {}, Version(9), scratch.data());
  ASSERT_EQ(table().leak_report().tombstones, 1U);
  View again = fills;
  ++again.epoch.value;
  change(again);
  settle_all();
  activate();
  EXPECT_EQ(table().leak_report().tombstones, 1U) << "it fills still";
  View whole = with_replica_in_sync(again, kSelf, {partition_});
  change(whole);
  settle_all();
  EXPECT_EQ(table().leak_report().tombstones, 0U);
}

TEST_F(PartitionGcTest, AnotherViewBeginsTheWalkAnew) {
  load_record(key_, "old");
  View fills = catching_up_view(partition_, NodeId(1), kSelf);
  change(fills);
  EXPECT_FALSE(gc_.settle());
  ++fills.epoch.value;
  change(fills);
  settle_all();
  EXPECT_EQ(sweep_.progress().epoch, fills.epoch.value);
  EXPECT_EQ(traces(partition_), 0U);
}

class PartitionGcKeeps : public PartitionGcTest {
 protected:
  PartitionGcKeeps() : PartitionGcTest({.mask = static_cast<uint64_t>(PlantedBug::kKeepsStale)}) {}
};

TEST_F(PartitionGcKeeps, ThePlantedBugLeavesWhatIsStale) {
  load_record(key_, "old");
  change(catching_up_view(partition_, NodeId(1), kSelf));
  settle_all();
  EXPECT_EQ(value_of(key_), "old");
}

}  // namespace
}  // namespace weft
