// Agents of three nodes over a local fabric, stepped by hand: who is removed, and when. Node 1 is a bare port where a
// test wants it to misbehave.
#include "weft/cluster/agent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/base/event_log.h"
#include "weft/cluster/view_json.h"
#include "weft/txn/messages.h"
#include "weft/txn/node_testing.h"

namespace weft {
namespace {

constexpr uint64_t kLeaseNs = 1'000'000;

class FakeMembership final : public Membership {
 public:
  std::shared_ptr<const View> latest() override { return view; }
  void propose(const View& next) override {
    if (away || (view != nullptr && next.epoch.value != view->epoch.value + 1)) return;
    view = std::make_shared<const View>(next);
    ++changes;
  }
  bool fenced(NodeId node, uint32_t) override { return node == ended; }
  NodeId ended{kNodesMax};  // its process
  std::shared_ptr<const View> view;
  int changes = 0;
  bool away = false;
};

class AgentTest : public testing::Test, public HandNodes {
 protected:
  // Time goes on only between steps, and began long ago.
  AgentTest() {
    clock_.now = 5'000'000'000;
    clock_.step = 0;
  }

  // Without the enemy's agent and engine if `enemy`.
  void start(bool enemy, int workers = 1) {
    spec_ = three_nodes();
    spec_.options.workers = workers;
    spec_.recovers = true;
    spec_.bugs = bugs_;
    make_network();
    for (Member& member : view_.members) member.token = 100 + member.node.value;
    membership_.view = slow_membership_.view = std::make_shared<const View>(view_);
    for (uint8_t n = 0; n < 3; ++n) {
      if (enemy && NodeId(n) == enemy_id_) continue;
      start_with_agent(NodeId(n), view_, 100U + n, false);
    }
    if (enemy) start_enemy();
  }

  void start_with_agent(NodeId id, const View& view, uint64_t token, bool joins) {
    ASSERT_NO_FATAL_FAILURE(start_node(id, view, joins));
    AgentOptions options;
    options.lease_ns = lease_ns_;
    options.self.node = id;
    options.self.token = token;
    FakeMembership* const membership = id == slow_ ? &slow_membership_ : &membership_;
    agents_[id.value] = std::make_unique<Agent>(options, nodes_[id.value].get(), membership);
  }

  // The enemy keeps its leases, and its promises up to the unlock.
  void enemy_hears(std::span<const Message> run) override {
    for (const Message& m : run) {
      const auto kind = static_cast<Kind>(m.kind);
      if (kind == Kind::kControl) {
        std::byte* at = enemy_->reserve(m.source, Flow::kControl, m.kind, m.body.size());
        std::memcpy(at, m.body.data(), m.body.size());
        store(at + 12, uint32_t{1});
      }
      if (kind != Kind::kLock && kind != Kind::kReplicate && kind != Kind::kValidate) continue;
      const auto request = load<CommitRequest>(m.body.data());
      const size_t bases = kind == Kind::kLock ? request.keys : 0U;
      std::byte* at = enemy_->reserve(m.source, Flow::kCommit, static_cast<uint8_t>(Kind::kReply),
                                      sizeof(PhaseReply) + bases * sizeof(uint64_t), m.spare);
      PhaseReply reply{};
      reply.sequence = static_cast<uint32_t>(request.sequence);
      if (kind == Kind::kValidate) reply.phase = static_cast<uint8_t>(Phase::kValidate);
      if (kind == Kind::kLock) reply.phase = static_cast<uint8_t>(Phase::kLock);
      if (kind == Kind::kReplicate) reply.phase = static_cast<uint8_t>(Phase::kReplicate);
      reply.bases = static_cast<uint8_t>(bases);
      store(at, reply);
      for (size_t i = 0; i < bases; ++i) store(at + sizeof reply + i * sizeof(uint64_t), uint64_t{0});
    }
  }

  void run_for(uint64_t ns) {
    for (const uint64_t end = clock_.now + ns; clock_.now < end; clock_.now += kLeaseNs / 64) steps(4);
  }

  Detached read(Session session, uint64_t key, std::vector<Outcome>* outcomes) {
    Txn txn = co_await session.begin();
    co_await txn.get(kTable, key);
    outcomes->push_back(co_await txn.commit());
  }

  Detached get(Session session, uint64_t key, std::vector<bool>* found) {
    char room[16];
    Task<Session::One> task = session.get_one(kTable, key, room);
    const Session::One one = co_await task;
    found->push_back(one.outcome.committed() && one.found);
  }

  EventLog* events() override { return &events_; }
  std::vector<std::string> suspected() const {
    std::vector<std::string> out;
    for (const LoggedEvent& event : events_.since(0)) {
      if (event.name == "member_suspected") out.push_back(event.text());
    }
    return out;
  }

  bool gone_on(size_t node) { return engine(node)->active() && engine(node)->view().epoch == membership_.view->epoch; }

  // The connection of nodes 0 and 2 breaks; node 2 goes, and does not hear of it.
  void lose_node_2() {
    lease_ns_ = 10 * kLeaseNs;  // a leader asks again after 2 ms
    slow_ = NodeId(2);
    slow_membership_.away = true;
    membership_.changes = 0;
    ASSERT_NO_FATAL_FAILURE(start(false));
    run_for(2 * lease_ns_);
    ASSERT_EQ(membership_.changes, 0);
    ASSERT_GT(nodes_[2]->lease_until_ns(), clock_.now + lease_ns_ / 2);
    nodes_[0]->peer_closed(NodeId(2), membership_.view->find(NodeId(2))->incarnation);
    agents_[0]->nudge();
    run_for(lease_ns_ / 16);
    ASSERT_EQ(membership_.view->find(NodeId(2)), nullptr);
  }

  Bugs bugs_;
  uint64_t lease_ns_ = kLeaseNs;
  EventLog events_{-1, EventLog::Form::kJson, &clock_};
  FakeMembership membership_;
  NodeId slow_{kNodesMax};  // whose membership does not hear of changes
  FakeMembership slow_membership_;
  std::unique_ptr<Agent> agents_[3];
};

TEST_F(AgentTest, FoundingMembersStayTogether) {
  start(false);
  run_for(20 * kLeaseNs);
  EXPECT_EQ(membership_.changes, 0);
  std::vector<Outcome> outcomes;
  put(Session(engine(0)), key_at(NodeId(1)), &outcomes);
  run_for(kLeaseNs);
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_TRUE(outcomes[0].committed()) << outcomes[0].text();
}

TEST_F(AgentTest, WhoIsSilentIsSuspectedUntilTheViewIsWithoutIt) {
  start(false);
  run_for(2 * kLeaseNs);
  for (const size_t n : {0U, 1U, 2U}) EXPECT_EQ(agents_[n]->suspects(), 0U);
  membership_.away = true;
  first_ = 1;
  run_for(3 * kLeaseNs);
  EXPECT_EQ(agents_[1]->suspects(), 1U);
  EXPECT_LE(nodes_[1]->lease_until_ns(), clock_.now);
  membership_.away = false;
  run_for(3 * kLeaseNs);
  ASSERT_TRUE(gone_on(1));
  EXPECT_EQ(agents_[1]->suspects(), 0U);
  EXPECT_GT(nodes_[1]->lease_until_ns(), clock_.now);
}

TEST_F(AgentTest, NotesReachTheOthersAndAreBounded) {
  start(false);
  run_for(kLeaseNs);
  agents_[0]->send_note("overwritten");
  agents_[0]->send_note("hello");
  agents_[1]->send_note(std::string(Agent::kNoteBytesMax + 1, 'x'));
  run_for(kLeaseNs);
  for (const size_t to : {1U, 2U}) {
    const std::vector<Agent::Note> notes = agents_[to]->take_notes();
    ASSERT_EQ(notes.size(), 1U);
    EXPECT_EQ(notes[0].from, NodeId(0));
    EXPECT_EQ(notes[0].text, "hello");
    EXPECT_TRUE(agents_[to]->take_notes().empty());
  }
  EXPECT_TRUE(agents_[0]->take_notes().empty());
  // Whom nobody asks keeps a few, and goes on.
  for (int i = 0; i < 20; ++i) {
    agents_[0]->send_note(std::to_string(i));
    run_for(kLeaseNs);
  }
  EXPECT_EQ(agents_[1]->take_notes().size(), 4U);
  EXPECT_EQ(membership_.changes, 0);
}

// Node 2's membership is away: it hears from the others that node 1 is gone, and is not taken for lost itself.
TEST_F(AgentTest, MembersPassTheViewOn) {
  slow_ = NodeId(2);
  slow_membership_.away = true;
  start(false);
  run_for(2 * kLeaseNs);
  agents_[1].reset();
  nodes_[1].reset();
  run_for(20 * kLeaseNs);
  EXPECT_EQ(membership_.view->member_mask(), 0b101U);
  EXPECT_EQ(slow_membership_.view->epoch, Epoch(1));
  ASSERT_NE(agents_[2]->view(), nullptr);
  EXPECT_EQ(agents_[2]->view()->epoch, membership_.view->epoch);
  std::vector<Outcome> outcomes;
  put(Session(engine(2)), key_at(NodeId(0)), &outcomes);
  run_for(kLeaseNs);
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_TRUE(outcomes[0].committed()) << outcomes[0].text();
}

// What a peer passes on is looked at like anything from a wire.
TEST_F(AgentTest, AViewThatCannotBeIsNotTaken) {
  start(false);
  run_for(2 * kLeaseNs);
  View view = *membership_.view;
  view.epoch = Epoch(9);
  View strange = view;
  strange.partitions.pop_back();
  View large = view;
  large.members.push_back({NodeId(17), 99, true, true, 1, {}, {}});
  for (const std::string& text : {std::string("{"), std::string(), to_json(strange), to_json(large)}) {
    std::vector<std::byte> message(16 + text.size());
    store(message.data() + 12, uint32_t{2});
    if (!text.empty()) std::memcpy(message.data() + 16, text.data(), text.size());
    engine(0)->send_control(NodeId(2), message);
    run_for(2 * kLeaseNs);
    EXPECT_EQ(agents_[2]->view()->epoch, Epoch(1));
  }
  EXPECT_EQ(membership_.changes, 0);
  // Nor what somebody has written into the membership itself.
  for (const View& wrong : {strange, large}) {
    membership_.view = std::make_shared<const View>(wrong);
    run_for(2 * kLeaseNs);
    for (const auto& agent : agents_) EXPECT_EQ(agent->view()->epoch, Epoch(1));
  }
}

// Whoever leads a recovery leads it step by step, or is shut out.
TEST_F(AgentTest, ALeaderThatSkipsStepsIsNotBelieved) {
  for (const RecoveryStep step : {RecoveryStep::kActive, RecoveryStep::kApply}) {
    enemy_id_ = NodeId(0);
    start(true);
    run_for(2 * kLeaseNs);
    agents_[2].reset();
    nodes_[2].reset();
    run_for(3 * kLeaseNs);
    ASSERT_EQ(membership_.view->member_mask(), 0b011U);
    ASSERT_EQ(membership_.view->leader(), NodeId(0));
    EXPECT_FALSE(nodes_[1]->has_closed(NodeId(0), 1));
    RecoveryHeader header{};
    header.epoch = membership_.view->epoch.value;
    header.step = static_cast<uint8_t>(step);
    store(enemy_->reserve(NodeId(1), Flow::kRecovery, static_cast<uint8_t>(Kind::kRecovery), sizeof header), header);
    run_for(kLeaseNs / 4);
    EXPECT_FALSE(engine(1)->active());
    EXPECT_TRUE(nodes_[1]->has_closed(NodeId(0), 1));
    agents_[1].reset();
  }
}

// Rule E2. The last one is the bug that this is about: the test can fail.
TEST_F(AgentTest, ARemovedMemberIsWaitedForAsLongAsItHasALease) {
  for (const bool planted : {false, true}) {
    bugs_.mask = planted ? static_cast<uint64_t>(Bug::kNoFenceWait) : 0;
    ASSERT_NO_FATAL_FAILURE(lose_node_2());
    bool early = false;
    while (clock_.now < nodes_[2]->lease_until_ns()) {
      early = early || gone_on(0) || gone_on(1);
      run_for(kLeaseNs / 64);
    }
    EXPECT_EQ(early, planted);
    run_for(lease_ns_);
    EXPECT_TRUE(gone_on(0) && gone_on(1));
    for (auto& agent : agents_) agent.reset();
  }
}

// Who gives a lease waits for longer than it lasts, by as much as the clock of who holds it may be slow.
TEST_F(AgentTest, ARemovedMembersLeaseIsWaitedForWithAMargin) {
  for (const bool planted : {false, true}) {
    bugs_.mask = planted ? static_cast<uint64_t>(Bug::kNoDriftMargin) : 0;
    ASSERT_NO_FATAL_FAILURE(lose_node_2());
    run_for(lease_ns_ / 16);  // both have adopted the view without it
    const uint64_t margin_ns = lease_ns_ * AgentOptions().drift_permille / 1000;
    ASSERT_GT(margin_ns, kLeaseNs / 16);  // what an answer may have taken in these steps
    // What it holds ends with the first of the two leases.
    const uint64_t waited_ns = std::min(nodes_[0]->fenced_after_ns(), nodes_[1]->fenced_after_ns());
    ASSERT_GT(waited_ns, clock_.now);
    EXPECT_EQ(waited_ns >= nodes_[2]->lease_until_ns() + margin_ns, !planted);
    for (auto& agent : agents_) agent.reset();
  }
}

// Its lease is over, the others have gone on: what a client reads here now is held back, and not told when the node
// hears that it was removed.
TEST_F(AgentTest, AReadThatWaitsForTheLeaseIsNotToldAtRemoval) {
  for (const bool planted : {false, true}) {
    bugs_.mask = planted ? static_cast<uint64_t>(Bug::kToldRemoved) : 0;
    ASSERT_NO_FATAL_FAILURE(lose_node_2());
    run_for(2 * lease_ns_);
    ASSERT_TRUE(gone_on(0));
    ASSERT_LT(nodes_[2]->lease_until_ns(), clock_.now);
    ASSERT_FALSE(agents_[2]->retired());
    std::vector<Outcome> outcomes;
    read(Session(engine(2)), key_at(NodeId(2)), &outcomes);
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

// The machine does not run for a while: the first to wake removes nobody. One that stays away is removed then.
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

// Once by each that proposes it, with how long nothing was heard of it.
TEST_F(AgentTest, WhoseLeaseRanOutIsSaidOnce) {
  start(false);
  run_for(2 * kLeaseNs);
  membership_.away = true;  // it is proposed again and again
  agents_[2].reset();
  nodes_[2].reset();
  run_for(4 * kLeaseNs);
  ASSERT_EQ(suspected().size(), 2U);
  EXPECT_NE(
      suspected()[0].find("member=2 incarnation=3 address=\"\" why=\"its lease has run out\" silent_ms=1 lease_ms=1"),
      std::string::npos)
      << suspected()[0];
}

// A lease for machines that are busy: who hangs is waited for, who has ended is not.
TEST_F(AgentTest, ALongLeaseDoesNotDelayTheRemovalOfWhoHasEnded) {
  lease_ns_ = 4 * AgentOptions::kPaceNs;
  start(false);
  const auto run_paces = [&](uint64_t sixty_fourths) {
    for (uint64_t i = 0; i < sixty_fourths; ++i, clock_.now += AgentOptions::kPaceNs / 64) steps(4);
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
  EXPECT_GT(nodes_[0]->lease_until_ns(), clock_.now);
  ASSERT_FALSE(suspected().empty());
  EXPECT_NE(suspected()[0].find("its process has ended"), std::string::npos) << suspected()[0];
}

// A node that has little of its core, and is late all the time.
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

// A member that comes and goes makes view after view; another one that is silent is noticed all the same.
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

// Its leases go on, so only what it sent tells against it.
TEST_F(AgentTest, APeerThatSendsGarbageIsRemovedAndWhatWaitedForItIsDecided) {
  start(true);
  run_for(5 * kLeaseNs);
  ASSERT_EQ(membership_.changes, 0);
  std::vector<Outcome> outcomes;
  const uint64_t past = key_at(enemy_id_);  // locked there, replicated at node 2, and about to be unlocked
  put(Session(engine(0)), past, &outcomes);
  run_for(kLeaseNs / 4);
  EXPECT_TRUE(outcomes.empty());
  ASSERT_NO_FATAL_FAILURE(send_garbage(NodeId(0), Flow::kCommit));
  run_for(kLeaseNs / 4);
  EXPECT_EQ(membership_.view->find(enemy_id_), nullptr);
  run_for(4 * kLeaseNs);
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_TRUE(outcomes[0].committed()) << outcomes[0].text();
  std::vector<bool> found;
  for (const uint8_t n : {uint8_t{0}, uint8_t{2}}) get(Session(engine(n)), past, &found);
  run_for(kLeaseNs);
  EXPECT_EQ(found, std::vector<bool>(2, true));
}

TEST_F(AgentTest, AClosedChannelOfAnyWorkerCounts) {
  start(true, 2);
  run_for(2 * kLeaseNs);
  ASSERT_EQ(membership_.changes, 0);
  ASSERT_NO_FATAL_FAILURE(send_garbage(NodeId(2), Flow::kExecution, WorkerId(1)));
  run_for(4 * kLeaseNs);
  EXPECT_EQ(membership_.view->find(enemy_id_), nullptr);
  for (const uint8_t n : {uint8_t{0}, uint8_t{2}}) {
    for (uint8_t w = 0; w < 2; ++w) EXPECT_TRUE(engine(n, w)->active()) << int{n} << " " << int{w};
  }
}

// Node 2 starts again. It comes in when it has everybody's word (admission.h), and for the view that the words are of.
TEST_F(AgentTest, WhoIsToJoinWaitsUntilItIsWelcome) {
  for (const bool planted : {false, true}) {
    bugs_.mask = planted ? static_cast<uint64_t>(Bug::kHastyJoin) : 0;
    start(false);
    run_for(2 * kLeaseNs);
    agents_[2].reset();
    nodes_[2].reset();
    run_for(3 * kLeaseNs);
    ASSERT_EQ(membership_.view->member_mask(), 0b011U);
    start_with_agent(NodeId(2), before_joining(*membership_.view, NodeId(2)), 7, true);
    run_for(10 * kLeaseNs);
    EXPECT_EQ(membership_.view->find(NodeId(2)) != nullptr, planted);
    agents_[2]->welcome(Epoch(membership_.view->epoch.value - 1));
    run_for(10 * kLeaseNs);
    EXPECT_EQ(membership_.view->find(NodeId(2)) != nullptr, planted);
    agents_[2]->welcome(membership_.view->epoch);
    run_for(10 * kLeaseNs);
    ASSERT_NE(membership_.view->find(NodeId(2)), nullptr);
    EXPECT_EQ(membership_.view->find(NodeId(2))->token, 7U);
    for (auto& agent : agents_) agent.reset();
  }
}

// It was to be a member, and sees only the view in which another process of its name is one.
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
  EXPECT_TRUE(engine(2)->retired());
}

}  // namespace
}  // namespace weft
