// What a member reports to the leader of a recovery: everything that may be open, once, and that this was all.
#include "weft/txn/recovery_reporter.h"
#include "weft/fabric/nodes_testing.h"

#include <string>
#include <vector>

#include "weft/txn/part_testing.h"
#include "weft/txn/recovery_testing.h"

namespace weft {
namespace {

using enum RecoveryStep;
using RecoverySent = FakeRecoveryHost::Sent;

class RecoveryReporterTest : public PartTest {
 protected:
  static constexpr RecoveryId kDecidedTxn{NodeId(1), 2, 3, (uint64_t{1} << 32) + 8};

  explicit RecoveryReporterTest(PlantedBugs bugs = {}) : PartTest(Limits(), bugs) {}

  // What is sent until the report is complete.
  std::vector<RecoverySent> report() {
    reporter_.begin();
    EXPECT_TRUE(reporter_.send().all);
    std::vector<RecoverySent> sent = host_.take();
    EXPECT_FALSE(sent.empty());
    EXPECT_EQ(sent.back().step(), kReported) << "the last thing that is said";
    if (!sent.empty()) sent.pop_back();
    for (const RecoverySent& s : sent) {
      EXPECT_NE(s.step(), kReported);
      EXPECT_EQ(s.to, ctx_.view().leader());
      EXPECT_EQ(s.header.epoch, ctx_.view().epoch.value);
    }
    return sent;
  }
  // The same where it is one message.
  RecoverySent only_report() {
    const std::vector<RecoverySent> sent = report();
    EXPECT_EQ(sent.size(), 1U);
    return sent.empty() ? RecoverySent() : sent[0];
  }

  PreparedTxn& record(uint8_t state) {
    PreparedTxn& record = records_.at(NodeId(1), 2);
    record.sequence = uint64_t{5} << 32 | 77;
    record.incarnation = 2;
    record.participants = node_set({0, 1});
    record.state = state;
    record.writes = 1;
    return record;
  }
  PreparedKeys* part(Write write, const std::string& value, bool has_value = true) {
    KeyRef ref;
    ref.key = hashed(key_);
    ref.table = &table();
    ref.table_id = kTable;
    ref.write = write;
    ref.index = 3;
    ref.flags = has_value ? kHasValue : 0;
    ref.value = as_bytes(padded_ = value + std::string(8, '\0')).subspan(0, value.size());
    ref.version = Version(40);
    return records_.gather_part({&ref, 1}).keys;
  }
  // A decision that an earlier recovery has written here.
  void write_decision() {
    const RecoveryHeader header = recovery_decision(Epoch(2), kDecidedTxn, Ending::kCommit, 1);
    ASSERT_EQ(decisions_.write(header, recovery_key(4, key_, Write::kPut, 9, "decided")), nullptr);
  }
  TxnSlot& begin_txn() { return *slots_.acquire(0); }
  // A transaction in commit, with one written key.
  TxnSlot& commit_txn(Phase phase, bool committing) {
    TxnSlot& slot = begin_txn();
    slot.stage = TxnStage::kCommitting;
    slot.phase = phase;
    if (!committing) slot.stage = TxnStage::kAborting;
    slot.count = 2;
    slot.entries[0] = Entry();  // only read
    Entry& e = slot.entries[1];
    e = Entry();
    e.key = hashed(key_);
    e.write = Write::kPut;
    e.base = Version(10);
    e.new_value = reinterpret_cast<const std::byte*>(value_);
    e.new_bytes = 3;
    return slot;
  }
  Ending noted(const TxnSlot& slot) {
    reporter_.forget_coordinated();
    reporter_.note_coordinated(slot);
    return only_report().ending();
  }

  uint64_t key_ = 12;
  std::string padded_;
  static constexpr const char* value_ = "new\0\0\0\0\0";
  SlotTable slots_{ctx_, pool_.get(), nullptr, 1'000'000, uint64_t{7} << 32};
  PreparedTable records_{kNodes, 4, pool_.get()};
  DecisionLog decisions_{ctx_, records_};
  FakeRecoveryHost host_;
  RecoveryReporter reporter_{ctx_, slots_, records_, decisions_, &host_};
};

TEST_F(RecoveryReporterTest, WhoKnowsOfNothingSaysSo) { EXPECT_TRUE(report().empty()); }

TEST_F(RecoveryReporterTest, ARecordIsReportedAndThenItsKeys) {
  PreparedTxn& r = record(kLocked | kReplicated);
  r.locked = part(Write::kPut, "", false);
  r.locked->all()[0].locked.base = Version(20);
  r.applied = part(Write::kInsert, "value");
  const std::vector<RecoverySent> sent = report();
  ASSERT_EQ(sent.size(), 3U);
  for (const RecoverySent& s : sent) {
    EXPECT_EQ(s.step(), kRecord);
    EXPECT_EQ(s.txn(), (RecoveryId{NodeId(1), 2, 2, r.sequence}));
    EXPECT_EQ(s.header.participants, node_set({0, 1}));
    EXPECT_EQ(s.header.state, kLocked | kReplicated);
    EXPECT_EQ(s.header.writes, 1U);
  }
  EXPECT_EQ(sent[0].header.keys, 0U) << "a record without keys is known, too";
  const auto locked = recovery_keys(sent[1]);
  ASSERT_EQ(locked.size(), 1U);
  EXPECT_EQ(locked[0].part.version, 21U) << "the one that its commit would make";
  EXPECT_FALSE(locked[0].has(kHasValue));
  const auto applied = recovery_keys(sent[2]);
  ASSERT_EQ(applied.size(), 1U);
  EXPECT_EQ(applied[0].part.version, 40U);
  EXPECT_EQ(applied[0].part.index, 3U);
  EXPECT_EQ(applied[0].write(), Write::kInsert);
  EXPECT_EQ(as_text(applied[0].value), "value");
}

TEST_F(RecoveryReporterTest, AKeyThatWasOnlyReadIsNoWrite) {
  record(kLocked).locked = part(Write::kNone, "", false);
  const std::vector<RecoverySent> sent = report();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[1].header.keys, 0U);
  EXPECT_TRUE(sent[1].keys.empty());
}

TEST_F(RecoveryReporterTest, WhatASlotHasFinishedIsReportedBesideItsNextRecord) {
  PreparedTxn& r = record(kLocked);
  r.finished = 70;
  r.finished_incarnation = 2;
  r.finished_commit = true;
  records_.at(NodeId(2), 0).finished = 9;
  const std::vector<RecoverySent> sent = report();
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_EQ(sent[0].step(), kFinished);
  EXPECT_EQ(sent[0].header.sequence(), 70U);
  EXPECT_EQ(sent[0].header.incarnation, 2U);
  EXPECT_EQ(sent[0].ending(), Ending::kCommit);
  EXPECT_EQ(sent[1].step(), kRecord);
  EXPECT_EQ(sent[2].step(), kFinished);
  EXPECT_EQ(sent[2].header.coordinator, 2U);
  EXPECT_EQ(sent[2].ending(), Ending::kAbort);
}

TEST_F(RecoveryReporterTest, WhatStillExecutesOrAbortsIsReportedAsAborted) {
  EXPECT_EQ(noted(begin_txn()), Ending::kAbort);
  EXPECT_EQ(noted(commit_txn(Phase::kLock, false)), Ending::kAbort);
}

// It may be acknowledged only from the commit point on: before that nobody but the coordinator knows.
TEST_F(RecoveryReporterTest, WhatIsInCommitIsOpenUntilItUnlocksOrWasTold) {
  TxnSlot& slot = commit_txn(Phase::kReplicate, true);
  EXPECT_EQ(noted(slot), Ending::kOpen);
  slot.acknowledged = true;
  EXPECT_EQ(noted(slot), Ending::kCommit);
  slot.acknowledged = false;
  slot.phase = Phase::kUnlock;
  EXPECT_EQ(noted(slot), Ending::kCommit);
}

TEST_F(RecoveryReporterTest, WhatIsFinishedIsReportedWhileOthersHaveNotHeardOfIt) {
  TxnSlot& slot = commit_txn(Phase::kUnlock, true);
  slot.stage = TxnStage::kFinished;
  reporter_.note_coordinated(slot);
  EXPECT_TRUE(report().empty()) << "everybody has";
  slot.notices_pending = 1;
  EXPECT_EQ(noted(slot), Ending::kCommit);
}

// Rule K2 counts the coordinator (finding 3 of recovery).
TEST_F(RecoveryReporterTest, ACoordinatorThatCommitsReportsItsWrites) {
  TxnSlot& slot = commit_txn(Phase::kUnlock, true);
  slot.unanimous = true;
  reporter_.note_coordinated(slot);
  const RecoverySent sent = only_report();
  EXPECT_EQ(sent.step(), kSlot);
  EXPECT_EQ(sent.txn(), (RecoveryId{kSelf, ctx_.views.incarnation(), slot.index, slot.sequence}));
  EXPECT_EQ(sent.header.unanimous, 1U);
  const auto keys = recovery_keys(sent);
  ASSERT_EQ(keys.size(), 1U);
  EXPECT_EQ(keys[0].part.index, 1U);
  EXPECT_EQ(keys[0].part.version, 11U);
  EXPECT_EQ(as_text(keys[0].value), "new");
}

TEST_F(RecoveryReporterTest, AnEraseIsReportedWithoutAValue) {
  TxnSlot& slot = commit_txn(Phase::kUnlock, true);
  slot.entries[1].write = Write::kErase;
  reporter_.note_coordinated(slot);
  const RecoverySent sent = only_report();
  const auto keys = recovery_keys(sent);
  ASSERT_EQ(keys.size(), 1U);
  EXPECT_FALSE(keys[0].has(kHasValue));
}

TEST_F(RecoveryReporterTest, WhatIsNotCommittedReportsNoWrites) {
  reporter_.note_coordinated(commit_txn(Phase::kReplicate, true));
  EXPECT_EQ(report().at(0).header.keys, 0U);
}

// A slot may be reused, by a transaction that is not this one.
TEST_F(RecoveryReporterTest, WritesOfAnotherTransactionInTheSlotAreNotReported) {
  TxnSlot& slot = commit_txn(Phase::kUnlock, true);
  reporter_.note_coordinated(slot);
  ++slot.sequence;
  EXPECT_EQ(report().at(0).header.keys, 0U);
}

TEST_F(RecoveryReporterTest, WhoStopsAgainKeepsWhatItNotedFirst) {
  TxnSlot& slot = commit_txn(Phase::kUnlock, true);
  reporter_.note_coordinated(slot);
  slot.stage = TxnStage::kAborting;
  reporter_.note_coordinated(slot);
  EXPECT_EQ(only_report().ending(), Ending::kCommit);
}

// Rule: a written decision wins if recovery is interrupted, so it is reported with everything that came with it.
TEST_F(RecoveryReporterTest, AWrittenDecisionIsReportedWithItsEpochAndItsWrites) {
  write_decision();
  const RecoverySent sent = only_report();
  EXPECT_EQ(sent.step(), kDecided);
  EXPECT_EQ(sent.header.decided_epoch, 2U);
  EXPECT_EQ(sent.txn(), kDecidedTxn);
  EXPECT_EQ(sent.ending(), Ending::kCommit);
  const auto parts = recovery_keys(sent);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].part.version, 9U);
  EXPECT_EQ(parts[0].part.index, 4U);
  EXPECT_EQ(as_text(parts[0].value), "decided");
}

TEST_F(RecoveryReporterTest, AFullQueueIsWaitedForAndNothingIsSentTwice) {
  for (uint8_t n = 0; n < kNodes; ++n) records_.at(NodeId(n), 1).finished = 5;
  reporter_.note_coordinated(begin_txn());
  reporter_.begin();
  host_.full = ctx_.view().leader();
  host_.queued = ctx_.limits.credit_bytes / 2 + 1;
  RecoveryReporter::Sent result = reporter_.send();
  EXPECT_FALSE(result.some || result.all);
  EXPECT_TRUE(host_.sent.empty());
  host_.full = NodeId(kNodesMax);
  host_.room = 2;
  result = reporter_.send();
  EXPECT_TRUE(result.some);
  EXPECT_FALSE(result.all);
  EXPECT_EQ(host_.sent.size(), 2U);
  host_.queued = ctx_.limits.credit_bytes / 2;
  EXPECT_TRUE(reporter_.send().all);
  ASSERT_EQ(host_.sent.size(), 5U);
  for (uint8_t n = 0; n < kNodes; ++n) EXPECT_EQ(host_.sent[n].header.coordinator, n);
  EXPECT_EQ(host_.sent[3].step(), kSlot);
  EXPECT_EQ(host_.sent[4].step(), kReported);
}

TEST_F(RecoveryReporterTest, AnotherRecoveryIsToldEverythingAgain) {
  records_.at(NodeId(1), 1).finished = 5;
  EXPECT_EQ(report().size(), 1U);
  EXPECT_EQ(report().size(), 1U);
}

class RecoveryReporterForgets : public RecoveryReporterTest {
 protected:
  RecoveryReporterForgets() : RecoveryReporterTest({.mask = static_cast<uint64_t>(PlantedBug::kForgetsDecisions)}) {}
};

TEST_F(RecoveryReporterForgets, ThePlantedBugReportsNoDecision) {
  write_decision();
  EXPECT_TRUE(report().empty());
}

}  // namespace
}  // namespace weft
