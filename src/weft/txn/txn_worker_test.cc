// One worker's loop: what it says of itself between two steps, when it wants the next one, and what it does with a peer
// that is lost.
#include "weft/txn/txn_worker.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/event_log.h"
#include "weft/member/agent_host.h"
#include "weft/run/owned_task.h"
#include "weft/txn/node_testing.h"

namespace weft {
namespace {

// Three nodes with two replicas, stepped by hand. The worker under test is node 0's.
class TxnWorkerTest : public testing::Test, public HandNodes {
 protected:
  static constexpr NodeId kOne{1};

  void SetUp() override { start("dnl4"); }
  void start(const char* protocol, bool recovers = true, const char* verb_credit = "") {
    spec_ = three_nodes();
    spec_.options.protocol = protocol;
    spec_.options.verb_credit = verb_credit;
    spec_.recovers = recovers;
    make_network();
    for (uint8_t n = 0; n < 3; ++n) ASSERT_NO_FATAL_FAILURE(start_node(NodeId(n), view_));
    steps(1);  // they know what time it is
  }
  EventLog* events() override { return &events_; }

  void go(Task<void> task) {
    work_.push_back(OwnedTask::of(std::move(task)));
    work_.back().start();
  }
  void steps_of(std::initializer_list<size_t> nodes, int count) {
    for (int i = 0; i < count; ++i) {
      for (const size_t n : nodes) step(n);
    }
  }
  Task<void> read(uint64_t key, std::optional<Outcome>* out) {
    Session session(txn_worker(0));
    Txn txn = co_await session.begin();
    co_await txn.get(kTable, key);
    *out = co_await txn.commit();
  }
  Task<void> write(uint64_t key, std::optional<Outcome>* out) {
    Session session(txn_worker(0));
    Task<Outcome> task = session.put_one(kTable, key, "value");
    *out = co_await task;
  }
  TxnWorker& worker() { return *txn_worker(0); }
  NodeState& state() { return nodes_[0]->state(); }

  EventLog events_{-1, EventLog::Form::kJson, &clock_};
  std::vector<OwnedTask> work_;
};

// An agent that is busy as the test says, and keeps what it hears.
struct TxnWorkerAgent final : NodeAgentHook {
  bool step(uint64_t now_ns) override {
    ++steps;
    last_ns = now_ns;
    return busy;
  }
  uint64_t deadline_ns() const override { return due_ns; }
  void on_message(NodeId from, ByteView message) override {
    heard += std::to_string(from.value) + ":" + std::string(as_text(message)) + " ";
  }
  int steps = 0;
  uint64_t last_ns = 0;
  bool busy = false;
  uint64_t due_ns = UINT64_MAX;
  std::string heard;
};

TEST_F(TxnWorkerTest, AWorkerThatHasNothingToDoIsIdle) {
  EXPECT_TRUE(worker().idle());
  EXPECT_TRUE(worker().active());
  EXPECT_FALSE(worker().pending());
  EXPECT_FALSE(worker().waits());
  EXPECT_EQ(worker().unavailable_reason(), "");
  EXPECT_EQ(worker().view().epoch, view_.epoch);
  EXPECT_FALSE(nodes_[0]->worker(WorkerId(0))->step());
}

TEST_F(TxnWorkerTest, ItWaitsWhileATransactionIsUnderWayAndIsIdleWhenNothingIsLeftOfIt) {
  std::optional<Outcome> outcome;
  go(write(key_at(kOne), &outcome));
  EXPECT_TRUE(worker().waits());
  EXPECT_FALSE(worker().idle());
  EXPECT_LE(worker().deadline_ns(), clock_.now + worker().slots().answer_ns());
  steps(50);
  ASSERT_TRUE(outcome && outcome->committed());
  clock_.now += kSecondNs;  // what is told now and then has been told
  steps(50);
  for (size_t n = 0; n < 3; ++n) EXPECT_TRUE(txn_worker(n)->idle()) << n;
  EXPECT_FALSE(worker().waits());
}

TEST_F(TxnWorkerTest, AReadThatIsToBeDoneHereIsPending) {
  std::optional<Outcome> outcome;
  go(read(key_at(NodeId(0)), &outcome));
  EXPECT_TRUE(worker().pending());
  EXPECT_FALSE(worker().idle());
  steps_of({0}, 10);
  EXPECT_FALSE(worker().pending());
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->committed()) << outcome->text();
}

TEST_F(TxnWorkerTest, TheCountersAreThoseOfAllParts) {
  std::optional<Outcome> outcome;
  go(write(key_at(kOne), &outcome));
  steps(50);
  const Counters counters = worker().counters();
  EXPECT_EQ(counters.committed, 1U);
  EXPECT_GT(counters.messages_sent, 0U);
  EXPECT_GT(counters.messages_received, 0U);
  EXPECT_GT(counters.packets_sent, 0U);
  EXPECT_GT(counters.packets_received, 0U);
  EXPECT_GT(counters.bytes_sent, 0U);
  EXPECT_EQ(counters.steps, 51U);
  EXPECT_EQ(counters.doorbells, 0U) << "the row uses no verbs";
}

TEST_F(TxnWorkerTest, OthersSeeTheFiguresNowAndThenAndBeforeItSleeps) {
  clock_.step = 0;
  steps(32);
  const uint64_t seen = worker().stats().counters.steps;
  EXPECT_NE(seen, 0U);
  steps(32);
  EXPECT_EQ(worker().stats().counters.steps, seen) << "it is not due";
  clock_.now += WorkerStatsSnapshot::kPeriodNs;
  steps(32);
  const uint64_t later = worker().stats().counters.steps;
  EXPECT_GT(later, seen);

  std::optional<Outcome> outcome;
  go(read(key_at(kOne), &outcome));
  step(0);
  EXPECT_EQ(worker().stats().in_flight, 0U);
  nodes_[0]->worker(WorkerId(0))->before_sleep();
  EXPECT_EQ(worker().stats().in_flight, 1U);
  EXPECT_EQ(worker().stats().counters.steps, worker().counters().steps);
  steps(20);
  EXPECT_TRUE(outcome) << "the next step wakes it";
}

TEST_F(TxnWorkerTest, AFaultOfAPeerClosesItsChannelOnceAndTellsTheNode) {
  worker().context().faults.report(kOne, "it sends nonsense");
  EXPECT_TRUE(worker().pending());
  steps_of({0}, 3);
  EXPECT_FALSE(worker().pending());
  EXPECT_TRUE(worker().context().port.closed(kOne));
  EXPECT_TRUE(worker().context().views.is_lost(kOne));
  EXPECT_TRUE(state().links.is_closed(kOne, view_.find(kOne)->incarnation));
  const std::vector<LoggedEvent> told = events_.since(0);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].name, "peer_closed");
  EXPECT_EQ(told[0].level, Level::kError);
  EXPECT_EQ(told[0].node, 0);
  EXPECT_NE(told[0].text().find("it sends nonsense"), std::string::npos) << told[0].text();
}

TEST_F(TxnWorkerTest, WhatWaitsForALostPeerGetsAnOutcomeAndWhatItLeftOpenDoesNotCount) {
  ASSERT_NO_FATAL_FAILURE(start("dnl4", false));  // no recovery will decide it
  std::optional<Outcome> reads;
  std::optional<Outcome> writes;
  go(read(key_at(kOne), &reads));
  go(write(key_at(kOne, 1), &writes));
  steps_of({0}, 5);
  EXPECT_FALSE(reads || writes);
  EXPECT_FALSE(worker().idle());
  worker().context().faults.report(kOne, "it sends nonsense");
  steps_of({0}, 10);
  ASSERT_TRUE(reads && writes);
  EXPECT_EQ(reads->code, Code::kPeerLost) << reads->text();
  EXPECT_EQ(writes->code, Code::kPeerLost) << writes->text();
  EXPECT_TRUE(worker().idle());
}

TEST_F(TxnWorkerTest, AViewThatWasPublishedIsPendingUntilItIsAdopted) {
  const auto next = view_without(NodeId(2));
  state().views.publish(next);
  EXPECT_TRUE(worker().pending());
  steps_of({0}, 3);
  EXPECT_EQ(worker().view().epoch, next->epoch);
  EXPECT_FALSE(worker().active());
  EXPECT_EQ(worker().unavailable_reason(), "the view is not active: not all of its nodes answer");
  nodes_[1]->state().views.publish(next);
  steps_of({0, 1}, 100);
  EXPECT_TRUE(worker().active());
  EXPECT_EQ(worker().unavailable_reason(), "");
}

TEST_F(TxnWorkerTest, AWorkerOfANodeThatWasRemovedSaysSo) {
  state().views.publish(view_without(NodeId(0)));
  steps_of({0}, 3);
  EXPECT_FALSE(worker().active());
  EXPECT_EQ(worker().unavailable_reason(), "this node was removed from the view");
}

TEST_F(TxnWorkerTest, WithoutALeaseItIsInTroubleAndLooksAgainAtOnceForWhatItMustNotTellYet) {
  EXPECT_GT(worker().deadline_ns(), worker().context().now_ns() + 1);
  state().lease.set_until(clock_.now);
  std::optional<Outcome> outcome;
  go(read(key_at(NodeId(0)), &outcome));
  steps_of({0}, 5);
  EXPECT_FALSE(outcome);
  EXPECT_EQ(worker().unavailable_reason(), "this node has no lease: it does not reach all nodes of the view");
  EXPECT_EQ(worker().deadline_ns(), worker().context().now_ns() + 1);
  state().lease.set_until(clock_.now + kSecondNs);
  steps_of({0}, 5);
  EXPECT_EQ(worker().unavailable_reason(), "");
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->committed()) << outcome->text();
}

TEST_F(TxnWorkerTest, TheAgentRunsInTheLoopAndItsDeadlineCounts) {
  TxnWorkerAgent agent;
  nodes_[0]->agent_host()->set_agent(&agent);
  steps_of({0}, 3);
  EXPECT_EQ(agent.steps, 3);
  EXPECT_EQ(agent.last_ns, worker().context().now_ns());
  EXPECT_FALSE(nodes_[0]->worker(WorkerId(0))->step());
  agent.busy = true;
  EXPECT_TRUE(nodes_[0]->worker(WorkerId(0))->step());
  agent.due_ns = 77;
  EXPECT_EQ(worker().deadline_ns(), 77U);
  nodes_[1]->agent_host()->send_control(NodeId(0), as_bytes("hello"));
  steps_of({1, 0}, 2);
  EXPECT_EQ(agent.heard, "1:hello ");
  nodes_[0]->agent_host()->set_agent(nullptr);
  steps_of({0}, 1);
  EXPECT_EQ(agent.steps, 7);
}

TEST_F(TxnWorkerTest, AWaitThatTakesTooLongEndsAtTheDeadline) {
  std::optional<Outcome> outcome;
  go(read(key_at(kOne), &outcome));
  steps_of({0}, 5);
  EXPECT_FALSE(outcome);
  clock_.now = worker().slots().due_ns();
  steps_of({0}, 3);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->code, Code::kNoAnswer) << outcome->text();
}

TEST_F(TxnWorkerTest, WithoutRingsThereIsNothingToDrain) {
  worker().drain_rings();
  EXPECT_TRUE(worker().idle());
}

// Everything but the backup's own loop brings the entry: verbs write it into the backup's ring.
TEST_F(TxnWorkerTest, DrainingTheRingsMakesRecordsOfWhatPeersHaveLogged) {
  ASSERT_NO_FATAL_FAILURE(start("drtmr"));
  const uint64_t key = key_at(NodeId(0));  // its backup is node 1
  std::optional<Outcome> outcome;
  go(write(key, &outcome));
  steps_of({0, 1, 2}, 60);
  ASSERT_TRUE(outcome && outcome->committed());
  outcome.reset();
  // A put of a record that is there is logged in the ring.
  const auto update = [this, key, &outcome]() -> Task<void> {
    Session session(txn_worker(0));
    Txn txn = co_await session.begin();
    co_await txn.get(kTable, key, Intent::kUpdate);
    txn.put(kTable, key, "again");
    outcome = co_await txn.commit();
  };
  go(update());
  steps_of({0}, 40);
  const size_t before = txn_worker(1)->records().open_records();
  txn_worker(1)->drain_rings();
  EXPECT_EQ(txn_worker(1)->records().open_records(), before + 1);
  EXPECT_GT(worker().counters().doorbells, 0U);
}

TEST_F(TxnWorkerTest, ItsFiguresSayHowManyVerbsMayBeInFlight) {
  EXPECT_EQ(worker().stats().verb_limit, 0U);
  ASSERT_NO_FATAL_FAILURE(start("drtmr", true, "1"));
  std::optional<Outcome> outcome;
  go(write(key_at(NodeId(0)), &outcome));
  steps_of({0, 1, 2}, 60);
  ASSERT_TRUE(outcome && outcome->committed());
  nodes_[0]->worker(WorkerId(0))->before_sleep();
  EXPECT_EQ(worker().stats().verb_limit, 1U);
  EXPECT_EQ(worker().counters().verb_limits, worker().counters().doorbells);
}

}  // namespace
}  // namespace weft
