// The outcome of a transaction, queried by its id: while its coordinator lives, and after it has stopped at any step.
#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "weft/base/random.h"
#include "weft/run/owned_task.h"
#include "weft/txn/messages.h"
#include "weft/txn/node_testing.h"
#include "weft/txn/rows_testing.h"

namespace weft {
namespace {

// Three nodes with two replicas, stepped by hand. Everything is at two of them; node 0 coordinates.
class OutcomeQueryTest : public testing::TestWithParam<const char*>, public HandNodes {
 protected:
  // Starts everything anew.
  void start(int workers = 1, bool enemy = false) {
    work_.clear();
    answers_.clear();
    spec_ = three_nodes();
    spec_.options.workers = workers;
    spec_.options.protocol = GetParam();
    spec_.bugs = bugs_;
    spec_.recovers = true;
    make_network();
    for (uint8_t n = 0; n < 3; ++n) {
      if (!enemy || NodeId(n) != enemy_id_) start_node(NodeId(n), view_);
    }
    if (enemy) start_enemy();
  }

  void enemy_hears(std::span<const Message> run) override {
    for (const Message& m : run) {
      if (static_cast<Kind>(m.kind) != Kind::kOutcomeReply) continue;
      answers_.push_back(static_cast<KnownOutcome>(load<OutcomeReply>(m.body.data()).standing));
    }
  }

  // Owned here, so that tasks that wait forever end before the nodes do.
  void go(Task<void> task) {
    work_.push_back(OwnedTask::of(std::move(task)));
    work_.back().start();
  }

  // Node 0 stops forever, and the others go into a view without it.
  void stop_coordinator() {
    first_ = 1;
    const auto next = view_without(NodeId(0));
    for (uint8_t n = 1; n < 3; ++n) nodes_[n]->state().views.publish(next);
  }

  Session session(uint8_t node, uint8_t worker = 0) { return Session(txn_worker(node, worker)); }

  Task<void> write(Session s, std::vector<uint64_t> keys, Outcome* outcome, TxnId* id) {
    Txn txn = co_await s.begin();
    *id = txn.id();
    for (const uint64_t key : keys) txn.put(kTable, key, "value");
    *outcome = co_await txn.commit();
  }
  Task<void> read(Session s, uint64_t key, Outcome* outcome) {
    Txn txn = co_await s.begin();
    co_await txn.get(kTable, key);
    *outcome = co_await txn.commit();
  }
  Task<void> get(Session s, uint64_t key, std::optional<bool>* found) {
    char room[16];
    Task<Session::GetResult> task = s.get_one(kTable, key, room);
    const Session::GetResult one = co_await task;
    EXPECT_TRUE(one.outcome.committed()) << one.outcome.text();
    *found = one.found;
  }
  Task<void> hold(Session s, std::optional<Txn>* to) { to->emplace(co_await s.begin()); }
  Task<void> ask(Session s, TxnId id, std::optional<TxnStatus>* status) {
    Task<TxnStatus> task = s.query_outcome(id);
    *status = co_await task;
  }
  std::optional<TxnStatus> asked(Session s, TxnId id) {
    std::optional<TxnStatus> status;
    go(ask(s, id, &status));
    for (int i = 0; i < 20'000 && !status; ++i) steps(1);
    return status;
  }

  PlantedBugs bugs_;
  std::vector<OwnedTask> work_;
  std::vector<KnownOutcome> answers_;  // received by the enemy
};

TEST_P(OutcomeQueryTest, EveryNodeAnswersTheSame) {
  start();
  Outcome outcome;
  TxnId written;
  go(write(session(0), {key_at(NodeId(1)), key_at(NodeId(2))}, &outcome, &written));
  steps(50);
  ASSERT_TRUE(outcome.committed()) << outcome.text();
  Outcome only_read;
  go(read(session(0), key_at(NodeId(1)), &only_read));
  steps(50);
  ASSERT_TRUE(only_read.committed()) << only_read.text();
  TxnId given_up;
  {
    std::optional<Txn> txn;
    go(hold(session(0), &txn));
    given_up = txn->id();
    txn->abort();
  }
  TxnId later = given_up;
  later.sequence += 1000;
  TxnId nobodys = written;
  nobodys.incarnation = 77;
  TxnId no_worker = written;
  no_worker.worker = WorkerId(9);
  for (uint8_t n = 0; n < 3; ++n) {
    EXPECT_EQ(asked(session(n), written), TxnStatus::kCommitted);
    EXPECT_EQ(asked(session(n), given_up), TxnStatus::kAborted);
    EXPECT_EQ(asked(session(n), only_read.id), TxnStatus::kUnknownTxn);
    EXPECT_EQ(asked(session(n), later), TxnStatus::kUnknownTxn);
    EXPECT_EQ(asked(session(n), nobodys), TxnStatus::kUnknownTxn);
    EXPECT_EQ(asked(session(n), no_worker), TxnStatus::kUnknownTxn);
    EXPECT_EQ(asked(session(n), TxnId()), TxnStatus::kUnknownTxn);
  }
}

TEST_P(OutcomeQueryTest, WhoAsksWaitsWhileItIsOpen) {
  start();
  std::optional<Txn> txn;
  go(hold(session(0), &txn));
  ASSERT_TRUE(txn);
  std::optional<TxnStatus> status;
  go(ask(session(2), txn->id(), &status));
  steps(3000);
  EXPECT_FALSE(status);
  txn.reset();
  steps(3000);
  EXPECT_EQ(status, TxnStatus::kAborted);
}

TEST_P(OutcomeQueryTest, AnotherWorkersTransactionIsAskedForThere) {
  start(2);
  Outcome outcome;
  TxnId id;
  go(write(session(0, 1), {key_at(NodeId(2))}, &outcome, &id));
  steps(50);
  ASSERT_TRUE(outcome.committed()) << outcome.text();
  ASSERT_EQ(id.worker, WorkerId(1));
  for (uint8_t n = 0; n < 3; ++n) EXPECT_EQ(asked(session(n, 0), id), TxnStatus::kCommitted);
  id.worker = WorkerId(0);
  EXPECT_EQ(asked(session(1, 1), id), TxnStatus::kUnknownTxn);
}

// The coordinator stops after any number of steps. What it acknowledged stands, all survivors say the same, and the
// data agrees.
TEST_P(OutcomeQueryTest, TheCoordinatorStopsAtAnyStep) {
  bool committed = false;
  bool aborted = false;
  for (int stop = 0; stop < 40; ++stop) {
    start();
    Outcome outcome;
    outcome.kind = OutcomeKind::kUnknown;
    TxnId id;
    // A key that only the survivors hold, and one that it holds with each of them.
    const std::vector<uint64_t> keys{key_at(NodeId(1)), key_at(NodeId(2)), key_at(NodeId(0))};
    go(write(session(0), keys, &outcome, &id));
    for (int i = 0; i < stop; ++i) step(static_cast<size_t>(i % 3));
    stop_coordinator();
    const std::optional<TxnStatus> status = asked(session(1), id);
    ASSERT_TRUE(status) << stop;
    EXPECT_EQ(asked(session(2), id), status) << stop;
    for (const uint64_t key : keys) {
      std::optional<bool> found;
      go(get(session(1), key, &found));
      steps(1000);
      EXPECT_EQ(found, *status == TxnStatus::kCommitted) << stop;
    }
    if (outcome.committed()) {
      EXPECT_EQ(status, TxnStatus::kCommitted) << stop;
    }
    committed |= *status == TxnStatus::kCommitted;
    aborted |= *status == TxnStatus::kAborted;
    for (uint8_t n = 1; n < 3; ++n) EXPECT_EQ(txn_worker(n)->outcomes().contradictions(), 0U);
  }
  EXPECT_TRUE(committed);
  EXPECT_TRUE(aborted);
}

// A query that was asked before the crash is answered after it.
TEST_P(OutcomeQueryTest, AQuestionOutlivesTheView) {
  start();
  Outcome outcome;
  TxnId id;
  go(write(session(0), {key_at(NodeId(1))}, &outcome, &id));
  steps(2);
  first_ = 1;
  std::optional<TxnStatus> status;
  go(ask(session(2), id, &status));
  steps(1000);
  EXPECT_FALSE(status);
  stop_coordinator();
  steps(20'000);
  EXPECT_TRUE(status);
}

// A recovering node does not know yet how a record ends whose coordinator is gone, even if it is asked in the middle of
// the recovery: it has not forgotten it.
TEST_P(OutcomeQueryTest, WhoRecoversHasForgottenNothing) {
  enemy_id_ = NodeId(2);
  for (const bool planted : {false, true}) {  // shows that the test can fail
    bugs_.mask = planted ? static_cast<uint64_t>(PlantedBug::kForgetsOpen) : 0;
    start(1, true);
    Outcome outcome;
    TxnId id;
    go(write(session(0), {key_at(NodeId(1))}, &outcome, &id));
    steps(3);  // locked at node 1, or at all
    first_ = 1;
    const auto next = view_without(NodeId(0));
    nodes_[1]->state().views.publish(next);
    steps(10);
    ASSERT_FALSE(txn_worker(1)->active());  // it waits for node 2
    enemy_->set_epoch(port_epoch(next->epoch, false));
    const OutcomeQuery ask{id.sequence, id.incarnation, 1};
    store(enemy_->reserve(NodeId(1), Flow::kExecution, static_cast<uint8_t>(Kind::kOutcomeQuery), sizeof ask), ask);
    steps(10);
    EXPECT_FALSE(txn_worker(1)->active());
    EXPECT_EQ(answers_, std::vector{planted ? KnownOutcome::kNothing : KnownOutcome::kOpen});
  }
}

// In rows that commit by unanimity, a participant that has released may be lost together with the coordinator, and the
// others commit: nobody records an abort before the coordinator knows that it has reached all. The next use of the slot
// tells the participants.
TEST_P(OutcomeQueryTest, AnAbortIsNotedWhenItIsFinal) {
  start();
  Random random(1);
  constexpr int kRounds = 60;
  std::vector<Outcome> outcomes(2 * kRounds);
  for (Outcome& outcome : outcomes) outcome.kind = OutcomeKind::kUnknown;
  std::vector<TxnId> ids(2 * kRounds);
  const std::vector<uint64_t> keys{key_at(NodeId(1)), key_at(NodeId(2))};
  const auto known = [&](uint8_t node, const TxnId& id) {
    return txn_worker(node)->outcomes().find(id.incarnation, id.sequence);
  };
  const bool unanimous = nodes_[0]->rows().first().locks_backups();
  for (size_t i = 0; i < outcomes.size(); i += 2) {
    go(write(session(0), keys, &outcomes[i], &ids[i]));
    go(write(session(2), keys, &outcomes[i + 1], &ids[i + 1]));
    for (int j = 0; j < 60; ++j) {
      step(random.below(3));
      for (const size_t t : {i, i + 1}) {
        for (const uint8_t node : {uint8_t{1}, static_cast<uint8_t>(t == i ? 2 : 0)}) {
          if (unanimous && known(node, ids[t]) == OutcomeLog::Known::kAborted) {
            ASSERT_EQ(outcomes[t].kind, OutcomeKind::kAborted) << "noted at " << int{node} << " before it was told";
          }
        }
      }
    }
    steps(50);
  }
  size_t aborted = 0;
  size_t at_participants = 0;
  for (size_t t = 0; t + 10 < outcomes.size(); ++t) {
    if (outcomes[t].committed()) continue;
    ++aborted;
    at_participants += known(1, ids[t]) == OutcomeLog::Known::kAborted ? 1 : 0;
  }
  EXPECT_GT(aborted, 0U);
  EXPECT_GT(at_participants, 0U);
}

INSTANTIATE_TEST_SUITE_P(Rows, OutcomeQueryTest, testing::ValuesIn(all_rows()), row_test_name);

}  // namespace
}  // namespace weft
