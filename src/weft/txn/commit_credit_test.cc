// A commit has credit for everything it will cause, at all participants, or for nothing, and waits its turn.
#include "weft/txn/commit_credit.h"
#include "weft/fabric/nodes_testing.h"

#include "weft/txn/commit_testing.h"
#include "weft/txn/key_part.h"

namespace weft {
namespace {

constexpr uint32_t kCommitCreditLimit = 4096;

Limits commit_credit_limits() {
  Limits limits;
  limits.credit_bytes = kCommitCreditLimit;
  return limits;
}

class CommitCreditTest : public CommitTest {
 protected:
  CommitCreditTest() : CommitTest("dnl4", commit_credit_limits()) {}

  // A commit with these participants, each of which needs this much.
  TxnSlot& planned(NodeSet participants, uint32_t need) {
    TxnSlot& slot = begin();
    slot.stage = TxnStage::kAwaitingCredit;
    slot.participants = participants;
    for (const NodeId n : participants) {
      slot.need[n.value] = need;
      slot.credit[n.value] = 0;
    }
    return slot;
  }
  std::vector<TxnSlot*> queue() {
    std::vector<TxnSlot*> all;
    for (TxnSlot* at = credit_.first(Line::kCredit); at != nullptr; at = at->next) all.push_back(at);
    return all;
  }
  // Three in the queue.
  std::vector<TxnSlot*> enqueue_three() {
    std::vector<TxnSlot*> all;
    for (int i = 0; i < 3; ++i) all.push_back(&planned(node_set({1}), 100));
    for (TxnSlot* slot : all) credit_.enqueue(*slot);
    return all;
  }

  using Line = CommitCredit::Line;
  CommitCredit credit_{ctx_.limits, gate_};
};

TEST_F(CommitCreditTest, ACommitNeedsCreditForItsKeysAtTheirReplicasOnly) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne), "12345");  // replicas at 1 and 2
  slot.participants = node_set({1, 2});
  CommitCredit::plan(slot);
  const uint32_t one_key = slot.need[1];
  EXPECT_EQ(slot.need[2], one_key);
  EXPECT_GE(one_key, 3 * (CommitRequest::bytes(kNodesMax) + kWideHeadBytes + 8) + 8);
  put(slot, key_at(kTwo), std::string(64, 'v'));  // replicas at 2 and 0
  CommitCredit::plan(slot);
  EXPECT_EQ(slot.need[1], one_key);
  EXPECT_GE(slot.need[2], one_key + 3 * (kWideHeadBytes + 8) + 64);
}

TEST_F(CommitCreditTest, WhatMessagesAndAnswersTakeFitsIntoWhatIsPlannedInEveryRow) {
  for (const Protocol& row : kProtocols) {
    const RowSet rows = *RowSet::parse(row.name);
    const Planner planner(rows, kSelf, PlantedBugs{}, false);
    TxnSlot& slot = begin();
    for (int i = 0; i < 4; ++i) {
      put(slot, key_at(kOne, i), std::string(64, 'v'));
      put(slot, key_at(kTwo, i), std::string(1, 'v'));
    }
    ASSERT_EQ(reads_.write(slot, kTable, key_at(kOne, 4), Write::kErase, {}), Code::kOk);
    Entry& read = *keys_.find_or_add(slot, kTable, key_at(kOne, 5));
    read.read = read.done = read.found = true;
    slot.participants = planner.plan(slot);
    CommitCredit::plan(slot);
    slot.stage = TxnStage::kCommitting;
    for (const NodeId node : slot.participants) {
      size_t bytes = wire_bytes_max(slot.count * 2 * sizeof(uint64_t));  // versions that the lock's answer brings
      for (const Phase phase : {Phase::kLock, Phase::kValidate, Phase::kReplicate, Phase::kUnlock}) {
        bytes += wire_bytes_max(messages_.phase_bytes(slot, phase, node)) + wire_bytes_max(sizeof(PhaseReply));
      }
      EXPECT_LE(bytes, slot.need[node.value]) << row.name << " at " << int{node.value};
    }
    slot.participants = {};
    coordinator_.detach(slot);
  }
}

TEST_F(CommitCreditTest, CreditIsTakenAtAllParticipants) {
  TxnSlot& slot = planned(node_set({1, 2}), 1000);
  EXPECT_TRUE(credit_.take_planned(slot));
  EXPECT_EQ(slot.credit[1], 1000U);
  for (const NodeId node : {kOne, kTwo}) {
    EXPECT_TRUE(has_credit(node, kCommitCreditLimit - 1000));
    EXPECT_FALSE(has_credit(node, kCommitCreditLimit - 999));
  }
  EXPECT_TRUE(has_all_credit(kSelf));
}

TEST_F(CommitCreditTest, CreditIsTakenAtAllParticipantsOrAtNone) {
  ASSERT_TRUE(gate_.take(kTwo, kCommitCreditLimit));
  TxnSlot& slot = planned(node_set({1, 2}), 1000);
  EXPECT_FALSE(credit_.take_planned(slot));
  EXPECT_TRUE(has_all_credit(kOne));
  EXPECT_EQ(slot.credit[1], 0U);
  EXPECT_EQ(slot.outcome.code, Code::kOk) << "it may get it later";
  EXPECT_FALSE(gate_.came_back()) << "nobody gains by what it could not use";
}

TEST_F(CommitCreditTest, HalfOfTheCreditIsTakenAndMoreGoesByTurn) {
  TxnSlot& half = planned(node_set({1}), kCommitCreditLimit / 2);
  EXPECT_TRUE(credit_.take_planned(half));
  EXPECT_FALSE(credit_.has_turn(half));
  EXPECT_FALSE(has_credit(kOne, kCommitCreditLimit / 2 + 1));

  TxnSlot& more = planned(node_set({1, 2}), 100);
  more.need[2] = kCommitCreditLimit / 2 + 1;
  EXPECT_TRUE(credit_.take_planned(more));
  EXPECT_TRUE(credit_.has_turn(more));
  EXPECT_TRUE(has_all_credit(kTwo)) << "who has the turn needs no credit";
}

TEST_F(CommitCreditTest, OneCommitHasTheTurnUntilItIsOver) {
  ASSERT_TRUE(gate_.take(kOne, kCommitCreditLimit));
  TxnSlot& first = planned(node_set({1}), 100 * kCommitCreditLimit);
  TxnSlot& second = planned(node_set({1}), 100 * kCommitCreditLimit);
  EXPECT_TRUE(credit_.take_planned(first)) << "whoever has all the credit";
  EXPECT_FALSE(credit_.take_planned(second));
  EXPECT_EQ(second.outcome.code, Code::kOk) << "it waits";
  credit_.give_back(first);
  EXPECT_TRUE(gate_.came_back()) << "whoever waits looks again";
  EXPECT_TRUE(credit_.take_planned(second));
  credit_.drop_queues();
  EXPECT_FALSE(credit_.has_turn(second)) << "the view has ended";
}

TEST_F(CommitCreditTest, WhoWaitsForTheTurnIsNotInFrontOfOthers) {
  TxnSlot& large = begin();
  for (int i = 0; i < 40; ++i) put(large, key_at(kOne, i));
  large.participants = node_set({1, 2});
  large.stage = TxnStage::kAwaitingCredit;
  credit_.enqueue(large);
  EXPECT_EQ(credit_.first(Line::kTurn), &large);
  TxnSlot& small = begin();
  put(small, key_at(kOne, 99), "v");
  small.participants = node_set({1, 2});
  EXPECT_TRUE(credit_.nobody_waits(small));
  EXPECT_FALSE(credit_.nobody_waits(large));
  credit_.remove(large);
  EXPECT_TRUE(credit_.nobody_waits(large));
}

// What is set aside for small commits is enough for the largest of them.
TEST_F(CommitCreditTest, SmallCommitsNeedNoMoreThanTheirShare) {
  TxnSlot& slot = begin();
  for (int i = 0; i < 4; ++i) put(slot, key_at(kOne, i), std::string(56, 'v'));
  ASSERT_LE(slot.bytes_used, 256U);
  slot.participants = node_set({1, 2});
  CommitCredit::plan(slot);
  EXPECT_LE(slot.need[1], CommitCredit::kSmallBytes);
  Limits limits;
  EXPECT_EQ(CommitCredit::small_bytes(limits),
            static_cast<uint32_t>(SlotTable::slots_for(limits)) * CommitCredit::kSmallBytes);
  limits.credit_bytes = CommitCredit::small_bytes(limits);
  EXPECT_EQ(CommitCredit::small_bytes(limits), 0U) << "more than half of it";
}

// Its locks are released over several steps, and its client must not meet them.
TEST_F(CommitCreditTest, ALargeCommitIsAcknowledgedWhenItIsUnlocked) {
  CommitCredit credit(ctx_.limits, gate_, 1000);
  for (const bool large : {false, true}) {
    TxnSlot& slot = begin();
    put(slot, key_at(kOne), std::string(56, 'v'));
    if (large) slot.bytes_used = 1001;
    slot.participants = node_set({1, 2});
    slot.ack_after = Phase::kLock;
    ASSERT_TRUE(credit.take(slot));
    EXPECT_EQ(slot.in_pieces, large);
    EXPECT_EQ(slot.ack_after, large ? Phase::kUnlock : Phase::kLock);
    credit.give_back(slot);
  }
}

TEST_F(CommitCreditTest, AllThatWasTakenIsGivenBack) {
  TxnSlot& slot = planned(node_set({1, 2}), 1000);
  ASSERT_TRUE(credit_.take_planned(slot));
  EXPECT_FALSE(gate_.came_back());
  credit_.give_back(slot);
  EXPECT_TRUE(has_all_credit(kOne) && has_all_credit(kTwo));
  EXPECT_TRUE(gate_.came_back()) << "whoever waits looks again";
}

TEST_F(CommitCreditTest, CreditIsTakenOnceAndNotByWhatHasFailed) {
  TxnSlot& slot = planned(node_set({1}), 1000);
  fail(slot, Code::kLocked, nullptr, Owner());
  EXPECT_DEATH((void)credit_.take(slot), "before the first phase");
}

TEST_F(CommitCreditTest, WhoWaitsIsServedInTurn) {
  const std::vector<TxnSlot*> all = enqueue_three();
  EXPECT_EQ(queue(), all);
  credit_.pop(Line::kCredit);
  EXPECT_EQ(credit_.first(Line::kCredit), all[1]);
  credit_.pop(Line::kCredit);
  credit_.pop(Line::kCredit);
  EXPECT_TRUE(queue().empty());
  credit_.enqueue(*all[0]);
  EXPECT_EQ(queue(), (std::vector<TxnSlot*>{all[0]})) << "the line begins anew";
}

TEST_F(CommitCreditTest, WhoeverJoinsTheLineIsLookedAt) {
  credit_.enqueue(planned(node_set({1}), 100));
  EXPECT_TRUE(gate_.take_came_back());
  EXPECT_FALSE(gate_.take_came_back()) << "once";
}

TEST_F(CommitCreditTest, WhoLeavesTheLineFromTheMiddleLeavesTheOthersInOrder) {
  const std::vector<TxnSlot*> all = enqueue_three();
  gate_.take_came_back();
  credit_.remove(*all[1]);
  EXPECT_EQ(queue(), (std::vector<TxnSlot*>{all[0], all[2]}));
  EXPECT_TRUE(gate_.came_back()) << "those behind may have room";
}

TEST_F(CommitCreditTest, WhoLeavesTheEndOfTheLineIsNotFollowed) {
  const std::vector<TxnSlot*> all = enqueue_three();
  credit_.remove(*all[2]);
  credit_.remove(*all[0]);
  credit_.enqueue(*all[2]);
  EXPECT_EQ(queue(), (std::vector<TxnSlot*>{all[1], all[2]}));
}

TEST_F(CommitCreditTest, ALineThatIsDroppedIsEmpty) {
  enqueue_three();
  credit_.drop_queues();
  EXPECT_TRUE(queue().empty());
}

TEST_F(CommitCreditTest, WhoHoldsLocksDoesNotWait) {
  TxnSlot& slot = planned(node_set({1}), 100);
  slot.locked_nodes = node_set({1});
  EXPECT_DEATH(credit_.enqueue(slot), "holds no locks");
}

TEST_F(CommitCreditTest, WhoDoesNotWaitCannotLeaveTheLine) {
  TxnSlot& slot = planned(node_set({1}), 100);
  EXPECT_DEATH(credit_.remove(slot), "waits for credit");
  EXPECT_DEATH(credit_.pop(Line::kCredit), "somebody waits for credit");
}

TEST_F(CommitCreditTest, WhoWaitsInLineWaitsOnce) {
  TxnSlot& slot = planned(node_set({1}), 100);
  credit_.enqueue(slot);
  EXPECT_DEATH(credit_.enqueue(slot), "in line once");
}

TEST_F(CommitCreditTest, TheGateGivesEverythingBackWithItsView) {
  ASSERT_TRUE(gate_.take(kOne, 1000));
  gate_.reset();
  EXPECT_TRUE(has_all_credit(kOne));
}

TEST_F(CommitCreditTest, TheGateOpensForWhatWasAnsweredNotForWhatWasPutBack) {
  ASSERT_TRUE(gate_.take(kOne, 1000));
  gate_.put_back(kOne, 500);
  EXPECT_FALSE(gate_.came_back());
  gate_.give(kOne, 500);
  EXPECT_TRUE(gate_.came_back());
}

}  // namespace
}  // namespace weft
