// A transaction that fails has one reason, the first, with enough detail for a person.
#include "weft/txn/slot.h"
#include "weft/fabric/nodes_testing.h"
#include "weft/store/owner_testing.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace weft {
namespace {

class SlotTest : public testing::Test {
 protected:
  TxnSlot& slot() { return *slot_; }
  const Outcome& outcome() { return slot_->outcome; }
  Entry entry(const std::string& key) {
    Entry entry;
    entry.table_id = TableId(3);
    entry.key.bytes = as_bytes(key);
    return entry;
  }

 private:
  std::unique_ptr<TxnSlot> slot_ = std::make_unique<TxnSlot>();
};

TEST_F(SlotTest, TheFirstReasonStays) {
  fail(slot(), Code::kLocked, nullptr, Owner());
  fail(slot(), Code::kVersionMoved, nullptr, Owner());
  EXPECT_EQ(outcome().code, Code::kLocked);
  EXPECT_EQ(outcome().kind, OutcomeKind::kAborted);
}

TEST_F(SlotTest, AFailureNamesItsKeyAndWhoHoldsIt) {
  const std::string key = "a key";
  const Entry e = entry(key);
  slot().owners = kOwners;
  fail(slot(), Code::kLocked, &e, make_owner(NodeId(2), WorkerId(5), 7));
  EXPECT_EQ(outcome().table, TableId(3));
  EXPECT_EQ(outcome().key_bytes, key.size());
  EXPECT_EQ(std::string(outcome().key_start, key.size()), key);
  EXPECT_TRUE(outcome().has_holder);
  EXPECT_EQ(outcome().holder_node, NodeId(2));
  EXPECT_EQ(outcome().holder_worker, WorkerId(5));
}

TEST_F(SlotTest, AFailureWithoutAHolderNamesNone) {
  fail(slot(), Code::kVersionMoved, nullptr, Owner());
  EXPECT_FALSE(outcome().has_holder);
  EXPECT_EQ(outcome().key_bytes, 0);
}

TEST_F(SlotTest, OfALongKeyTheBeginningIsKept) {
  const std::string key(100, 'k');
  const Entry e = entry(key);
  fail(slot(), Code::kLocked, &e, Owner());
  EXPECT_EQ(outcome().key_bytes, 100);
  EXPECT_EQ(std::string(outcome().key_start, sizeof outcome().key_start), std::string(32, 'k'));
}

TEST_F(SlotTest, WhatATableHasNoRoomForIsRejected) {
  for (const Code code : {Code::kTableFull, Code::kBinFull, Code::kVersionLimit}) {
    TxnSlot& one = slot();
    one.outcome = Outcome();
    fail(one, code, nullptr, Owner());
    EXPECT_EQ(one.outcome.kind, OutcomeKind::kRejected) << code_name(code);
    EXPECT_EQ(one.outcome.code, code);
  }
}

TEST_F(SlotTest, ALostPeerIsNamed) {
  fail_for_peer(slot(), nullptr, node_set({1, 2}));
  EXPECT_EQ(outcome().code, Code::kPeerLost);
  EXPECT_EQ(outcome().silent, node_set({1, 2}).bits());
}

TEST_F(SlotTest, APeerThatIsLostLaterIsNotTheReason) {
  fail(slot(), Code::kLocked, nullptr, Owner());
  fail_for_peer(slot(), nullptr, node_set({1, 2}));
  EXPECT_EQ(outcome().code, Code::kLocked);
  EXPECT_EQ(outcome().silent, 0U);
}

TEST_F(SlotTest, ARejectionNamesTheLimitAndWhatWasAsked) {
  EXPECT_EQ(reject(slot(), Code::kTxnTooLarge, nullptr, {"limits.some", 10, 11}), Code::kTxnTooLarge);
  EXPECT_EQ(slot().rejected, Code::kTxnTooLarge);
  EXPECT_EQ(outcome().kind, OutcomeKind::kRejected);
  EXPECT_STREQ(outcome().limit_name, "limits.some");
  EXPECT_EQ(outcome().limit, 10U);
  EXPECT_EQ(outcome().asked, 11U);
}

TEST_F(SlotTest, ASecondRejectionAnswersItsOwnCodeAndChangesNothing) {
  reject(slot(), Code::kTxnTooLarge, nullptr, {"limits.some", 10, 11});
  EXPECT_EQ(reject(slot(), Code::kKeyTooLong, nullptr, {"limits.other", 1, 2}), Code::kKeyTooLong);
  EXPECT_EQ(slot().rejected, Code::kTxnTooLarge);
  EXPECT_STREQ(outcome().limit_name, "limits.some");
}

TEST_F(SlotTest, WhatHasFailedIsNotRejectedAfterwards) {
  fail(slot(), Code::kLocked, nullptr, Owner());
  reject(slot(), Code::kTxnTooLarge, nullptr, {"limits.some", 10, 11});
  EXPECT_EQ(slot().rejected, Code::kOk);
  EXPECT_EQ(outcome().kind, OutcomeKind::kAborted);
  EXPECT_EQ(outcome().limit_name, nullptr);
}

TEST_F(SlotTest, NothingFailsWithoutAReason) {
  EXPECT_DEATH(fail(slot(), Code::kOk, nullptr, Owner()), "what fails has a reason");
  EXPECT_DEATH(fail_for_peer(slot(), nullptr, {}), "somebody was lost");
}

TEST_F(SlotTest, APhaseIsOverWhenNeitherMessagesNorVerbsAreUnanswered) {
  EXPECT_TRUE(slot().phase_over());
  slot().waiting = node_set({1});
  EXPECT_FALSE(slot().phase_over());
  slot().waiting = {};
  slot().verbs_pending = 1;
  EXPECT_FALSE(slot().phase_over());
}

TEST(TxnStage, AnAbortIsFinalAndOnlyWhatIsFinishedIsFree) {
  for (int from = 0; from < static_cast<int>(kStagesAfter.size()); ++from) {
    const auto stage = static_cast<TxnStage>(from);
    const auto leads_to = [&](TxnStage to) { return (stages_after(stage) >> static_cast<int>(to) & 1U) != 0; };
    EXPECT_NE(stages_after(stage), 0) << "no stage is the last: " << from;
    EXPECT_FALSE(leads_to(stage)) << from;
    EXPECT_EQ(leads_to(TxnStage::kFree), stage == TxnStage::kFinished) << from;
    EXPECT_EQ(leads_to(TxnStage::kExecuting), stage == TxnStage::kFree) << from;
    const bool in_phases = stage == TxnStage::kCommitting || stage == TxnStage::kAborting;
    EXPECT_EQ(leads_to(TxnStage::kFinished), in_phases) << from;
    if (stage == TxnStage::kAborting || stage == TxnStage::kDraining) {
      EXPECT_FALSE(leads_to(TxnStage::kCommitting));
    }
  }
}

TEST(TxnStage, AStageThatDoesNotFollowIsNotEntered) {
  const auto slot = std::make_unique<TxnSlot>();
  EXPECT_DEATH(slot->enter(TxnStage::kCommitting), "from stage to stage");
  for (const TxnStage stage : {TxnStage::kExecuting, TxnStage::kAwaitingReads, TxnStage::kAwaitingCredit,
                               TxnStage::kCommitting, TxnStage::kAborting}) {
    slot->enter(stage);
  }
  EXPECT_DEATH(slot->enter(TxnStage::kCommitting), "from stage to stage");
  slot->enter(TxnStage::kFinished);
  EXPECT_DEATH(slot->enter(TxnStage::kExecuting), "from stage to stage");
  slot->enter(TxnStage::kFree);
}

}  // namespace
}  // namespace weft
