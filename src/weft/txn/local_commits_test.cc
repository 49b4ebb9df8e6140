// A commit of this node alone: all of it is installed, or none, and no lock is left.
#include "weft/txn/local_commits.h"
#include "weft/fabric/nodes_testing.h"

#include "weft/store/owner_testing.h"
#include "weft/txn/commit_testing.h"

namespace weft {
namespace {

class LocalCommitsTest : public CommitTest {
 protected:
  static constexpr Owner kOther = make_owner(NodeId(2), WorkerId(0), 9);

  LocalCommitsTest() : first_(key_at(kSelf)), second_(key_at(kSelf, 1)) {
    load_record(first_, "one");
    load_record(second_, "two");
  }

  // The transaction has read the key as it is now.
  Entry& read(TxnSlot& slot, uint64_t key) {
    Entry& e = *keys_.find_or_add(slot, kTable, key);
    const ReadResult now = table().read(e.key, nullptr, 0);
    e.read = e.done = true;
    e.found = now.found;
    e.version = now.word.version();
    e.placement = &here_;
    return e;
  }
  Entry& write(TxnSlot& slot, uint64_t key, Write what, std::string_view value = {}) {
    Entry& e = *keys_.find_or_add(slot, kTable, key);
    e.done = true;
    e.placement = &here_;
    EXPECT_EQ(keys_.write(slot, e, what, value), Code::kOk);
    return e;
  }
  void run(TxnSlot& slot) {
    slot.stage = TxnStage::kAwaitingBatch;
    EXPECT_EQ(planner_.plan(slot), node_set({0}));
    local_.commit(slot);
  }
  LockResult lock_by_other(uint64_t key) { return table().lock(hashed(key), kOther, Write::kPut, std::nullopt, 8); }
  bool locked(uint64_t key) { return static_cast<bool>(word_of(key).owner()); }

  LocalCommits local_{ctx_, 8};
  const uint64_t first_;
  const uint64_t second_;
};

TEST_F(LocalCommitsTest, AllWritesAreInstalledAndUnlocked) {
  TxnSlot& slot = begin();
  write(slot, first_, Write::kPut, "1");
  write(slot, second_, Write::kErase);
  const Version before = word_of(first_).version();
  run(slot);
  EXPECT_EQ(slot.stage, TxnStage::kCommitting);
  EXPECT_EQ(slot.phase, Phase::kUnlock);
  EXPECT_EQ(value_of(first_), "1");
  EXPECT_EQ(word_of(first_).version(), Version(before.value + 1));
  EXPECT_EQ(value_of(second_), "(absent)");
  EXPECT_EQ(table().leak_report().locked, 0U);
}

TEST_F(LocalCommitsTest, AKeyThatMovedSinceItWasReadAbortsAll) {
  TxnSlot& slot = begin();
  write(slot, first_, Write::kPut, "1");
  read(slot, second_).version = Version(77);
  write(slot, second_, Write::kPut, "2");
  run(slot);
  EXPECT_EQ(slot.stage, TxnStage::kAborting);
  EXPECT_EQ(slot.outcome.code, Code::kVersionMoved);
  EXPECT_EQ(value_of(first_), "one");
  EXPECT_EQ(value_of(second_), "two");
  EXPECT_EQ(table().leak_report().locked, 0U) << "what it had locked is released";
}

TEST_F(LocalCommitsTest, ALockOfAnotherAbortsAllAndIsLeftAlone) {
  lock_by_other(second_);
  TxnSlot& slot = begin();
  write(slot, first_, Write::kPut, "1");
  write(slot, second_, Write::kPut, "2");
  run(slot);
  EXPECT_EQ(slot.outcome.code, Code::kLocked);
  EXPECT_EQ(slot.outcome.holder_node, kOwners.node(kOther));
  EXPECT_EQ(value_of(first_), "one");
  EXPECT_FALSE(locked(first_));
  EXPECT_EQ(word_of(second_).owner(), kOther);
}

TEST_F(LocalCommitsTest, WhatWasOnlyReadIsValidatedAfterTheLocks) {
  TxnSlot& slot = begin();
  read(slot, second_);
  write(slot, first_, Write::kPut, "1");
  const LockResult lock = lock_by_other(second_);
  table().commit(hashed(second_), kOther, Write::kPut, as_bytes("newer"), lock.locked);
  run(slot);
  EXPECT_EQ(slot.outcome.code, Code::kVersionMoved);
  EXPECT_EQ(value_of(first_), "one");
  EXPECT_FALSE(locked(first_));
}

TEST_F(LocalCommitsTest, WhatWasOnlyReadIsNotLockedByAnother) {
  TxnSlot& slot = begin();
  read(slot, second_);
  lock_by_other(second_);
  run(slot);
  EXPECT_EQ(slot.outcome.code, Code::kLocked);
  EXPECT_TRUE(slot.outcome.has_holder);
}

TEST_F(LocalCommitsTest, WhatWasOnlyReadAndIsAsItWasCommits) {
  TxnSlot& slot = begin();
  read(slot, first_);
  read(slot, second_);
  run(slot);
  EXPECT_EQ(slot.stage, TxnStage::kCommitting);
  EXPECT_EQ(slot.outcome.code, Code::kOk);
  EXPECT_EQ(table().leak_report().locked, 0U);
}

TEST_F(LocalCommitsTest, AbsenceThatWasReadIsValidated) {
  const uint64_t absent = key_at(kSelf, 2);
  TxnSlot& slot = begin();
  read(slot, absent);
  load_record(absent, "came");
  run(slot);
  EXPECT_EQ(slot.outcome.code, Code::kVersionMoved);
}

TEST_F(LocalCommitsTest, WhatIsThereIsNotInsertedAndWhatIsNotThereIsNotErased) {
  TxnSlot& insert = begin();
  write(insert, first_, Write::kInsert, "1");
  run(insert);
  EXPECT_EQ(insert.outcome.code, Code::kExists);
  TxnSlot& erase = begin();
  write(erase, key_at(kSelf, 2), Write::kErase);
  run(erase);
  EXPECT_EQ(erase.outcome.code, Code::kNotFound);
  EXPECT_EQ(value_of(first_), "one");
  EXPECT_EQ(table().leak_report().locked, 0U);
}

TEST_F(LocalCommitsTest, ABatchCountsAllItsKeys) {
  TxnSlot& one = begin();
  write(one, first_, Write::kPut, "1");
  write(one, second_, Write::kPut, "2");
  TxnSlot& other = begin();
  write(other, first_, Write::kPut, "3");
  local_.add(one);
  local_.add(other);
  local_.begin_batch();
  EXPECT_EQ(ctx_.counters.table_batches, 1U);
  EXPECT_EQ(ctx_.counters.table_batched, 3U);
  EXPECT_EQ(local_.queue().size(), 2U);
  local_.clear();
  EXPECT_TRUE(local_.empty());
}

TEST_F(LocalCommitsTest, WhatConcernsOthersIsNotCommittedAlone) {
  TxnSlot& slot = begin();
  write(slot, first_, Write::kPut, "1");
  slot.stage = TxnStage::kAwaitingCredit;
  EXPECT_DEATH(local_.commit(slot), "in one call");
  slot.stage = TxnStage::kAwaitingBatch;
  slot.locked_nodes = node_set({1});
  EXPECT_DEATH(local_.commit(slot), "neither locks nor credit");
}

}  // namespace
}  // namespace weft
