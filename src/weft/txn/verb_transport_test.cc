// Commits by verbs: a lock is a word that names its owner (rule O1), and what a verb found shows whether it was the
// intended record (rule O2).
#include "weft/txn/verb_transport.h"
#include "weft/fabric/nodes_testing.h"

#include "weft/store/owner_testing.h"
#include "weft/txn/verb_testing.h"

namespace weft {
namespace {

class VerbTransportTest : public VerbPartTest {
 protected:
  // Issues a phase and completes it.
  void run(TxnSlot& slot, Phase phase) {
    if (!slot.in_phases()) slot.stage = TxnStage::kAborting;
    slot.phase = phase;
    PlanStep step = slot.steps[index_of(phase)];
    transport_->post_phase(slot, phase, &step);
    left_ = step;
    posted_ = slot.verbs_pending;
    flush();
  }
  void flush() {
    issuer_->flush(0);
    issuer_->poll(
        0,
        [](void* self, VerbRequest& request) {
          auto* test = static_cast<VerbTransportTest*>(self);
          request.retried = test->retried_;
          test->urgent_ |= request.urgent;
          test->others_ |= !request.urgent;
          test->concerned_.push_back(test->transport_->on_posted(request));
        },
        this);
  }
  // A key of the peer, read, to be written.
  Entry& to_write(TxnSlot& slot, uint64_t key, const std::string& value) {
    Entry& e = read_entry(slot, key);
    EXPECT_EQ(keys_.write(slot, e, Write::kPut, value), Code::kOk);
    e.by_verb = kLocksByVerb;
    return e;
  }
  Entry& to_check(TxnSlot& slot, uint64_t key) {
    Entry& e = read_entry(slot, key);
    e.by_verb = kCheckedByVerb;
    return e;
  }
  Word mine(const TxnSlot& slot, uint64_t version) const {
    return Word(Version(version), kReadable, make_owner(kSelf, kWorker, slot.index));
  }
  void set_word(uint64_t key, Word word) { store_word(record_at(kPeer, key), word); }
  bool remembered(uint64_t key) { return bool{cache_.find(kPeer, kTable, hashed(key).hash)}; }
  void remember(uint64_t key) { cache_.put(kPeer, kTable, hashed(key).hash, table_at(kPeer).locate(hashed(key))); }

  PlanStep left_;
  unsigned posted_ = 0;
  bool retried_ = false;                  // completions look like those of requests that were refused once
  bool urgent_ = false, others_ = false;  // of what has completed
  std::vector<TxnSlot*> concerned_;
};

TEST_F(VerbTransportTest, WhatATransactionWithLocksSendsIsUrgent) {
  const uint64_t a = key_at(kPeer), b = key_at(kPeer, 1);
  load_at(kPeer, a, "old");
  load_at(kPeer, b, "old");
  TxnSlot& slot = begin();
  to_write(slot, a, "new");
  to_check(slot, b);
  run(slot, Phase::kLock);
  EXPECT_TRUE(others_ && !urgent_);
  others_ = false;
  run(slot, Phase::kValidate);
  run(slot, Phase::kUnlock);
  EXPECT_TRUE(urgent_ && !others_);
  EXPECT_EQ(word_at(kPeer, a), Word(Version(1), kReadable));
}

TEST_F(VerbTransportTest, ALockIsTheWordWithItsOwner) {  // rule O1
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "old");
  TxnSlot& slot = begin();
  Entry& e = to_write(slot, a, "new");
  run(slot, Phase::kLock);
  EXPECT_EQ(posted_, 1U);
  EXPECT_EQ(concerned_, (std::vector<TxnSlot*>{&slot}));
  EXPECT_TRUE(slot.phase_over());
  EXPECT_TRUE(e.verb_locked);
  EXPECT_EQ(e.base, Version(1));
  EXPECT_EQ(slot.outcome.code, Code::kOk);
  EXPECT_EQ(word_at(kPeer, a), mine(slot, 1));
  EXPECT_EQ(value_at(kPeer, a), "old");
}

TEST_F(VerbTransportTest, ARecordThatHasMovedOnIsNotLocked) {
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "old");
  TxnSlot& slot = begin();
  const Entry& e = to_write(slot, a, "new");
  load_at(kPeer, a, "newer");
  run(slot, Phase::kLock);
  EXPECT_FALSE(e.verb_locked);
  EXPECT_EQ(slot.outcome.code, Code::kVersionMoved);
  EXPECT_EQ(word_at(kPeer, a), Word(Version(2), kReadable));
}

TEST_F(VerbTransportTest, ARecordThatAnotherHasLockedStaysHis) {
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "old");
  remember(a);
  TxnSlot& slot = begin();
  const Entry& e = to_write(slot, a, "new");
  const Word his(Version(1), kReadable, make_owner(kOther, kWorker, 7));
  set_word(a, his);
  run(slot, Phase::kLock);
  EXPECT_FALSE(e.verb_locked);
  EXPECT_EQ(slot.outcome.code, Code::kLocked);
  EXPECT_TRUE(slot.outcome.has_holder);
  EXPECT_EQ(slot.outcome.holder_node, kOther);
  EXPECT_EQ(word_at(kPeer, a), his);
  EXPECT_TRUE(remembered(a)) << "it is where it was";
}

TEST_F(VerbTransportTest, ARecordThatIsNotReadableIsNotLocked) {  // rule W1
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "old");
  TxnSlot& slot = begin();
  const Entry& e = to_write(slot, a, "new");
  set_word(a, Word(Version(1), 0));
  run(slot, Phase::kLock);
  EXPECT_FALSE(e.verb_locked);
  EXPECT_NE(slot.outcome.code, Code::kOk);
  EXPECT_EQ(word_at(kPeer, a), Word(Version(1), 0));
}

TEST_F(VerbTransportTest, ABlockThatWentToAnotherKeyIsLockedByMistakeAndReleased) {  // rule O2
  const uint64_t a = key_at(kPeer), b = key_at(kPeer, 1);
  load_at(kPeer, a, "same");
  load_at(kPeer, b, "same");
  remember(a);
  TxnSlot& slot = begin();
  Entry& e = to_write(slot, a, "new");
  e.where = table_at(kPeer).locate(hashed(b));
  run(slot, Phase::kLock);
  EXPECT_EQ(slot.outcome.code, Code::kVersionMoved);
  EXPECT_EQ(ctx_.counters.places_stale, 1U);
  EXPECT_FALSE(remembered(a));
  EXPECT_TRUE(e.verb_locked) << "so that it is released";
  EXPECT_EQ(word_at(kPeer, b), mine(slot, 1));
  run(slot, Phase::kUnlock);
  EXPECT_FALSE(e.verb_locked);
  EXPECT_EQ(word_at(kPeer, b), Word(Version(1), kReadable));
  EXPECT_EQ(word_at(kPeer, a), Word(Version(1), kReadable));
}

TEST_F(VerbTransportTest, AValueThatIsAnotherOneAtTheSameVersionShows) {
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "old");
  for (const Phase phase : {Phase::kLock, Phase::kValidate}) {
    TxnSlot& slot = begin();
    Entry& e = read_entry(slot, a);
    if (phase == Phase::kLock) {
      EXPECT_EQ(keys_.write(slot, e, Write::kPut, "new"), Code::kOk);
    }
    e.by_verb = phase == Phase::kLock ? kLocksByVerb : kCheckedByVerb;
    e.value[0] ^= std::byte{1};
    run(slot, phase);
    EXPECT_EQ(slot.outcome.code, Code::kVersionMoved);
    run(slot, Phase::kUnlock);
    EXPECT_EQ(word_at(kPeer, a), Word(Version(1), kReadable));
  }
}

TEST_F(VerbTransportTest, ARecordThatIsGoneIsForgotten) {
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "old");
  for (const uint64_t flag : {kDeleted, kMoved}) {
    remember(a);
    TxnSlot& slot = begin();
    const Entry& e = to_write(slot, a, "new");
    std::byte* const record = record_at(kPeer, a);
    store_word(record, Word(Version(1), flag));
    run(slot, Phase::kLock);
    EXPECT_FALSE(e.verb_locked);
    EXPECT_EQ(slot.outcome.code, Code::kVersionMoved);
    EXPECT_FALSE(remembered(a));
    EXPECT_EQ(load_word(record), Word(Version(1), flag));
    store_word(record, Word(Version(1), kReadable));
  }
}

TEST_F(VerbTransportTest, TheOwnLockCountsOnlyIfThisPostMayHaveTakenIt) {
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "old");
  for (const bool retried : {false, true}) {
    TxnSlot& slot = begin();
    const Entry& e = to_write(slot, a, "new");
    set_word(a, mine(slot, 1));
    retried_ = retried;
    run(slot, Phase::kLock);
    EXPECT_EQ(e.verb_locked, retried);
    EXPECT_EQ(slot.outcome.code, retried ? Code::kOk : Code::kLocked);
    EXPECT_EQ(word_at(kPeer, a), mine(slot, 1)) << "it stays";
  }
}

TEST_F(VerbTransportTest, AReadIsValidIfTheRecordIsAsItWas) {  // rule G2
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "old");
  TxnSlot& fine = begin();
  to_check(fine, a);
  run(fine, Phase::kValidate);
  EXPECT_EQ(fine.outcome.code, Code::kOk);
  TxnSlot& locked = begin();
  to_check(locked, a);
  set_word(a, Word(Version(1), kReadable | kReadLocked, make_owner(kOther, kWorker, 7)));
  run(locked, Phase::kValidate);
  EXPECT_EQ(locked.outcome.code, Code::kLocked) << "also only for reading";
  EXPECT_EQ(locked.outcome.holder_node, kOther);
  TxnSlot& own = begin();
  set_word(a, Word(Version(1), kReadable));
  to_check(own, a);
  set_word(a, mine(own, 1));
  run(own, Phase::kValidate);
  EXPECT_EQ(own.outcome.code, Code::kOk) << "its own lock";
  TxnSlot& moved = begin();
  set_word(a, Word(Version(1), kReadable));
  to_check(moved, a);
  load_at(kPeer, a, "newer");
  run(moved, Phase::kValidate);
  EXPECT_EQ(moved.outcome.code, Code::kVersionMoved);
}

TEST_F(VerbTransportTest, ACommitWritesTheRecordAndUnlocksIt) {
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "old");
  TxnSlot& slot = begin();
  const Entry& e = to_write(slot, a, "new");
  run(slot, Phase::kLock);
  slot.stage = TxnStage::kCommitting;
  run(slot, Phase::kUnlock);
  EXPECT_EQ(posted_, 1U);
  EXPECT_TRUE(slot.phase_over());
  EXPECT_FALSE(e.verb_locked);
  EXPECT_EQ(value_at(kPeer, a), "new");
  EXPECT_EQ(word_at(kPeer, a), Word(Version(2), kReadable));
}

TEST_F(VerbTransportTest, ACommitOrAnAbortTouchesOnlyWhatAVerbHasLocked) {
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "old");
  for (const bool commits : {true, false}) {
    TxnSlot& slot = begin();
    to_write(slot, a, "new");
    slot.stage = commits ? TxnStage::kCommitting : TxnStage::kAborting;
    run(slot, Phase::kUnlock);
    EXPECT_EQ(posted_, 0U);
    EXPECT_EQ(word_at(kPeer, a), Word(Version(1), kReadable));
  }
}

TEST_F(VerbTransportTest, AReleaseLeavesAWordAloneThatHasGoneOn) {
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "old");
  TxnSlot& slot = begin();
  to_write(slot, a, "new");
  run(slot, Phase::kLock);
  for (const Word gone_on :
       {Word(Version(2), kReadable), Word(Version(1), kReadable, make_owner(kOther, kWorker, 1))}) {
    slot.entry(0).verb_locked = true;
    set_word(a, gone_on);
    run(slot, Phase::kUnlock);
    EXPECT_EQ(posted_, 1U);
    EXPECT_EQ(word_at(kPeer, a), gone_on);
  }
}

TEST_F(VerbTransportTest, OnlyACommitThatIsToldMayGoUnsignalled) {
  const uint64_t a = key_at(kPeer), b = key_at(kPeer, 1);
  load_at(kPeer, a, "old");
  load_at(kPeer, b, "old");
  TxnSlot& slot = begin();
  slot.flags = kPiggybackAck;
  to_write(slot, a, "new");
  run(slot, Phase::kLock);
  slot.stage = TxnStage::kCommitting;
  slot.acknowledged = true;
  run(slot, Phase::kUnlock);
  EXPECT_EQ(value_at(kPeer, a), "new");
  EXPECT_FALSE(slot.phase_over()) << "nobody has heard of it";
  TxnSlot& other = begin();
  other.flags = kPiggybackAck;
  to_write(other, b, "new");
  run(other, Phase::kLock);
  EXPECT_TRUE(slot.phase_over()) << "a later one to the same peer confirms it";
  other.stage = TxnStage::kCommitting;
  run(other, Phase::kUnlock);
  EXPECT_TRUE(other.phase_over()) << "who is not told waits for it";
}

TEST_F(VerbTransportTest, AnAnswerThatNobodyWaitsForChangesNothing) {
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "old");
  const auto late = [&](auto change) {
    concerned_.clear();
    TxnSlot& slot = begin();
    const Entry& e = to_write(slot, a, "new");
    slot.stage = TxnStage::kCommitting;
    slot.phase = Phase::kLock;
    PlanStep step;
    transport_->post_phase(slot, Phase::kLock, &step);
    change(slot);
    flush();
    EXPECT_EQ(concerned_, (std::vector<TxnSlot*>{nullptr}));
    EXPECT_FALSE(e.verb_locked);
    set_word(a, Word(Version(1), kReadable));
  };
  late([](TxnSlot& slot) { slot.sequence += 100; });
  late([](TxnSlot& slot) { slot.phase = Phase::kValidate; });
  late([](TxnSlot& slot) { slot.stage = TxnStage::kFinished; });
  late([](TxnSlot& slot) { slot.verbs_pending = 0; });
}

TEST_F(VerbTransportTest, WhatGoesIntoRingsNeedsNoMessage) {
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "old");
  TxnSlot& slot = begin();
  Entry& e = to_write(slot, a, "new");
  e.base = Version(1);
  e.at[index_of(Phase::kReplicate)] = node_set({0, 1, 2});
  PlanStep& step = slot.steps[index_of(Phase::kReplicate)];
  step.send_to = step.await_from = node_set({0, 1, 2});
  transport_->plan(slot);
  transport_->reserve(slot);
  run(slot, Phase::kReplicate);
  EXPECT_EQ(posted_, 2U);
  EXPECT_EQ(left_.send_to, node_set({0}));
  EXPECT_EQ(left_.await_from, node_set({0}));
  EXPECT_EQ(slot.ring_bytes, 0U) << "nothing is left to give back";
  EXPECT_TRUE(slot.phase_over());
  for (const NodeId node : {kPeer, kOther}) {
    EXPECT_EQ(load<RingHeader>(ring_at(node, kSelf)).tag, messages_.tag(slot));
  }
}

TEST_F(VerbTransportTest, KeysThatGoByMessageAreNotPosted) {
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "old");
  TxnSlot& slot = begin();
  to_write(slot, a, "new").by_verb = 0;
  for (const Phase phase : {Phase::kLock, Phase::kValidate, Phase::kUnlock}) {
    run(slot, phase);
    EXPECT_EQ(posted_, 0U);
  }
  EXPECT_EQ(word_at(kPeer, a), Word(Version(1), kReadable));
}

}  // namespace
}  // namespace weft
