// An agent alone: what it sends, grants, holds and proposes, with a fake node and a fake membership. Agents of
// complete nodes are in cluster/agent_test.cc.
#include "weft/member/node_agent.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/fabric/nodes_testing.h"
#include "weft/member/view_json.h"

namespace weft {
namespace {

// As on the wire (node_agent.cc).
struct AgentBytes {
  uint64_t sent_ns;
  uint32_t epoch;
  uint32_t answer;
  NodeSet unheard;
};
static_assert(sizeof(AgentBytes) == 24);
enum AgentAnswer : uint32_t { kAgentAsks, kAgentGives, kAgentForwards, kAgentGossip };

struct PlayedHost final : AgentHost {
  explicit PlayedHost(const View& view, bool joins) : state_(view, joins, 1) {
    options.nodes = 3;
    options.replicas = 2;
  }
  NodeState& state() override { return state_; }
  const Options& cluster_options() const override { return options; }
  PlantedBugs planted_bugs() const override { return bugs; }
  bool shares_memory() const override { return shares; }
  EventLog* events() const override { return log; }
  uint64_t clock_ns() const override { return now; }
  bool caught_up(Epoch epoch) const override { return epoch == filled; }
  void set_agent(NodeAgentHook* hook) override { agent = hook; }
  void send_control(NodeId to, ByteView message) override {
    sent.emplace_back(to, std::vector<std::byte>(message.begin(), message.end()));
  }
  size_t control_queued_bytes(NodeId to) const override { return to == full ? queued : 0; }

  NodeState state_;
  Options options;
  PlantedBugs bugs;
  bool shares = false;
  uint64_t now = 0;
  Epoch filled{0};
  NodeId full{kNodesMax};  // the node to which `queued` bytes wait
  size_t queued = 1;
  NodeAgentHook* agent = nullptr;
  EventLog* log = nullptr;
  std::vector<std::pair<NodeId, std::vector<std::byte>>> sent;
};

struct PlayedMembership final : Membership {
  std::shared_ptr<const View> latest() override { return view; }
  void propose(const View& next) override { proposed.push_back(next); }
  bool fenced(NodeId node, uint32_t) override { return node == ended; }
  std::shared_ptr<const View> view;
  std::vector<View> proposed;
  NodeId ended{kNodesMax};
};

class MemberAgentTest : public testing::Test {
 protected:
  static constexpr uint64_t kLease = 1'000'000;
  static constexpr uint64_t kStart = 5'000'000'000;
  static constexpr uint64_t kToken = 70;

  MemberAgentTest() : first_(make_view(3, 2, 3)) {
    for (Member& m : first_.members) m.token = kToken + m.node.value;
  }
  void start(bool joins = false) {
    host_ = std::make_unique<PlayedHost>(joins ? pre_join_view(first_, NodeId(0)) : first_, joins);
    host_->now = kStart;
    NodeAgentOptions options;
    options.lease_ns = kLease;
    options.self.node = NodeId(0);
    options.self.token = kToken;
    agent_ = std::make_unique<NodeAgent>(options, host_.get(), &membership_);
  }
  bool step(uint64_t at) {
    host_->now = at;
    return agent_->step(at);
  }
  // What was sent with that answer since the last call.
  std::vector<std::pair<NodeId, AgentBytes>> sent(uint32_t answer) {
    std::vector<std::pair<NodeId, AgentBytes>> out;
    for (const auto& [to, bytes] : std::exchange(host_->sent, {})) {
      const auto message = load<AgentBytes>(bytes.data());
      if (message.answer == answer) out.emplace_back(to, message);
    }
    return out;
  }
  void hear(uint8_t from, const AgentBytes& message, const std::string& text = {}) {
    std::vector<std::byte> bytes(sizeof message + text.size());
    std::memcpy(bytes.data(), &message, sizeof message);
    if (!text.empty()) std::memcpy(bytes.data() + sizeof message, text.data(), text.size());
    agent_->on_message(NodeId(from), bytes);
  }
  // Both others grant the lease that was requested at that time.
  void give_all(uint64_t sent_ns, uint32_t epoch = 1) {
    hear(1, {sent_ns, epoch, kAgentGives, {}});
    hear(2, {sent_ns, epoch, kAgentGives, {}});
  }
  void publish(const View& next) {
    membership_.view = std::make_shared<const View>(next);
    agent_->notify();
  }
  Lease& lease() { return host_->state_.lease; }

  View first_;
  PlayedMembership membership_;
  std::unique_ptr<PlayedHost> host_;
  std::unique_ptr<NodeAgent> agent_;
};

TEST_F(MemberAgentTest, RegistersWithItsNodeAndHasNoLeaseAtFirst) {
  start();
  EXPECT_EQ(host_->agent, agent_.get());
  EXPECT_EQ(lease().until_ns(), 0U);
  EXPECT_EQ(host_->state_.views.token(), kToken);
  agent_.reset();
  EXPECT_EQ(host_->agent, nullptr);
}

// Rule E1: the holder counts from sending, and the first lease that expires ends it.
TEST_F(MemberAgentTest, ALeaseCountsFromAskingAndNeedsEveryMember) {
  start();
  EXPECT_TRUE(step(kStart));
  const auto asked = sent(kAgentAsks);
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_EQ(asked[0].first, NodeId(1));
  EXPECT_EQ(asked[0].second.sent_ns, kStart);
  EXPECT_EQ(asked[0].second.epoch, 1U);
  host_->now = kStart + 1000;
  hear(1, {kStart + 500, 1, kAgentGives, {}});
  EXPECT_EQ(lease().until_ns(), 0U) << "one is missing";
  hear(2, {kStart, 1, kAgentGives, {}});
  EXPECT_EQ(lease().until_ns(), kStart + kLease);
  hear(2, {kStart - 100, 1, kAgentGives, {}});
  EXPECT_EQ(lease().until_ns(), kStart + kLease) << "an older answer takes nothing away";
}

TEST_F(MemberAgentTest, AsksFourTimesInALeaseAndSoonerWhileItHasNone) {
  start();
  step(kStart);
  EXPECT_EQ(sent(kAgentAsks).size(), 2U);
  step(kStart + kLease / 64);
  EXPECT_EQ(sent(kAgentAsks).size(), 2U);
  const uint64_t leased = kStart + kLease / 32;
  give_all(kStart);
  step(leased);
  EXPECT_EQ(sent(kAgentAsks).size(), 2U);
  agent_->notify();
  step(leased + kLease / 4 - 1);
  EXPECT_TRUE(sent(kAgentAsks).empty());
  agent_->notify();
  step(leased + kLease / 4);
  EXPECT_EQ(sent(kAgentAsks).size(), 2U);
}

TEST_F(MemberAgentTest, WhoTakesNothingIsNotAsked) {
  start();
  host_->full = NodeId(1);
  step(kStart);
  const auto asked = sent(kAgentAsks);
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].first, NodeId(2));
}

TEST_F(MemberAgentTest, GivesALeaseToAMemberOfItsEpochAndToNobodyElse) {
  start();
  step(kStart);
  sent(kAgentAsks);
  hear(1, {123, 1, kAgentAsks, {}});
  const auto given = sent(kAgentGives);
  ASSERT_EQ(given.size(), 1U);
  EXPECT_EQ(given[0].first, NodeId(1));
  EXPECT_EQ(given[0].second.sent_ns, 123U) << "the asker's time comes back";
  hear(1, {123, 2, kAgentAsks, {}});
  hear(1, {123, 0, kAgentAsks, {}});
  hear(9, {123, 1, kAgentAsks, {}});
  EXPECT_TRUE(sent(kAgentGives).empty());
}

TEST_F(MemberAgentTest, WhoAsksAndTakesNothingGetsNoLease) {
  start();
  host_->options.limits.credit_bytes = 4096;
  host_->full = NodeId(1);
  host_->queued = 2048;
  hear(1, {123, 1, kAgentAsks, {}});
  EXPECT_EQ(sent(kAgentGives).size(), 1U) << "the wire may be full for a moment";
  host_->queued = 2049;
  hear(1, {123, 1, kAgentAsks, {}});
  hear(2, {123, 1, kAgentAsks, {}});
  const auto given = sent(kAgentGives);
  ASSERT_EQ(given.size(), 1U);
  EXPECT_EQ(given[0].first, NodeId(2));
}

TEST_F(MemberAgentTest, AnAnswerOfAnotherEpochIsNoLease) {
  start();
  step(kStart);
  give_all(kStart, 2);
  give_all(kStart, 0);
  EXPECT_EQ(lease().until_ns(), 0U);
}

TEST_F(MemberAgentTest, WhatIsTooShortIsIgnored) {
  start();
  step(kStart);
  sent(kAgentAsks);
  const std::vector<std::byte> bytes(sizeof(AgentBytes) - 1);
  agent_->on_message(NodeId(1), bytes);
  agent_->on_message(NodeId(1), {});
  EXPECT_TRUE(host_->sent.empty());
}

// Rule E2: the granter counts from answering, with a margin for clock drift.
TEST_F(MemberAgentTest, ALeaseThatWasGivenToARemovedMemberIsWaitedFor) {
  start();
  step(kStart);
  give_all(kStart);
  hear(2, {1, 1, kAgentAsks, {}});
  host_->now = kStart + 777;
  hear(2, {1, 1, kAgentAsks, {}});
  publish(*without_members(first_, node_set({2})));
  step(kStart + 1000);
  EXPECT_EQ(lease().fenced_after_ns(), kStart + 777 + kLease + kLease / 100);
  EXPECT_EQ(lease().until_ns(), 0U) << "leases of the epoch that ended do not count";
  EXPECT_EQ(host_->state_.views.published_epoch(), 2U);
}

TEST_F(MemberAgentTest, NobodyWaitsForTheLeaseOfWhoIsFenced) {
  start();
  step(kStart);
  hear(2, {1, 1, kAgentAsks, {}});
  membership_.ended = NodeId(2);
  publish(*without_members(first_, node_set({2})));
  step(kStart + 1000);
  EXPECT_EQ(lease().fenced_after_ns(), 0U);
}

// Another member has forwarded the view before the membership's word has come.
TEST_F(MemberAgentTest, NobodyWaitsAnyLongerForTheLeaseOfWhoIsFencedLater) {
  start();
  step(kStart);
  hear(2, {1, 1, kAgentAsks, {}});
  publish(*without_members(first_, node_set({2})));
  step(kStart + 1000);
  EXPECT_EQ(lease().fenced_after_ns(), kStart + kLease + kLease / 100);
  membership_.ended = NodeId(2);
  agent_->notify();
  step(kStart + 2000);
  EXPECT_EQ(lease().fenced_after_ns(), 0U);
}

TEST_F(MemberAgentTest, AViewBeforeThatWasNeverActiveIsFencedToo) {
  start();
  step(kStart);
  hear(2, {1, 1, kAgentAsks, {}});
  publish(*without_members(first_, node_set({2})));
  step(kStart + 1000);
  const uint64_t fenced = lease().fenced_after_ns();
  ASSERT_NE(fenced, 0U);
  publish(with_next_epoch(*membership_.view));
  step(kStart + 2000);
  EXPECT_EQ(lease().fenced_after_ns(), fenced);
}

TEST_F(MemberAgentTest, ViewsOnlyGrow) {
  start();
  View later = first_;
  later.epoch = Epoch(4);
  publish(later);
  step(kStart);
  EXPECT_EQ(agent_->view()->epoch, Epoch(4));
  publish(first_);
  step(kStart + kLease);
  EXPECT_EQ(agent_->view()->epoch, Epoch(4));
}

TEST_F(MemberAgentTest, AViewOfAnotherConfigurationIsNotTaken) {
  start();
  View strange = first_;
  strange.epoch = Epoch(4);
  strange.partitions.pop_back();
  publish(strange);
  step(kStart);
  EXPECT_EQ(agent_->view()->epoch, Epoch(1));
}

TEST_F(MemberAgentTest, WhoIsNotInTheViewAnyMoreRetires) {
  start();
  step(kStart);
  publish(*without_members(first_, node_set({0})));
  step(kStart + 1000);
  EXPECT_TRUE(agent_->retired());
  host_->sent.clear();
  hear(1, {1, 2, kAgentAsks, {}});
  EXPECT_FALSE(step(kStart + 10 * kLease));
  EXPECT_TRUE(host_->sent.empty()) << "it gives no leases";
  EXPECT_EQ(lease().until_ns(), 0U);
}

TEST_F(MemberAgentTest, AnotherProcessOfItsNameInTheViewIsNotItself) {
  start();
  View next = first_;
  next.epoch = Epoch(2);
  next.members[0].token = 9;
  publish(next);
  step(kStart);
  EXPECT_TRUE(agent_->retired());
}

TEST_F(MemberAgentTest, WhoHearsOfAnOlderViewPassesItsOwnOnNowAndThen) {
  start();
  View later = first_;
  later.epoch = Epoch(4);
  publish(later);
  step(kStart);
  hear(1, {1, 3, kAgentAsks, {}});
  hear(1, {1, 3, kAgentAsks, {}});
  ASSERT_EQ(host_->sent.size(), 1U) << "once, and no lease";
  const std::vector<std::byte>& bytes = host_->sent[0].second;
  EXPECT_EQ(load<AgentBytes>(bytes.data()).answer, kAgentForwards);
  const Result<View> passed = view_from_json(as_text(ByteView(bytes).subspan(sizeof(AgentBytes))));
  ASSERT_TRUE(passed);
  EXPECT_EQ(passed->epoch, Epoch(4));
  host_->now += kLease / 16;
  host_->full = NodeId(1);
  host_->queued = host_->options.limits.credit_bytes / 2 + 1;
  hear(1, {1, 3, kAgentAsks, {}});
  EXPECT_EQ(host_->sent.size(), 1U) << "it takes nothing";
  host_->full = NodeId(2);
  hear(1, {1, 3, kAgentAsks, {}});
  EXPECT_EQ(host_->sent.size(), 2U) << "and now it does";
}

TEST_F(MemberAgentTest, AViewThatIsTooLargeToPassOnIsLoggedOnce) {
  start();
  WallClock wall;
  EventLog log(-1, EventLog::Form::kPeople, &wall);
  host_->log = &log;
  host_->options.limits.credit_bytes = 256;
  View later = first_;
  for (const uint32_t epoch : {4U, 5U}) {
    later.epoch = Epoch(epoch);
    publish(later);
    step(host_->now);
    for (int i = 0; i < 3; ++i) {
      host_->now += kLease / 16;
      hear(1, {1, 3, kAgentAsks, {}});
    }
    EXPECT_TRUE(sent(kAgentForwards).empty());
    const std::vector<LoggedEvent> events = log.since(epoch - 4);
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(events[0].text(), "warn  node 0: view_not_forwarded epoch=" + std::to_string(epoch) +
                                    " bytes=" + std::to_string(to_json(*agent_->view()).size()) + " bytes_max=128");
  }
}

TEST_F(MemberAgentTest, AViewThatAMemberPassesOnIsTakenIfItIsOne) {
  start();
  step(kStart);
  View later = first_;
  later.epoch = Epoch(4);
  hear(1, {0, 9, kAgentForwards, {}}, "{");
  hear(1, {0, 9, kAgentForwards, {}}, to_json(first_));
  hear(9, {0, 9, kAgentForwards, {}}, to_json(later));
  step(kStart + kLease / 16);
  EXPECT_EQ(agent_->view()->epoch, Epoch(1));
  hear(1, {0, 9, kAgentForwards, {}}, to_json(later));
  EXPECT_EQ(agent_->deadline_ns(), 0U) << "at once";
  step(kStart + kLease / 16 + 1);
  EXPECT_EQ(agent_->view()->epoch, Epoch(4));
}

TEST_F(MemberAgentTest, AMemberWhoseProcessHasEndedIsProposedForRemovalOnce) {
  start();
  step(kStart);
  give_all(kStart);
  EXPECT_TRUE(membership_.proposed.empty());
  membership_.ended = NodeId(2);
  for (uint64_t at = kStart + kLease / 16; at < kStart + kLease / 4; at += kLease / 16) step(at);
  ASSERT_EQ(membership_.proposed.size(), 1U) << "and again only after a while";
  EXPECT_EQ(membership_.proposed[0].epoch, Epoch(2));
  EXPECT_EQ(membership_.proposed[0].member_nodes(), node_set({0, 1}));
  EXPECT_EQ(membership_.proposed[0].change.cause, Cause::kEnded);
  EXPECT_EQ(agent_->suspects(), node_set({2}));
}

// The cluster waits for it: nothing is proposed that would lose data.
TEST_F(MemberAgentTest, WhoHasTheLastReplicaIsNotRemoved) {
  for (Placement& p : first_.partitions) {
    p = Placement();
    p.replicas = {NodeId(2)};
    p.count = 1;
    p.in_sync = node_set({2});
  }
  start();
  step(kStart);
  give_all(kStart);
  membership_.ended = NodeId(2);
  for (uint64_t at = kStart + kLease / 16; at < kStart + kLease / 2; at += kLease / 16) step(at);
  EXPECT_TRUE(membership_.proposed.empty());
  EXPECT_NE(agent_->unavailable_reason(), "");
}

TEST_F(MemberAgentTest, AReplicaIsOfferedAsWholeWhenAllIsCopiedInThatView) {
  first_.partitions[0].replicas = {NodeId(1)};
  first_.partitions[0].count = 1;
  first_.partitions[0].in_sync = node_set({1});
  first_.partitions[0].catching_up = node_set({0});
  start();
  step(kStart);
  give_all(kStart);
  EXPECT_TRUE(membership_.proposed.empty());
  host_->filled = Epoch(2);
  step(kStart + kLease / 16);
  EXPECT_TRUE(membership_.proposed.empty()) << "copied in another view";
  host_->filled = Epoch(1);
  step(kStart + kLease / 8);
  ASSERT_EQ(membership_.proposed.size(), 1U);
  EXPECT_TRUE(membership_.proposed[0].partitions[0].is_in_sync(NodeId(0)));
  EXPECT_EQ(membership_.proposed[0].change.cause, Cause::kCaughtUp);
}

// A1 of admission.h.
TEST_F(MemberAgentTest, WhoJoinsWaitsUntilItIsWelcomeInThatView) {
  View others = pre_join_view(first_, NodeId(0));
  others.epoch = Epoch(3);
  start(true);
  membership_.view = std::make_shared<const View>(others);
  step(kStart);
  agent_->allow_join(Epoch(2));
  step(kStart + kLease);
  EXPECT_TRUE(membership_.proposed.empty());
  agent_->allow_join(Epoch(3));
  step(kStart + 2 * kLease);
  ASSERT_EQ(membership_.proposed.size(), 1U);
  EXPECT_EQ(membership_.proposed[0].epoch, Epoch(4));
  ASSERT_NE(membership_.proposed[0].find(NodeId(0)), nullptr);
  EXPECT_EQ(membership_.proposed[0].find(NodeId(0))->token, kToken);
  EXPECT_EQ(agent_->view(), nullptr) << "a proposal is no view";
}

// Its records are decided without it.
TEST_F(MemberAgentTest, WhoJoinsHasTheLastProcessOfItsNameRemovedFirst) {
  View others = first_;
  others.members[0].token = 9;
  start(true);
  membership_.view = std::make_shared<const View>(others);
  agent_->allow_join(Epoch(1));
  step(kStart);
  ASSERT_EQ(membership_.proposed.size(), 1U);
  EXPECT_EQ(membership_.proposed[0].find(NodeId(0)), nullptr);
  EXPECT_EQ(membership_.proposed[0].change.cause, Cause::kReplaced);
}

TEST_F(MemberAgentTest, NotesAreBoundedAndTheLastOneCounts) {
  start();
  step(kStart);
  host_->sent.clear();
  agent_->send_gossip("first");
  agent_->send_gossip("second");
  agent_->send_gossip(std::string(NodeAgent::kGossipBytesMax + 1, 'x'));
  step(kStart + 1);
  std::vector<std::string> notes;
  for (const auto& [to, bytes] : host_->sent) {
    if (load<AgentBytes>(bytes.data()).answer == kAgentGossip) {
      notes.emplace_back(as_text(ByteView(bytes).subspan(sizeof(AgentBytes))));
    }
  }
  EXPECT_EQ(notes, (std::vector<std::string>{"second", "second"}));
  for (int i = 0; i < 9; ++i) hear(1, {0, 0, kAgentGossip, {}}, std::to_string(i));
  hear(2, {0, 0, kAgentGossip, {}}, std::string(NodeAgent::kGossipBytesMax + 1, 'x'));
  hear(2, {0, 0, kAgentGossip, {}}, std::string(NodeAgent::kGossipBytesMax, 'x'));
  EXPECT_EQ(agent_->take_gossip().size(), 4U + 1U);
  EXPECT_TRUE(agent_->take_gossip().empty());
}

}  // namespace
}  // namespace weft
