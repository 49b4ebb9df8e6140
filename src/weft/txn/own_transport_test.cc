// What a commit needs of its own node is a call: no message, no round trip, and a refusal ends the commit before
// anybody else hears of it.
#include "weft/txn/own_transport.h"
#include "weft/fabric/nodes_testing.h"

#include "weft/store/owner_testing.h"
#include "weft/txn/coordinator_testing.h"

namespace weft {
namespace {

// A key at this node has its backup at node 1, a key at node 2 its backup here.
class OwnTransportTest : public CoordinatorTest {
 protected:
  explicit OwnTransportTest(std::string_view row = "dnl4") : CoordinatorTest(row) {}

  void lock_elsewhere(uint64_t key) {
    ASSERT_EQ(table().lock(hashed(key), make_owner(kTwo, kWorker, 7), Write::kPut, std::nullopt, 8).code, Code::kOk);
  }
  PreparedTxn& record(const TxnSlot& slot) { return records_.at(kSelf, slot.index); }
  Owner owner(const TxnSlot& slot) const { return make_owner(kSelf, kWorker, slot.index); }
  // Messages of this node to itself.
  bool sent_to_itself() const {
    return port_.has_open(kSelf, Flow::kCommit) || port_.has_open(kSelf, Flow::kExecution);
  }
};

TEST_F(OwnTransportTest, ALockThatIsRefusedHereAsksNobodyElse) {
  const uint64_t own = key_at(kSelf);
  load_record(own, "old");
  lock_elsewhere(own);
  TxnSlot& slot = begin();
  put(slot, key_at(kOne));
  put(slot, own);
  Waiter waiter;
  commit(slot, waiter);
  EXPECT_FALSE(sent_to_itself());
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(slot.outcome.code, Code::kLocked);
  EXPECT_EQ(slot.outcome.holder_worker, kWorker);
  EXPECT_EQ(slot.stage, TxnStage::kFinished);
  EXPECT_EQ(sent(), "") << "neither a lock nor an unlock";
  EXPECT_EQ(slot.round_trips, 0);
  EXPECT_EQ(records_.open_records(), 0U);
  EXPECT_EQ(word_of(own).owner(), make_owner(kTwo, kWorker, 7)) << "the other one's lock stays";
  EXPECT_EQ(known(slot), OutcomeLog::Known::kAborted);
  EXPECT_TRUE(has_all_credit(kOne) && has_all_credit(kTwo));
}

TEST_F(OwnTransportTest, ALockOfAVersionThatMovedHereAsksNobodyElse) {
  const uint64_t own = key_at(kSelf), other = key_at(kSelf, 1);
  load_record(own, "old");
  load_record(other, "old");
  TxnSlot& slot = begin();
  put(slot, other);
  put(slot, own);
  slot.entry(1).read = slot.entry(1).found = true;
  slot.entry(1).version = Version(9);
  put(slot, key_at(kTwo));
  Waiter waiter;
  commit(slot, waiter);
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(slot.outcome.code, Code::kVersionMoved);
  EXPECT_EQ(sent(), "");
  EXPECT_EQ(table().leak_report().locked, 0U) << "all keys or none";
  EXPECT_EQ(records_.open_records(), 0U);
}

TEST_F(OwnTransportTest, AReadThatIsNotValidHereAsksNobodyElse) {
  const uint64_t own = key_at(kSelf);
  load_record(own, "old");
  TxnSlot& slot = begin();
  put(slot, key_at(kOne));
  note_read(slot, own);
  slot.entry(1).version = Version(9);
  note_read(slot, key_at(kTwo));
  Waiter waiter;
  commit(slot, waiter);
  EXPECT_EQ(sent(), "lock@1");
  answer(kOne, slot, Phase::kLock, Code::kOk, {4});
  EXPECT_EQ(sent(), "unlock@1") << "node 2 is not asked whether its read is valid";
  EXPECT_EQ(slot.outcome.code, Code::kVersionMoved);
}

TEST_F(OwnTransportTest, ACommitHereRunsWithoutMessagesToThisNode) {
  const uint64_t own = key_at(kSelf);
  load_record(own, "old");
  TxnSlot& slot = begin();
  put(slot, own, "new");
  Waiter waiter;
  commit(slot, waiter);
  EXPECT_FALSE(sent_to_itself());
  EXPECT_EQ(sent(), "replicate@1") << "it is locked already";
  EXPECT_EQ(word_of(own).owner(), owner(slot));
  EXPECT_EQ(slot.entry(0).base, Version(1)) << "the participant's answer";
  EXPECT_EQ(slot.locked_nodes, node_set({0}));
  EXPECT_EQ(slot.record_nodes, node_set({0, 1}));
  EXPECT_EQ(record(slot).state, kLocked);
  EXPECT_EQ(record(slot).sequence, slot.sequence);
  EXPECT_EQ(record(slot).participants, node_set({0, 1})) << "as recovery would be told";
  EXPECT_EQ(record(slot).writes, 1U);
  EXPECT_EQ(value_of(own), "old");
  answer(kOne, slot, Phase::kReplicate);
  EXPECT_FALSE(sent_to_itself());
  EXPECT_TRUE(woken(waiter));
  EXPECT_TRUE(slot.outcome.committed());
  EXPECT_EQ(sent(), "");
  EXPECT_EQ(value_of(own), "new");
  EXPECT_EQ(word_of(own), Word(Version(2), kReadable));
  EXPECT_FALSE(participant_.has_acks()) << "nobody has to be told";
  EXPECT_EQ(slot.round_trips, 1) << "to the backup";
}

TEST_F(OwnTransportTest, ABackupHereGetsTheValueWithoutAMessage) {
  const uint64_t key = key_at(kTwo);
  load_record(key, "old");
  TxnSlot& slot = begin();
  put(slot, key, "new");
  Waiter waiter;
  commit(slot, waiter);
  EXPECT_EQ(sent(), "lock@2");
  answer(kTwo, slot, Phase::kLock, Code::kOk, {1});
  EXPECT_EQ(value_of(key), "new");
  EXPECT_EQ(record(slot).state, kReplicated);
  EXPECT_FALSE(sent_to_itself());
  EXPECT_FALSE(participant_.has_acks());
  EXPECT_EQ(sent(), "unlock@2");
  answer(kTwo, slot, Phase::kUnlock);
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(slot.round_trips, 2);
}

TEST_F(OwnTransportTest, WhatIsRefusedElsewhereIsReleasedHereAtOnce) {
  const uint64_t own = key_at(kSelf);
  load_record(own, "old");
  TxnSlot& slot = begin();
  put(slot, own);
  put(slot, key_at(kOne));
  Waiter waiter;
  commit(slot, waiter);
  EXPECT_EQ(sent(), "lock@1");
  EXPECT_EQ(word_of(own).owner(), owner(slot));
  answer(kOne, slot, Phase::kLock, Code::kLocked);
  EXPECT_EQ(sent(), "");
  EXPECT_EQ(word_of(own), Word(Version(1), kReadable));
  EXPECT_EQ(slot.stage, TxnStage::kFinished);
  EXPECT_EQ(value_of(own), "old");
}

TEST_F(OwnTransportTest, OnlyPhasesOfACommitRun) {
  TxnSlot& slot = begin();
  put(slot, key_at(kSelf));
  for (const Phase phase : {Phase::kExecute, Phase::kDone}) {
    EXPECT_DEATH(own_.run(slot, phase), "this node's own requests are right");
  }
}

// Where all replicas lock.
class OwnTransportUnanimousTest : public OwnTransportTest {
 protected:
  OwnTransportUnanimousTest() : OwnTransportTest("dnl1") {}
};

TEST_F(OwnTransportUnanimousTest, TheOtherReplicasAreAskedWhenThisOneHasLocked) {
  const uint64_t own = key_at(kSelf);
  load_record(own, "old");
  TxnSlot& slot = begin();
  put(slot, own, "new");
  Waiter waiter;
  commit(slot, waiter);
  EXPECT_EQ(sent(), "lock@1");
  answer(kOne, slot, Phase::kLock, Code::kOk, {1});
  EXPECT_TRUE(woken(waiter));
  EXPECT_EQ(value_of(own), "new") << "unlocked at once";
  EXPECT_EQ(sent(), "unlock@1");
}

TEST_F(OwnTransportUnanimousTest, AReplicaThatIsAtAnotherVersionAbortsIt) {
  const uint64_t own = key_at(kSelf);
  load_record(own, "old");
  TxnSlot& slot = begin();
  put(slot, own, "new");
  Waiter waiter;
  commit(slot, waiter);
  answer(kOne, slot, Phase::kLock, Code::kOk, {2});
  EXPECT_EQ(slot.outcome.code, Code::kVersionMoved);
  EXPECT_EQ(word_of(own), Word(Version(1), kReadable));
}

}  // namespace
}  // namespace weft
