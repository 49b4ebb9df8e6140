// Clients are acknowledged once, and get current results only under a lease.
#include "weft/txn/client_acks.h"

#include "weft/txn/commit_testing.h"

namespace weft {
namespace {

class ClientAcksTest : public CommitTest {
 protected:
  using Known = OutcomeLog::Known;

  // A transaction whose client waits, and whose outcome is certain.
  TxnSlot& decided(const Waiter& waiter, Code code = Code::kOk) {
    TxnSlot& slot = begin();
    slot.stage = TxnStage::kCommitting;
    slot.waiter = waiter.handle();
    if (code != Code::kOk) fail(slot, code, nullptr, Owner());
    return slot;
  }
  // A step of the loop begins at this time.
  bool woken_at(const Waiter& waiter, uint64_t now_ns) {
    at(now_ns);
    acks_.begin_step();
    return woken(waiter);
  }
  Known known(const TxnSlot& slot) { return outcomes_.find(slot.incarnation, slot.sequence); }
};

TEST_F(ClientAcksTest, AnOutcomeIsToldOnce) {
  Waiter waiter;
  TxnSlot& slot = decided(waiter);
  at(1500);
  acks_.acknowledge(slot);
  acks_.acknowledge(slot);
  EXPECT_TRUE(slot.acknowledged);
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(ctx_.counters.committed, 1U);
  EXPECT_EQ(acks_.latency_ns().count(), 1U);
}

TEST_F(ClientAcksTest, WhatExecutesHasNoOutcome) { EXPECT_DEATH(acks_.acknowledge(begin()), "has no outcome"); }

TEST_F(ClientAcksTest, WithoutLeasesNobodyWaits) {
  Waiter waiter;
  acks_.acknowledge(decided(waiter));
  EXPECT_FALSE(acks_.waiting());
  EXPECT_TRUE(woken(waiter));
}

TEST_F(ClientAcksTest, ACommitIsToldInTheNextStepUnderALease) {
  ctx_.state.lease.set_until(2000);
  Waiter waiter;
  acks_.acknowledge(decided(waiter));
  EXPECT_FALSE(woken(waiter)) << "even though there is a lease now";
  EXPECT_TRUE(woken_at(waiter, 1999));
  EXPECT_FALSE(acks_.waiting());
}

TEST_F(ClientAcksTest, WhileThereIsNoLeaseTheClientWaits) {
  ctx_.state.lease.set_until(2000);
  Waiter waiter;
  acks_.acknowledge(decided(waiter));
  EXPECT_FALSE(woken_at(waiter, 2000)) << "at its end it is over";
  EXPECT_FALSE(woken_at(waiter, 5000));
  ctx_.state.lease.set_until(6000);
  EXPECT_TRUE(woken_at(waiter, 5001));
}

TEST_F(ClientAcksTest, AnAbortNeedsNoLease) {
  ctx_.state.lease.set_until(500);
  Waiter waiter;
  acks_.acknowledge(decided(waiter, Code::kLocked));
  EXPECT_TRUE(woken(waiter));
}

TEST_F(ClientAcksTest, WhenTheViewIsActiveAllAreToldWhateverTheLease) {
  ctx_.state.lease.set_until(500);
  Waiter one;
  Waiter other;
  acks_.acknowledge(decided(one));
  acks_.acknowledge(decided(other));
  acks_.release_all();
  EXPECT_TRUE(woken(one));
  EXPECT_TRUE(woken(other));
  EXPECT_FALSE(acks_.waiting());
}

TEST_F(ClientAcksTest, WhoIsForgottenIsNotWokenAndOthersAre) {
  ctx_.state.lease.set_until(2000);
  Waiter one;
  Waiter other;
  TxnSlot& slot = decided(one);
  acks_.acknowledge(slot);
  acks_.acknowledge(decided(other));
  acks_.forget(slot);
  EXPECT_TRUE(woken_at(other, 1500));
  EXPECT_FALSE(woken(one));
}

TEST_F(ClientAcksTest, ASlotThatIsAnotherTransactionsNowIsNotWoken) {
  ctx_.state.lease.set_until(2000);
  Waiter gone;
  TxnSlot& slot = decided(gone);
  acks_.acknowledge(slot);
  ++slot.sequence;
  EXPECT_FALSE(woken_at(gone, 1500));
  EXPECT_FALSE(acks_.waiting());
}

TEST_F(ClientAcksTest, OutcomesAreNotedForWhoAsksLater) {
  Waiter waiter;
  TxnSlot& committed = decided(waiter);
  TxnSlot& aborted = decided(waiter, Code::kLocked);
  aborted.waiter = {};
  acks_.acknowledge(committed);
  acks_.acknowledge(aborted);
  EXPECT_EQ(known(committed), Known::kCommitted);
  EXPECT_EQ(known(aborted), Known::kAborted);
}

TEST_F(ClientAcksTest, ACommitThatOnlyReadLeavesNoTrace) {
  Waiter waiter;
  TxnSlot& slot = decided(waiter);
  slot.read_only = true;
  acks_.acknowledge(slot);
  EXPECT_EQ(known(slot), Known::kNothing);
  EXPECT_EQ(ctx_.counters.committed, 1U);
}

TEST_F(ClientAcksTest, AnUnknownOutcomeIsNotNoted) {
  Waiter waiter;
  TxnSlot& slot = decided(waiter, Code::kPeerLost);
  slot.outcome.kind = OutcomeKind::kUnknown;
  acks_.acknowledge(slot);
  EXPECT_EQ(known(slot), Known::kNothing);
  EXPECT_EQ(ctx_.counters.unknown, 1U);
  EXPECT_EQ(ctx_.counters.aborted, 0U);
}

TEST_F(ClientAcksTest, EndsAreCountedByKindAndReason) {
  Waiter waiter;
  TxnSlot& aborted = decided(waiter, Code::kLocked);
  aborted.waiter = {};
  aborted.round_trips = 2;
  TxnSlot& rejected = decided(waiter, Code::kTableFull);
  rejected.waiter = {};
  TxnSlot& committed = decided(waiter);
  committed.round_trips = 3;
  for (TxnSlot* slot : {&aborted, &rejected, &committed}) acks_.acknowledge(*slot);
  const Counters& counters = ctx_.counters;
  EXPECT_EQ(counters.aborted, 1U);
  EXPECT_EQ(counters.rejected, 1U);
  EXPECT_EQ(counters.aborts_by_code[static_cast<int>(Code::kLocked)], 1U);
  EXPECT_EQ(counters.aborts_counted, 1U) << "one that was rejected before its first phase has no round trips";
  EXPECT_EQ(counters.abort_round_trips, 2U);
  EXPECT_EQ(counters.commit_round_trips, 3U);
  EXPECT_EQ(counters.commits_counted, 1U);
}

TEST_F(ClientAcksTest, AnOutcomeWithoutAReasonIsNone) {
  Waiter waiter;
  TxnSlot& slot = decided(waiter);
  slot.outcome.kind = OutcomeKind::kUnknown;
  EXPECT_DEATH(acks_.acknowledge(slot), "has a reason");
}

TEST_F(ClientAcksTest, AReadThatWasNotToldFailsWithItsView) {
  ctx_.state.lease.set_until(500);
  Waiter waiter;
  TxnSlot& slot = decided(waiter);
  slot.read_only = true;
  acks_.acknowledge(slot);
  slot.stage = TxnStage::kFinished;
  EXPECT_EQ(ctx_.counters.committed, 0U) << "it may still become an abort";
  acks_.fail_unacknowledged(slot);
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(slot.outcome.code, Code::kEpoch);
  acks_.release_all();
  EXPECT_EQ(ctx_.counters.committed, 0U);
  EXPECT_EQ(ctx_.counters.aborted, 1U);
  EXPECT_EQ(ctx_.counters.aborts_by_code[static_cast<int>(Code::kEpoch)], 1U);
  EXPECT_EQ(acks_.latency_ns().count(), 0U);
}

TEST_F(ClientAcksTest, AReadThatWaitsForALeaseCountsWhenItsClientIsTold) {
  ctx_.state.lease.set_until(500);
  Waiter waiter;
  TxnSlot& slot = decided(waiter);
  slot.read_only = true;
  acks_.acknowledge(slot);
  ctx_.state.lease.set_until(6000);
  EXPECT_TRUE(woken_at(waiter, 5000));
  EXPECT_EQ(ctx_.counters.committed, 1U);
  EXPECT_EQ(ctx_.counters.commits_counted, 1U);
  EXPECT_EQ(acks_.latency_ns().count(), 1U);
}

TEST_F(ClientAcksTest, ACommitThatWasNotToldStaysACommit) {
  ctx_.state.lease.set_until(500);
  Waiter waiter;
  TxnSlot& slot = decided(waiter);
  acks_.acknowledge(slot);
  slot.stage = TxnStage::kFinished;
  acks_.fail_unacknowledged(slot);
  EXPECT_FALSE(woken(waiter));
  EXPECT_EQ(slot.outcome.code, Code::kOk);
}

TEST_F(ClientAcksTest, ASingleReadThatWasAnsweredCounts) {
  TxnSlot& slot = begin();
  slot.single = true;
  acks_.count_single(slot);
  EXPECT_EQ(ctx_.counters.committed, 1U);
  EXPECT_EQ(ctx_.counters.commits_counted, 0U) << "it has no commit";
  EXPECT_EQ(acks_.latency_ns().count(), 1U);
}

TEST_F(ClientAcksTest, TheFirstOutcomeUnderANewViewsLeaseIsRemembered) {
  ctx_.state.lease.set_until(9000);
  acks_.change().adopted(2, 0, 1100);
  acks_.change().active(1200);
  Waiter waiter;
  acks_.acknowledge(decided(waiter));
  EXPECT_EQ(acks_.change().read().acknowledged_ns, 0U);
  EXPECT_TRUE(woken_at(waiter, 1300));
  EXPECT_EQ(acks_.change().read().acknowledged_ns, 1300U);
}

}  // namespace
}  // namespace weft
