// Slots: who gets one, who waits for one, and when it is free again.
#include "weft/txn/slot_table.h"
#include "weft/fabric/nodes_testing.h"

#include "weft/txn/commit_testing.h"

namespace weft {
namespace {

Limits slot_table_limits() {
  Limits limits;
  limits.transactions_in_flight_max = 2;
  return limits;
}

class SlotTableTest : public PartTest {
 protected:
  // A coroutine that waits in line.
  struct InLine {
    explicit InLine(uint64_t until_ns = 0) : begin{nullptr, until_ns, 0, nullptr, waiter.handle(), nullptr} {}
    Waiter waiter;
    Session::BeginAwaiter begin;
  };

  SlotTableTest() : PartTest(slot_table_limits()) { at(1000); }

  void finish(TxnSlot& slot) {
    slot.stage = TxnStage::kFinished;
    table_.free_if_done(slot);
  }
  void drop_and_finish(TxnSlot& slot) {
    table_.detach(slot);
    finish(slot);
  }
  bool woken(const InLine& one) {
    at(clock_.now);
    return one.waiter.woken();
  }

  SlotTable table_{ctx_, pool_.get(), nullptr, 500, 41};
};

TEST_F(SlotTableTest, ThereAreMoreSlotsThanTransactionsInFlight) {
  Limits limits;
  limits.transactions_in_flight_max = 64;
  EXPECT_EQ(SlotTable::slots_for(limits), 88);
  limits.transactions_in_flight_max = 250;
  EXPECT_EQ(SlotTable::slots_for(limits), kSlotsMax) << "a slot is named by a byte";
  EXPECT_EQ(table_.size(), 10U);
}

TEST_F(SlotTableTest, IdsGoOnFromTheLastOneThatWasUsed) {
  EXPECT_EQ(table_.acquire(0)->sequence, 42U);
  TxnSlot* second = table_.acquire(0);
  EXPECT_EQ(second->sequence, 43U);
  EXPECT_EQ(second->outcome.id, second->id(kWorker));
  EXPECT_EQ(table_.last_sequence(), 43U);
}

TEST_F(SlotTableTest, NoMoreThanTheLimitAreInFlight) {
  ASSERT_NE(table_.acquire(0), nullptr);
  ASSERT_NE(table_.acquire(0), nullptr);
  EXPECT_EQ(table_.in_use(), 2U);
  EXPECT_EQ(table_.acquire(0), nullptr);
}

TEST_F(SlotTableTest, WhoseDeadlineHasPassedIsRefused) {
  EXPECT_EQ(table_.acquire(1000), table_.refused());
  EXPECT_NE(table_.acquire(1001), table_.refused());
  const TxnSlot& refused = *table_.refused();
  EXPECT_EQ(refused.stage, TxnStage::kFinished);
  EXPECT_EQ(refused.outcome.kind, OutcomeKind::kRejected);
  EXPECT_EQ(refused.outcome.code, Code::kNoAnswer);
  EXPECT_EQ(table_.in_use(), 1U) << "who is refused holds nothing";
}

TEST_F(SlotTableTest, NobodyBeginsWhileTheViewIsNotActive) {
  InLine first;
  table_.wait(&first.begin);
  ctx_.views.stop(false);
  EXPECT_EQ(table_.acquire(0), nullptr);
  table_.serve_waiter();
  EXPECT_FALSE(woken(first));
}

// With one credit of which one is taken: in line stand one that takes credit, one that does not, and another that does.
TEST_F(SlotTableTest, WhoNeedsNoCreditDoesNotWaitForIt) {
  ctx_.conflicts = ConflictAvoidance({.depth = 1, .coroutine_credit = true});
  TxnSlot& first = *table_.acquire(0);
  TxnSlot& single = *table_.acquire(0, false);
  EXPECT_EQ(ctx_.conflicts.in_progress(), 1U);
  InLine second;
  InLine reader;
  reader.begin.takes_credit = false;
  InLine third;
  for (InLine* one : {&second, &reader, &third}) table_.wait(&one->begin);
  drop_and_finish(single);
  EXPECT_FALSE(woken(second));
  EXPECT_TRUE(woken(reader)) << "a slot is free, but no credit";
  EXPECT_FALSE(woken(third));
  drop_and_finish(first);
  EXPECT_TRUE(woken(second)) << "first come, first served";
  EXPECT_FALSE(woken(third));
  drop_and_finish(*second.begin.slot);
  EXPECT_TRUE(woken(third));
  InLine last;  // the line was cut and is whole
  table_.wait(&last.begin);
  drop_and_finish(*third.begin.slot);
  EXPECT_TRUE(woken(last));
  EXPECT_EQ(ctx_.conflicts.in_progress(), 1U);
}

TEST_F(SlotTableTest, AtANodeThatWasRemovedATransactionBeginsAndIsRejected) {
  ctx_.views.stop(true);
  const TxnSlot* slot = table_.acquire(0);
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(slot->rejected, Code::kPeerUnreachable);
  EXPECT_EQ(slot->outcome.text(), "rejected: the node ends, or was removed from the view");
  EXPECT_EQ(slot->outcome.kind, OutcomeKind::kRejected);
}

TEST_F(SlotTableTest, ADroppedHandleMakesRoomForAnotherBeforeTheSlotIsFree) {
  TxnSlot& first = *table_.acquire(0);
  table_.acquire(0);
  first.stage = TxnStage::kCommitting;
  table_.detach(first);
  table_.free_if_done(first);
  EXPECT_EQ(table_.in_use(), 1U);
  EXPECT_EQ(first.stage, TxnStage::kCommitting) << "its commit goes on";
  const TxnSlot* third = table_.acquire(0);
  ASSERT_NE(third, nullptr);
  EXPECT_NE(third, &first);
}

TEST_F(SlotTableTest, AFinishedSlotIsKeptWhileSomethingHoldsIt) {
  TxnSlot& slot = *table_.acquire(0);
  finish(slot);
  EXPECT_EQ(slot.stage, TxnStage::kFinished) << "the application";
  slot.reads_pending = slot.notices_pending = 1;
  table_.detach(slot);
  table_.free_if_done(slot);
  EXPECT_EQ(slot.stage, TxnStage::kFinished) << "a read that was not answered";
  slot.reads_pending = 0;
  table_.free_if_done(slot);
  EXPECT_EQ(slot.stage, TxnStage::kFinished) << "a notice that has not left";
  slot.notices_pending = 0;
  EXPECT_FALSE(table_.all_free());
  table_.free_if_done(slot);
  EXPECT_EQ(slot.stage, TxnStage::kFree);
  EXPECT_TRUE(table_.all_free());
}

TEST_F(SlotTableTest, AFreedSlotGoesToTheFirstInLine) {
  TxnSlot& slot = *table_.acquire(0);
  table_.acquire(0);
  InLine first;
  InLine second;
  table_.wait(&first.begin);
  table_.wait(&second.begin);
  drop_and_finish(slot);
  EXPECT_TRUE(woken(first));
  EXPECT_EQ(first.begin.slot, &slot);
  EXPECT_FALSE(woken(second));
  EXPECT_EQ(table_.in_use(), 2U);
}

TEST_F(SlotTableTest, WhoComesToTheFrontTooLateIsRefusedAndTheNextGetsTheSlot) {
  TxnSlot& slot = *table_.acquire(0);
  table_.acquire(0);
  InLine late(1100);
  InLine next;
  table_.wait(&late.begin);
  table_.wait(&next.begin);
  at(1100);
  drop_and_finish(slot);
  EXPECT_TRUE(woken(late));
  EXPECT_EQ(late.begin.slot, table_.refused());
  EXPECT_TRUE(woken(next));
  EXPECT_EQ(next.begin.slot, &slot);
}

TEST_F(SlotTableTest, AllWhoHaveRoomAreServed) {
  InLine first;
  InLine second;
  InLine third;
  for (InLine* one : {&first, &second, &third}) table_.wait(&one->begin);
  table_.serve_waiters();
  EXPECT_TRUE(woken(first));
  EXPECT_TRUE(woken(second));
  EXPECT_FALSE(woken(third));
}

TEST_F(SlotTableTest, WhoHasNoDeadlineWaitsForTheTimeOfAnAnswer) {
  InLine one;
  InLine other(1200);
  table_.wait(&one.begin);
  EXPECT_EQ(one.begin.due_ns, 1500U);
  EXPECT_EQ(table_.due_ns(), 1500U);
  table_.wait(&other.begin);
  EXPECT_EQ(table_.due_ns(), 1200U) << "nothing is over before";
}

TEST_F(SlotTableTest, EachInLineGivesUpAtItsOwnDeadline) {
  table_.acquire(0);
  TxnSlot& slot = *table_.acquire(0);
  InLine first(1300);
  InLine middle(1100);
  InLine last(1200);
  for (InLine* one : {&first, &middle, &last}) table_.wait(&one->begin);
  table_.reset_due();
  table_.expire_waiters(1100);
  EXPECT_TRUE(woken(middle));
  EXPECT_EQ(middle.begin.slot, table_.refused());
  EXPECT_FALSE(woken(last));
  EXPECT_EQ(table_.due_ns(), 1200U);
  table_.expire_waiters(1200);  // the end of the line
  EXPECT_TRUE(woken(last));
  InLine fresh;
  table_.wait(&fresh.begin);
  drop_and_finish(slot);
  EXPECT_TRUE(woken(first));
  EXPECT_EQ(first.begin.slot, &slot);
  drop_and_finish(slot);
  EXPECT_TRUE(woken(fresh)) << "the line goes on behind who is left";
}

TEST_F(SlotTableTest, NothingOfTheLastTransactionIsLeftInASlot) {
  TxnSlot& slot = *table_.acquire(1500);
  slot.writes = slot.round_trips = slot.flags = 3;
  slot.single = slot.expired = slot.left = slot.acknowledged = true;
  slot.read_only = slot.unanimous = slot.lock_brings_values = slot.in_pieces = true;
  slot.phase = Phase::kUnlock;
  slot.record_nodes = slot.waiting = slot.nonvoting_nodes = node_set({0, 1, 2});
  slot.count = slot.done_upto = slot.wait_upto = slot.last_entry = 5;
  slot.bytes_used = slot.inline_used = 100;
  slot.steps[1].send_to = node_set({0});
  fail(slot, Code::kLocked, nullptr, Owner());
  drop_and_finish(slot);
  ASSERT_EQ(table_.acquire(0), &slot);
  EXPECT_EQ(slot.stage, TxnStage::kExecuting);
  EXPECT_EQ(slot.phase, Phase::kExecute);
  EXPECT_EQ(slot.outcome.code, Code::kOk);
  EXPECT_EQ(slot.round_trips + slot.writes + slot.flags, 0);
  EXPECT_FALSE(slot.in_pieces);
  EXPECT_FALSE(slot.single || slot.expired || slot.left || slot.acknowledged);
  EXPECT_FALSE(slot.read_only || slot.unanimous || slot.lock_brings_values);
  EXPECT_EQ(slot.record_nodes | slot.waiting | slot.nonvoting_nodes | slot.steps[1].send_to, NodeSet{});
  EXPECT_EQ(slot.count + slot.done_upto + slot.wait_upto + slot.last_entry, 0);
  EXPECT_EQ(slot.bytes_used + slot.inline_used, 0U);
  EXPECT_EQ(slot.until_ns, 0U);
}

TEST_F(SlotTableTest, BlocksGoBackToThePool) {
  TxnSlot& slot = *table_.acquire(0);
  std::byte* block = pool_->allocate(4096);
  slot.chunk[slot.chunks++] = {block, 4096};
  drop_and_finish(slot);
  EXPECT_EQ(pool_->allocate(4096), block);
}

TEST_F(SlotTableTest, OnlySlotsInUseAreVisited) {
  const TxnSlot* used = table_.acquire(0);
  std::vector<const TxnSlot*> seen;
  table_.for_each([&](TxnSlot& slot) { seen.push_back(&slot); });
  EXPECT_EQ(seen, (std::vector<const TxnSlot*>{used}));
}

TEST_F(SlotTableTest, RunsShortWhenFewerThanAnEighthAreFree) {
  for (int i = 0; i < 8; ++i) {
    TxnSlot& slot = *table_.acquire(0);
    slot.notices_pending = 1;
    EXPECT_FALSE(table_.runs_short()) << i;
    drop_and_finish(slot);
  }
  table_.acquire(0);
  EXPECT_TRUE(table_.runs_short());
}

TEST_F(SlotTableTest, TransactionsTakeRowsInTurnOnlyIfAskedTo) {
  SlotTable turns(ctx_, pool_.get(), nullptr, 500, 0, 2);
  EXPECT_EQ(turns.acquire(0)->row, 0);
  EXPECT_EQ(turns.acquire(0)->row, 1);
  EXPECT_EQ(table_.acquire(0)->row, 0);
  EXPECT_EQ(table_.acquire(0)->row, 0);
}

TEST_F(SlotTableTest, AHandleIsDroppedOnce) {
  TxnSlot& slot = *table_.acquire(0);
  table_.detach(slot);
  EXPECT_DEATH(table_.detach(slot), "drops its handle once");
}

TEST_F(SlotTableTest, ASlotThatIsFreedHoldsNoCredit) {
  TxnSlot& slot = *table_.acquire(0);
  slot.participants = node_set({1});
  EXPECT_DEATH(drop_and_finish(slot), "holds no credit");
}

}  // namespace
}  // namespace weft
