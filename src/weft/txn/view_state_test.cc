// Which view a worker is in: it stops, adopts, recovers and is active again, and never goes back.
#include "weft/txn/view_state.h"

#include <gtest/gtest.h>

#include <memory>

#include "weft/fabric/nodes_testing.h"

namespace weft {
namespace {

std::shared_ptr<const View> view_state_at(uint32_t epoch, uint32_t self_incarnation = 1, uint64_t token = 7) {
  View view = make_view(3, 2, 3);
  view.epoch = Epoch(epoch);
  view.members[0].incarnation = self_incarnation;
  view.members[0].token = token;
  return std::make_shared<const View>(view);
}

constexpr NodeId kViewStateSelf{0};

TEST(ViewState, WhoStartsWithItsClusterIsActiveAtOnce) {
  const ViewState state(kViewStateSelf, view_state_at(1), true);
  EXPECT_TRUE(state.active());
  EXPECT_TRUE(state.was_active());
  EXPECT_FALSE(state.recovering());
  EXPECT_EQ(state.active_epoch(), Epoch(1));
  EXPECT_EQ(state.incarnation(), 1U);
  EXPECT_EQ(state.peer_incarnation(NodeId(1)), 2U);
  EXPECT_EQ(state.peer_incarnation(NodeId(2)), 3U);
  EXPECT_EQ(state.peer_incarnation(kViewStateSelf), 0U) << "it is no peer of itself";
}

TEST(ViewState, WhoJoinsHasNoIncarnationUntilAViewGivesItOne) {
  ViewState state(kViewStateSelf, std::make_shared<const View>(pre_join_view(*view_state_at(1), kViewStateSelf)),
                  false);
  EXPECT_FALSE(state.active());
  EXPECT_FALSE(state.was_active());
  EXPECT_EQ(state.incarnation(), 0U);
  EXPECT_EQ(state.incarnation_of(kViewStateSelf), 0U);
  EXPECT_EQ(state.incarnation_of(NodeId(2)), 3U) << "members are found though not all are there";
  state.adopt(view_state_at(1, 9));
  EXPECT_EQ(state.incarnation(), 9U) << "the view that it waited with may be of the same epoch";
  EXPECT_TRUE(state.recovering());
  state.activate(1);
  EXPECT_TRUE(state.was_active());
}

TEST(ViewState, AnIncarnationStaysWhatItWasWhenTheWorkerWasActive) {
  ViewState state(kViewStateSelf, view_state_at(1), true);
  state.stop(true);
  state.adopt(view_state_at(2, 9));
  EXPECT_EQ(state.incarnation(), 1U);
}

TEST(ViewState, StoppedIsRecoveringUnlessItWasRemoved) {
  ViewState state(kViewStateSelf, view_state_at(1), true);
  state.stop(false);
  EXPECT_TRUE(state.recovering());
  EXPECT_FALSE(state.removed());
  state.stop(true);
  EXPECT_FALSE(state.recovering());
  EXPECT_TRUE(state.removed());
}

TEST(ViewState, TheLastActiveEpochDoesNotFollowViewsThatWereNeverActive) {
  ViewState state(kViewStateSelf, view_state_at(1), true);
  state.stop(false);
  state.adopt(view_state_at(2));
  state.adopt(view_state_at(3));
  EXPECT_EQ(state.active_epoch(), Epoch(1));
  EXPECT_TRUE(state.was_active());
  state.activate(3);
  EXPECT_EQ(state.active_epoch(), Epoch(3));
}

TEST(ViewState, OldViewsStayWhileTransactionsPointIntoThem) {
  std::shared_ptr<const View> first = view_state_at(1);
  const std::weak_ptr<const View> seen = first;
  ViewState state(kViewStateSelf, std::move(first), true);
  state.stop(false);
  state.adopt(view_state_at(2));
  state.activate(1);
  EXPECT_FALSE(seen.expired()) << "a transaction of the first view is still there";
  state.stop(false);
  state.adopt(view_state_at(3));
  state.activate(2);
  EXPECT_TRUE(seen.expired());
}

TEST(ViewState, AViewRemovesWhoIsNotInItAsItWas) {
  const ViewState state(kViewStateSelf, view_state_at(1), true);
  EXPECT_FALSE(state.is_removed_by(*view_state_at(2), 7));
  EXPECT_TRUE(state.is_removed_by(*view_state_at(2, 9), 7)) << "another incarnation";
  EXPECT_TRUE(state.is_removed_by(*view_state_at(2, 1, 8), 7)) << "another process";
  EXPECT_TRUE(state.is_removed_by(pre_join_view(*view_state_at(2), kViewStateSelf), 7)) << "no member";
}

TEST(ViewState, WhoNeverServedTakesWhateverIncarnationItGets) {
  const ViewState state(kViewStateSelf, view_state_at(1), false);
  EXPECT_FALSE(state.is_removed_by(*view_state_at(2, 9), 7));
}

TEST(ViewState, APeerThatIsReplacedHasDepartedUntilTheWorkerIsActive) {
  ViewState state(kViewStateSelf, view_state_at(1), true);
  state.stop(false);
  state.mark_lost(NodeId(1));
  state.mark_lost(NodeId(2));
  EXPECT_EQ(state.lost_peers(), node_set({1, 2}));
  state.replace_peer(NodeId(1), 12);
  EXPECT_TRUE(state.departed(NodeId(1)));
  EXPECT_FALSE(state.departed(NodeId(2)));
  EXPECT_EQ(state.peer_incarnation(NodeId(1)), 12U);
  EXPECT_FALSE(state.is_lost(NodeId(1))) << "its channel begins anew";
  EXPECT_TRUE(state.is_lost(NodeId(2)));
  state.adopt(view_state_at(2));
  state.activate(2);
  EXPECT_FALSE(state.departed(NodeId(1)));
}

TEST(ViewState, APeerThatWasNotThereHasNotDeparted) {
  ViewState state(kViewStateSelf, view_state_at(1), false);
  state.replace_peer(NodeId(1), 12);
  EXPECT_FALSE(state.departed(NodeId(1)));
}

TEST(ViewState, PacketsOfRecoveryComeBeforeThoseOfTheActiveView) {
  EXPECT_EQ(port_epoch(Epoch(1), false), Epoch(0));
  for (const uint32_t epoch : {1U, 2U, kEpochMax - 1}) {
    EXPECT_LT(port_epoch(Epoch(epoch), false), port_epoch(Epoch(epoch), true));
    EXPECT_LT(port_epoch(Epoch(epoch), true), port_epoch(Epoch(epoch + 1), false));
  }
}

TEST(ViewStateDeathTest, ViewsOnlyGrow) {
  ViewState state(kViewStateSelf, view_state_at(2), true);
  EXPECT_DEATH(state.adopt(view_state_at(3)), "a worker stops");
  state.stop(false);
  EXPECT_DEATH(state.adopt(view_state_at(2)), "views only grow");
}

TEST(ViewStateDeathTest, OnlyWhoRecoversBecomesActive) {
  ViewState state(kViewStateSelf, view_state_at(1), true);
  EXPECT_DEATH(state.activate(1), "a worker recovers, then it is active");
  state.stop(true);
  EXPECT_DEATH(state.activate(1), "a worker recovers, then it is active");
}

TEST(ViewStateDeathTest, APeerIsReplacedByAnotherOne) {
  ViewState state(kViewStateSelf, view_state_at(1), true);
  EXPECT_DEATH(state.replace_peer(NodeId(1), 2), "a peer is replaced by another one");
  EXPECT_DEATH(state.replace_peer(kViewStateSelf, 9), "a peer is replaced by another one");
}

}  // namespace
}  // namespace weft
