// Who joins, who is removed, and who stays although it has lost a peer: what the agent does when the view changes.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "weft/cluster/agent_testing.h"
#include "weft/fabric/nodes_testing.h"

namespace weft {
namespace {

// Each has the only replica of some partition, so neither can be removed: they start over in a view that is the same,
// once. Not where they write into each other's memory.
TEST_F(AgentTest, TwoThatHaveLostEachOtherAndMustStayBeginAnew) {
  for (const bool shares_memory : {false, true}) {
    spec_ = three_nodes();
    spec_.options.replicas = 1;
    spec_.recovers = true;
    spec_.shares_memory = shares_memory;
    make_network();
    for (Member& member : view_.members) member.token = 100 + member.node.value;
    membership_.view = slow_membership_.view = std::make_shared<const View>(view_);
    membership_.changes = 0;
    for (uint8_t n = 0; n < 3; ++n) start_with_agent(NodeId(n), view_, 100U + n, false);
    run_for(2 * kLeaseNs);
    ASSERT_EQ(membership_.changes, 0);
    const View before = *membership_.view;
    const uint32_t incarnation = before.find(NodeId(1))->incarnation;
    nodes_[0]->state().links.set_lost(NodeId(1), incarnation);
    for (int i = 0; i < 2; ++i) agents_[0]->step(clock_.now += kLeaseNs / 2);  // notices; node 1 is the one to go
    EXPECT_NE(agents_[0]->unavailable_reason(), "");
    ASSERT_EQ(membership_.changes, shares_memory ? 0 : 1);
    if (shares_memory) continue;
    View again = with_next_epoch(before);
    again.change = {Cause::kReconnect, NodeId(0), node_set({1})};
    EXPECT_EQ(*membership_.view, again);
    EXPECT_FALSE(nodes_[0]->state().links.may_reconnect(NodeId(1), incarnation));
    agents_[0]->step(clock_.now += kLeaseNs / 2);  // adopts it
    EXPECT_FALSE(nodes_[0]->state().links.is_lost(NodeId(1), incarnation));
    EXPECT_EQ(nodes_[0]->state().links.reconnects(NodeId(1)), before.epoch.value + 1);
    EXPECT_FALSE(nodes_[0]->state().links.may_reconnect(NodeId(1), incarnation));  // its worker does not know yet
    nodes_[0]->worker(WorkerId(0))->step();
    EXPECT_TRUE(nodes_[0]->state().links.may_reconnect(NodeId(1), incarnation));
    agents_[0]->step(clock_.now += 4 * kLeaseNs);
    EXPECT_EQ(membership_.changes, 1);
    for (auto& agent : agents_) agent.reset();
  }
}

// Nodes 1 and 2 lose each other, both notice at once, and node 0 hears both: the younger is removed, and learns why.
TEST_F(AgentTest, OfTwoThatHaveLostEachOtherTheYoungerGoes) {
  for (const bool younger_notices_first : {true, false}) {
    start(false);
    membership_.changes = 0;
    run_for(2 * kLeaseNs);
    const View before = *membership_.view;
    const auto lose = [&](uint8_t at, uint8_t of) {
      nodes_[at]->state().links.set_lost(NodeId(of), before.find(NodeId(of))->incarnation);
      agents_[at]->notify();
      run_for(kLeaseNs / 64);
    };
    younger_notices_first ? lose(2, 1) : lose(1, 2);
    younger_notices_first ? lose(1, 2) : lose(2, 1);
    run_for(kLeaseNs / 4);
    EXPECT_EQ(membership_.changes, 1);
    EXPECT_EQ(membership_.view->member_nodes(), node_set({0, 1}));
    EXPECT_EQ(membership_.view->change, (Change{Cause::kLink, NodeId(1), node_set({2})}));
    EXPECT_TRUE(agents_[2]->retired());
    EXPECT_EQ(nodes_[2]->state().views.published()->change.text(),
              "node 1 has lost its connection to it, and others have not");
    for (auto& agent : agents_) agent.reset();
  }
}

// The oldest dies, and the other two see its connection closed: they do not wait.
TEST_F(AgentTest, WhomNobodyHearsGoesAtOnce) {
  lease_ns_ = 64 * kLeaseNs;
  start(false);
  run_for(2 * lease_ns_);
  const uint32_t incarnation = membership_.view->find(NodeId(0))->incarnation;
  agents_[0].reset();
  nodes_[0].reset();
  for (const size_t n : {1U, 2U}) {
    nodes_[n]->state().links.set_lost(NodeId(0), incarnation);
    agents_[n]->notify();
  }
  run_for(kLeaseNs / 4);
  EXPECT_EQ(membership_.view->find(NodeId(0)), nullptr);
  EXPECT_EQ(membership_.view->change.cause, Cause::kUnheard);
}

// Node 2 restarts. It joins when everybody has approved it (admission.h), and only into the view that the approvals
// are for.
TEST_F(AgentTest, WhoIsToJoinWaitsUntilItIsWelcome) {
  for (const bool planted : {false, true}) {
    bugs_.mask = planted ? static_cast<uint64_t>(PlantedBug::kHastyJoin) : 0;
    start(false);
    run_for(2 * kLeaseNs);
    agents_[2].reset();
    nodes_[2].reset();
    run_for(3 * kLeaseNs);
    ASSERT_EQ(membership_.view->member_nodes(), node_set({0, 1}));
    start_with_agent(NodeId(2), pre_join_view(*membership_.view, NodeId(2)), 7, true);
    run_for(10 * kLeaseNs);
    EXPECT_EQ(membership_.view->find(NodeId(2)) != nullptr, planted);
    agents_[2]->allow_join(Epoch(membership_.view->epoch.value - 1));
    run_for(10 * kLeaseNs);
    EXPECT_EQ(membership_.view->find(NodeId(2)) != nullptr, planted);
    agents_[2]->allow_join(membership_.view->epoch);
    run_for(10 * kLeaseNs);
    ASSERT_NE(membership_.view->find(NodeId(2)), nullptr);
    EXPECT_EQ(membership_.view->find(NodeId(2))->token, 7U);
    for (auto& agent : agents_) agent.reset();
  }
}

// It was to be a member, and sees only a view in which another process of its node is one.
TEST_F(AgentTest, AProcessDoesNotTakeAnothersPlace) {
  start(false);
  run_for(2 * kLeaseNs);
  agents_[2].reset();
  nodes_[2].reset();
  View before = *membership_.view;
  std::erase_if(before.members, [](const Member& m) { return m.node == NodeId(2); });
  before.epoch = Epoch(1);
  start_with_agent(NodeId(2), before, 7, true);
  View with_it = *membership_.view;
  with_it.epoch = Epoch(with_it.epoch.value + 1);
  with_it.members[2].token = 7;
  with_it.members[2].incarnation = with_it.next_incarnation++;
  View with_other = with_it;
  with_other.epoch = Epoch(with_it.epoch.value + 1);
  with_other.members[2].token = 8;
  with_other.members[2].incarnation = with_other.next_incarnation++;
  auto& own = *agents_[2];
  membership_.view = std::make_shared<const View>(with_it);
  clock_.now += kLeaseNs;
  own.step(clock_.now);  // its workers have not stepped yet
  membership_.view = std::make_shared<const View>(with_other);
  clock_.now += kLeaseNs;
  own.step(clock_.now);
  nodes_[2]->worker(WorkerId(0))->step();
  EXPECT_TRUE(own.retired());
  EXPECT_TRUE(txn_worker(2)->context().views.removed());
}

// Rule E2. The last case is the planted bug that this is about: the test can fail.
TEST_F(AgentTest, ARemovedMemberIsWaitedForAsLongAsItHasALease) {
  for (const bool planted : {false, true}) {
    bugs_.mask = planted ? static_cast<uint64_t>(PlantedBug::kNoFenceWait) : 0;
    ASSERT_NO_FATAL_FAILURE(lose_node_2());
    bool early = false;
    while (clock_.now < nodes_[2]->state().lease.until_ns()) {
      early = early || gone_on(0) || gone_on(1);
      run_for(kLeaseNs / 64);
    }
    EXPECT_EQ(early, planted);
    run_for(lease_ns_);
    EXPECT_TRUE(gone_on(0) && gone_on(1));
    for (auto& agent : agents_) agent.reset();
  }
}

// The granter of a lease waits for longer than it lasts, by as much as the holder's clock may be slow.
TEST_F(AgentTest, ARemovedMembersLeaseIsWaitedForWithAMargin) {
  for (const bool planted : {false, true}) {
    bugs_.mask = planted ? static_cast<uint64_t>(PlantedBug::kNoDriftMargin) : 0;
    ASSERT_NO_FATAL_FAILURE(lose_node_2());
    run_for(lease_ns_ / 16);  // both have adopted the view without it
    const uint64_t margin_ns = lease_ns_ * NodeAgentOptions().drift_permille / 1000;
    ASSERT_GT(margin_ns, kLeaseNs / 16);  // the time that an answer may have taken in these steps
    // Its lease ends with the first of the two that it holds.
    const uint64_t waited_ns =
        std::min(nodes_[0]->state().lease.fenced_after_ns(), nodes_[1]->state().lease.fenced_after_ns());
    ASSERT_GT(waited_ns, clock_.now);
    EXPECT_EQ(waited_ns >= nodes_[2]->state().lease.until_ns() + margin_ns, !planted);
    for (auto& agent : agents_) agent.reset();
  }
}

// Its lease has expired, and the others have continued: a client's read here is held back, and not acknowledged when
// the node learns that it was removed.
TEST_F(AgentTest, AReadThatWaitsForTheLeaseIsNotToldAtRemoval) {
  for (const bool planted : {false, true}) {
    bugs_.mask = planted ? static_cast<uint64_t>(PlantedBug::kToldRemoved) : 0;
    ASSERT_NO_FATAL_FAILURE(lose_node_2());
    run_for(2 * lease_ns_);
    ASSERT_TRUE(gone_on(0));
    ASSERT_LT(nodes_[2]->state().lease.until_ns(), clock_.now);
    ASSERT_FALSE(agents_[2]->retired());
    std::vector<Outcome> outcomes;
    read(Session(txn_worker(2)), key_at(NodeId(2)), &outcomes);
    run_for(lease_ns_);
    EXPECT_TRUE(outcomes.empty());
    slow_membership_.view = membership_.view;
    run_for(lease_ns_);
    EXPECT_TRUE(agents_[2]->retired());
    ASSERT_EQ(outcomes.size(), 1U);
    EXPECT_EQ(outcomes[0].committed(), planted) << outcomes[0].text();
    for (auto& agent : agents_) agent.reset();
  }
}

}  // namespace
}  // namespace weft
