#include "weft/txn/view_change_timing.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(ViewChange, GoesFromTheFirstWorkerThatStoppedToTheLastThatWentOn) {
  ViewChange node;
  node.add({7, 3, 100, 220, 260});
  node.add({7, 2, 90, 210, 240});
  EXPECT_EQ(node.epoch, 7U);
  EXPECT_EQ(node.open, 5U);
  EXPECT_EQ(node.adopted_ns, 90U);
  EXPECT_EQ(node.active_ns, 220U);
  EXPECT_EQ(node.acknowledged_ns, 240U);
}

TEST(ViewChange, IsNotOverBeforeAllWorkersAreActive) {
  ViewChange node;
  node.add({7, 0, 100, 220, 0});
  node.add({7, 0, 90, 0, 0});
  node.add({7, 0, 95, 230, 0});
  EXPECT_EQ(node.active_ns, 0U);
}

TEST(ViewChange, ViewsInARowCountFromTheFirst) {
  ViewChangeTiming watch;
  EXPECT_EQ(watch.read().epoch, 0U);
  watch.adopted(2, 9, 100);
  watch.acknowledged(110);  // from before
  watch.adopted(3, 0, 150);
  watch.active(200);
  watch.acknowledged(230);
  watch.acknowledged(240);
  EXPECT_EQ(watch.read().epoch, 3U);
  EXPECT_EQ(watch.read().open, 9U);
  EXPECT_EQ(watch.read().adopted_ns, 100U);
  EXPECT_EQ(watch.read().active_ns, 200U);
  EXPECT_EQ(watch.read().acknowledged_ns, 230U);
  watch.adopted(4, 1, 300);
  EXPECT_EQ(watch.read().adopted_ns, 300U);
  EXPECT_EQ(watch.read().active_ns, 0U);
  EXPECT_EQ(watch.read().acknowledged_ns, 0U);
}

}  // namespace
}  // namespace weft
