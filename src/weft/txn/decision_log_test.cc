// Written decisions: once each, as they came first, until the view is active.
#include "weft/txn/decision_log.h"

#include <vector>

#include "weft/txn/part_testing.h"
#include "weft/txn/recovery_testing.h"

namespace weft {
namespace {

class DecisionLogTest : public PartTest {
 protected:
  explicit DecisionLogTest(PlantedBugs bugs = {}) : PartTest(Limits(), bugs) {}

  // Of node 1 in its incarnation, decided in the epoch after the active one.
  static RecoveryHeader decision(Ending ending = Ending::kCommit, uint32_t sequence = 50) {
    return recovery_decision(Epoch(2), {NodeId(1), 2, 2, sequence}, ending);
  }
  PreparedTxn& record() { return records_.at(NodeId(1), 2); }

  PreparedTable records_{kNodes, 3, pool_.get()};
  DecisionLog log_{ctx_, records_};
};

TEST_F(DecisionLogTest, KeepsWhatCame) {
  RecoveryHeader header = decision();
  header.set_sequence((uint64_t{4} << 32) + 50);
  EXPECT_TRUE(log_.empty());
  EXPECT_EQ(log_.write(header, {}), nullptr);
  ASSERT_EQ(log_.all().size(), 1U);
  const Decision& d = log_.all()[0];
  EXPECT_EQ(d.coordinator, NodeId(1));
  EXPECT_EQ(d.slot, 2U);
  EXPECT_EQ(d.sequence, (uint64_t{4} << 32) + 50);
  EXPECT_EQ(d.incarnation, 2U);
  EXPECT_EQ(d.epoch, 2U);
  EXPECT_TRUE(d.commit);
  EXPECT_FALSE(d.applied);
  EXPECT_EQ(d.keys, nullptr);
}

// Rule: a written decision wins.
TEST_F(DecisionLogTest, ADecisionIsWrittenOnceAndTheFirstStays) {
  log_.write(decision(Ending::kAbort), {});
  EXPECT_EQ(log_.write(decision(Ending::kCommit), {}), nullptr);
  ASSERT_EQ(log_.all().size(), 1U);
  EXPECT_FALSE(log_.all()[0].commit);
}

TEST_F(DecisionLogTest, ADecisionIsFoundByAllThatNamesIt) {
  log_.write(decision(), {});
  EXPECT_EQ(log_.find(NodeId(1), 2, 2, 50), &log_.all()[0]);
  EXPECT_EQ(log_.find(NodeId(2), 2, 2, 50), nullptr);
  EXPECT_EQ(log_.find(NodeId(1), 3, 2, 50), nullptr);
  EXPECT_EQ(log_.find(NodeId(1), 2, 1, 50), nullptr);
  EXPECT_EQ(log_.find(NodeId(1), 2, 2, 51), nullptr);
}

// Finding 2 of recovery: later transactions may have followed since.
TEST_F(DecisionLogTest, WhatWasDecidedBeforeThisWorkerWasLastActiveIsNotWrittenAgain) {
  RecoveryHeader header = decision();
  header.decided_epoch = ctx_.views.active_epoch().value;
  EXPECT_EQ(log_.write(header, {}), nullptr);
  EXPECT_TRUE(log_.empty());
  ++header.decided_epoch;
  log_.write(header, {});
  EXPECT_EQ(log_.all().size(), 1U);
}

TEST_F(DecisionLogTest, WhatIsFinishedHereIsNotWrittenAgain) {
  record().finished = 50;
  record().finished_incarnation = 2;
  EXPECT_EQ(log_.write(decision(Ending::kCommit, 49), {}), nullptr);
  EXPECT_EQ(log_.write(decision(Ending::kCommit, 50), {}), nullptr);
  EXPECT_TRUE(log_.empty());
  log_.write(decision(Ending::kCommit, 51), {});
  EXPECT_EQ(log_.all().size(), 1U) << "a later one is not finished";
}

TEST_F(DecisionLogTest, WhatAnEarlierIncarnationHasFinishedSaysNothing) {
  record().finished = 50;
  record().finished_incarnation = 1;
  log_.write(decision(), {});
  EXPECT_EQ(log_.all().size(), 1U);
}

// The slot's own client waits for it, whatever this node has finished as a participant.
TEST_F(DecisionLogTest, ADecisionOnAnOwnTransactionIsWrittenThoughItsRecordIsFinished) {
  RecoveryHeader header = decision();
  header.coordinator = kSelf.value;
  header.incarnation = ctx_.views.incarnation();
  PreparedTxn& own = records_.at(kSelf, 2);
  own.finished = 50;
  own.finished_incarnation = header.incarnation;
  log_.write(header, {});
  EXPECT_EQ(log_.all().size(), 1U);
}

// It keeps no more of what a leader sends than there can be.
TEST_F(DecisionLogTest, IsBounded) {
  const size_t most = log_.open_max() * kNodes;
  for (uint32_t s = 0; s < most; ++s) ASSERT_EQ(log_.write(decision(Ending::kAbort, 1 + s), {}), nullptr);
  EXPECT_STREQ(log_.write(decision(Ending::kAbort, 0x7000), {}), "more decisions than there can be transactions");
  EXPECT_EQ(log_.all().size(), most);
  EXPECT_EQ(log_.write(decision(Ending::kAbort, 1), {}), nullptr) << "one that is here is not another one";
}

TEST_F(DecisionLogTest, KeysAreCopied) {
  std::vector<std::byte> keys;
  add_recovery_key(keys, 4, 7, Write::kPut, 9, "value");
  add_recovery_key(keys, 5, 8, Write::kErase, 3, "");
  RecoveryHeader header = decision();
  header.keys = 2;
  log_.write(header, keys);
  std::fill(keys.begin(), keys.end(), std::byte{0xff});
  ASSERT_NE(log_.all()[0].keys, nullptr);
  const auto all = log_.all()[0].keys->all();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(load<uint64_t>(all[0].key.bytes.data()), 7U);
  EXPECT_EQ(all[0].key.hash, hashed(7).hash);
  EXPECT_EQ(as_text(all[0].value), "value");
  EXPECT_TRUE(all[0].has(kHasValue));
  EXPECT_EQ(all[0].version, Version(9));
  EXPECT_EQ(all[0].write, Write::kPut);
  EXPECT_EQ(all[0].index, 4U);
  EXPECT_EQ(all[0].table, &table());
  EXPECT_EQ(all[1].write, Write::kErase);
  EXPECT_FALSE(all[1].has(kHasValue));
}

TEST_F(DecisionLogTest, CoversRecordsWhenEachIsDecided) {
  EXPECT_TRUE(log_.covers_records()) << "there is none";
  record().state = kLocked;
  record().sequence = uint64_t{3} << 32 | 50;
  record().incarnation = 2;
  EXPECT_FALSE(log_.covers_records());
  log_.write(decision(Ending::kAbort, 51), {});
  EXPECT_FALSE(log_.covers_records()) << "another one is decided";
  log_.write(decision(), {});
  EXPECT_FALSE(log_.covers_records()) << "one with the same low half";
  RecoveryHeader whole = decision();
  whole.set_sequence(record().sequence);
  log_.write(whole, {});
  EXPECT_TRUE(log_.covers_records());
}

TEST_F(DecisionLogTest, WhenTheViewIsActiveWhatWasDecidedIsFinished) {
  log_.write(decision(Ending::kCommit, 50), {});
  log_.finish();
  EXPECT_TRUE(log_.empty());
  EXPECT_EQ(record().finished, 50U);
  EXPECT_EQ(record().finished_incarnation, 2U);
  EXPECT_TRUE(record().finished_commit);
  EXPECT_EQ(log_.write(decision(Ending::kAbort, 50), {}), nullptr);
  EXPECT_TRUE(log_.empty()) << "and is not decided again";
}

TEST_F(DecisionLogTest, AFinishedSlotDoesNotGoBack) {
  log_.write(decision(Ending::kCommit, 50), {});
  record().finished = 60;
  record().finished_incarnation = 2;
  log_.finish();
  EXPECT_EQ(record().finished, 60U);
  EXPECT_FALSE(record().finished_commit);
}

TEST_F(DecisionLogTest, OfACoordinatorThatIsGoneNothingIsKept) {
  RecoveryHeader header = decision();
  header.incarnation = 1;  // node 1 has 2
  log_.write(header, {});
  log_.finish();
  EXPECT_TRUE(log_.empty());
  EXPECT_EQ(record().finished, 0U);
}

class DecisionLogAgain : public DecisionLogTest {
 protected:
  DecisionLogAgain() : DecisionLogTest({.mask = static_cast<uint64_t>(PlantedBug::kDecisionAgain)}) {}
};

TEST_F(DecisionLogAgain, ThePlantedBugWritesAnOldDecision) {
  RecoveryHeader header = decision();
  header.decided_epoch = ctx_.views.active_epoch().value;
  log_.write(header, {});
  EXPECT_EQ(log_.all().size(), 1U);
}

}  // namespace
}  // namespace weft
