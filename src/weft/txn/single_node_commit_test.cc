// Commits of a node that has no other node to send to: as strict as all others, and without a trace when they end.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "weft/run/owned_task.h"
#include "weft/txn/node_testing.h"
#include "weft/txn/rows_testing.h"

namespace weft {
namespace {

// One node with two workers, stepped by hand: locks that a worker held between two steps would be seen.
class AloneTest : public testing::TestWithParam<const char*>, public HandNodes {
 protected:
  void SetUp() override {
    spec_ = three_nodes();
    spec_.options.nodes = spec_.options.replicas = 1;
    spec_.options.workers = 2;
    spec_.options.protocol = GetParam();
    make_network();
    start_node(NodeId(0), view_);
  }
  void TearDown() override { work_.clear(); }

  void go(Task<void> task) {
    work_.push_back(OwnedTask::of(std::move(task)));
    work_.back().start();
  }
  Session session(uint8_t worker) { return Session(txn_worker(0, worker)); }

  // Reads some keys, then waits for the flag, then writes the others.
  Task<void> run(Session s, std::vector<uint64_t> reads, std::vector<uint64_t> writes, const bool* go_on,
                 std::optional<Outcome>* out) {
    Txn txn = co_await s.begin();
    for (const uint64_t key : reads) txn.get_async(kTable, key);
    co_await txn.wait_all();
    while (!*go_on) co_await s.sleep_ns(1);
    for (const uint64_t key : writes) txn.put(kTable, key, "value");
    *out = co_await txn.commit();
  }
  Outcome ran(uint8_t worker, std::vector<uint64_t> reads, std::vector<uint64_t> writes) {
    const bool now = true;
    std::optional<Outcome> outcome;
    go(run(session(worker), std::move(reads), std::move(writes), &now, &outcome));
    for (int i = 0; i < 100 && !outcome; ++i) steps(1);
    EXPECT_TRUE(outcome);
    return outcome.value_or(Outcome());
  }
  void expect_no_trace() {
    steps(10);
    const Table::LeakReport left = nodes_[0]->table(kTable)->leak_report();
    EXPECT_EQ(left.locked + left.unreadable + left.tombstones, 0U);
    EXPECT_TRUE(txn_worker(0, 0)->idle());
    EXPECT_TRUE(txn_worker(0, 1)->idle());
  }

  std::vector<OwnedTask> work_;
};

TEST_P(AloneTest, SendsNothingAndKeepsNoRecord) {
  std::vector<uint64_t> many;
  for (uint64_t key = 0; key < 60; ++key) many.push_back(key);
  EXPECT_TRUE(ran(0, {}, many).committed());
  EXPECT_TRUE(ran(1, many, {}).committed());
  EXPECT_TRUE(ran(1, {1, 2, 3}, {2, 70}).committed());
  const Counters counters = txn_worker(0, 0)->counters();
  EXPECT_EQ(counters.committed, 1U);
  EXPECT_EQ(counters.messages_sent + counters.commit_round_trips, 0U);
  EXPECT_EQ(nodes_[0]->table(kTable)->records(), 61U);
  expect_no_trace();
}

TEST_P(AloneTest, WhatWasReadAndHasChangedAborts) {
  EXPECT_TRUE(ran(0, {}, {1, 2, 3}).committed());
  const std::vector<std::vector<uint64_t>> cases{{}, {2}, {1}, {2, 3, 9}};
  for (const std::vector<uint64_t>& writes : cases) {
    bool word = false;
    std::optional<Outcome> outcome;
    go(run(session(0), {1, 8}, writes, &word, &outcome));
    steps(5);
    EXPECT_TRUE(ran(1, {}, {1}).committed());
    word = true;
    steps(10);
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->kind, OutcomeKind::kAborted);
    EXPECT_EQ(outcome->code, Code::kVersionMoved) << outcome->text();
    expect_no_trace();
  }
  EXPECT_EQ(nodes_[0]->table(kTable)->records(), 3U);  // 9 was never inserted
}

TEST_P(AloneTest, AbsenceIsValidatedToo) {
  bool word = false;
  std::optional<Outcome> outcome;
  go(run(session(0), {5}, {6}, &word, &outcome));
  steps(5);
  EXPECT_TRUE(ran(1, {}, {5}).committed());
  word = true;
  steps(10);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->kind, OutcomeKind::kAborted);
  expect_no_trace();
}

TEST_P(AloneTest, ItsOutcomeCanBeAskedFor) {
  const TxnId id = ran(0, {}, {1}).id;
  std::optional<TxnStatus> status;
  const auto ask = [](Session s, TxnId of, std::optional<TxnStatus>* to) -> Task<void> {
    Task<TxnStatus> asking = s.query_outcome(of);
    *to = co_await asking;
  };
  go(ask(session(1), id, &status));
  for (int i = 0; i < 1000 && !status; ++i) steps(1);
  EXPECT_EQ(status, TxnStatus::kCommitted);
}

INSTANTIATE_TEST_SUITE_P(All, AloneTest, testing::ValuesIn(all_rows()), row_test_name);

}  // namespace
}  // namespace weft
