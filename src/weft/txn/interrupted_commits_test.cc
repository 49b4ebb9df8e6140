// Commits that a lost peer or the end of a view interrupts.
#include "weft/txn/interrupted_commits.h"
#include "weft/fabric/nodes_testing.h"

#include "weft/txn/coordinator_testing.h"

namespace weft {
namespace {

using InterruptedCommitsTest = CoordinatorTest;

// Peers that are lost, where views change.

TEST_F(InterruptedCommitsTest, WhereViewsChangeACommitWaitsForRecoveryWhenAPeerIsLost) {
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  interrupted_.on_peer_lost(slot, kOne);
  EXPECT_EQ(slot.waiting, node_set({1}));
  EXPECT_EQ(slot.outcome.code, Code::kOk);
}

class InterruptedFixedViewTest : public CoordinatorTest {
 protected:
  InterruptedFixedViewTest() : CoordinatorTest("dnl4", Limits(), false) {}
};

TEST_F(InterruptedFixedViewTest, WhatHasReplicatedNothingAbortsWhenAPeerIsLost) {
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  sent();
  interrupted_.on_peer_lost(slot, kOne);
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(slot.outcome.kind, OutcomeKind::kAborted);
  EXPECT_EQ(slot.outcome.code, Code::kPeerLost);
  EXPECT_EQ(slot.stage, TxnStage::kFinished);
  EXPECT_EQ(sent(), "") << "nothing goes to who is lost";
}

TEST_F(InterruptedFixedViewTest, WhatIsReplicatedIsUnknownWhenAPeerIsLost) {
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  to_replicate(slot);
  interrupted_.on_peer_lost(slot, kTwo);
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(slot.outcome.kind, OutcomeKind::kUnknown);
  EXPECT_EQ(known(slot), OutcomeLog::Known::kNothing);
}

TEST_F(InterruptedFixedViewTest, APeerThatIsNotWaitedForMayBeLost) {
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  interrupted_.on_peer_lost(slot, kTwo);
  EXPECT_EQ(slot.outcome.code, Code::kOk);
  EXPECT_EQ(slot.waiting, node_set({1}));
}

// The view ends.

TEST_F(InterruptedCommitsTest, WhatExecutesIsAbortedWithItsView) {
  TxnSlot& slot = begin();
  reads_.get_async(slot, kTable, key_at(kOne), Intent::kRead);
  Waiter waiter;
  waits_.begin(slot, waiter.handle());
  interrupted_.freeze(slot);
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(slot.outcome.code, Code::kEpoch);
  EXPECT_EQ(slot.stage, TxnStage::kExecuting) << "its client ends it";
  EXPECT_EQ(slot.reads_pending, 0);
  EXPECT_EQ(slot.entry(0).code, Code::kEpoch);
}

TEST_F(InterruptedCommitsTest, WhatCommitsIsFrozenUntilRecoveryHasDecidedIt) {
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  to_replicate(slot);
  coordinator_.drop_queues();
  gate_.reset();
  interrupted_.freeze(slot);
  EXPECT_FALSE(woken(waiter));
  EXPECT_EQ(slot.outcome.code, Code::kOk);
  EXPECT_EQ(slot.phase, Phase::kReplicate);
  interrupted_.resolve(slot, true);
  EXPECT_TRUE(woken(waiter));
  EXPECT_TRUE(slot.outcome.committed());
  EXPECT_EQ(slot.stage, TxnStage::kFinished);
  EXPECT_EQ(slot.untruncated, NodeSet{}) << "records end with the recovery";
}

TEST_F(InterruptedCommitsTest, WhatRecoveryDecidesToAbortSaysThatTheViewChanged) {
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  gate_.reset();
  interrupted_.freeze(slot);
  interrupted_.resolve(slot, false);
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(slot.outcome.code, Code::kEpoch);
  EXPECT_EQ(known(slot), OutcomeLog::Known::kAborted);
}

TEST_F(InterruptedCommitsTest, WhatOnlyReadsIsAbortedWithItsView) {
  TxnSlot& slot = begin();
  note_read(slot, key_at(kOne));
  Waiter waiter;
  commit(slot, waiter);
  gate_.reset();
  interrupted_.freeze(slot);
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(slot.outcome.code, Code::kEpoch);
  EXPECT_EQ(slot.stage, TxnStage::kFinished);
}

TEST_F(InterruptedCommitsTest, WhatWasGivenUpEndsWithItsView) {
  TxnSlot& slot = begin();
  reads_.get_async(slot, kTable, key_at(kOne), Intent::kRead);
  coordinator_.detach(slot);
  ASSERT_EQ(slot.stage, TxnStage::kDraining);
  gate_.reset();
  interrupted_.freeze(slot);
  EXPECT_TRUE(slots_.all_free());
}

TEST_F(InterruptedCommitsTest, RecordsThatWereNotTruncatedEndWithTheirView) {
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  to_unlock(slot);
  answer(kOne, slot, Phase::kUnlock);
  coordinator_.detach(slot);
  ASSERT_NE(slot.untruncated, NodeSet{});
  coordinator_.drop_queues();
  EXPECT_EQ(slot.untruncated, NodeSet{});
  EXPECT_FALSE(coordinator_.has_notices());
  EXPECT_FALSE(coordinator_.truncate());
}

TEST_F(InterruptedCommitsTest, WhatOthersMayCommitIsUnknownAtANodeThatWasRemoved) {
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  to_replicate(slot);
  gate_.reset();
  interrupted_.freeze(slot);
  interrupted_.abandon(slot);
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(slot.outcome.kind, OutcomeKind::kUnknown);
  EXPECT_EQ(slot.outcome.code, Code::kEpoch);
  EXPECT_EQ(slot.stage, TxnStage::kFinished);
}

TEST_F(InterruptedCommitsTest, WhatOthersCannotCommitDidNotHappenAtANodeThatWasRemoved) {
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  gate_.reset();
  interrupted_.freeze(slot);
  interrupted_.abandon(slot);
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(slot.outcome.kind, OutcomeKind::kAborted);
}

TEST_F(InterruptedCommitsTest, OnlyWhatWasFrozenIsDecidedByRecovery) {
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  EXPECT_DEATH(interrupted_.resolve(slot, true), "what was frozen");
  EXPECT_DEATH(interrupted_.resolve(begin(), true), "recovery decides commits");
}

TEST_F(InterruptedFixedViewTest, WhatIsUnknownIsNotAbortedByALaterAnswer) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne));
  put(slot, key_at(kTwo));
  Waiter waiter;
  commit(slot, waiter);
  answer(kOne, slot, Phase::kLock, Code::kOk, {4});
  answer(kTwo, slot, Phase::kLock, Code::kOk, {4});
  ASSERT_EQ(slot.phase, Phase::kReplicate);
  interrupted_.on_peer_lost(slot, kTwo);
  EXPECT_EQ(slot.outcome.kind, OutcomeKind::kUnknown);
  PhaseReply reply{};
  reply.sequence = static_cast<uint32_t>(slot.sequence);
  reply.phase = static_cast<uint8_t>(Phase::kReplicate);
  answer_with(kOne, slot.index, reply);
  store(port_.reserve(kSelf, Flow::kCommit, static_cast<uint8_t>(Kind::kReply), sizeof reply, slot.index), reply);
  deliver();
  for (const Received& one : take_received()) EXPECT_NE(one.kind, Kind::kUnlock) << "at " << int{one.at.value};
  EXPECT_EQ(slot.stage, TxnStage::kCommitting);
}

}  // namespace
}  // namespace weft
