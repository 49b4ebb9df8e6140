// Clients whose waits take too long.
#include "weft/txn/client_waits.h"
#include "weft/fabric/nodes_testing.h"

#include "weft/txn/coordinator_testing.h"

namespace weft {
namespace {

using ClientWaitsTest = CoordinatorTest;

TEST_F(ClientWaitsTest, NoWaitIsOverBeforeItsTime) {
  Waiter waiter;
  put_at_one(waiter);
  at(1000 + kAnswerNs - 1);
  EXPECT_FALSE(waits_.expire());
  EXPECT_FALSE(woken(waiter));
  EXPECT_EQ(slots_.due_ns(), 1000 + kAnswerNs);
}

TEST_F(ClientWaitsTest, ATransactionsOwnDeadlineIsThatOfItsWaits) {
  TxnSlot& slot = begin(3000);
  put(slot, key_at(kOne));
  Waiter waiter;
  commit(slot, waiter);
  EXPECT_EQ(slots_.due_ns(), 3000U);
}

TEST_F(ClientWaitsTest, WhatHasOnlyLockedDidNotHappenWhenItsTimeIsOver) {
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  sent();
  at(1000 + kAnswerNs);
  EXPECT_TRUE(waits_.expire());
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(slot.outcome.code, Code::kNoAnswer);
  EXPECT_EQ(slot.outcome.kind, OutcomeKind::kAborted);
  EXPECT_EQ(slot.outcome.silent, node_set({1}).bits());
  EXPECT_EQ(slot.stage, TxnStage::kAborting) << "what it reports to a recovery";
  EXPECT_EQ(slot.stage, TxnStage::kAborting) << "a late answer must not find another transaction";
  to_replicate(slot);
  EXPECT_EQ(sent(), "unlock@1") << "and nothing is replicated";
  answer(kOne, slot, Phase::kUnlock);
  EXPECT_EQ(slot.stage, TxnStage::kFinished);
  EXPECT_EQ(ctx_.counters.aborted, 1U);
}

TEST_F(ClientWaitsTest, WhatIsReplicatedIsUnknownWhenItsTimeIsOverAndGoesOn) {
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  to_replicate(slot);
  at(1000 + kAnswerNs);
  EXPECT_TRUE(waits_.expire());
  EXPECT_TRUE(woken(waiter));
  EXPECT_TRUE(slot.left);
  EXPECT_EQ(slot.silent, node_set({2}));
  EXPECT_EQ(slot.outcome.code, Code::kOk) << "it still may commit";
  EXPECT_EQ(ctx_.counters.unknown, 1U);
  answer(kTwo, slot, Phase::kReplicate);
  answer(kOne, slot, Phase::kUnlock);
  EXPECT_EQ(known(slot), OutcomeLog::Known::kCommitted) << "for who asks later";
}

TEST_F(ClientWaitsTest, WhatExecutesIsOverWhenItsTimeIs) {
  TxnSlot& slot = begin();
  reads_.get_async(slot, kTable, key_at(kOne), Intent::kRead);
  Waiter waiter;
  waits_.begin(slot, waiter.handle());
  at(1000 + kAnswerNs);
  EXPECT_TRUE(waits_.expire());
  EXPECT_TRUE(woken(waiter));
  EXPECT_TRUE(slot.expired);
  EXPECT_EQ(slot.outcome.silent, node_set({1}).bits());
  Waiter late;
  commit(slot, late);
  EXPECT_TRUE(woken(late)) << "the commit is refused at once";
  EXPECT_EQ(slot.outcome.code, Code::kNoAnswer);
  EXPECT_EQ(slot.stage, TxnStage::kDraining) << "until the read is in";
  EXPECT_EQ(ctx_.counters.aborted, 1U);
}

TEST_F(ClientWaitsTest, ACommitThatWaitsForItsReadsIsGivenUpWhenItsTimeIsOver) {
  TxnSlot& slot = begin();
  reads_.get_async(slot, kTable, key_at(kOne), Intent::kRead);
  Waiter waiter;
  commit(slot, waiter);
  ASSERT_EQ(slot.stage, TxnStage::kAwaitingReads);
  at(1000 + kAnswerNs);
  waits_.expire();
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(slot.stage, TxnStage::kDraining);
  EXPECT_EQ(slot.outcome.code, Code::kNoAnswer);
}

TEST_F(ClientWaitsTest, ALocalCommitIsDoneInTheNextStepWhateverItsTime) {
  TxnSlot& slot = begin();
  put(slot, key_at(kSelf));
  slot.entry(0).placement = &here_;
  Waiter waiter;
  commit(slot, waiter);
  at(1000 + kAnswerNs);
  waits_.expire();
  EXPECT_FALSE(woken(waiter));
  EXPECT_LE(slots_.due_ns(), 1000 + kAnswerNs) << "it is looked at again";
  coordinator_.run_local_commits();
  EXPECT_TRUE(slot.outcome.committed());
}

TEST_F(ClientWaitsTest, AReadThatHasNoLeaseUntilItsTimeIsOverIsCountedAsItWasTold) {
  ctx_.state.lease.set_until(500);
  TxnSlot& slot = begin();
  note_read(slot, key_at(kSelf));
  Waiter waiter;
  commit(slot, waiter);
  coordinator_.run_local_commits();
  ASSERT_EQ(slot.stage, TxnStage::kFinished);
  at(1000 + kAnswerNs);
  EXPECT_TRUE(waits_.expire());
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(slot.outcome.code, Code::kNoAnswer);
  EXPECT_EQ(ctx_.counters.committed, 0U);
  EXPECT_EQ(ctx_.counters.aborted, 1U);
}

TEST_F(ClientWaitsTest, WhoWaitsForAReadOfWhatItAbortedIsWokenWhenItsTimeIsOver) {
  TxnSlot& slot = begin();
  reads_.get_async(slot, kTable, key_at(kOne), Intent::kRead);
  coordinator_.abort_by_client(slot, Code::kOk);
  Waiter waiter;
  waits_.begin(slot, waiter.handle());
  at(1000 + kAnswerNs);
  EXPECT_TRUE(waits_.expire());
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(slot.outcome.code, Code::kApplication) << "the first reason stays";
  EXPECT_EQ(slot.stage, TxnStage::kDraining) << "until the read is in";
}

}  // namespace
}  // namespace weft
