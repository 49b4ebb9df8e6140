// The leader of a recovery: reports in, messages out. The order keeps a decision from being forgotten (docs/rules.md,
// recovery): all report, all have written it, all have applied it, and only then is the view active.
#include "weft/txn/recovery_leader.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/fabric/nodes_testing.h"
#include "weft/fabric/wire.h"
#include "weft/txn/prepared_table.h"
#include "weft/txn/recovery_testing.h"

namespace weft {
namespace {

using enum RecoveryStep;
using LeaderSent = FakeRecoveryHost::Sent;

class RecoveryLeaderTest : public testing::Test {
 protected:
  static constexpr size_t kOpenMax = 3;
  static constexpr uint64_t kAskAgain = 2'000'000;

  RecoveryLeaderTest() { lead(PlantedBugs()); }

  // Nodes 0, 1 and 2, of incarnations 1, 2 and 3, in epoch 5. Node 3, of incarnation 4, is gone.
  void lead(PlantedBugs bugs) {
    View view = make_view(3, 2, 3);
    view.epoch = Epoch(5);
    leader_ = std::make_unique<RecoveryLeader>(std::make_shared<const View>(view), limits_, bugs, kOpenMax, &host_);
  }

  // A member's message, with one key or none.
  const char* hear(uint8_t from, RecoveryHeader header, ByteView key = {}) {
    header.keys = key.empty() ? 0 : 1;
    return leader_->on_message(NodeId(from), header, key);
  }
  void hear(uint8_t from, RecoveryStep step) {
    RecoveryHeader header = recovery_header(step, Epoch(5));
    header.served = 1;
    EXPECT_EQ(hear(from, header), nullptr);
  }
  void hear_all(RecoveryStep step) {
    for (uint8_t n = 0; n < 3; ++n) hear(n, step);
  }
  static RecoveryHeader about(RecoveryStep step, const RecoveryId& txn, Ending ending = Ending::kOpen) {
    return recovery_header(step, Epoch(5), txn, ending);
  }
  // A transaction of the coordinator that is gone, and a record of it.
  static RecoveryId orphan(uint64_t sequence = 100) { return {NodeId(3), 4, 6, sequence}; }
  static RecoveryHeader record(uint8_t state, uint8_t writes, uint64_t sequence = 100) {
    RecoveryHeader header = about(kRecord, orphan(sequence));
    header.participants = node_set({0, 1, 2});
    header.state = state;
    header.writes = writes;
    return header;
  }

  // Every member has done this step. Returns what the leader has sent since the last call.
  std::vector<LeaderSent> after_all(RecoveryStep step) {
    hear_all(step);
    leader_->step(0);
    return host_.take();
  }
  // Every member has reported. Returns the decisions, one for each member and transaction.
  std::vector<LeaderSent> decide() {
    std::vector<LeaderSent> decisions = after_all(kReported);
    std::erase_if(decisions, [](const LeaderSent& s) { return s.step() != kDecide; });
    return decisions;
  }
  // The same for one transaction: the decision that the first member gets.
  LeaderSent decide_one() {
    const std::vector<LeaderSent> decisions = decide();
    EXPECT_EQ(nodes_with(decisions, kDecide), all_);
    return decisions.at(0);
  }

  Limits limits_;
  FakeRecoveryHost host_;
  std::unique_ptr<RecoveryLeader> leader_;
  const std::vector<uint8_t> all_{0, 1, 2};
};

TEST_F(RecoveryLeaderTest, AsksEveryMemberAndAgainOnlyWhoHasNotReported) {
  EXPECT_TRUE(leader_->step(1000));
  EXPECT_EQ(nodes_with(host_.take(), kAsk), all_);
  hear(1, kReported);
  EXPECT_FALSE(leader_->step(1000 + kAskAgain - 1));
  EXPECT_TRUE(host_.sent.empty());
  EXPECT_TRUE(leader_->step(1000 + kAskAgain));
  EXPECT_EQ(nodes_with(host_.take(), kAsk), (std::vector<uint8_t>{0, 2}));
}

TEST_F(RecoveryLeaderTest, WhoDoesNotTakeWhatItWasSentIsNotAskedAgain) {
  host_.full = NodeId(2);
  host_.queued = kPacketBytesMax;
  leader_->step(0);
  EXPECT_EQ(nodes_with(host_.take(), kAsk), (std::vector<uint8_t>{0, 1}));
  host_.queued = kPacketBytesMax - 1;
  leader_->step(kAskAgain);
  EXPECT_EQ(nodes_with(host_.take(), kAsk), all_);
}

TEST_F(RecoveryLeaderTest, DecidesNothingBeforeEveryMemberHasReported) {
  hear(1, record(kReplicated, 0));
  hear(0, kReported);
  hear(1, kReported);
  leader_->step(0);
  EXPECT_EQ(nodes_with(host_.take(), kAsk), (std::vector<uint8_t>{2}));
  EXPECT_FALSE(leader_->decides());
  hear(2, kReported);
  EXPECT_TRUE(leader_->step(0));
  EXPECT_TRUE(leader_->decides());
  EXPECT_EQ(nodes_with(host_.sent, kDecide), all_);
}

// A member that reports twice does not stand in for another one.
TEST_F(RecoveryLeaderTest, AMemberCountsOnceHoweverOftenItReports) {
  for (int i = 0; i < 3; ++i) hear(1, kReported);
  leader_->step(0);
  EXPECT_FALSE(leader_->decides());
}

TEST_F(RecoveryLeaderTest, WithNothingOpenItGoesThroughAllStepsAllTheSame) {
  EXPECT_EQ(nodes_with(after_all(kReported), kWrite), all_);
  EXPECT_EQ(nodes_with(after_all(kWrote), kApply), all_);
  EXPECT_EQ(nodes_with(after_all(kApplied), kActive), all_);
  EXPECT_TRUE(leader_->done());
  EXPECT_FALSE(leader_->decides());
  using enum TxnObserver::Recovered;
  const NodeSet all = node_set({0, 1, 2});
  EXPECT_EQ(host_.steps, (std::vector<std::pair<TxnObserver::Recovered, NodeSet>>{
                             {kDecided, all}, {kWritten, all}, {kActivated, all}}));
}

TEST_F(RecoveryLeaderTest, EveryMemberGetsEveryDecisionBeforeItIsToldThatTheseAreAll) {
  hear(1, record(kReplicated, 0, 100));
  hear(2, record(kReplicated, 0, 101));
  const std::vector<LeaderSent> sent = after_all(kReported);
  std::vector<int> decisions(3);
  for (const LeaderSent& s : sent) {
    if (s.step() == kDecide) ++decisions[s.to.value];
    if (s.step() == kWrite) {
      EXPECT_EQ(decisions[s.to.value], 2);
    }
  }
  EXPECT_EQ(nodes_with(sent, kWrite), all_);
}

// Rule: all members have written a decision before anybody applies it.
TEST_F(RecoveryLeaderTest, NobodyAppliesBeforeAllHaveWritten) {
  after_all(kReported);
  hear(0, kWrote);
  hear(1, kWrote);
  hear(1, kWrote);
  EXPECT_FALSE(leader_->step(0));
  EXPECT_TRUE(host_.sent.empty());
  hear(2, kWrote);
  EXPECT_TRUE(leader_->step(0));
  EXPECT_EQ(nodes_with(host_.sent, kApply), all_);
}

TEST_F(RecoveryLeaderTest, NobodyIsActiveBeforeAllHaveApplied) {
  after_all(kReported);
  after_all(kWrote);
  hear(0, kApplied);
  hear(2, kApplied);
  EXPECT_FALSE(leader_->step(0));
  EXPECT_EQ(host_.arrivals, 0);
  EXPECT_TRUE(host_.sent.empty());
  hear(1, kApplied);
  EXPECT_TRUE(leader_->step(0));
  EXPECT_EQ(nodes_with(host_.sent, kActive), all_);
}

TEST_F(RecoveryLeaderTest, NobodyIsActiveBeforeTheLeadersOtherWorkersAreThere) {
  host_.others_arrived = false;
  after_all(kReported);
  after_all(kWrote);
  hear_all(kApplied);
  EXPECT_FALSE(leader_->step(0));
  EXPECT_FALSE(leader_->step(0));
  EXPECT_EQ(host_.arrivals, 1);
  EXPECT_TRUE(host_.sent.empty());
  EXPECT_FALSE(leader_->done());
  host_.others_arrived = true;
  EXPECT_TRUE(leader_->step(0));
  EXPECT_EQ(nodes_with(host_.sent, kActive), all_);
}

TEST_F(RecoveryLeaderTest, AnswersToQuestionsThatWereNotAskedDoNotCount) {
  hear_all(kWrote);
  hear_all(kApplied);
  leader_->step(0);
  EXPECT_FALSE(leader_->decides());
  after_all(kReported);
  hear_all(kApplied);
  hear_all(kReported);
  EXPECT_FALSE(leader_->step(0)) << "nobody has written";
  after_all(kWrote);
  hear_all(kWrote);
  EXPECT_FALSE(leader_->step(0)) << "nobody has applied";
  EXPECT_TRUE(host_.sent.empty());
}

TEST_F(RecoveryLeaderTest, AReportThatComesAfterTheDecisionsChangesNothing) {
  EXPECT_TRUE(decide().empty());
  EXPECT_EQ(hear(1, record(kCommitted, 0)), nullptr);
  for (uint32_t s = 0; s < 2 * kOpenMax; ++s) EXPECT_EQ(hear(1, record(kCommitted, 0, s)), nullptr);
  EXPECT_TRUE(nodes_with(after_all(kWrote), kDecide).empty());
}

TEST_F(RecoveryLeaderTest, DecisionsWaitForAFullQueueAndEachIsSentOnce) {
  for (uint32_t s = 0; s < kOpenMax; ++s) hear(1, record(kReplicated, 0, 100 + s));
  hear_all(kReported);
  host_.queued = limits_.credit_bytes / 2 + 1;
  host_.room = 4;  // all of node 0, one of node 1
  EXPECT_FALSE(leader_->step(0));
  EXPECT_FALSE(leader_->step(0));
  EXPECT_EQ(nodes_with(host_.sent, kDecide), (std::vector<uint8_t>{0, 0, 0, 1}));
  EXPECT_TRUE(nodes_with(host_.sent, kWrite).empty()) << "not all have been sent";
  host_.queued = limits_.credit_bytes / 2;
  EXPECT_TRUE(leader_->step(0));
  EXPECT_EQ(nodes_with(host_.sent, kDecide), (std::vector<uint8_t>{0, 0, 0, 1, 1, 1, 2, 2, 2}));
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(host_.sent[i].header.sequence(), 100 + i % 3);
  EXPECT_EQ(host_.steps.size(), 1U) << "it has decided once";
}

// Finding 1 of recovery: also of keys that the member does not hold.
TEST_F(RecoveryLeaderTest, ACommitBringsAllValuesToEveryMember) {
  const uint64_t sequence = (uint64_t{3} << 32) + 100;
  const RecoveryHeader header = record(kReplicated, 2, sequence);
  EXPECT_EQ(hear(1, header, recovery_key(0, 77, Write::kPut, 9, "one")), nullptr);
  EXPECT_EQ(hear(2, header, recovery_key(1, 78, Write::kErase, 4, "")), nullptr);
  const auto decisions = decide();
  ASSERT_EQ(decisions.size(), 3U);
  for (const auto& d : decisions) {
    EXPECT_EQ(d.ending(), Ending::kCommit);
    EXPECT_EQ(d.header.epoch, 5U);
    EXPECT_EQ(d.header.decided_epoch, 5U);
    EXPECT_EQ(d.txn(), orphan(sequence));
    EXPECT_EQ(d.header.writes, 2U);
    const auto keys = recovery_keys(d);
    ASSERT_EQ(keys.size(), 2U);
    EXPECT_EQ(keys[0].write(), Write::kPut);
    EXPECT_EQ(keys[0].part.version, 9U);
    EXPECT_EQ(as_text(keys[0].value), "one");
    EXPECT_EQ(keys[1].write(), Write::kErase);
    EXPECT_EQ(keys[1].part.index, 1U);
    EXPECT_FALSE(keys[1].has(kHasValue));
  }
}

TEST_F(RecoveryLeaderTest, AnAbortBringsNoKeys) {
  hear(1, record(kLocked, 1), recovery_key(0, 77, Write::kPut, 9, "one"));
  const LeaderSent decision = decide_one();
  EXPECT_EQ(decision.ending(), Ending::kAbort);
  EXPECT_EQ(decision.header.keys, 0U);
  EXPECT_TRUE(decision.keys.empty());
}

TEST_F(RecoveryLeaderTest, WhatAMemberHasFinishedIsEverywhereAndBringsNoKeys) {
  hear(1, record(kReplicated, 1), recovery_key(0, 77, Write::kPut, 9, "one"));
  hear(2, about(kFinished, orphan(), Ending::kCommit));
  const LeaderSent decision = decide_one();
  EXPECT_EQ(decision.ending(), Ending::kCommit);
  EXPECT_EQ(decision.header.keys, 0U);
}

// A slot is reused only when its last transaction was acknowledged by all (rule K4).
TEST_F(RecoveryLeaderTest, ALaterTransactionOfTheSlotThatIsFinishedMeansThatThisOneCommitted) {
  hear(1, record(kLocked, 0, UINT32_MAX));
  hear(2, about(kFinished, orphan(uint64_t{UINT32_MAX} + 3), Ending::kAbort));
  EXPECT_EQ(decide_one().ending(), Ending::kCommit);
}

// The slot has only read for a long time, and reads leave no mark.
TEST_F(RecoveryLeaderTest, AMarkFromLongAgoIsNotThatOfALaterTransaction) {
  hear(1, record(kLocked, 2, 5 + (uint64_t{1} << 31) + 10));
  hear(0, about(kFinished, orphan(5), Ending::kCommit));
  EXPECT_EQ(decide_one().ending(), Ending::kAbort);
}

TEST_F(RecoveryLeaderTest, WhatIsFinishedSaysNothingOfLaterOnesOfOtherSlotsOrOfOtherIncarnations) {
  hear(1, record(kLocked, 0, 100));
  RecoveryId other_slot = orphan(200), other_life = orphan(200);
  other_slot.slot = 7;
  other_life.incarnation = 9;
  hear(0, about(kFinished, orphan(99), Ending::kCommit));
  hear(1, about(kFinished, other_slot, Ending::kCommit));
  hear(2, about(kFinished, other_life, Ending::kCommit));
  EXPECT_EQ(decide_one().ending(), Ending::kAbort);
}

// Rule: a written decision wins, whatever the records say, and is known by the epoch that decided it first.
TEST_F(RecoveryLeaderTest, AWrittenDecisionWinsAndKeepsItsEpoch) {
  RecoveryHeader written = about(kDecided, orphan(), Ending::kAbort);
  written.decided_epoch = 3;
  hear(2, written);
  hear(1, record(kReplicated, 0));
  const LeaderSent decision = decide_one();
  EXPECT_EQ(decision.ending(), Ending::kAbort);
  EXPECT_EQ(decision.header.decided_epoch, 3U);
}

TEST_F(RecoveryLeaderTest, ADecisionThatIsReportedWithoutARecordTakesNothingFromTheRecord) {
  hear(1, record(kReplicated, 2));
  RecoveryHeader written = about(kDecided, orphan(), Ending::kCommit);
  written.decided_epoch = 3;
  hear(2, written);
  const LeaderSent decision = decide_one();
  EXPECT_EQ(decision.header.writes, 2U);
  EXPECT_EQ(decision.header.participants, node_set({0, 1, 2}));
}

TEST_F(RecoveryLeaderTest, AValueThatCameIsNotReplacedByAKeyWithoutOne) {
  const std::vector<std::byte> without = recovery_key(0, 77, Write::kPut, 8, "", false);
  hear(0, record(kReplicated, 1), without);
  hear(1, record(kReplicated, 1), recovery_key(0, 77, Write::kInsert, 9, "one"));
  hear(2, record(kReplicated, 1), without);
  const LeaderSent decision = decide_one();
  const auto keys = recovery_keys(decision);
  ASSERT_EQ(keys.size(), 1U);
  EXPECT_EQ(keys[0].write(), Write::kInsert);
  EXPECT_EQ(keys[0].part.version, 9U);
  EXPECT_EQ(as_text(keys[0].value), "one");
}

TEST_F(RecoveryLeaderTest, OnlyItsCoordinatorReportsATransactionAsItsOwn) {
  EXPECT_STREQ(hear(1, about(kSlot, {NodeId(2), 3, 6, 100})), "a report of another node's own transactions");
  EXPECT_TRUE(decide().empty()) << "and nothing is known of it";
}

// Finding 3 of recovery: it may be the only one that has the values.
TEST_F(RecoveryLeaderTest, ACoordinatorThatLivesDecidesByWhatItHasTold) {
  const std::vector<std::byte> key = recovery_key(0, 77, Write::kPut, 9, "one");
  EXPECT_EQ(hear(1, about(kSlot, {NodeId(1), 2, 6, 100}, Ending::kCommit), key), nullptr);
  EXPECT_EQ(hear(2, about(kSlot, {NodeId(2), 3, 6, 200}, Ending::kOpen)), nullptr);
  const auto decisions = decide();
  ASSERT_EQ(decisions.size(), 6U);
  EXPECT_EQ(decisions[0].ending(), Ending::kCommit);
  EXPECT_EQ(recovery_keys(decisions[0]).size(), 1U);
  EXPECT_EQ(decisions[1].ending(), Ending::kAbort);
}

// Rule: records belong to an incarnation. The planted bug shows that the test can fail.
TEST_F(RecoveryLeaderTest, ACoordinatorThatHasComeBackIsNotTheOneThatIsGone) {
  for (const bool bug : {false, true}) {
    lead({.mask = bug ? static_cast<uint64_t>(PlantedBug::kOldIncarnation) : 0});
    RecoveryHeader header = record(kLocked, 0);
    header.coordinator = 1;
    header.incarnation = 1;  // node 1 has 2 now
    hear(0, header);
    EXPECT_EQ(decide_one().ending(), bug ? Ending::kCommit : Ending::kAbort);
  }
}

// Unanimity counts those that were active: a node that never served cannot have locked.
TEST_F(RecoveryLeaderTest, WhoWasNeverActiveHasNoVote) {
  for (const bool served : {false, true}) {
    lead(PlantedBugs());
    RecoveryHeader header = record(kLocked, 0);
    header.unanimous = 1;
    hear(0, header);
    hear(1, header);
    hear(0, kReported);
    hear(1, kReported);
    RecoveryHeader reported = recovery_header(kReported, Epoch(5));
    reported.served = served ? 1 : 0;
    hear(2, reported);
    host_.take();
    leader_->step(0);
    EXPECT_EQ(host_.sent.at(0).ending(), served ? Ending::kAbort : Ending::kCommit);
  }
}

TEST_F(RecoveryLeaderTest, AMemberReportsNoMoreTransactionsThanThereCanBe) {
  for (uint32_t s = 0; s < kOpenMax; ++s) EXPECT_EQ(hear(1, record(kLocked, 0, s)), nullptr);
  for (uint32_t s = 0; s < kOpenMax; ++s) EXPECT_EQ(hear(1, record(kReplicated, 0, s)), nullptr) << "known already";
  EXPECT_STREQ(hear(1, record(kLocked, 0, kOpenMax)), "a report of more transactions than there can be");
  EXPECT_STREQ(hear(1, about(kDecided, orphan(kOpenMax))), "a report of more transactions than there can be");
  EXPECT_EQ(hear(1, about(kFinished, orphan(1))), nullptr) << "that is about a slot";
  EXPECT_EQ(hear(1, about(kAsk, orphan(kOpenMax))), nullptr) << "that is about nothing";
  EXPECT_EQ(hear(2, record(kLocked, 0, kOpenMax + 1)), nullptr) << "each has its own share";
  EXPECT_EQ(decide().size(), 3 * (kOpenMax + 1));
}

// A decision brings all of them in one message.
TEST_F(RecoveryLeaderTest, MembersReportNoMoreOfATransactionThanItCanHave) {
  limits_.txn_keys_max = 3;
  limits_.txn_bytes_max = 3 * 8 + 32;
  lead(PlantedBugs());
  const std::string half(16, 'v');
  EXPECT_EQ(hear(1, record(kReplicated, 3), recovery_key(0, 77, Write::kPut, 9, "", false)), nullptr);
  EXPECT_EQ(hear(1, record(kReplicated, 3), recovery_key(2, 79, Write::kErase, 9, "")), nullptr);
  // Several have the same keys, with their values or without.
  for (uint8_t n = 0; n < 3; ++n) {
    EXPECT_EQ(hear(n, record(kReplicated, 3), recovery_key(0, 77, Write::kPut, 9, half)), nullptr);
    EXPECT_EQ(hear(n, record(kReplicated, 3), recovery_key(1, 78, Write::kPut, 9, "", false)), nullptr);
    EXPECT_EQ(hear(n, record(kReplicated, 3), recovery_key(1, 78, Write::kPut, 9, half)), nullptr) << "all it can have";
  }
  EXPECT_STREQ(hear(2, record(kReplicated, 3), recovery_key(3, 80, Write::kErase, 9, "")),
               "a report of more keys than a transaction has");
  EXPECT_EQ(recovery_keys(decide_one()).size(), 3U);
}

TEST_F(RecoveryLeaderTest, AReportThatIsTooLargeIsRefusedWhateverItIsCalled) {
  limits_.txn_bytes_max = 16;
  lead(PlantedBugs());
  const std::vector<std::byte> large = recovery_key(1, 78, Write::kPut, 9, "nine byte");
  const char* const wrong = "a report of more bytes than a transaction has";
  EXPECT_STREQ(hear(1, record(kReplicated, 1, 1), large), wrong);
  EXPECT_STREQ(hear(1, about(kDecided, orphan(1), Ending::kCommit), large), wrong);
  EXPECT_STREQ(hear(1, about(kSlot, {NodeId(1), 2, 6, 100}, Ending::kCommit), large), wrong);
  EXPECT_EQ(hear(2, record(kReplicated, 1, 1), recovery_key(0, 77, Write::kPut, 9, "one")), nullptr)
      << "it did not count";
}

// Shows that the test of the order can fail.
TEST_F(RecoveryLeaderTest, ThePlantedBugAppliesWhatIsNotWritten) {
  lead({.mask = static_cast<uint64_t>(PlantedBug::kNotWritten)});
  EXPECT_EQ(nodes_with(after_all(kReported), kApply), all_);
}

TEST_F(RecoveryLeaderTest, IsOverWhenItHasSaidActive) {
  for (const RecoveryStep step : {kReported, kWrote, kApplied}) after_all(step);
  ASSERT_TRUE(leader_->done());
  EXPECT_DEATH(leader_->step(0), "a leader ends once");
}

}  // namespace
}  // namespace weft
