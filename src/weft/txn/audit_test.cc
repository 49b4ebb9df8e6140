// The audit of commit points: silent about sound commits of every row, and it names each rule that is broken. Commits
// are real ones; what is wrong comes from a planted bug, or from a slot that says something else than the records.
#include "weft/txn/audit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/run/owned_task.h"
#include "weft/txn/node_testing.h"
#include "weft/txn/rows_testing.h"
#include "weft/txn/slot.h"

namespace weft {
namespace {

// Hands commit points to the audit, as they are or with a slot that a test has changed.
struct AuditWatch final : TxnObserver {
  void on_commit_point(NodeId coordinator, WorkerId worker, const TxnSlot& slot) override {
    TxnSlot copy = slot;
    std::vector<Entry> entries(slot.entries, slot.entries + slot.count);
    copy.entries = entries.data();
    sequence = slot.sequence;
    if (change) change(copy);
    audit.on_commit_point(coordinator, worker, copy);
  }
  CommitAudit audit;
  std::function<void(TxnSlot&)> change;
  uint64_t sequence = 0;  // of the last one
};

struct AuditedOp {
  Write what;  // kNone: a read
  uint64_t key;
};

// Three nodes with two replicas: a key whose primary is node n has its backup at node n + 1.
class AuditTest : public testing::Test, public HandNodes {
 protected:
  TxnObserver* observer() override { return &watch_; }
  void TearDown() override { work_.clear(); }

  void start(const char* protocol, PlantedBugs bugs = {}, int workers = 1) {
    spec_ = three_nodes();
    spec_.options.protocol = protocol;
    spec_.options.workers = workers;
    spec_.bugs = bugs;
    make_network();
    for (uint8_t n = 0; n < 3; ++n) start_node(NodeId(n), view_);
    watch_.audit.set_nodes(all());
  }
  static PlantedBugs planted(PlantedBug bug) { return {.mask = static_cast<uint64_t>(bug)}; }
  std::vector<Node*> all() const {
    std::vector<Node*> nodes;
    for (const auto& node : nodes_) nodes.push_back(node.get());
    return nodes;
  }
  uint64_t at_node(uint8_t primary, int n = 0) const { return key_at(NodeId(primary), n); }

  static Task<void> transact(Session s, std::vector<AuditedOp> ops, std::optional<Outcome>* out) {
    Txn txn = co_await s.begin();
    for (const AuditedOp& op : ops) {
      if (op.what == Write::kNone) txn.get_async(kTable, op.key);
    }
    co_await txn.wait_all();
    for (const AuditedOp& op : ops) {
      if (op.what == Write::kPut) txn.put(kTable, op.key, "value");
      if (op.what == Write::kInsert) txn.insert(kTable, op.key, "value");
      if (op.what == Write::kErase) txn.erase(kTable, op.key);
    }
    *out = co_await txn.commit();
  }
  // Until it has its outcome, and its locks and records are gone.
  Code ran(size_t node, const std::vector<AuditedOp>& ops, uint8_t worker = 0) {
    std::optional<Outcome> outcome;
    work_.push_back(OwnedTask::of(transact(Session(txn_worker(node, worker)), ops, &outcome)));
    work_.back().start();
    for (int i = 0; i < 1000 && !outcome; ++i) steps(1);
    steps(100);
    EXPECT_TRUE(outcome);
    return outcome ? outcome->code : Code::kNoAnswer;
  }
  // What the audit says of it, in the order of its keys.
  std::vector<std::string> violations_of(size_t node, const std::vector<AuditedOp>& ops) {
    watch_.audit.violations.clear();
    EXPECT_EQ(ran(node, ops), Code::kOk);
    std::vector<std::string> out;
    const std::string who =
        "transaction (node " + std::to_string(node) + ", worker 0, sequence " + std::to_string(watch_.sequence) + "): ";
    for (const std::string& violation : watch_.audit.violations) {
      EXPECT_EQ(violation.substr(0, who.size()), who);
      out.push_back(violation.substr(std::min(who.size(), violation.size())));
    }
    return out;
  }
  static std::string too_few(int key, int nodes) {
    return "K2: the new value of key " + std::to_string(key) + " is on " + std::to_string(nodes) +
           " nodes at the commit point, more than f = 1 are needed";
  }
  static std::string not_everywhere(int key) {
    return "K2: a replica of key " + std::to_string(key) + " has no new value, and another primary may show the commit";
  }
  static std::string not_locked(int key, int node) {
    return "unanimity: node " + std::to_string(node) + " has no LOCKED record of key " + std::to_string(key);
  }

  using Said = std::vector<std::string>;
  AuditWatch watch_;
  std::vector<OwnedTask> work_;
};

class AuditRows : public AuditTest, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, AuditRows, testing::ValuesIn(all_rows()), row_test_name);

TEST_P(AuditRows, SoundCommitsViolateNothing) {
  start(GetParam());
  for (size_t node = 0; node < 3; ++node) {
    for (uint8_t primary = 0; primary < 3; ++primary) {
      const uint64_t key = at_node(primary);
      EXPECT_EQ(ran(node, {{Write::kInsert, key}}), Code::kOk);
      EXPECT_EQ(ran(node, {{Write::kNone, key}, {Write::kPut, key}}), Code::kOk);
      EXPECT_EQ(ran(node, {{Write::kErase, key}}), Code::kOk);
    }
    EXPECT_EQ(ran(node, {{Write::kPut, at_node(0)}, {Write::kPut, at_node(1)}, {Write::kNone, at_node(2)}}), Code::kOk);
    EXPECT_EQ(ran(node, {{Write::kErase, at_node(0)}, {Write::kErase, at_node(1)}, {Write::kPut, at_node(2, 1)}}),
              Code::kOk);
  }
  EXPECT_EQ(watch_.audit.violations, Said());
  EXPECT_EQ(watch_.audit.commit_points, 3U * 11) << "one for each commit";
}

TEST_F(AuditTest, OnlyCommitsThatWriteHaveACommitPoint) {
  start("dnl4");
  EXPECT_EQ(ran(0, {{Write::kNone, at_node(1)}}), Code::kOk);
  EXPECT_EQ(ran(0, {{Write::kErase, at_node(1)}}), Code::kNotFound);
  EXPECT_EQ(watch_.audit.commit_points, 0U);
  EXPECT_EQ(ran(0, {{Write::kPut, at_node(1)}}), Code::kOk);
  EXPECT_EQ(watch_.audit.commit_points, 1U);
}

TEST_F(AuditTest, LooksAtTheWorkerWhoseCommitItIs) {
  start("farm", {}, 2);
  EXPECT_EQ(ran(0, {{Write::kPut, at_node(1)}}, 1), Code::kOk);
  EXPECT_EQ(watch_.audit.commit_points, 1U);
  EXPECT_EQ(watch_.audit.violations, Said());
}

TEST_F(AuditTest, AValueThatOnlyTheCoordinatorHasIsTooFew) {
  start("dnl4");
  watch_.change = [](TxnSlot& slot) { slot.entry(0).new_value = reinterpret_cast<const std::byte*>("other"); };
  EXPECT_EQ(violations_of(0, {{Write::kPut, at_node(1)}}), Said({too_few(0, 1)}));
}

TEST_F(AuditTest, RecordsOfAnotherTransactionOfTheSlotDoNotCount) {
  start("dnl4");
  watch_.change = [](TxnSlot& slot) { ++slot.sequence; };
  EXPECT_EQ(ran(0, {{Write::kPut, at_node(1)}}), Code::kOk);
  ASSERT_EQ(watch_.audit.violations.size(), 1U);
  EXPECT_NE(watch_.audit.violations[0].find(too_few(0, 1)), std::string::npos);
}

TEST_F(AuditTest, AnEraseIsKeptByItsNameAndAPutByItsValue) {
  start("dnl4");
  watch_.change = [](TxnSlot& slot) { slot.entry(0).write = Write::kErase; };
  EXPECT_EQ(violations_of(0, {{Write::kPut, at_node(1)}}), Said({too_few(0, 1)}));
  watch_.change = [](TxnSlot& slot) { slot.entry(0).write = Write::kPut; };
  EXPECT_EQ(violations_of(0, {{Write::kErase, at_node(1)}}), Said({too_few(0, 1)}));
}

// The primary has no value then: the backup has, and the coordinator, which may be the same node.
TEST_F(AuditTest, TheCoordinatorCountsOnce) {
  start("dnl4", planted(PlantedBug::kLockWithoutValue));
  EXPECT_EQ(violations_of(0, {{Write::kPut, at_node(1)}}), Said()) << "backup and coordinator";
  EXPECT_EQ(violations_of(1, {{Write::kPut, at_node(1)}}), Said()) << "the primary as the coordinator";
  EXPECT_EQ(violations_of(2, {{Write::kPut, at_node(1)}}), Said({too_few(0, 1)})) << "the backup as the coordinator";
}

TEST_F(AuditTest, WithSeveralPrimariesEveryWholeReplicaNeedsTheValue) {
  start("dnl4", planted(PlantedBug::kLockWithoutValue));
  EXPECT_EQ(violations_of(0, {{Write::kPut, at_node(1)}, {Write::kPut, at_node(1, 1)}}), Said()) << "one primary";
  EXPECT_EQ(violations_of(0, {{Write::kNone, at_node(2)}, {Write::kPut, at_node(1)}}), Said()) << "one is only read";
  EXPECT_EQ(violations_of(1, {{Write::kPut, at_node(1)}, {Write::kPut, at_node(2)}}),
            Said({not_everywhere(0), not_everywhere(1)}));
}

TEST_F(AuditTest, WhatCommitsByUnanimityIsLockedAtEveryReplica) {
  start("dnl1", planted(PlantedBug::kDropReadRecords));
  const std::vector<AuditedOp> ops{{Write::kNone, at_node(2)}, {Write::kPut, at_node(1)}};
  EXPECT_EQ(violations_of(1, ops), Said({not_locked(0, 0)})) << "node 0 has only what is read";
  watch_.change = [](TxnSlot& slot) { slot.entry(0).read = false; };
  EXPECT_EQ(violations_of(1, ops), Said()) << "a key that is neither read nor written has no participant";
  watch_.change = [](TxnSlot& slot) { slot.unanimous = false; };
  EXPECT_EQ(violations_of(1, ops), Said()) << "nor is it asked for where replication commits";
}

TEST_F(AuditTest, ARecordOfWhatWasOnlyReplicatedIsNotLocked) {
  start("dnl4");
  watch_.change = [](TxnSlot& slot) { slot.unanimous = true; };
  EXPECT_EQ(violations_of(0, {{Write::kPut, at_node(1)}}), Said({not_locked(0, 2)}));
}

TEST_F(AuditTest, TakesTheNodesWhenItIsMadeToo) {
  start("dnl4");
  CommitAudit made(all());
  watch_.change = [&](TxnSlot& slot) { made.on_commit_point(NodeId(0), WorkerId(0), slot); };
  EXPECT_EQ(violations_of(0, {{Write::kPut, at_node(1)}}), Said());
  EXPECT_EQ(made.commit_points, 1U);
  EXPECT_EQ(made.violations, Said());
}

}  // namespace
}  // namespace weft
