#include "weft/member/supervisor_view_store.h"

#include <gtest/gtest.h>

#include <string>

namespace weft {
namespace {

Member process(int node, uint64_t token) {
  Member member;
  member.node = NodeId(static_cast<uint8_t>(node));
  member.token = token;
  member.address = "@node" + std::to_string(node) + "/" + std::to_string(token);
  return member;
}

// Three nodes that are there, with tokens 10, 11, 12.
SupervisorViewStore formed(int replicas = 2) {
  SupervisorViewStore holder({3, replicas, 3});
  for (int n = 0; n < 3; ++n) holder.announce(process(n, 10 + static_cast<uint64_t>(n)));
  return holder;
}

TEST(SupervisorViewStore, TheFirstViewHasWhoeverCameLastForEachNode) {
  SupervisorViewStore holder({3, 2, 6});
  holder.announce(process(0, 1));
  holder.announce(process(1, 2));
  holder.announce(process(1, 3));  // started again
  holder.announce(process(0, 4));
  holder.ended(4);  // and ended before there was a view
  holder.announce(process(2, 5));
  EXPECT_EQ(holder.view(), nullptr);
  holder.announce(process(7, 6));  // no such node
  holder.announce(process(0, 7));
  ASSERT_NE(holder.view(), nullptr);
  EXPECT_EQ(holder.view()->epoch, Epoch(1));
  EXPECT_EQ(holder.view()->partitions.size(), 6U);
  EXPECT_EQ(holder.view()->find(NodeId(0))->token, 7U);
  EXPECT_EQ(holder.view()->find(NodeId(1))->token, 3U);
  EXPECT_EQ(holder.view()->find(NodeId(1))->address, "@node1/3");
  const auto first = holder.view();
  holder.announce(process(0, 8));  // later ones join by a proposal
  EXPECT_EQ(holder.view(), first);
}

TEST(SupervisorViewStore, OneOfTwoProposalsWins) {
  SupervisorViewStore holder = formed();
  const View without1 = *without_members(*holder.view(), 1U << 1);
  const View without2 = *without_members(*holder.view(), 1U << 2);
  holder.ended(11);
  EXPECT_TRUE(holder.propose(without1));
  EXPECT_FALSE(holder.propose(without2));
  EXPECT_EQ(*holder.view(), without1);
  EXPECT_FALSE(holder.propose(without1));
  View far = without1;
  far.epoch = Epoch(9);
  EXPECT_FALSE(holder.propose(far));
}

TEST(SupervisorViewStore, AViewWithoutAMemberIsPublishedWhenItsProcessHasEnded) {
  SupervisorViewStore holder = formed();
  const auto first = holder.view();
  const View next = *without_members(*first, 1U << 1);
  EXPECT_TRUE(holder.propose(next));
  EXPECT_EQ(holder.view(), first);
  EXPECT_EQ(holder.to_end(), std::vector<uint64_t>{11});
  EXPECT_FALSE(holder.propose(*without_members(*first, 1U << 2))) << "a change is under way";
  holder.ended(11);
  EXPECT_EQ(*holder.view(), next);
  EXPECT_TRUE(holder.to_end().empty());
  EXPECT_TRUE(holder.ended_incarnations().contains(first->find(NodeId(1))->incarnation));
  // The same node comes back as another.
  EXPECT_TRUE(holder.propose(with_member(*holder.view(), process(1, 20))));
  EXPECT_EQ(holder.view()->find(NodeId(1))->token, 20U);
  EXPECT_FALSE(holder.ended_incarnations().contains(holder.view()->find(NodeId(1))->incarnation));
}

TEST(SupervisorViewStore, AProcessThatEndedBeforeItsJoinWasAcceptedIsKnownToHave) {
  SupervisorViewStore holder = formed();
  holder.ended(11);
  EXPECT_TRUE(holder.propose(*without_members(*holder.view(), 1U << 1)));
  holder.ended(20);
  EXPECT_TRUE(holder.propose(with_member(*holder.view(), process(1, 20))));
  EXPECT_TRUE(holder.ended_incarnations().contains(holder.view()->find(NodeId(1))->incarnation));
}

TEST(SupervisorViewStore, APartitionWithoutALivingReplicaIsNamed) {
  SupervisorViewStore holder = formed();
  EXPECT_EQ(holder.lost(), "");
  holder.ended(10);
  EXPECT_EQ(holder.lost(), "");
  holder.ended(11);  // partition 0 is at nodes 0 and 1
  EXPECT_EQ(holder.lost(), "partition 0 has lost its last whole replica");
}

}  // namespace
}  // namespace weft
