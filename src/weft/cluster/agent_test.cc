// Agents of three nodes over a local fabric, stepped by hand: who is removed, and when. Node 1 is a bare port where a
// test wants it to misbehave.
#include "weft/cluster/agent_testing.h"
#include "weft/fabric/nodes_testing.h"
#include "weft/member/view_json.h"

namespace weft {
namespace {

TEST_F(AgentTest, InitialMembersStayTogether) {
  start(false);
  run_for(20 * kLeaseNs);
  EXPECT_EQ(membership_.changes, 0);
  std::vector<Outcome> outcomes;
  put(Session(txn_worker(0)), key_at(NodeId(1)), &outcomes);
  run_for(kLeaseNs);
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_TRUE(outcomes[0].committed()) << outcomes[0].text();
}

TEST_F(AgentTest, WhoIsSilentIsSuspectedUntilTheViewIsWithoutIt) {
  start(false);
  run_for(2 * kLeaseNs);
  for (const size_t n : {0U, 1U, 2U}) EXPECT_EQ(agents_[n]->suspects(), NodeSet{});
  membership_.away = true;
  first_ = 1;
  run_for(3 * kLeaseNs);
  EXPECT_EQ(agents_[1]->suspects(), node_set({0}));
  EXPECT_LE(nodes_[1]->state().lease.until_ns(), clock_.now);
  membership_.away = false;
  run_for(3 * kLeaseNs);
  ASSERT_TRUE(gone_on(1));
  EXPECT_EQ(agents_[1]->suspects(), NodeSet{});
  EXPECT_GT(nodes_[1]->state().lease.until_ns(), clock_.now);
}

TEST_F(AgentTest, NotesReachTheOthersAndAreBounded) {
  start(false);
  run_for(kLeaseNs);
  agents_[0]->send_gossip("overwritten");
  agents_[0]->send_gossip("hello");
  agents_[1]->send_gossip(std::string(NodeAgent::kGossipBytesMax + 1, 'x'));
  run_for(kLeaseNs);
  for (const size_t to : {1U, 2U}) {
    const std::vector<NodeAgent::Gossip> notes = agents_[to]->take_gossip();
    ASSERT_EQ(notes.size(), 1U);
    EXPECT_EQ(notes[0].from, NodeId(0));
    EXPECT_EQ(notes[0].text, "hello");
    EXPECT_TRUE(agents_[to]->take_gossip().empty());
  }
  EXPECT_TRUE(agents_[0]->take_gossip().empty());
  // A member that does not take its gossip keeps a few messages, and continues.
  for (int i = 0; i < 20; ++i) {
    agents_[0]->send_gossip(std::to_string(i));
    run_for(kLeaseNs);
  }
  EXPECT_EQ(agents_[1]->take_gossip().size(), 4U);
  EXPECT_EQ(membership_.changes, 0);
}

// Node 2's membership is unavailable: it learns from the others that node 1 is gone, and is not considered lost
// itself.
TEST_F(AgentTest, MembersPassTheViewOn) {
  slow_ = NodeId(2);
  slow_membership_.away = true;
  start(false);
  run_for(2 * kLeaseNs);
  agents_[1].reset();
  nodes_[1].reset();
  run_for(20 * kLeaseNs);
  EXPECT_EQ(membership_.view->member_nodes(), node_set({0, 2}));
  EXPECT_EQ(slow_membership_.view->epoch, Epoch(1));
  ASSERT_NE(agents_[2]->view(), nullptr);
  EXPECT_EQ(agents_[2]->view()->epoch, membership_.view->epoch);
  std::vector<Outcome> outcomes;
  put(Session(txn_worker(2)), key_at(NodeId(0)), &outcomes);
  run_for(kLeaseNs);
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_TRUE(outcomes[0].committed()) << outcomes[0].text();
}

// A forwarded view is checked like any other input.
TEST_F(AgentTest, AViewThatCannotBeIsNotTaken) {
  start(false);
  run_for(2 * kLeaseNs);
  View view = *membership_.view;
  view.epoch = Epoch(9);
  View strange = view;
  strange.partitions.pop_back();
  View large = view;
  large.members.push_back({NodeId(17), 99, NodeRoles::kBoth, 1, {}, {}});
  for (const std::string& text : {std::string("{"), std::string(), to_json(strange), to_json(large)}) {
    std::vector<std::byte> message(24 + text.size());
    store(message.data() + 12, uint32_t{2});
    if (!text.empty()) std::memcpy(message.data() + 24, text.data(), text.size());
    txn_worker(0)->control().send(NodeId(2), message);
    run_for(2 * kLeaseNs);
    EXPECT_EQ(agents_[2]->view()->epoch, Epoch(1));
  }
  EXPECT_EQ(membership_.changes, 0);
  // So is what somebody has written into the membership itself.
  for (const View& wrong : {strange, large}) {
    membership_.view = std::make_shared<const View>(wrong);
    run_for(2 * kLeaseNs);
    for (const auto& agent : agents_) EXPECT_EQ(agent->view()->epoch, Epoch(1));
  }
}

// The leader of a recovery proceeds step by step, or is cut off.
TEST_F(AgentTest, ALeaderThatSkipsStepsIsNotBelieved) {
  for (const RecoveryStep step : {RecoveryStep::kActive, RecoveryStep::kApply}) {
    enemy_id_ = NodeId(0);
    start(true);
    run_for(2 * kLeaseNs);
    agents_[2].reset();
    nodes_[2].reset();
    run_for(3 * kLeaseNs);
    ASSERT_EQ(membership_.view->member_nodes(), node_set({0, 1}));
    ASSERT_EQ(membership_.view->leader(), NodeId(0));
    EXPECT_FALSE(nodes_[1]->state().links.is_closed(NodeId(0), 1));
    RecoveryHeader header{};
    header.epoch = membership_.view->epoch.value;
    header.step = static_cast<uint8_t>(step);
    store(enemy_->reserve(NodeId(1), Flow::kRecovery, static_cast<uint8_t>(Kind::kRecovery), sizeof header), header);
    run_for(kLeaseNs / 4);
    EXPECT_FALSE(txn_worker(1)->active());
    EXPECT_TRUE(nodes_[1]->state().links.is_closed(NodeId(0), 1));
    agents_[1].reset();
  }
}

// The machine does not run for a while: the first node to wake removes nobody. One that stays away is then removed.
TEST_F(AgentTest, WhoWasAwayItselfSuspectsNobodyYet) {
  start(false);
  run_for(2 * kLeaseNs);
  clock_.now += 10 * kLeaseNs;
  run_for(2 * kLeaseNs);
  EXPECT_EQ(membership_.changes, 0);
  agents_[2].reset();
  nodes_[2].reset();
  clock_.now += 10 * kLeaseNs;
  run_for(2 * kLeaseNs);
  EXPECT_EQ(membership_.view->find(NodeId(2)), nullptr);
  EXPECT_NE(membership_.view->find(NodeId(1)), nullptr);
}

// Once by each member that proposes it, with how long nothing was heard of it.
TEST_F(AgentTest, WhoseLeaseRanOutIsSaidOnce) {
  start(false);
  run_for(2 * kLeaseNs);
  membership_.away = true;  // it is proposed repeatedly
  agents_[2].reset();
  nodes_[2].reset();
  run_for(4 * kLeaseNs);
  ASSERT_EQ(suspected().size(), 2U);
  EXPECT_NE(
      suspected()[0].find("member=2 incarnation=3 address=\"\" why=\"its lease has run out\" silent_ms=1 lease_ms=1"),
      std::string::npos)
      << suspected()[0];
}

// A lease for busy machines: a node that hangs is waited for, one that has ended is not.
TEST_F(AgentTest, ALongLeaseDoesNotDelayTheRemovalOfWhoHasEnded) {
  lease_ns_ = 4 * NodeAgentOptions::kPaceNs;
  start(false);
  const auto run_paces = [&](uint64_t sixty_fourths) {
    for (uint64_t i = 0; i < sixty_fourths; ++i, clock_.now += NodeAgentOptions::kPaceNs / 64) steps(4);
  };
  run_paces(64);
  agents_[2].reset();
  nodes_[2].reset();
  run_paces(64);
  EXPECT_EQ(membership_.changes, 0);  // silent for a pace, but not for a lease
  membership_.ended = NodeId(2);
  run_paces(8);
  EXPECT_EQ(membership_.view->find(NodeId(2)), nullptr);
  run_paces(8);
  EXPECT_GT(nodes_[0]->state().lease.until_ns(), clock_.now);
  ASSERT_FALSE(suspected().empty());
  EXPECT_NE(suspected()[0].find("its process has ended"), std::string::npos) << suspected()[0];
}

// A node that gets little of its core, and is always late.
TEST_F(AgentTest, WhoIsAlwaysLateNoticesSilenceAllTheSame) {
  start(false);
  run_for(2 * kLeaseNs);
  agents_[2].reset();
  nodes_[2].reset();
  for (int i = 0; i < 8 && membership_.view->find(NodeId(2)) != nullptr; ++i) {
    clock_.now += kLeaseNs / 2;
    steps(4);
  }
  EXPECT_EQ(membership_.view->find(NodeId(2)), nullptr);
  EXPECT_NE(membership_.view->find(NodeId(1)), nullptr);
}

// A member that joins and leaves makes view after view; another one that is silent is noticed all the same.
TEST_F(AgentTest, ASilentMemberIsRemovedThoughViewsChangeAllTheTime) {
  start(false);
  run_for(2 * kLeaseNs);
  agents_[2].reset();
  nodes_[2].reset();
  for (int i = 0; i < 12; ++i) {
    View next = *membership_.view;
    next.epoch = Epoch(next.epoch.value + 1);
    membership_.propose(next);
    run_for(kLeaseNs / 4);
  }
  EXPECT_EQ(membership_.view->find(NodeId(2)), nullptr);
}

// Its leases continue, so only what it sent tells against it.
TEST_F(AgentTest, APeerThatSendsGarbageIsRemovedAndWhatWaitedForItIsDecided) {
  start(true);
  run_for(5 * kLeaseNs);
  ASSERT_EQ(membership_.changes, 0);
  std::vector<Outcome> outcomes;
  const uint64_t past = key_at(enemy_id_);  // locked there, replicated at node 2, and about to be unlocked
  put(Session(txn_worker(0)), past, &outcomes);
  run_for(kLeaseNs / 4);
  EXPECT_TRUE(outcomes.empty());
  ASSERT_NO_FATAL_FAILURE(send_garbage(NodeId(0), Flow::kCommit));
  run_for(kLeaseNs / 4);
  EXPECT_EQ(membership_.view->find(enemy_id_), nullptr);
  run_for(4 * kLeaseNs);
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_TRUE(outcomes[0].committed()) << outcomes[0].text();
  std::vector<bool> found;
  for (const uint8_t n : {uint8_t{0}, uint8_t{2}}) get(Session(txn_worker(n)), past, &found);
  run_for(kLeaseNs);
  EXPECT_EQ(found, std::vector<bool>(2, true));
}

TEST_F(AgentTest, AClosedChannelOfAnyWorkerCounts) {
  start(true, 2);
  run_for(2 * kLeaseNs);
  ASSERT_EQ(membership_.changes, 0);
  ASSERT_NO_FATAL_FAILURE(send_garbage(NodeId(2), Flow::kExecution, WorkerId(1)));
  run_for(8 * kLeaseNs);
  EXPECT_EQ(membership_.view->find(enemy_id_), nullptr);
  for (const uint8_t n : {uint8_t{0}, uint8_t{2}}) {
    for (uint8_t w = 0; w < 2; ++w) EXPECT_TRUE(txn_worker(n, w)->active()) << int{n} << " " << int{w};
  }
}

}  // namespace
}  // namespace weft
