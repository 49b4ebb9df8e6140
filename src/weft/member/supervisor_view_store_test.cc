#include "weft/member/supervisor_view_store.h"

#include <gtest/gtest.h>

#include <string>

#include "weft/fabric/nodes_testing.h"

namespace weft {
namespace {

Member process(int node, uint64_t token) {
  Member member;
  member.node = NodeId(static_cast<uint8_t>(node));
  member.token = token;
  member.address = "@node" + std::to_string(node) + "/" + std::to_string(token);
  return member;
}

// Three announced nodes, with tokens 10, 11, 12.
SupervisorViewStore formed(int replicas = 2) {
  SupervisorViewStore view_store({3, replicas, 3});
  for (int n = 0; n < 3; ++n) EXPECT_TRUE(view_store.announce(process(n, 10 + static_cast<uint64_t>(n))));
  return view_store;
}

TEST(SupervisorViewStore, TheFirstViewHasWhoeverCameLastForEachNode) {
  SupervisorViewStore view_store({3, 2, 6});
  EXPECT_TRUE(view_store.announce(process(0, 1)));
  EXPECT_TRUE(view_store.announce(process(1, 2)));
  EXPECT_TRUE(view_store.announce(process(1, 3)));  // restarted
  EXPECT_TRUE(view_store.announce(process(0, 4)));
  view_store.process_ended(4);  // and ended before there was a view
  EXPECT_TRUE(view_store.announce(process(2, 5)));
  EXPECT_EQ(view_store.view(), nullptr);
  EXPECT_TRUE(view_store.announce(process(7, 6)));  // no such node
  EXPECT_TRUE(view_store.announce(process(0, 7)));
  ASSERT_NE(view_store.view(), nullptr);
  EXPECT_EQ(view_store.view()->epoch, Epoch(1));
  EXPECT_EQ(view_store.view()->partitions.size(), 6U);
  EXPECT_EQ(view_store.view()->find(NodeId(0))->token, 7U);
  EXPECT_EQ(view_store.view()->find(NodeId(1))->token, 3U);
  EXPECT_EQ(view_store.view()->find(NodeId(1))->address, "@node1/3");
  const auto first = view_store.view();
  EXPECT_TRUE(view_store.announce(process(0, 8)));  // later ones join by a proposal
  EXPECT_EQ(view_store.view(), first);
}

TEST(SupervisorViewStore, TheFirstViewHasTheRolesThatItsMembersAnnounce) {
  SupervisorViewStore view_store({3, 2, 6});
  Member member = process(0, 1);
  member.roles = NodeRoles::kTransactions;
  EXPECT_TRUE(view_store.announce(member));
  EXPECT_TRUE(view_store.announce(process(1, 2)));
  member = process(2, 3);
  member.roles = NodeRoles::kTransactions;
  const Result<void> too_few = view_store.announce(member);
  ASSERT_FALSE(too_few);
  EXPECT_EQ(too_few.error().detail,
            "initial_members: 1 of 3 hold data (node.roles), and 2 replicas (cluster.replicas) need as many");
  EXPECT_EQ(view_store.view(), nullptr);
  member.roles = NodeRoles::kData;
  EXPECT_TRUE(view_store.announce(member));
  ASSERT_NE(view_store.view(), nullptr);
  EXPECT_EQ(view_store.view()->members[0].roles, NodeRoles::kTransactions);
  EXPECT_EQ(view_store.view()->members[2].roles, NodeRoles::kData);
  for (const Placement& placement : view_store.view()->partitions) EXPECT_EQ(placement.in_sync, node_set({1, 2}));
}

TEST(SupervisorViewStore, OneOfTwoProposalsWins) {
  SupervisorViewStore view_store = formed();
  const View without1 = *without_members(*view_store.view(), node_set({1}));
  const View without2 = *without_members(*view_store.view(), node_set({2}));
  view_store.process_ended(11);
  EXPECT_TRUE(view_store.propose(without1));
  EXPECT_FALSE(view_store.propose(without2));
  EXPECT_EQ(*view_store.view(), without1);
  EXPECT_FALSE(view_store.propose(without1));
  View far = without1;
  far.epoch = Epoch(9);
  EXPECT_FALSE(view_store.propose(far));
}

TEST(SupervisorViewStore, AViewWithoutAMemberIsPublishedWhenItsProcessHasEnded) {
  SupervisorViewStore view_store = formed();
  const auto first = view_store.view();
  const View next = *without_members(*first, node_set({1}));
  EXPECT_TRUE(view_store.propose(next));
  EXPECT_EQ(view_store.view(), first);
  EXPECT_EQ(view_store.processes_to_kill(), std::vector<uint64_t>{11});
  EXPECT_FALSE(view_store.propose(*without_members(*first, node_set({2})))) << "a change is under way";
  view_store.process_ended(11);
  EXPECT_EQ(*view_store.view(), next);
  EXPECT_TRUE(view_store.processes_to_kill().empty());
  EXPECT_TRUE(view_store.ended_incarnations().contains(first->find(NodeId(1))->incarnation));
  // The same node comes back as another process.
  EXPECT_TRUE(view_store.propose(with_member(*view_store.view(), process(1, 20))));
  EXPECT_EQ(view_store.view()->find(NodeId(1))->token, 20U);
  EXPECT_FALSE(view_store.ended_incarnations().contains(view_store.view()->find(NodeId(1))->incarnation));
}

TEST(SupervisorViewStore, AProcessThatEndedBeforeItsJoinWasAcceptedIsKnownToHave) {
  SupervisorViewStore view_store = formed();
  view_store.process_ended(11);
  EXPECT_TRUE(view_store.propose(*without_members(*view_store.view(), node_set({1}))));
  view_store.process_ended(20);
  EXPECT_TRUE(view_store.propose(with_member(*view_store.view(), process(1, 20))));
  EXPECT_TRUE(view_store.ended_incarnations().contains(view_store.view()->find(NodeId(1))->incarnation));
}

TEST(SupervisorViewStore, APartitionWithoutALivingReplicaIsNamed) {
  SupervisorViewStore view_store = formed();
  EXPECT_EQ(view_store.lost_partition(), "");
  view_store.process_ended(10);
  EXPECT_EQ(view_store.lost_partition(), "");
  view_store.process_ended(11);  // partition 0 is at nodes 0 and 1
  EXPECT_EQ(view_store.lost_partition(), "partition 0 has lost its last whole replica");
}

}  // namespace
}  // namespace weft
