// Every wait ends, also at a node that does not reach the others, and its answer stays true (rules A1 to A3 of
// client_waits.h): whether the others come back, or go on without it.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/clock.h"
#include "weft/run/owned_task.h"
#include "weft/txn/node_testing.h"
#include "weft/txn/rows_testing.h"

namespace weft {
namespace {

constexpr uint64_t kAnswerNs = 10 * kSecondNs;  // the default

// Three nodes with two replicas, stepped by hand. Node 0 coordinates.
class AnswerTest : public testing::TestWithParam<const char*>, public HandNodes {
 protected:
  void start(PlantedBugs bugs = {}) {
    work_.clear();
    spec_ = three_nodes();
    spec_.options.protocol = GetParam();
    spec_.options.limits.transactions_in_flight_max = 4;
    spec_.recovers = true;
    spec_.bugs = bugs;
    make_network();
    for (uint8_t n = 0; n < 3; ++n) ASSERT_NO_FATAL_FAILURE(start_node(NodeId(n), view_));
    steps(1);  // they learn the time
  }

  void go(Task<void> task) {
    work_.push_back(OwnedTask::of(std::move(task)));
    work_.back().start();
  }
  Session session(uint8_t node) { return Session(txn_worker(node)); }
  void steps_of(std::initializer_list<size_t> nodes, int count) {
    for (int i = 0; i < count; ++i) {
      for (const size_t n : nodes) step(n);
    }
  }
  // Time passes, and only node 0 notices.
  void time_passes() {
    clock_.now += kAnswerNs + kSecondNs;
    steps_of({0}, 5);
  }

  struct Ended {
    std::optional<Outcome> outcome;
    bool found = false;
  };
  Task<void> write(Session s, std::vector<uint64_t> keys, bool reads, Ended* ended) {
    Txn txn = co_await s.begin();
    for (const uint64_t key : keys) {
      if (reads) co_await txn.get(kTable, key, Intent::kUpdate);
      txn.put(kTable, key, "value");
    }
    ended->outcome = co_await txn.commit();
  }
  Task<void> read(Session s, std::vector<uint64_t> keys, Ended* ended) {
    Txn txn = co_await s.begin();
    for (const uint64_t key : keys) ended->found = (co_await txn.get(kTable, key)).found;
    ended->outcome = co_await txn.commit();
  }
  Task<void> get_one(Session s, uint64_t key, Ended* ended) {
    char room[16];
    Task<Session::GetResult> task = s.get_one(kTable, key, room);
    const Session::GetResult one = co_await task;
    ended->found = one.found;
    ended->outcome = one.outcome;
  }
  Task<void> ask(Session s, TxnId id, std::optional<TxnStatus>* status) {
    Task<TxnStatus> task = s.query_outcome(id);
    *status = co_await task;
  }
  // Whether the keys exist, all or none of them, seen from a node that runs together with these nodes.
  std::optional<bool> there(uint8_t from, const std::vector<uint64_t>& keys, std::initializer_list<size_t> nodes) {
    std::optional<bool> all;
    steps_of(nodes, 300);  // open transactions come to their end
    for (const uint64_t key : keys) {
      Ended ended;
      for (int i = 0; i < 3000 && !(ended.outcome && ended.outcome->committed()); ++i) {
        if (i % 100 == 0) go(get_one(session(from), key, &ended));
        steps_of(nodes, 1);
      }
      work_.clear();
      if (!ended.outcome || !ended.outcome->committed()) return {};
      EXPECT_EQ(all.value_or(ended.found), ended.found) << "a part of the transaction is there";
      all = ended.found;
    }
    return all;
  }

  struct Lie {
    int after_steps;
    std::string said;
  };
  // Node 0 begins to write, and after each number of steps loses contact with the others. They come back, or go on
  // without it.
  std::vector<Lie> lies(bool come_back, PlantedBugs bugs = {}) {
    std::vector<Lie> found;
    for (int k = 0; k < 24; ++k) {
      start(bugs);
      const std::vector<uint64_t> keys = {key_at(NodeId(1)), key_at(NodeId(2))};
      Ended ended;
      go(write(session(0), keys, k % 2 == 0, &ended));
      for (int i = 0; i < k; ++i) step(static_cast<size_t>(i) % 3);
      if (k % 3 == 0) steps_of({1, 2}, 3);                          // what is in flight to them arrives
      for (int i = 0; i < 4 && !ended.outcome; ++i) time_passes();  // each of several waits has its own timeout
      EXPECT_TRUE(ended.outcome) << "after " << k << " steps";
      if (!ended.outcome) continue;
      if (!come_back) {
        const auto next = view_without(NodeId(0));
        for (uint8_t n = 1; n < 3; ++n) nodes_[n]->state().views.publish(next);
      }
      const std::optional<bool> is = come_back ? there(0, keys, {0, 1, 2}) : there(1, keys, {1, 2});
      EXPECT_TRUE(is) << "after " << k << " steps";
      const OutcomeKind kind = ended.outcome->kind;
      const bool nothing = kind == OutcomeKind::kAborted || kind == OutcomeKind::kRejected;
      if ((nothing && is == true) || (kind == OutcomeKind::kCommitted && is == false)) {
        found.push_back({k, ended.outcome->text()});
      }
      unknown_ += kind == OutcomeKind::kUnknown ? 1 : 0;
      nothing_ += nothing ? 1 : 0;
      if (!come_back) continue;
      steps_of({0, 1, 2}, 200);
      clock_.now += kSecondNs;
      steps_of({0, 1, 2}, 200);
      EXPECT_TRUE(txn_worker(0)->idle()) << "after " << k << " steps";
    }
    return found;
  }

  std::vector<OwnedTask> work_;
  int unknown_ = 0, nothing_ = 0;
};

TEST_P(AnswerTest, WhatIsSaidStaysTrueWhenTheOthersComeBack) {
  EXPECT_EQ(lies(true).size(), 0U);
  EXPECT_GT(unknown_, 0);
  EXPECT_GT(nothing_, 0);
}

TEST_P(AnswerTest, AndWhenTheyGoOnWithoutThisNode) { EXPECT_EQ(lies(false).size(), 0U); }

// Shows that the tests can fail.
TEST_P(AnswerTest, ThePlantedBugIsCaught) {
  const PlantedBugs bugs{static_cast<uint64_t>(PlantedBug::kNothingTooLate)};
  EXPECT_FALSE(lies(true, bugs).empty() && lies(false, bugs).empty());
}

// In every phase: never unknown, and late answers find nobody.
TEST_P(AnswerTest, AReadDidNotHappen) {
  for (int k = 0; k < 12; ++k) {
    start();
    Ended all;
    Ended one;
    go(read(session(0), {key_at(NodeId(1)), key_at(NodeId(2))}, &all));
    go(get_one(session(0), key_at(NodeId(1), 1), &one));
    for (int i = 0; i < k; ++i) step(static_cast<size_t>(i) % 3);
    for (int i = 0; i < 4 && !(all.outcome && one.outcome); ++i) time_passes();
    for (const Ended* ended : {&all, &one}) {
      ASSERT_TRUE(ended->outcome) << "after " << k << " steps";
      EXPECT_NE(ended->outcome->kind, OutcomeKind::kUnknown) << ended->outcome->text();
      if (ended->outcome->committed()) continue;
      EXPECT_EQ(ended->outcome->code, Code::kNoAnswer) << ended->outcome->text();
    }
    steps_of({0, 1, 2}, 100);
    EXPECT_TRUE(txn_worker(0)->idle()) << "after " << k << " steps";
    EXPECT_FALSE(txn_worker(0)->context().port.closed(NodeId(1)) || txn_worker(0)->context().port.closed(NodeId(2)));
  }
}

TEST_P(AnswerTest, WhoIsSilentIsNamed) {
  start();
  Ended ended;
  go(get_one(session(0), key_at(NodeId(1)), &ended));
  steps_of({0}, 5);
  EXPECT_FALSE(ended.outcome);
  time_passes();
  ASSERT_TRUE(ended.outcome);
  if (ended.outcome->committed()) return;  // a local backup may answer
  EXPECT_EQ(ended.outcome->text(), "aborted: no answer in time, waited for node 1");
}

// More transactions than slots: those without a slot are refused, and when the others come back nothing is held.
TEST_P(AnswerTest, ManyMoreThanThereAreSlots) {
  start();
  std::vector<Ended> ended(100);
  for (size_t i = 0; i < ended.size(); ++i) {
    go(write(session(0), {key_at(NodeId(1), static_cast<int>(i)), key_at(NodeId(2))}, false, &ended[i]));
  }
  const auto open = [&] {
    return std::count_if(ended.begin(), ended.end(), [](const Ended& one) { return !one.outcome; });
  };
  for (int i = 0; i < 100 && open() != 0; ++i) time_passes();
  EXPECT_EQ(open(), 0);
  const auto refused = std::count_if(ended.begin(), ended.end(), [](const Ended& one) {
    return one.outcome && one.outcome->kind == OutcomeKind::kRejected && one.outcome->code == Code::kNoAnswer;
  });
  EXPECT_GT(refused, 50);
  work_.clear();
  steps_of({0, 1, 2}, 300);
  clock_.now += kSecondNs;
  steps_of({0, 1, 2}, 300);
  EXPECT_TRUE(txn_worker(0)->idle());
  Ended after;
  go(write(session(0), {key_at(NodeId(1), 500)}, false, &after));
  steps_of({0, 1, 2}, 50);
  ASSERT_TRUE(after.outcome);
  EXPECT_TRUE(after.outcome->committed()) << after.outcome->text();
}

// A view that does not become active: what has not begun is refused, a commit in progress ends as elsewhere.
TEST_P(AnswerTest, WhileTheViewIsNotActive) {
  start();
  nodes_[0]->state().views.publish(view_without(NodeId(2)));
  steps_of({0}, 3);
  ASSERT_FALSE(txn_worker(0)->active());
  Ended ended;
  go(read(session(0), {key_at(NodeId(0))}, &ended));
  steps_of({0}, 3);
  EXPECT_FALSE(ended.outcome);
  time_passes();
  ASSERT_TRUE(ended.outcome);
  EXPECT_EQ(ended.outcome->kind, OutcomeKind::kRejected);
  EXPECT_EQ(ended.outcome->code, Code::kNoAnswer);
  EXPECT_EQ(txn_worker(0)->unavailable_reason(), "the view is not active: not all of its nodes answer");
}

// Without a lease neither a read nor a commit is acknowledged: the read did not happen, and the outcome of the commit
// is unknown until it is queried.
TEST_P(AnswerTest, WhatIsHeldBackForTheLease) {
  start();
  nodes_[0]->state().lease.set_until(clock_.now);
  Ended one;
  Ended all;
  Ended written;
  go(get_one(session(0), key_at(NodeId(0)), &one));
  go(read(session(0), {key_at(NodeId(0))}, &all));
  const uint64_t key = key_at(NodeId(1));
  go(write(session(0), {key}, false, &written));
  steps_of({0, 1, 2}, 100);
  EXPECT_FALSE(one.outcome || all.outcome || written.outcome);
  time_passes();
  ASSERT_TRUE(one.outcome && all.outcome && written.outcome);
  EXPECT_EQ(one.outcome->kind, OutcomeKind::kAborted);
  EXPECT_EQ(all.outcome->kind, OutcomeKind::kAborted);
  EXPECT_EQ(written.outcome->kind, OutcomeKind::kUnknown);
  EXPECT_EQ(written.outcome->code, Code::kNoAnswer);
  EXPECT_EQ(txn_worker(0)->counters().unknown, 1U);
  EXPECT_EQ(txn_worker(0)->unavailable_reason(), "this node has no lease: it does not reach all nodes of the view");
  nodes_[0]->state().lease.set_until(UINT64_MAX);
  std::optional<TxnStatus> status;
  go(ask(session(0), written.outcome->id, &status));
  steps_of({0, 1, 2}, 100);
  EXPECT_EQ(status, TxnStatus::kCommitted);
}

// If an application thinks for long, each wait has its own timeout; with a deadline, that holds for all of them.
TEST_P(AnswerTest, ATimeForEachWaitOrForAllOfThem) {
  start();
  std::optional<Outcome> slowly;
  std::optional<Outcome> until;
  const auto think = [this](Session s, uint64_t until_ns, std::optional<Outcome>* outcome) -> Task<void> {
    Txn txn = co_await s.begin(until_ns);
    co_await txn.get(kTable, key_at(NodeId(1)));
    co_await s.sleep_ns(2 * kAnswerNs);
    co_await txn.get(kTable, key_at(NodeId(2)));
    *outcome = co_await txn.commit();
  };
  go(think(session(0), 0, &slowly));
  go(think(session(0), session(0).answer_by_ns(), &until));
  steps_of({0, 1, 2}, 20);
  clock_.now += 2 * kAnswerNs + kSecondNs;
  steps_of({0, 1, 2}, 50);
  ASSERT_TRUE(slowly && until);
  EXPECT_TRUE(slowly->committed()) << slowly->text();
  EXPECT_EQ(until->code, Code::kNoAnswer) << until->text();
}

INSTANTIATE_TEST_SUITE_P(Rows, AnswerTest, testing::ValuesIn(all_rows()), row_test_name);

}  // namespace
}  // namespace weft
