// What an agent sees of its node, and what it does through it.
#include "weft/txn/node_agent_host.h"

#include <string>
#include <utility>
#include <vector>

#include "weft/txn/node_testing.h"

namespace weft {
namespace {

struct HostedAgent final : NodeAgentHook {
  bool step(uint64_t) override {
    ++steps;
    return false;
  }
  uint64_t deadline_ns() const override { return UINT64_MAX; }
  void on_message(NodeId from, ByteView message) override { heard.emplace_back(from, std::string(as_text(message))); }
  int steps = 0;
  std::vector<std::pair<NodeId, std::string>> heard;
};

class NodeAgentHostTest : public HandNodes, public testing::Test {
 protected:
  void SetUp() override {
    spec_ = three_nodes();
    spec_.bugs.mask = static_cast<uint64_t>(PlantedBug::kHastyJoin);
    spec_.shares_memory = true;
    make_network();
    for (uint8_t n = 0; n < 3; ++n) ASSERT_NO_FATAL_FAILURE(start_node(NodeId(n), view_));
  }
  AgentHost& host(size_t node) { return *nodes_[node]->agent_host(); }
};

TEST_F(NodeAgentHostTest, ShowsWhatTheNodesOfAClusterAgreeOn) {
  EXPECT_EQ(host(0).cluster_options().replicas, 2);
  EXPECT_TRUE(host(0).planted_bugs().has(PlantedBug::kHastyJoin));
  EXPECT_TRUE(host(0).shares_memory());
  EXPECT_EQ(host(0).events(), nullptr);
  EXPECT_EQ(&host(0).state(), &nodes_[0]->state());
  EXPECT_NE(&host(0).state(), &host(1).state());
}

TEST_F(NodeAgentHostTest, TellsTheTimeOfTheWorkerThatRunsTheAgent) {
  const uint64_t before = host(0).clock_ns();
  EXPECT_GT(host(0).clock_ns(), before) << "a step may have begun long ago";
}

TEST_F(NodeAgentHostTest, RunsTheAgentUntilItIsDetached) {
  HostedAgent agent;
  host(1).set_agent(&agent);
  nodes_[1]->worker(WorkerId(0))->step();
  EXPECT_EQ(agent.steps, 1);
  host(1).set_agent(nullptr);
  nodes_[1]->worker(WorkerId(0))->step();
  EXPECT_EQ(agent.steps, 1);
}

TEST_F(NodeAgentHostTest, BringsAnAgentsMessagesToAnother) {
  HostedAgent agent;
  host(1).set_agent(&agent);
  host(0).send_control(NodeId(1), as_bytes("lease"));
  for (int i = 0; i < 4; ++i) {
    for (const auto& node : nodes_) node->worker(WorkerId(0))->step();
  }
  EXPECT_EQ(agent.heard, (std::vector<std::pair<NodeId, std::string>>{{NodeId(0), "lease"}}));
  host(1).set_agent(nullptr);
}

TEST_F(NodeAgentHostTest, ANodeHasCaughtUpOnceItHasInTheView) {
  EXPECT_FALSE(host(0).caught_up(Epoch(view_.epoch.value + 1)));
}

}  // namespace
}  // namespace weft
