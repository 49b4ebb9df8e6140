// What a node still has of a partition that it does not replicate any more, or replicates again.
#include <gtest/gtest.h>

#include <memory>

#include "weft/txn/node_testing.h"

namespace weft {
namespace {

class StaleTest : public testing::Test, public HandNodes {
 protected:
  StaleTest() {
    spec_ = three_nodes();
    spec_.recovers = true;
  }

  // Node 0, in the first view.
  void start() {
    make_network();
    ASSERT_NO_FATAL_FAILURE(start_node(NodeId(0), view_));
    for (size_t p = 0; p < view_.partitions.size(); ++p) {
      if (view_.partitions[p].is_in_sync(NodeId(0))) held_ = p;
    }
  }

  // The view `later` epochs after the first, in which node 0 has no part in that partition, or is catching up on it.
  void publish(uint32_t later, bool fills) {
    View view = view_;
    view.epoch = Epoch(view.epoch.value + later);
    Placement& placement = view.partitions[held_];
    const NodeId other = placement.primary() == NodeId(0) ? placement.replicas[1] : placement.primary();
    placement.replicas = {other};
    placement.count = 1;
    placement.in_sync = NodeSet::of(other);
    placement.catching_up = fills ? NodeSet::of(NodeId(0)) : NodeSet{};
    nodes_[0]->state().views.publish(std::make_shared<const View>(view));
  }

  size_t held_ = 0;
};

TEST_F(StaleTest, AReplicaThatWasDroppedIsDiscarded) {
  start();
  publish(1, false);
  EXPECT_TRUE(nodes_[0]->sweep().stale()[held_]);
  publish(2, true);
  EXPECT_TRUE(nodes_[0]->sweep().stale()[held_]) << "it catches up again, over what is left";
}

// A delete that recovery has decided meanwhile did not reach this node's copy.
TEST_F(StaleTest, AlsoIfItsNodeHasMissedTheViewThatDroppedIt) {
  start();
  publish(2, true);
  EXPECT_TRUE(nodes_[0]->sweep().stale()[held_]);
  EXPECT_TRUE(nodes_[0]->sweep().has_stale());
}

TEST_F(StaleTest, WhatFillsGoesOnFilling) {
  start();
  publish(1, true);
  nodes_[0]->sweep().discarded(nodes_[0]->sweep().stale());
  publish(2, true);
  EXPECT_FALSE(nodes_[0]->sweep().stale()[held_]);
}

// Shows that the test can fail.
TEST_F(StaleTest, ThePlantedBugIsCaught) {
  spec_.bugs.mask = static_cast<uint64_t>(PlantedBug::kFillsStale);
  start();
  publish(2, true);
  EXPECT_FALSE(nodes_[0]->sweep().stale()[held_]);
}

}  // namespace
}  // namespace weft
