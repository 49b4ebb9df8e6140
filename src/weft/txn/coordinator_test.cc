// Commits, from phase to phase and to every end they can have. The peers' answers are the test's.
#include "weft/txn/coordinator.h"
#include "weft/fabric/nodes_testing.h"

#include "weft/store/owner_testing.h"
#include "weft/txn/coordinator_testing.h"

namespace weft {
namespace {

Limits coordinator_limits(uint32_t credit_bytes) {
  Limits limits;
  limits.credit_bytes = credit_bytes;
  return limits;
}

TEST_F(CoordinatorTest, ACommitGoesFromPhaseToPhaseAndIsToldAfterTheLast) {
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  EXPECT_EQ(sent(), "lock@1");
  to_replicate(slot);
  EXPECT_EQ(slot.entry(0).base, Version(4));
  EXPECT_EQ(sent(), "replicate@2");
  answer(kTwo, slot, Phase::kReplicate);
  EXPECT_EQ(sent(), "unlock@1");
  EXPECT_FALSE(woken(waiter));
  answer(kOne, slot, Phase::kUnlock);
  EXPECT_TRUE(woken(waiter));
  EXPECT_TRUE(slot.outcome.committed());
  EXPECT_EQ(slot.round_trips, 3);
  EXPECT_EQ(known(slot), OutcomeLog::Known::kCommitted);
  EXPECT_TRUE(has_all_credit(kOne) && has_all_credit(kTwo));
}

TEST_F(CoordinatorTest, APhaseEndsWithTheLastOfItsAnswers) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne));
  put(slot, key_at(kTwo));
  Waiter waiter;
  commit(slot, waiter);
  EXPECT_EQ(sent(), "lock@1 lock@2");
  answer(kTwo, slot, Phase::kLock, Code::kOk, {4});
  EXPECT_EQ(sent(), "");
  EXPECT_EQ(slot.waiting, node_set({1}));
  answer(kOne, slot, Phase::kLock, Code::kOk, {4});
  EXPECT_EQ(slot.phase, Phase::kReplicate);
}

TEST_F(CoordinatorTest, ARefusedLockAbortsAndOnlyWhatWasLockedIsUnlocked) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne));
  put(slot, key_at(kTwo));
  Waiter waiter;
  commit(slot, waiter);
  sent();
  answer(kOne, slot, Phase::kLock, Code::kLocked, {}, make_owner(kTwo, WorkerId(3), 1));
  EXPECT_FALSE(woken(waiter)) << "the other answer is not in";
  answer(kTwo, slot, Phase::kLock, Code::kOk, {4});
  EXPECT_TRUE(woken(waiter)) << "nobody can commit it any more";
  EXPECT_EQ(slot.outcome.code, Code::kLocked);
  EXPECT_EQ(slot.outcome.holder_worker, WorkerId(3));
  deliver();
  const std::vector<Received> got = take_received();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].at, kTwo);
  EXPECT_FALSE(got[0].request().commits());
  EXPECT_EQ(slot.stage, TxnStage::kAborting) << "the slot is kept until the unlock is answered";
  answer(kTwo, slot, Phase::kUnlock);
  EXPECT_EQ(slot.stage, TxnStage::kFinished);
  EXPECT_EQ(slot.notices_pending, 0) << "an abort has no notices";
}

TEST_F(CoordinatorTest, AReadThatMovedAbortsBeforeAnythingIsReplicated) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne));
  note_read(slot, key_at(kTwo));
  Waiter waiter;
  commit(slot, waiter);
  answer(kOne, slot, Phase::kLock, Code::kOk, {4});
  EXPECT_EQ(sent(), "lock@1 validate@2");
  answer(kTwo, slot, Phase::kValidate, Code::kVersionMoved);
  EXPECT_EQ(sent(), "unlock@1");
  EXPECT_EQ(slot.outcome.code, Code::kVersionMoved);
  EXPECT_EQ(known(slot), OutcomeLog::Known::kAborted);
}

TEST_F(CoordinatorTest, AReadOnlyTransactionIsOverWithItsValidation) {
  TxnSlot& slot = begin();
  note_read(slot, key_at(kOne));
  note_read(slot, key_at(kTwo));
  Waiter waiter;
  commit(slot, waiter);
  EXPECT_EQ(sent(), "validate@1 validate@2");
  answer(kOne, slot, Phase::kValidate);
  answer(kTwo, slot, Phase::kValidate);
  EXPECT_TRUE(woken(waiter));
  EXPECT_TRUE(slot.outcome.committed());
  EXPECT_EQ(sent(), "");
  EXPECT_EQ(slot.stage, TxnStage::kFinished);
}

TEST_F(CoordinatorTest, ATransactionWithoutKeysCommitsAtOnce) {
  Waiter waiter;
  TxnSlot& slot = begin();
  commit(slot, waiter);
  EXPECT_TRUE(woken(waiter));
  EXPECT_TRUE(slot.outcome.committed());
  EXPECT_EQ(slot.stage, TxnStage::kFinished);
}

TEST_F(CoordinatorTest, WhatConcernsThisNodeAloneIsCommittedInTheNextBatch) {
  TxnSlot& slot = begin();
  put(slot, key_at(kSelf), "alone");
  slot.entry(0).placement = &here_;
  Waiter waiter;
  commit(slot, waiter);
  EXPECT_TRUE(coordinator_.pending());
  EXPECT_FALSE(woken(waiter));
  EXPECT_TRUE(coordinator_.run_local_commits());
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(value_of(key_at(kSelf)), "alone");
  EXPECT_EQ(slot.round_trips, 0);
  EXPECT_EQ(sent(), "");
  EXPECT_FALSE(coordinator_.run_local_commits());
}

TEST_F(CoordinatorTest, WhatWasRejectedSendsNothing) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne));
  reject(slot, Code::kTxnTooLarge, nullptr, {"some limit", 1, 2});
  Waiter waiter;
  commit(slot, waiter);
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(slot.outcome.kind, OutcomeKind::kRejected);
  EXPECT_EQ(slot.stage, TxnStage::kFinished);
  EXPECT_EQ(sent(), "");
  EXPECT_TRUE(has_all_credit(kOne));
}

TEST_F(CoordinatorTest, ASecondCommitHasTheOutcomeOfTheFirst) {
  TxnSlot& slot = begin();
  Waiter first;
  commit(slot, first);
  EXPECT_TRUE(woken(first));
  Waiter second;
  commit(slot, second);
  EXPECT_TRUE(woken(second));
  EXPECT_EQ(ctx_.counters.committed, 1U);
}

TEST_F(CoordinatorTest, AnswersThatNothingWaitsForChangeNothing) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne));
  put(slot, key_at(kTwo));
  Waiter waiter;
  commit(slot, waiter);
  answer(kOne, slot, Phase::kReplicate);
  answer(kOne, slot, Phase::kUnlock);
  EXPECT_EQ(slot.waiting, node_set({1, 2})) << "of another phase";
  for (const Phase phase : {Phase::kReplicate, Phase::kUnlock}) {
    PhaseReply early{};
    early.sequence = static_cast<uint32_t>(slot.sequence);
    early.phase = static_cast<uint8_t>(phase);
    answer_with(kOne, slot.index, early);
  }
  EXPECT_EQ(slot.waiting, node_set({1, 2})) << "as a reply, too";
  PhaseReply other{};
  other.sequence = static_cast<uint32_t>(slot.sequence) + 1;
  other.phase = static_cast<uint8_t>(Phase::kLock);
  answer_with(kOne, slot.index, other);
  EXPECT_EQ(slot.waiting, node_set({1, 2})) << "of another transaction";
  answer(kOne, slot, Phase::kLock, Code::kOk, {4});
  answer(kOne, slot, Phase::kLock, Code::kLocked);
  EXPECT_EQ(slot.waiting, node_set({2}));
  EXPECT_EQ(slot.outcome.code, Code::kOk) << "a second answer";
  EXPECT_TRUE(ctx_.faults.empty());
}

TEST_F(CoordinatorTest, WhatCannotBeRefusedIsNotRefused) {
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  to_replicate(slot);
  answer(kTwo, slot, Phase::kReplicate, Code::kLocked);
  EXPECT_FALSE(ctx_.faults.empty());
  EXPECT_EQ(slot.waiting, node_set({2}));
  EXPECT_EQ(slot.outcome.code, Code::kOk);
}

TEST_F(CoordinatorTest, TwoReplicasThatDisagreeOnAVersionAbortIt) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne));
  Waiter waiter;
  commit(slot, waiter);
  slot.entry(0).base = Version(3);  // as another replica has said
  to_replicate(slot);
  EXPECT_EQ(slot.outcome.code, Code::kVersionMoved);
}

TEST_F(CoordinatorTest, AnUnlockMayBeAcknowledgedByANotice) {
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  to_unlock(slot);
  const TxnCompleteNotice notice(slot.sequence, slot.index);
  const TxnCompleteNotice stale(slot.sequence - 1, slot.index);
  for (const TxnCompleteNotice& one : {stale, notice}) {
    EXPECT_FALSE(woken(waiter));
    store(peer(kOne).reserve(kSelf, Flow::kCommit, static_cast<uint8_t>(Kind::kUnlocked), sizeof one), one);
    deliver();
  }
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(slot.stage, TxnStage::kFinished);
}

TEST_F(CoordinatorTest, ASlotIsFreeAtOnceAndItsNextUseTruncates) {
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  to_unlock(slot);
  answer(kOne, slot, Phase::kUnlock);
  EXPECT_EQ(slot.untruncated, node_set({1, 2})) << "the primary and the backup keep records";
  coordinator_.detach(slot);
  EXPECT_TRUE(slots_.all_free());
  EXPECT_TRUE(coordinator_.has_notices());
  sent();
  Waiter next;
  TxnSlot& again = put_at_one(next);
  ASSERT_EQ(&again, &slot);
  EXPECT_EQ(slot.untruncated, node_set({2})) << "the lock at the primary says that the last one is finished";
  const uint64_t sequence = slot.sequence;
  at(1000 + Truncation::kIdleNs);
  EXPECT_TRUE(coordinator_.truncate());
  sent();
  EXPECT_EQ(slot.untruncated, NodeSet{});
  EXPECT_LT(slot.finished_sequence, sequence) << "the notice is not of the transaction that is under way";
  EXPECT_FALSE(coordinator_.has_notices());
}

TEST_F(CoordinatorTest, ASlotThatIsIdleSendsNotices) {
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  to_unlock(slot);
  answer(kOne, slot, Phase::kUnlock);
  coordinator_.detach(slot);
  sent();
  EXPECT_FALSE(coordinator_.truncate()) << "it may be used again soon";
  EXPECT_EQ(coordinator_.deadline_ns(), 1000 + Truncation::kIdleNs);
  at(1000 + Truncation::kIdleNs);
  EXPECT_TRUE(coordinator_.truncate());
  EXPECT_EQ(sent(), "done@1 done@2");
  EXPECT_EQ(coordinator_.deadline_ns(), UINT64_MAX);
}

class CoordinatorWithNoticesTest : public CoordinatorTest {
 protected:
  CoordinatorWithNoticesTest() : CoordinatorTest("dnl2") {}
};

TEST_F(CoordinatorWithNoticesTest, ASlotIsFreeWhenItsNoticesHaveLeft) {
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  to_unlock(slot);
  answer(kOne, slot, Phase::kReplicate);
  answer(kOne, slot, Phase::kUnlock);
  sent();
  EXPECT_EQ(slot.notices_pending, 2) << "the primary and the backup keep records";
  coordinator_.detach(slot);
  EXPECT_EQ(slot.stage, TxnStage::kFinished);
  EXPECT_FALSE(coordinator_.truncate()) << "nothing to ride on yet";
  at(1000 + NoticeQueue::kRideAlongNs);
  EXPECT_TRUE(coordinator_.truncate());
  EXPECT_EQ(sent(), "done@1 done@2");
  EXPECT_TRUE(slots_.all_free());
  EXPECT_FALSE(coordinator_.has_notices());
}

TEST_F(CoordinatorTest, ALostPeerIsNotSpokenTo) {
  ctx_.views.mark_lost(kTwo);
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(slot.outcome.code, Code::kPeerLost);
  EXPECT_EQ(slot.outcome.silent, node_set({2}).bits());
  EXPECT_EQ(sent(), "");
}

// What the application does.

TEST_F(CoordinatorTest, ADroppedHandleGivesUpWhatExecutes) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne));
  coordinator_.detach(slot);
  EXPECT_TRUE(slots_.all_free());
  EXPECT_EQ(known(slot), OutcomeLog::Known::kAborted);
  EXPECT_EQ(sent(), "");
}

TEST_F(CoordinatorTest, ACommitWhoseHandleIsDroppedGoesOn) {
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  coordinator_.detach(slot);
  to_unlock(slot);
  answer(kOne, slot, Phase::kUnlock);
  EXPECT_EQ(known(slot), OutcomeLog::Known::kCommitted);
  EXPECT_FALSE(woken(waiter)) << "it has gone";
}

TEST_F(CoordinatorTest, TheSlotOfWhoWasRefusedIsNobodys) {
  coordinator_.detach(*slots_.refused());
  EXPECT_EQ(slots_.refused()->stage, TxnStage::kFinished);
  EXPECT_TRUE(slots_.all_free());
}

TEST_F(CoordinatorTest, AnAbortOfTheApplicationHasItsReason) {
  TxnSlot& one = begin();
  coordinator_.abort_by_client(one, Code::kOk);
  EXPECT_EQ(one.outcome.code, Code::kApplication);
  TxnSlot& other = begin();
  coordinator_.abort_by_client(other, Code::kBusy);
  EXPECT_EQ(other.outcome.code, Code::kBusy);
  EXPECT_EQ(other.stage, TxnStage::kFinished);
  EXPECT_DEATH(coordinator_.abort_by_client(other, Code::kBusy), "from stage to stage");
}

// Where all replicas lock, and their locks together commit it.
class CoordinatorUnanimousTest : public CoordinatorTest {
 protected:
  CoordinatorUnanimousTest() : CoordinatorTest("dnl1") {}
};

TEST_F(CoordinatorUnanimousTest, ACommitIsToldWhenAllHaveLocked) {
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  EXPECT_EQ(sent(), "lock@1 lock@2");
  answer(kOne, slot, Phase::kLock, Code::kOk, {4});
  EXPECT_FALSE(woken(waiter));
  answer(kTwo, slot, Phase::kLock, Code::kOk, {4});
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(sent(), "unlock@1 unlock@2");
  EXPECT_EQ(slot.round_trips, 1);
  EXPECT_EQ(slot.stage, TxnStage::kCommitting);
}

TEST_F(CoordinatorUnanimousTest, AnAbortIsToldWhenAllWhoLockedKnowOfIt) {
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  answer(kOne, slot, Phase::kLock, Code::kOk, {4});
  answer(kTwo, slot, Phase::kLock, Code::kLocked);
  EXPECT_FALSE(woken(waiter)) << "a recovery could still find its locks";
  answer(kOne, slot, Phase::kUnlock);
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(slot.outcome.code, Code::kLocked);
}

TEST_F(CoordinatorUnanimousTest, ReplicasThatDisagreeOnAVersionAbortIt) {
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  answer(kOne, slot, Phase::kLock, Code::kOk, {4});
  answer(kTwo, slot, Phase::kLock, Code::kOk, {5});
  EXPECT_EQ(slot.outcome.code, Code::kVersionMoved);
  EXPECT_EQ(slot.phase, Phase::kUnlock);
  EXPECT_EQ(slot.stage, TxnStage::kAborting);
}

TEST_F(CoordinatorUnanimousTest, FromTheFirstLockOnTheOutcomeIsUnknownWhenItsTimeIsOver) {
  Waiter waiter;
  TxnSlot& slot = put_at_one(waiter);
  at(1000 + kAnswerNs);
  waits_.expire();
  EXPECT_TRUE(woken(waiter));
  EXPECT_TRUE(slot.left);
  EXPECT_EQ(slot.outcome.code, Code::kOk);
  EXPECT_EQ(slot.stage, TxnStage::kCommitting);
}

// With credit for one commit at a time.
class CoordinatorCreditTest : public CoordinatorTest {
 protected:
  explicit CoordinatorCreditTest(std::string_view row = "dnl4") : CoordinatorTest(row, coordinator_limits(1000)) {}

  TxnSlot& put_nth(int n, const Waiter& waiter) {
    TxnSlot& slot = begin();
    put(slot, key_at(kOne, n));
    commit(slot, waiter);
    return slot;
  }
  bool retry() { return gate_.take_came_back() && coordinator_.retry_commits(); }
};

TEST_F(CoordinatorCreditTest, ACommitWithoutCreditSendsNothingAndWaitsInLine) {
  Waiter a;
  Waiter b;
  Waiter c;
  TxnSlot& first = put_nth(0, a);
  EXPECT_EQ(sent(), "lock@1");
  TxnSlot& second = put_nth(1, b);
  TxnSlot& third = put_nth(2, c);
  EXPECT_FALSE(retry());
  EXPECT_EQ(sent(), "");
  to_unlock(first);
  answer(kOne, first, Phase::kUnlock);
  sent();
  EXPECT_TRUE(retry());
  EXPECT_EQ(sent(), "lock@1");
  EXPECT_EQ(second.phase, Phase::kLock) << "first come, first served";
  EXPECT_EQ(third.phase, Phase::kExecute);
}

TEST_F(CoordinatorCreditTest, NobodyOvertakesWhoWaits) {
  Waiter a;
  Waiter b;
  put_nth(0, a);
  put_nth(1, b);
  TxnSlot& reader = begin();
  note_read(reader, key_at(kSelf));
  reader.entry(0).placement = &view_->placement(hashed(key_at(kTwo)).partition);
  Waiter c;
  commit(reader, c);
  EXPECT_EQ(reader.phase, Phase::kExecute) << "though there might be room";
}

TEST_F(CoordinatorCreditTest, WhoWaitsForCreditLeavesTheLineWhenItsTimeIsOver) {
  Waiter a;
  Waiter b;
  put_nth(0, a);
  sent();
  TxnSlot& second = put_nth(1, b);
  at(1000 + kAnswerNs);
  waits_.expire();
  EXPECT_TRUE(woken(b));
  EXPECT_EQ(second.outcome.code, Code::kNoAnswer);
  EXPECT_EQ(second.stage, TxnStage::kFinished) << "it has sent nothing";
  gate_.reset();
  retry();
  EXPECT_EQ(sent(), "");
}

TEST_F(CoordinatorCreditTest, WhoWaitsForCreditWithALostPeerFails) {
  Waiter a;
  Waiter b;
  put_nth(0, a);
  TxnSlot& second = put_nth(1, b);
  ctx_.views.mark_lost(kTwo);
  EXPECT_TRUE(retry());
  EXPECT_TRUE(woken(b));
  EXPECT_EQ(second.outcome.code, Code::kPeerLost);
}

TEST_F(CoordinatorCreditTest, WhatNeedsMoreThanAllCreditHasItsTurn) {
  ASSERT_TRUE(gate_.take(kOne, 1000));
  TxnSlot& slot = begin();
  for (int i = 0; i < 8; ++i) put(slot, key_at(kOne, i));
  Waiter waiter;
  commit(slot, waiter);
  EXPECT_EQ(sent(), "lock@1");
  Waiter other;
  put_nth(9, other);
  EXPECT_EQ(sent(), "") << "one at a time";
  to_unlock(slot);
  answer(kOne, slot, Phase::kUnlock);
  sent();
  EXPECT_TRUE(retry());
  EXPECT_EQ(sent(), "lock@1");
}

class CoordinatorLocksWhileReadingTest : public CoordinatorCreditTest {
 protected:
  CoordinatorLocksWhileReadingTest() : CoordinatorCreditTest("fasst") {}
};

TEST_F(CoordinatorLocksWhileReadingTest, WhoHoldsLocksAbortsWithoutATurn) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne));
  slot.entry(0).locked = true;  // as by a get that locked
  slot.locked_nodes = slot.record_nodes = slot.participants = node_set({1});
  slot.credit[1] = 256;
  slot.credit_nodes = node_set({1});
  ASSERT_TRUE(gate_.take(kOne, 256));
  Waiter first;
  put_nth(1, first);  // it has the turn
  sent();
  Waiter waiter;
  commit(slot, waiter);
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(slot.outcome.code, Code::kBusy);
  EXPECT_EQ(sent(), "unlock@1") << "it has credit for that";
  answer(kOne, slot, Phase::kUnlock);
  EXPECT_TRUE(has_all_credit(kOne));
}

}  // namespace
}  // namespace weft
