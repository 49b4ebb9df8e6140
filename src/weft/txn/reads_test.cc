// Reads: what is answered here, what the primary is asked, and when a transaction has its answers.
#include "weft/txn/reads.h"
#include "weft/fabric/nodes_testing.h"

#include "weft/store/owner_testing.h"
#include "weft/txn/commit_testing.h"

namespace weft {
namespace {

class ReadsTest : public CommitTest {
 protected:
  explicit ReadsTest(std::string_view row = "dnl4", const Limits& limits = Limits(),
                     const ReadRules& rules = ReadRules())
      : CommitTest(row, limits, true, rules) {}

  Entry& get(TxnSlot& slot, uint64_t key, Intent intent = Intent::kRead) {
    const ReadHandle handle = reads_.get_async(slot, kTable, key, intent);
    EXPECT_LT(handle.index, slot.count);
    return slot.entry(handle.index);
  }
  // A primary's answer to the get of an entry.
  GetReply reply_to(const TxnSlot& slot, uint16_t entry, Code code = Code::kOk) {
    return {.slot = slot.index, .code = code, .entry = entry};
  }
  void answer_get(NodeId from, const GetReply& reply, const std::string& value = {}) {
    std::byte* to = peer(from).reserve(kSelf, Flow::kCommit, static_cast<uint8_t>(Kind::kGetReply),
                                       reply.bytes() + value.size(), reply.tag());
    store(to, reply.word);
    if (reply.cut) store(to + reply.bytes() - sizeof reply.length, reply.length);
    std::memcpy(to + reply.bytes(), value.data(), value.size());
    deliver();
  }
  void answer_found(NodeId from, const TxnSlot& slot, uint16_t entry, uint64_t version, const std::string& value) {
    GetReply reply = reply_to(slot, entry);
    reply.found = true;
    reply.word = Word(Version(version), kReadable).bits;
    answer_get(from, reply, value);
  }
  static std::string value_of_entry(const Entry& e) { return {reinterpret_cast<const char*>(e.value), e.value_bytes}; }
  void lock_by_other(uint64_t key) {
    ASSERT_EQ(table().lock(hashed(key), make_owner(kTwo, kWorker, 3), Write::kPut, std::nullopt, 8).code, Code::kOk);
  }
};

TEST_F(ReadsTest, AKeyOfThisNodeIsReadWithTheBatch) {
  const uint64_t key = key_at(kSelf);
  load_record(key, "value");
  TxnSlot& slot = begin();
  const Entry& e = get(slot, key);
  EXPECT_FALSE(e.done);
  EXPECT_EQ(slot.reads_pending, 1);
  EXPECT_TRUE(reads_.pending());
  EXPECT_TRUE(reads_.run_batch());
  EXPECT_TRUE(e.done && e.found);
  EXPECT_EQ(value_of_entry(e), "value");
  EXPECT_EQ(e.version, word_of(key).version());
  EXPECT_EQ(slot.reads_pending, 0);
  EXPECT_EQ(sent(), "") << "nobody was asked";
  EXPECT_FALSE(reads_.run_batch()) << "nothing is left";
}

TEST_F(ReadsTest, AbsenceHasAVersionToo) {
  TxnSlot& slot = begin();
  const uint64_t key = key_at(kSelf);
  const Entry& e = get(slot, key);
  reads_.run_batch();
  EXPECT_TRUE(e.done);
  EXPECT_FALSE(e.found);
  EXPECT_EQ(e.code, Code::kOk);
  EXPECT_EQ(e.version, word_of(key).version());
}

TEST_F(ReadsTest, AKeyOfAnotherNodeIsAskedForAtItsPrimary) {
  const uint64_t key = key_at(kOne);
  TxnSlot& slot = begin();
  const Entry& e = get(slot, key);
  deliver();
  const std::vector<Received> got = take_received();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].at, kOne);
  const GetRequest request = got[0].get();
  EXPECT_EQ(request.slot, slot.index);
  EXPECT_EQ(request.entry, 0U);
  EXPECT_EQ(request.table, kTable.value);
  EXPECT_EQ(request.flags, 0);
  ASSERT_EQ(got[0].body.size(), 8U);
  EXPECT_EQ(load<uint64_t>(got[0].body.data()), key);
  answer_found(kOne, slot, 0, 6, "value");
  EXPECT_TRUE(e.done && e.found);
  EXPECT_EQ(value_of_entry(e), "value");
  EXPECT_EQ(e.version, Version(6));
  EXPECT_TRUE(has_all_credit(kOne)) << "an answer gives the credit back";
  EXPECT_TRUE(gate_.came_back());
}

TEST_F(ReadsTest, AKeyIsReadOnce) {
  TxnSlot& slot = begin();
  const Entry& one = get(slot, key_at(kOne));
  EXPECT_EQ(&get(slot, key_at(kOne)), &one);
  EXPECT_EQ(sent(), "get@1");
  EXPECT_EQ(slot.reads_pending, 1);
}

TEST_F(ReadsTest, WhatTheTransactionHasWrittenIsNotRead) {
  TxnSlot& slot = begin();
  put(slot, key_at(kOne), "own");
  const Entry& e = get(slot, key_at(kOne));
  EXPECT_FALSE(e.read);
  EXPECT_TRUE(e.done);
  EXPECT_EQ(sent(), "");
}

TEST_F(ReadsTest, AKeyThatIsWrittenBothWaysIsLookedAt) {
  TxnSlot& slot = begin();
  const uint64_t key = key_at(kOne);
  EXPECT_EQ(reads_.write(slot, kTable, key, Write::kErase, {}), Code::kOk);
  EXPECT_EQ(sent(), "");
  get(slot, key_at(kSelf));
  reads_.run_batch();
  EXPECT_EQ(slot.done_upto, 2);
  EXPECT_EQ(reads_.write(slot, kTable, key, Write::kInsert, "v"), Code::kOk);
  EXPECT_EQ(sent(), "get@1") << "whether it was there decides what is to be done";
  EXPECT_FALSE(slot.entry(0).done);
  EXPECT_EQ(slot.done_upto, 0) << "who waits for the second waits for the first again";
}

TEST_F(ReadsTest, AnAnswerOfARefusalFailsTheTransaction) {
  TxnSlot& slot = begin();
  const Entry& e = get(slot, key_at(kOne));
  GetReply reply = reply_to(slot, 0, Code::kLocked);
  reply.word = Word(Version(), 0, make_owner(kTwo, WorkerId(4), 1)).bits;
  answer_get(kOne, reply);
  EXPECT_TRUE(e.done);
  EXPECT_EQ(e.code, Code::kLocked);
  EXPECT_EQ(slot.outcome.code, Code::kLocked);
  EXPECT_EQ(slot.outcome.holder_worker, WorkerId(4));
}

TEST_F(ReadsTest, AHeadIsTheBeginningAndTheRestIsAskedForWhenItIsWanted) {
  TxnSlot& slot = begin();
  const Entry& e = get(slot, key_at(kOne), Intent::kHead);
  EXPECT_EQ(sent(), "get@1");
  GetReply reply = reply_to(slot, 0);
  reply.found = reply.cut = true;
  reply.word = Word(Version(6), kReadable).bits;
  reply.length = 40;
  answer_get(kOne, reply, "0123456789abcdef");
  EXPECT_TRUE(e.done && e.partial);
  EXPECT_EQ(value_of_entry(e), "0123456789abcdef");
  EXPECT_EQ(e.value_length, 40U);
  get(slot, key_at(kOne), Intent::kHead);
  EXPECT_EQ(sent(), "") << "it is here";
  get(slot, key_at(kOne));
  EXPECT_FALSE(e.done);
  EXPECT_EQ(sent(), "get@1");
  answer_found(kOne, slot, 0, 6, std::string(40, 'v'));
  EXPECT_TRUE(e.done && !e.partial);
  EXPECT_EQ(value_of_entry(e), std::string(40, 'v'));
  EXPECT_EQ(slot.outcome.code, Code::kOk);
  EXPECT_TRUE(has_all_credit(kOne));
}

TEST_F(ReadsTest, AValueThatIsNotWhatItsHeadWasFailsTheTransaction) {
  TxnSlot& slot = begin();
  const Entry& e = get(slot, key_at(kOne), Intent::kHead);
  GetReply reply = reply_to(slot, 0);
  reply.found = reply.cut = true;
  reply.word = Word(Version(6), kReadable).bits;
  reply.length = 40;
  answer_get(kOne, reply, "0123456789abcdef");
  get(slot, key_at(kOne));
  answer_found(kOne, slot, 0, 7, std::string(40, 'v'));
  EXPECT_EQ(e.code, Code::kVersionMoved);
  EXPECT_EQ(slot.outcome.code, Code::kVersionMoved);
}

TEST_F(ReadsTest, AValueThatIsCutWithoutNeedIsAFaultOfThePeer) {
  TxnSlot& slot = begin();
  const Entry& e = get(slot, key_at(kOne));
  for (const uint64_t length : {uint64_t{0}, uint64_t{64}, uint64_t{65}, uint64_t{UINT32_MAX}}) {
    GetReply reply = reply_to(slot, 0);
    reply.found = reply.cut = true;
    reply.length = length;
    answer_get(kOne, reply);
    EXPECT_FALSE(ctx_.faults.empty()) << length;
    while (ctx_.faults.take()) continue;
    EXPECT_FALSE(e.done);
  }
}

TEST_F(ReadsTest, AnAnswerToNoGetIsAFaultOfThePeer) {
  TxnSlot& slot = begin();
  const Entry& e = get(slot, key_at(kOne));
  const auto is_fault = [&] {
    const bool is = !ctx_.faults.empty();
    while (ctx_.faults.take()) continue;
    return is;
  };
  GetReply wrong = reply_to(slot, 0);
  ++wrong.slot;
  answer_get(kOne, wrong);
  EXPECT_TRUE(is_fault()) << "of a slot that has no transaction";
  for (const int entry : {1, 256, 4095}) {
    answer_get(kOne, reply_to(slot, static_cast<uint16_t>(entry)));
    EXPECT_TRUE(is_fault()) << "of a key that it does not have";
  }
  TxnSlot& other = begin();
  put(other, key_at(kOne));
  answer_get(kOne, reply_to(other, 0));
  EXPECT_TRUE(is_fault()) << "of another transaction, which has not asked";
  answer_get(kTwo, reply_to(slot, 0));
  EXPECT_TRUE(is_fault()) << "of a node that was not asked";
  EXPECT_FALSE(e.done);
  answer_found(kOne, slot, 0, 6, "value");
  EXPECT_FALSE(is_fault());
  EXPECT_TRUE(e.done);
  answer_found(kOne, slot, 0, 7, "again");
  EXPECT_TRUE(is_fault()) << "that has come already";
  EXPECT_EQ(value_of_entry(e), "value");
}

TEST_F(ReadsTest, TheClientGoesOnWhenAllUpToWhatItWaitsForAreIn) {
  TxnSlot& slot = begin();
  get(slot, key_at(kOne));
  get(slot, key_at(kTwo));
  get(slot, key_at(kOne, 1));
  Waiter waiter;
  slot.wait_upto = 1;
  waits_.begin(slot, waiter.handle());
  answer_found(kTwo, slot, 1, 1, "b");
  EXPECT_FALSE(woken(waiter)) << "the first is missing";
  EXPECT_EQ(slot.done_upto, 0);
  answer_found(kOne, slot, 0, 1, "a");
  EXPECT_EQ(slot.done_upto, 2);
  EXPECT_TRUE(woken(waiter)) << "the third is not waited for";
}

TEST_F(ReadsTest, ACommitThatWasAskedForBeginsWithTheLastAnswer) {
  TxnSlot& slot = begin();
  get(slot, key_at(kOne));
  get(slot, key_at(kTwo));
  Waiter waiter;
  commit(slot, waiter);
  EXPECT_EQ(slot.stage, TxnStage::kAwaitingReads);
  EXPECT_EQ(sent(), "get@1 get@2");
  answer_found(kOne, slot, 0, 1, "a");
  EXPECT_EQ(sent(), "");
  answer_found(kTwo, slot, 1, 1, "b");
  EXPECT_NE(slot.stage, TxnStage::kAwaitingReads);
  EXPECT_EQ(sent(), "validate@1 validate@2");
}

TEST_F(ReadsTest, WhatWasGivenUpEndsWithTheLastAnswer) {
  TxnSlot& slot = begin();
  get(slot, key_at(kOne));
  coordinator_.detach(slot);
  EXPECT_EQ(slot.stage, TxnStage::kDraining);
  EXPECT_FALSE(slots_.all_free()) << "a late answer must not find another transaction there";
  answer_found(kOne, slot, 0, 1, "a");
  EXPECT_TRUE(slots_.all_free());
}

TEST_F(ReadsTest, AfterTheEndNothingIsReadOrWritten) {
  TxnSlot& slot = begin();
  slot.stage = TxnStage::kCommitting;
  EXPECT_EQ(reads_.get_async(slot, kTable, key_at(kOne), Intent::kRead).index, UINT16_MAX);
  EXPECT_EQ(reads_.write(slot, kTable, key_at(kOne), Write::kPut, "v"), Code::kInvalidArgument);
  EXPECT_EQ(slot.count, 0);
}

TEST_F(ReadsTest, WhatWasRejectedHasNoHandle) {
  TxnSlot& slot = begin();
  EXPECT_EQ(reads_.get_async(slot, TableId(9), 1, Intent::kRead).index, UINT16_MAX);
  EXPECT_EQ(reads_.write(slot, TableId(9), 1, Write::kPut, "v"), Code::kNoSuchTable);
}

TEST_F(ReadsTest, AReadOfATransactionOfAnotherViewFails) {
  TxnSlot& slot = begin();
  ++slot.epoch;
  const Entry& e = get(slot, key_at(kSelf));
  EXPECT_TRUE(e.done);
  EXPECT_EQ(e.code, Code::kEpoch);
  EXPECT_FALSE(reads_.pending());
}

TEST_F(ReadsTest, AReadAfterTheTimeIsOverFails) {
  TxnSlot& slot = begin();
  slot.expired = true;
  EXPECT_EQ(get(slot, key_at(kSelf)).code, Code::kNoAnswer);
  EXPECT_EQ(slot.reads_pending, 0);
}

TEST_F(ReadsTest, ALostPrimaryIsNotAsked) {
  ctx_.views.mark_lost(kOne);
  TxnSlot& slot = begin();
  EXPECT_EQ(get(slot, key_at(kOne)).code, Code::kPeerLost);
  EXPECT_EQ(slot.outcome.silent, node_set({1}).bits());
  EXPECT_EQ(sent(), "");
}

TEST_F(ReadsTest, WhenAPeerIsLostWhatItWasAskedForFailsAndNothingElse) {
  TxnSlot& slot = begin();
  const Entry& lost = get(slot, key_at(kOne));
  const Entry& other = get(slot, key_at(kTwo));
  const Entry& own = get(slot, key_at(kSelf));
  reads_.on_peer_lost(slot, kOne);
  EXPECT_TRUE(lost.done);
  EXPECT_EQ(lost.code, Code::kPeerLost);
  EXPECT_FALSE(other.done);
  EXPECT_FALSE(own.done);
  EXPECT_EQ(slot.reads_pending, 2);
}

TEST_F(ReadsTest, ASingleReadDoesNotTellWhatIsLocked) {
  const uint64_t key = key_at(kSelf);
  load_record(key, "value");
  lock_by_other(key);
  TxnSlot& slot = begin();
  reads_.start_single(slot, kTable, key);
  reads_.run_batch();
  EXPECT_EQ(slot.entry(0).code, Code::kLocked);
  EXPECT_EQ(slot.outcome.holder_node, kTwo);
}

TEST_F(ReadsTest, AReadThatIsValidatedLaterTellsWhatIsLocked) {
  const uint64_t key = key_at(kSelf);
  load_record(key, "value");
  lock_by_other(key);
  TxnSlot& slot = begin();
  const Entry& e = get(slot, key);
  reads_.run_batch();
  EXPECT_EQ(e.code, Code::kOk);
  EXPECT_EQ(value_of_entry(e), "value");
}

TEST_F(ReadsTest, ASingleReadIsToldUnderALease) {
  ctx_.state.lease.set_until(2000);
  const uint64_t key = key_at(kSelf);
  TxnSlot& slot = begin();
  reads_.start_single(slot, kTable, key);
  Waiter waiter;
  waits_.begin(slot, waiter.handle());
  reads_.run_batch();
  EXPECT_FALSE(woken(waiter));
  acks_.begin_step();
  EXPECT_TRUE(woken(waiter));
}

TEST_F(ReadsTest, WhereBackupsDoNotAnswerThePrimaryIsAsked) {
  TxnSlot& slot = begin();
  get(slot, key_at(kTwo));  // its backup is here
  EXPECT_EQ(sent(), "get@2");
}

TEST_F(ReadsTest, QueuesAreDroppedWithTheirView) {
  TxnSlot& slot = begin();
  get(slot, key_at(kSelf));
  reads_.drop_queues();
  EXPECT_FALSE(reads_.pending());
  EXPECT_FALSE(reads_.run_batch());
}

TEST_F(ReadsTest, AReadHasOneAnswer) {
  TxnSlot& slot = begin();
  get(slot, key_at(kOne));
  reads_.fail_read(slot, 0, Code::kBusy);
  EXPECT_DEATH(reads_.complete_read(slot, 0), "a read has one answer");
}

class ReadsAtBackupsTest : public ReadsTest {
 protected:
  ReadsAtBackupsTest() : ReadsTest("dnl2", Limits(), ReadRules{.at_backups = true, .single_at_backups = true}) {}

  // This backup has received a write that is not finished everywhere.
  void apply(uint64_t key, const std::string& value) {
    std::byte undo[64];
    table().apply(hashed(key), Write::kPut, as_bytes(value), Version(1), undo);
  }
};

TEST_F(ReadsAtBackupsTest, ABackupHereAnswersWhatIsValidated) {
  const uint64_t key = key_at(kTwo);
  apply(key, "value");
  TxnSlot& slot = begin();
  const Entry& e = get(slot, key);
  reads_.run_batch();
  EXPECT_EQ(value_of_entry(e), "value") << "readable or not";
  EXPECT_EQ(sent(), "");
  EXPECT_EQ(ctx_.counters.backup_gets, 1U);
}

TEST_F(ReadsAtBackupsTest, ABackupElsewhereIsNoReasonNotToAsk) {
  TxnSlot& slot = begin();
  get(slot, key_at(kOne));
  EXPECT_EQ(sent(), "get@1");
}

TEST_F(ReadsAtBackupsTest, ASingleReadOfWhatIsNotReadableGoesToThePrimary) {
  const uint64_t key = key_at(kTwo);
  apply(key, "value");
  TxnSlot& slot = begin();
  reads_.start_single(slot, kTable, key);
  reads_.run_batch();
  EXPECT_FALSE(slot.entry(0).done);
  deliver();
  const std::vector<Received> got = take_received();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].at, kTwo);
  EXPECT_EQ(got[0].get().flags, kGetSingle);
  answer_found(kTwo, slot, 0, 1, "value");
  EXPECT_TRUE(slot.entry(0).done);
}

TEST_F(ReadsAtBackupsTest, ASingleReadOfWhatIsReadableIsAnsweredHere) {
  const uint64_t key = key_at(kTwo);
  apply(key, "value");
  table().mark_readable(hashed(key), Version(1));
  TxnSlot& slot = begin();
  reads_.start_single(slot, kTable, key);
  reads_.run_batch();
  EXPECT_EQ(value_of_entry(slot.entry(0)), "value");
  EXPECT_EQ(sent(), "");
}

// Rule G7: what a transaction has read at this node's replicas, and may commit without asking anybody.
class CommitsHereTest : public ReadsAtBackupsTest {
 protected:
  // A backup here has the key, finished.
  uint64_t backed_up(uint64_t key) {
    apply(key, "value");
    table().mark_readable(hashed(key), Version(1));
    return key;
  }
  // The transaction has read both keys.
  TxnSlot& read_both(uint64_t a, uint64_t b) {
    TxnSlot& slot = begin();
    get(slot, a);
    get(slot, b);
    reads_.run_batch();
    return slot;
  }
  // Whom its commit asks; empty: nobody, it is over.
  std::string asks(TxnSlot& slot) {
    const Waiter waiter;
    commit(slot, waiter);
    const std::string asked = sent();
    if (!asked.empty()) answer(kTwo, slot, Phase::kValidate);
    EXPECT_TRUE(slot.outcome.committed());
    EXPECT_TRUE(woken(waiter));
    return asked;
  }
  const Owner other_ = make_owner(kOne, WorkerId(0), 3);
};

TEST_F(CommitsHereTest, WhatStillHoldsAsksNobody) {
  const uint64_t a = backed_up(key_at(kTwo)), absent = key_at(kTwo, 1);
  EXPECT_EQ(asks(read_both(a, absent)), "") << "absence has a version, too";
}

TEST_F(CommitsHereTest, WhatABackupHidesIsValidated) {
  const uint64_t a = backed_up(key_at(kTwo)), hidden = key_at(kTwo, 1);
  apply(hidden, "value");
  TxnSlot& slot = read_both(a, hidden);
  table().mark_readable(hashed(hidden), Version(1));
  EXPECT_EQ(asks(slot), "validate@2") << "hidden when it was read";
}

TEST_F(CommitsHereTest, WhatIsHiddenByNowIsValidated) {
  const uint64_t a = backed_up(key_at(kTwo)), changed = backed_up(key_at(kTwo, 1));
  TxnSlot& slot = read_both(a, changed);
  std::byte undo[64];
  table().apply(hashed(changed), Write::kPut, as_bytes("more"), Version(2), undo);
  EXPECT_EQ(asks(slot), "validate@2");
}

TEST_F(CommitsHereTest, WhatIsWriteLockedIsValidatedAndWhatIsReadLockedIsNot) {
  const uint64_t a = backed_up(key_at(kTwo)), locked = backed_up(key_at(kTwo, 1));
  TxnSlot& slot = read_both(a, locked);
  const LockResult held = table().lock(hashed(locked), other_, Write::kPut, std::nullopt, 5);
  ASSERT_EQ(held.code, Code::kOk);
  EXPECT_EQ(asks(slot), "validate@2");
  EXPECT_EQ(asks(read_both(a, locked)), "validate@2") << "locked when it was read, too";
  table().unlock(hashed(locked), other_, held.locked);
  const LockResult reads = table().lock(hashed(locked), other_, Write::kNone, std::nullopt, 0);
  ASSERT_EQ(reads.code, Code::kOk);
  EXPECT_EQ(asks(read_both(a, locked)), "");
  table().unlock(hashed(locked), other_, reads.locked);
}

TEST_F(CommitsHereTest, AKeyWithoutAReplicaHereIsValidatedAndSoAreTheOthers) {
  const uint64_t a = backed_up(key_at(kTwo)), elsewhere = key_at(kOne);
  TxnSlot& slot = read_both(a, elsewhere);
  deliver();
  take_received();
  answer_found(kOne, slot, 1, 1, "value");
  const Waiter waiter;
  commit(slot, waiter);
  EXPECT_EQ(sent(), "validate@1 validate@2");
  answer(kOne, slot, Phase::kValidate);
  answer(kTwo, slot, Phase::kValidate);
  EXPECT_TRUE(woken(waiter));
}

Limits reads_tight_limits() {
  Limits limits;
  limits.credit_bytes = 1000;
  return limits;
}

class ReadsWithLocksTest : public ReadsTest {
 protected:
  ReadsWithLocksTest() : ReadsTest("fasst", reads_tight_limits()) {}
};

TEST_F(ReadsWithLocksTest, AGetForUpdateLocksAtThePrimary) {
  TxnSlot& slot = begin();
  const Entry& e = get(slot, key_at(kOne), Intent::kUpdate);
  deliver();
  const GetRequest request = take_received().at(0).get();
  EXPECT_EQ(request.flags, kGetLocks);
  EXPECT_EQ(request.sequence, slot.sequence) << "of its record there";
  EXPECT_EQ(slot.participants, node_set({1}));
  EXPECT_EQ(slot.locked_nodes, NodeSet{}) << "not before the answer";
  answer_found(kOne, slot, 0, 6, "value");
  EXPECT_TRUE(e.locked);
  EXPECT_EQ(e.base, Version(6));
  EXPECT_EQ(slot.locked_nodes, node_set({1}));
  EXPECT_EQ(slot.record_nodes, node_set({1}));
  EXPECT_GT(slot.credit[1], 0U) << "it can be released whatever happens";
  EXPECT_FALSE(has_all_credit(kOne));
}

// A write would have a version that no record can have.
TEST_F(ReadsWithLocksTest, ALockAtTheLastVersionFailsAndIsReleasedLikeAnyOther) {
  TxnSlot& slot = begin();
  const Entry& e = get(slot, key_at(kOne), Intent::kUpdate);
  answer_found(kOne, slot, 0, kVersionMax, "value");
  EXPECT_TRUE(e.locked);
  EXPECT_EQ(slot.locked_nodes, node_set({1}));
  EXPECT_EQ(slot.outcome.code, Code::kVersionLimit);
}

TEST_F(ReadsWithLocksTest, ALockThatWasRefusedIsNotHeld) {
  TxnSlot& slot = begin();
  const Entry& e = get(slot, key_at(kOne), Intent::kUpdate);
  answer_get(kOne, reply_to(slot, 0, Code::kLocked));
  EXPECT_FALSE(e.locked);
  EXPECT_EQ(slot.locked_nodes, NodeSet{});
}

TEST_F(ReadsWithLocksTest, AKeyOfThisNodeIsLockedByMessageToo) {
  TxnSlot& slot = begin();
  get(slot, key_at(kSelf), Intent::kUpdate);
  EXPECT_FALSE(reads_.pending());
  EXPECT_EQ(slot.participants, node_set({0}));
}

TEST_F(ReadsWithLocksTest, AGetWithoutCreditWaitsAndIsSentWhenThereIsSome) {
  ASSERT_TRUE(gate_.take(kOne, 1000));
  TxnSlot& slot = begin();
  const Entry& e = get(slot, key_at(kOne));
  EXPECT_EQ(sent(), "");
  EXPECT_FALSE(e.done);
  EXPECT_FALSE(reads_.retry()) << "there still is none";
  gate_.give(kOne, 1000);
  EXPECT_TRUE(reads_.retry());
  EXPECT_EQ(sent(), "get@1");
  EXPECT_FALSE(reads_.retry()) << "nobody waits any more";
}

TEST_F(ReadsWithLocksTest, WhoWaitsForCreditWithAPeerThatIsLostFails) {
  ASSERT_TRUE(gate_.take(kOne, 1000));
  TxnSlot& slot = begin();
  const Entry& e = get(slot, key_at(kOne));
  ctx_.views.mark_lost(kOne);
  EXPECT_TRUE(reads_.retry());
  EXPECT_EQ(e.code, Code::kPeerLost);
}

TEST_F(ReadsWithLocksTest, WhoHoldsLocksDoesNotWaitForCredit) {
  TxnSlot& slot = begin();
  get(slot, key_at(kOne), Intent::kUpdate);
  ASSERT_TRUE(gate_.take(kTwo, 1000));
  const Entry& e = get(slot, key_at(kTwo));
  EXPECT_TRUE(e.done);
  EXPECT_EQ(e.code, Code::kBusy);
}

TEST_F(ReadsWithLocksTest, WhoHasLockedWhileItWaitedForCreditDoesNotGoOnWaiting) {
  ASSERT_TRUE(gate_.take(kTwo, 1000));
  TxnSlot& slot = begin();
  const Entry& e = get(slot, key_at(kTwo));
  get(slot, key_at(kOne), Intent::kUpdate);
  EXPECT_FALSE(e.done);
  EXPECT_TRUE(reads_.retry());
  EXPECT_EQ(e.code, Code::kBusy);
}

TEST_F(ReadsWithLocksTest, WhatWasGivenUpUnlocksWhatItsReadsLocked) {
  TxnSlot& slot = begin();
  get(slot, key_at(kOne), Intent::kUpdate);
  coordinator_.detach(slot);
  EXPECT_EQ(sent(), "get@1");
  answer_found(kOne, slot, 0, 6, "value");
  EXPECT_EQ(sent(), "unlock@1");
  EXPECT_FALSE(slots_.all_free());
  answer(kOne, slot, Phase::kUnlock);
  EXPECT_TRUE(slots_.all_free());
  EXPECT_TRUE(has_all_credit(kOne));
}

TEST_F(ReadsWithLocksTest, ASingleReadLocksNothing) {
  TxnSlot& slot = begin();
  reads_.start_single(slot, kTable, key_at(kOne));
  EXPECT_EQ(slot.participants, NodeSet{});
  EXPECT_FALSE(slot.entry(0).locks);
}

}  // namespace
}  // namespace weft
