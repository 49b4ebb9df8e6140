// The state shared by a node's agent, workers and control thread.
#include "weft/member/node_state.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

namespace weft {
namespace {

std::shared_ptr<const View> node_state_view(uint32_t epoch) {
  View view = make_view(3, 2, 3);
  view.epoch = Epoch(epoch);
  return std::make_shared<const View>(view);
}

// Rule E1: a node that has no leases yet needs none.
TEST(Lease, IsForEverUntilTheFirstIsSet) {
  Lease lease;
  EXPECT_FALSE(lease.in_use());
  EXPECT_EQ(lease.until_ns(), UINT64_MAX);
  EXPECT_EQ(lease.fenced_after_ns(), 0U);
  lease.set_until(0);
  EXPECT_TRUE(lease.in_use());
  EXPECT_EQ(lease.until_ns(), 0U);
  lease.set_until(UINT64_MAX - 1);
  EXPECT_TRUE(lease.in_use()) << "who is alone is leased all the same";
}

TEST(PeerLinks, ALinkIsLostOrClosedForOneIncarnation) {
  PeerLinks links(1);
  links.set_lost(NodeId(1), 5);
  links.set_closed(NodeId(2), 6);
  EXPECT_TRUE(links.is_lost(NodeId(1), 5));
  EXPECT_FALSE(links.is_lost(NodeId(1), 6)) << "the next process of its name";
  EXPECT_FALSE(links.is_lost(NodeId(2), 6));
  EXPECT_TRUE(links.is_closed(NodeId(2), 6));
  EXPECT_FALSE(links.is_closed(NodeId(2), 5));
  EXPECT_FALSE(links.is_closed(NodeId(1), 5)) << "lost is not closed";
}

TEST(PeerLinks, WhoIsNoMemberIsNeitherLostNorClosed) {
  const PeerLinks links(1);
  EXPECT_FALSE(links.is_lost(NodeId(1), 0));
  EXPECT_FALSE(links.is_closed(NodeId(1), 0));
}

// Both ends of a connection count packets from 0, so no worker may continue an old count.
TEST(PeerLinks, AConnectionComesBackWhenAllWorkersHaveBegunAnew) {
  PeerLinks links(2);
  links.set_lost(NodeId(1), 5);
  EXPECT_FALSE(links.may_reconnect(NodeId(1), 5));
  links.reconnect(NodeId(1), Epoch(3));
  EXPECT_FALSE(links.is_lost(NodeId(1), 5));
  EXPECT_EQ(links.reconnects(NodeId(1)), 3U);
  EXPECT_FALSE(links.may_reconnect(NodeId(1), 5));
  links.worker_adopted(Epoch(3), WorkerId(0));
  EXPECT_FALSE(links.may_reconnect(NodeId(1), 5));
  links.worker_adopted(Epoch(2), WorkerId(1));
  EXPECT_FALSE(links.may_reconnect(NodeId(1), 5)) << "that is an earlier view";
  links.worker_adopted(Epoch(4), WorkerId(1));
  EXPECT_TRUE(links.may_reconnect(NodeId(1), 5));
  links.set_lost(NodeId(1), 5);
  EXPECT_FALSE(links.may_reconnect(NodeId(1), 5)) << "lost again";
}

TEST(PeerLinks, WhoNeverLostAPeerMayConnectToIt) {
  const PeerLinks links(2);
  EXPECT_TRUE(links.may_reconnect(NodeId(1), 5));
}

TEST(ViewBoard, HasNoPublishedViewAtFirst) {
  const ViewBoard board(*node_state_view(1), false);
  EXPECT_EQ(board.published(), nullptr);
  EXPECT_EQ(board.published_epoch(), 0U);
  EXPECT_EQ(board.last_active(), nullptr);
  EXPECT_EQ(board.first()->epoch, Epoch(1));
}

TEST(ViewBoard, WhoSeesTheEpochFindsTheViewAndIsWoken) {
  ViewBoard board(*node_state_view(1), false);
  uint32_t seen = 0;
  board.set_wake([&] { seen = board.published_epoch(); });
  board.publish(node_state_view(2));
  EXPECT_EQ(seen, 2U) << "woken when it is there";
  EXPECT_EQ(board.published()->epoch, Epoch(2));
}

TEST(ViewBoard, TellsEachViewTogetherWithTheOneBefore) {
  ViewBoard board(*node_state_view(1), false);
  std::vector<std::pair<uint32_t, uint32_t>> told;
  board.set_on_publish([&](const View& a, const View& b) { told.emplace_back(a.epoch.value, b.epoch.value); });
  board.publish(node_state_view(2));
  board.publish(node_state_view(5));
  EXPECT_EQ(told, (std::vector<std::pair<uint32_t, uint32_t>>{{1, 2}, {2, 5}}));
}

// Before a node joins, its first view describes what an earlier process of the node held.
TEST(ViewBoard, OfWhoJoinsTheFirstViewSaysNothing) {
  ViewBoard board(*node_state_view(1), true);
  EXPECT_TRUE(board.joins());
  std::vector<std::pair<uint32_t, uint32_t>> told;
  board.set_on_publish([&](const View& a, const View& b) { told.emplace_back(a.epoch.value, b.epoch.value); });
  board.publish(node_state_view(4));
  EXPECT_TRUE(told.empty());
  board.publish(node_state_view(5));
  EXPECT_EQ(told, (std::vector<std::pair<uint32_t, uint32_t>>{{4, 5}}));
}

// Finding 10 of recovery: all workers of a node see the same view.
TEST(ViewBoard, TheLastActiveViewNeverGoesBack) {
  ViewBoard board(*node_state_view(1), false);
  board.went_active(node_state_view(2));
  const std::shared_ptr<const View> third = node_state_view(3);
  board.went_active(third);
  board.went_active(node_state_view(2));
  board.went_active(node_state_view(3));
  EXPECT_EQ(board.last_active(), third) << "the first worker that was active in it counts";
}

}  // namespace
}  // namespace weft
