// Reads by verbs: what was read shows whether it is the requested record, and only the primary says that a key is
// absent (rule O2).
#include "weft/txn/one_sided_reads.h"

#include <string>
#include <vector>

#include "weft/store/owner_testing.h"
#include "weft/txn/verb_testing.h"

namespace weft {
namespace {

class OneSidedReadsTest : public VerbPartTest {
 protected:
  explicit OneSidedReadsTest(PlantedBugs bugs = {}) : VerbPartTest(bugs) { reads_.set_verbs(&verbs_); }

  // Starts a read, and has all its verbs executed. Returns the entry.
  Entry& get(uint64_t key, bool single = false) {
    slot_ = &begin();
    slot_->single = single;
    const ReadHandle handle = reads_.get_async(*slot_, kTable, key, Intent::kRead);
    (void)handle;
    run();
    return slot_->entry(0);
  }
  void run() {
    for (int i = 0; i < 8; ++i) {
      issuer_->flush(0);
      issuer_->poll(
          0, [](void* self, VerbRequest& request) { static_cast<OneSidedReadsTest*>(self)->verbs_.on_posted(request); },
          this);
    }
  }
  // How often the primary was asked by message since the last call.
  size_t asked() {
    size_t count = 0;
    for (const Received& one : answers()) {
      EXPECT_EQ(one.kind, Kind::kGet);
      EXPECT_EQ(one.at, kPeer);
      EXPECT_TRUE((one.get().flags & kGetWhere) != 0) << "the answer says where the record is";
      ++count;
    }
    return count;
  }
  std::string value_of_entry(const Entry& e) const { return {reinterpret_cast<const char*>(e.value), e.value_bytes}; }
  // Notes a location, as from an answer of the primary.
  void note(uint64_t key, RecordSlot where) {
    TxnSlot& slot = begin();
    const Entry& e = *keys_.find_or_add(slot, kTable, key);
    const RemoteIndexAddress index = table_at(kPeer).index_address();
    verbs_.remember_location(e, kPeer, {where.bits, index.offset, index.bins});
    end(slot);
  }
  void end(TxnSlot& slot) {
    slot.stage = TxnStage::kFinished;
    slots_.detach(slot);
    slots_.free_if_done(slot);
  }
  RecordSlot where(uint64_t key) { return table_at(kPeer).locate(hashed(key)); }
  RecordSlot remembered(uint64_t key) { return cache_.find(kPeer, kTable, hashed(key).hash); }
  uint64_t reads_posted() const { return ctx_.counters.phase_reads[index_of(Phase::kExecute)]; }

  Coordinator coordinator_{ctx_, false, slots_, acks_, credit_, planner_, {messages_, nullptr, transport_.get()}};
  Reads reads_{ctx_, ReadRules(), planner_, slots_, keys_, credit_, acks_, coordinator_};
  OneSidedReads verbs_{ctx_, *issuer_, cache_, planner_, slots_, keys_, reads_};
  TxnSlot* slot_ = nullptr;
};

TEST_F(OneSidedReadsTest, WhereNothingIsKnownThePrimaryIsAsked) {
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "value");
  const Entry& e = get(a);
  EXPECT_FALSE(e.done);
  EXPECT_EQ(asked(), 1U);
  EXPECT_EQ(reads_posted(), 0U);
}

TEST_F(OneSidedReadsTest, ARecordIsReadWhereItIsRemembered) {
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "value");
  note(a, where(a));
  const Entry& e = get(a);
  EXPECT_TRUE(e.done && e.found);
  EXPECT_EQ(e.version, Version(1));
  EXPECT_EQ(value_of_entry(e), "value");
  EXPECT_EQ(e.where, where(a));
  EXPECT_EQ(reads_posted(), 1U);
  EXPECT_EQ(slot_->reads_pending, 0U);
  EXPECT_EQ(asked(), 0U);
}

TEST_F(OneSidedReadsTest, OrThroughTheIndexAndThenItIsRemembered) {
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "value");
  note(key_at(kPeer, 5), RecordSlot());
  const Entry& e = get(a);
  EXPECT_TRUE(e.done && e.found);
  EXPECT_EQ(value_of_entry(e), "value");
  EXPECT_EQ(reads_posted(), 2U);
  EXPECT_EQ(remembered(a), where(a));
  EXPECT_EQ(asked(), 0U);
}

TEST_F(OneSidedReadsTest, OrInALinkBucketOfItsBin) {
  const RemoteIndexAddress index = table_at(kPeer).index_address();
  const auto bin_of = [&](uint64_t key) { return Table::bin_offset(index, hashed(key).hash); };
  // Three keys are in the bin, four in its single link bucket, the others in its pair of them.
  std::vector<uint64_t> together = {key_at(kPeer)};
  for (uint64_t key = together.front() + 1; together.size() < 9; ++key) {
    const bool there = view_->placement(hashed(key).partition).primary() == kPeer;
    if (there && bin_of(key) == bin_of(together.front())) together.push_back(key);
  }
  for (const uint64_t key : together) load_at(kPeer, key, "of " + std::to_string(key));
  ASSERT_EQ(table_at(kPeer).index_address(), index);
  note(key_at(kPeer, 5), RecordSlot());
  for (size_t i = 0; i < together.size(); ++i) {
    const uint64_t before = reads_posted();
    const Entry& e = get(together[i]);
    ASSERT_TRUE(e.done && e.found) << i;
    EXPECT_EQ(value_of_entry(e), "of " + std::to_string(together[i]));
    EXPECT_EQ(reads_posted() - before, i < 3 ? 2U : 4U) << "the bin, both link buckets, the record";
    EXPECT_EQ(remembered(together[i]), where(together[i]));
    end(*slot_);
  }
  EXPECT_EQ(asked(), 0U);
}

TEST_F(OneSidedReadsTest, APlaceThatIsAnotherKeysNowIsForgottenAndTheIndexLeadsOn) {
  const uint64_t a = key_at(kPeer), b = key_at(kPeer, 1);
  load_at(kPeer, a, "of a");
  load_at(kPeer, b, "of b");
  note(a, where(b));
  const Entry& e = get(a);
  EXPECT_TRUE(e.done && e.found);
  EXPECT_EQ(value_of_entry(e), "of a");
  EXPECT_EQ(ctx_.counters.places_stale, 1U);
  EXPECT_EQ(remembered(a), where(a));
}

TEST_F(OneSidedReadsTest, ThatAKeyIsAbsentOnlyItsPrimarySays) {  // rule O2
  const uint64_t a = key_at(kPeer), b = key_at(kPeer, 1);
  load_at(kPeer, b, "of b");
  note(a, where(b));
  const Entry& e = get(a);
  EXPECT_FALSE(e.done);
  EXPECT_FALSE(e.where) << "where it is not is not where it is written";
  EXPECT_EQ(asked(), 1U);
  EXPECT_FALSE(remembered(a));
}

TEST_F(OneSidedReadsTest, ARecordThatIsMarkedGoneIsNotAnAnswer) {
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "value");
  for (const uint64_t flag : {kDeleted, kMoved}) {
    note(a, where(a));
    std::byte* const record = record_at(kPeer, a);
    record_write(record, hashed(a).bytes, as_bytes("value"), Word(Version(1), flag));
    const Entry& e = get(a);
    EXPECT_FALSE(e.done);
    EXPECT_EQ(asked(), 1U);
    record_write(record, hashed(a).bytes, as_bytes("value"), Word(Version(1), kReadable));
  }
}

TEST_F(OneSidedReadsTest, AHalfWrittenRecordIsLookedAtAgainAndThenThePrimaryIsAsked) {
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "value");
  note(a, where(a));
  std::byte* const record = record_at(kPeer, a);
  const auto meta = load<uint64_t>(record + kMetaAt);
  store(record + kMetaAt, meta ^ 1);  // of another version or value
  verbs_.forget_indexes();            // so that there is no other way to it
  const Entry& e = get(a);
  EXPECT_FALSE(e.done);
  EXPECT_EQ(ctx_.counters.reads_torn, 2U);
  EXPECT_EQ(asked(), 1U);
  store(record + kMetaAt, meta);
  note(a, where(a));
  EXPECT_TRUE(get(a).done);
}

TEST_F(OneSidedReadsTest, AHalfWrittenRecordIsLookedForInTheIndexToo) {
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "value");
  note(a, where(a));
  std::byte* const record = record_at(kPeer, a);
  store(record + kMetaAt, load<uint64_t>(record + kMetaAt) ^ 1);
  EXPECT_FALSE(get(a).done);
  EXPECT_EQ(ctx_.counters.reads_torn, 4U) << "three tries in each place, of which the last one is given up";
  EXPECT_EQ(asked(), 1U);
}

TEST_F(OneSidedReadsTest, ALockRefusesASingleReadAndNoOther) {  // rules G2, G3
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "value");
  note(a, where(a));
  store_word(record_at(kPeer, a), Word(Version(1), kReadable, make_owner(kOther, kWorker, 7)));
  const Entry& single = get(a, true);
  EXPECT_TRUE(single.done);
  EXPECT_EQ(single.code, Code::kLocked);
  EXPECT_EQ(slot_->outcome.code, Code::kLocked);
  EXPECT_EQ(slot_->outcome.holder_node, kOther);
  const Entry& other = get(a);
  EXPECT_TRUE(other.done && other.found);
  EXPECT_EQ(slot_->outcome.code, Code::kOk) << "it is validated later";
  store_word(record_at(kPeer, a), Word(Version(1), kReadable | kReadLocked, make_owner(kOther, kWorker, 7)));
  EXPECT_EQ(get(a, true).code, Code::kOk) << "locked only for reading";
}

TEST_F(OneSidedReadsTest, WhenTheViewEndsNoIndexIsKnown) {
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "value");
  note(key_at(kPeer, 5), RecordSlot());
  verbs_.forget_indexes();
  EXPECT_FALSE(get(a).done);
  EXPECT_EQ(asked(), 1U);
}

TEST_F(OneSidedReadsTest, APlaceThatIsNoneIsNotRead) {
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "value");
  note(a, RecordSlot(PartitionId(1), kBlockClasses, 64));
  EXPECT_FALSE(get(a).done);
  EXPECT_EQ(asked(), 1U);
  EXPECT_EQ(reads_posted(), 0U);
}

TEST_F(OneSidedReadsTest, AnAnswerToATransactionThatIsOverChangesNothing) {
  const uint64_t a = key_at(kPeer);
  load_at(kPeer, a, "value");
  const auto late = [&](auto change) {
    note(a, where(a));
    TxnSlot& slot = begin();
    const ReadHandle handle = reads_.get_async(slot, kTable, a, Intent::kRead);
    (void)handle;
    change(slot);
    run();
    EXPECT_FALSE(slot.entry(0).found);
    EXPECT_EQ(slot.reads_pending, 1U);
  };
  late([](TxnSlot& slot) { slot.sequence += 100; });
  late([](TxnSlot& slot) { slot.count = 0; });
  late([](TxnSlot& slot) { slot.entry(0).done = true; });
}

TEST_F(OneSidedReadsTest, WhatALostPrimaryHasIsRefused) {
  const uint64_t a = key_at(kPeer), b = key_at(kPeer, 1);
  load_at(kPeer, b, "of b");
  note(a, where(b));
  slot_ = &begin();
  const ReadHandle handle = reads_.get_async(*slot_, kTable, a, Intent::kRead);
  (void)handle;
  ctx_.views.mark_lost(kPeer);
  run();
  EXPECT_TRUE(slot_->entry(0).done);
  EXPECT_EQ(slot_->entry(0).code, Code::kPeerLost);
  EXPECT_EQ(asked(), 0U);
}

TEST_F(OneSidedReadsTest, OwnKeysAreNotReadByVerbs) {
  const uint64_t a = key_at(kSelf);
  load_record(a, "value");
  TxnSlot& slot = begin();
  keys_.find_or_add(slot, kTable, a)->read = true;
  slot.entry(0).done = false;
  EXPECT_FALSE(verbs_.read(slot, 0));
  EXPECT_EQ(issuer_->in_flight_count(), 0U);
}

}  // namespace
}  // namespace weft
