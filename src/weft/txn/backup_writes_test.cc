// What replication writes at a replica: a backup applies it unreadable and can undo it; a primary, a replica that is
// catching up and a lazy backup only keep it in the record.
#include "weft/txn/backup_writes.h"
#include "weft/fabric/nodes_testing.h"

#include <memory>
#include <string>
#include <vector>

#include "weft/txn/part_testing.h"
#include "weft/txn/participant_testing.h"

namespace weft {
namespace {

// Three nodes with two replicas: this node is the backup of what node 2 is the primary of.
class BackupWritesTest : public PartTest {
 protected:
  static constexpr NodeId kPrimary{2};

  BackupWritesTest() : key_(key_at(kPrimary)), other_(key_at(kPrimary, 1)), own_(key_at(kSelf)) {
    load_record(key_, "old");
    record_.state = kReplicated;
  }
  ~BackupWritesTest() override { records_.drop(record_, true); }

  // A write as a replication message names it. The key and the value outlive it.
  KeyRef write(const uint64_t& key, Write what, const std::string& value, uint64_t version, uint8_t flags = 0) {
    return write_to(table(), key, what, value, version, flags);
  }
  static KeyRef write_to(Table& table, const uint64_t& key, Write what, const std::string& value, uint64_t version,
                         uint8_t flags = 0) {
    KeyRef ref;
    ref.key = table.hashed({reinterpret_cast<const std::byte*>(&key), sizeof key});
    ref.table = &table;
    ref.value = as_bytes(value);
    ref.version = Version(version);
    ref.write = what;
    ref.flags = flags;
    return ref;
  }
  void add(const std::vector<KeyRef>& keys) {
    const PreparedTable::NewPart part = records_.gather_part(keys);
    writes_.add(record_, part.keys, part.room);
  }
  // Another transaction, which is finished: the key is at this version.
  void put_before(const uint64_t& key, const std::string& value, uint64_t version) {
    const KeyRef ref = write(key, Write::kPut, value, version);
    std::vector<std::byte> undo(128);
    table().apply(ref.key, ref.write, ref.value, ref.version, undo.data(), Visibility::kImmediate);
  }
  bool predecessor_applied(const uint64_t& key, uint64_t version, uint32_t delta) {
    KeyRef ref = write(key, Write::kErase, none_, version, kOrdered);
    ref.predecessor_delta = delta;
    return writes_.predecessors_applied({&ref, 1});
  }
  bool readable(uint64_t key) { return word_of(key).readable(); }
  const PreparedKey& kept(size_t index = 0) const { return record_.applied->all()[index]; }

  const uint64_t key_;
  const uint64_t other_;
  const uint64_t own_;  // this node is its primary
  const std::string new_ = "new";
  const std::string none_;
  PreparedTable records_{kNodes, 4, pool_.get()};
  PreparedTxn& record_ = records_.at(kPrimary, 0);
  BackupWrites writes_{ctx_, records_, true};
};

TEST_F(BackupWritesTest, ABackupAppliesAtOnceAndNobodyReadsItBeforeTheEnd) {
  add({write(key_, Write::kPut, new_, 2), write(other_, Write::kInsert, new_, 1)});
  EXPECT_EQ(value_of(key_), "new");
  EXPECT_EQ(value_of(other_), "new");
  EXPECT_FALSE(readable(key_));
  EXPECT_FALSE(readable(other_));
  EXPECT_TRUE(kept().applied);
  EXPECT_EQ(std::string(as_text({kept().old_value, kept().undo.value_bytes})), "old");
  EXPECT_FALSE(kept(1).undo.existed);
  EXPECT_EQ(ctx_.counters.records_touched, 2U);

  writes_.finish(record_);
  EXPECT_TRUE(readable(key_));
  EXPECT_TRUE(readable(other_));
  EXPECT_EQ(ctx_.counters.records_touched, 4U);
}

TEST_F(BackupWritesTest, UndoBringsBackWhatEachWriteReplaced) {
  load_record(other_, "other");
  const uint64_t inserted = key_at(kPrimary, 2);
  add({write(key_, Write::kPut, new_, 2), write(other_, Write::kErase, none_, 2)});
  add({write(inserted, Write::kInsert, new_, 1)});
  EXPECT_EQ(value_of(other_), "(absent)");

  BackupWrites::undo(record_);
  EXPECT_EQ(value_of(key_), "old");
  EXPECT_EQ(word_of(key_).version(), Version(1));
  EXPECT_EQ(value_of(other_), "other");
  EXPECT_EQ(value_of(inserted), "(absent)");
  EXPECT_EQ(table().leak_report().unreadable, 0U);
  EXPECT_EQ(table().leak_report().tombstones, 0U);
}

TEST_F(BackupWritesTest, WhereNobodyReadsFromBackupsAPutIsReadableAtOnce) {
  BackupWrites writes(ctx_, records_, false);
  load_record(other_, "other");
  const std::vector<KeyRef> keys{write(key_, Write::kPut, new_, 2), write(other_, Write::kErase, none_, 2)};
  const PreparedTable::NewPart part = records_.gather_part(keys);
  writes.add(record_, part.keys, part.room);
  EXPECT_TRUE(readable(key_));
  EXPECT_EQ(table().leak_report().tombstones, 1U);

  writes.finish(record_);
  EXPECT_EQ(table().leak_report().tombstones, 0U) << "the delete's tombstone goes all the same";
  EXPECT_EQ(table().absence(hashed(other_)).version(), Version(2));
}

TEST_F(BackupWritesTest, APrimaryOnlyKeepsTheValue) {
  load_record(own_, "old");
  add({write(own_, Write::kPut, new_, 2, kHasValue | kDeferred)});
  EXPECT_FALSE(kept().applied);
  EXPECT_FALSE(kept().deferred_apply);
  ASSERT_NE(record_.find_value(0), nullptr);
  EXPECT_EQ(std::string(as_text(record_.find_value(0)->value)), "new");
  writes_.finish(record_);
  EXPECT_EQ(value_of(own_), "old") << "it installs the value when it unlocks, under its lock";
  BackupWrites::undo(record_);
  EXPECT_EQ(value_of(own_), "old");
  EXPECT_EQ(ctx_.counters.records_touched, 0U);
}

TEST_F(BackupWritesTest, ADeferredPutIsInstalledAtTheEndReadable) {
  add({write(key_, Write::kPut, new_, 2, kHasValue | kDeferred)});
  EXPECT_TRUE(kept().late_put);
  EXPECT_EQ(value_of(key_), "old");
  writes_.finish(record_);
  EXPECT_EQ(value_of(key_), "new");
  EXPECT_TRUE(readable(key_));
  EXPECT_EQ(word_of(key_).version(), Version(2));
}

TEST_F(BackupWritesTest, ADeferredPutReplacesNeitherANewerVersionNorADelete) {
  add({write(key_, Write::kPut, new_, 2, kDeferred), write(other_, Write::kPut, new_, 2, kDeferred)});
  put_before(key_, "newer", 3);
  writes_.finish(record_);
  EXPECT_EQ(value_of(key_), "newer");
  EXPECT_EQ(value_of(other_), "(absent)");
}

TEST_F(BackupWritesTest, AReplicaThatCatchesUpInstallsAtTheEndAndLeavesTombstones) {
  load_record(other_, "other");
  const uint64_t inserted = key_at(kPrimary, 2);
  const uint64_t erased = key_at(kPrimary, 3);
  enter(catching_up_view(hashed(key_).partition, kPrimary, kSelf));
  add({write(key_, Write::kPut, new_, 2), write(other_, Write::kErase, none_, 2),
       write(inserted, Write::kPut, new_, 5, kDeferred), write(erased, Write::kErase, none_, 5)});
  EXPECT_EQ(value_of(key_), "old");
  EXPECT_TRUE(kept().deferred_apply);
  EXPECT_FALSE(kept(2).late_put) << "the record may still be to come";

  writes_.finish(record_);
  EXPECT_EQ(value_of(key_), "new");
  EXPECT_TRUE(readable(key_));
  EXPECT_EQ(value_of(other_), "(absent)");
  EXPECT_EQ(value_of(inserted), "new");
  EXPECT_EQ(table().leak_report().tombstones, 2U) << "an older copy that arrives later is recognized";
}

TEST_F(BackupWritesTest, AnOrderedWriteIsAppliedAtOnceAmongDeferredOnes) {
  const uint64_t inserted = key_at(kPrimary, 2);
  load_record(other_, "other");
  add({write(key_, Write::kErase, none_, 2, kOrdered), write(other_, Write::kPut, new_, 2, kDeferred),
       write(inserted, Write::kInsert, new_, 1, kOrdered)});
  EXPECT_EQ(value_of(key_), "(absent)");
  EXPECT_EQ(value_of(other_), "other");
  EXPECT_EQ(value_of(inserted), "new");
  EXPECT_FALSE(readable(inserted));
  writes_.finish(record_);
  EXPECT_EQ(value_of(other_), "new");
  EXPECT_TRUE(readable(inserted));
  EXPECT_EQ(table().leak_report().tombstones, 0U);
}

TEST_F(BackupWritesTest, AnOrderedWriteIsUndoneAndADeferredOneIsNotThereToBeUndone) {
  const uint64_t put = key_at(kPrimary, 2);
  load_record(put, "as it was");
  add({write(key_, Write::kErase, none_, 2, kOrdered), write(other_, Write::kInsert, new_, 1, kOrdered),
       write(put, Write::kPut, new_, 2, kDeferred)});
  BackupWrites::undo(record_);
  EXPECT_EQ(value_of(key_), "old");
  EXPECT_EQ(value_of(other_), "(absent)");
  EXPECT_EQ(value_of(put), "as it was");
  EXPECT_TRUE(readable(put));
}

TEST_F(BackupWritesTest, AWriteWaitsForItsPredecessorAtABackup) {
  put_before(key_, "old", 4);
  EXPECT_TRUE(predecessor_applied(key_, 5, 1));
  EXPECT_FALSE(predecessor_applied(key_, 6, 1));
  EXPECT_TRUE(predecessor_applied(key_, 6, 2));
  EXPECT_TRUE(predecessor_applied(key_, 9, 0)) << "it replaces nothing";
  EXPECT_TRUE(predecessor_applied(other_, 9, 1)) << "no record is here whose version is behind";
}

TEST_F(BackupWritesTest, OneWriteThatMustWaitHoldsUpTheMessage) {
  load_record(other_, "other");
  std::vector<KeyRef> keys{write(key_, Write::kErase, none_, 2), write(other_, Write::kErase, none_, 9)};
  for (KeyRef& ref : keys) ref.predecessor_delta = 1;
  EXPECT_FALSE(writes_.predecessors_applied(keys));
  EXPECT_TRUE(writes_.predecessors_applied({keys.data(), 1}));
  EXPECT_TRUE(writes_.predecessors_applied({}));
}

TEST_F(BackupWritesTest, NeitherAPrimaryNorAReplicaThatCatchesUpWaitsForAPredecessor) {
  load_record(own_, "old");
  EXPECT_TRUE(predecessor_applied(own_, 9, 1));
  EXPECT_FALSE(predecessor_applied(key_, 9, 1));
  enter(catching_up_view(hashed(key_).partition, kPrimary, kSelf));
  EXPECT_TRUE(predecessor_applied(key_, 9, 1));
}

// The old value of a large table does not go straight into the record, but through the scratch buffer.
TEST_F(BackupWritesTest, LargeOldValuesHaveARoomOfTheirOwn) {
  TableOptions options;
  options.spec = {.name = "large", .value_bytes_max = kSmallValue + 200, .capacity = 100};
  options.partitions = options.partitions_held = kNodes;
  auto region = Region::create(Table::region_bytes(options));
  ASSERT_TRUE(region);
  auto made = Table::create(options, region->get());
  ASSERT_TRUE(made);
  Table& large = **made;
  const std::string before(kSmallValue + 100, 'a');
  const std::string after(kSmallValue + 200, 'b');
  std::vector<std::byte> room(1024);
  for (const uint64_t* key : {&key_, &other_}) {
    const KeyRef ref = write_to(large, *key, Write::kInsert, before, 1);
    large.apply(ref.key, ref.write, ref.value, ref.version, room.data(), Visibility::kImmediate);
  }
  const uint64_t inserted = key_at(kPrimary, 2);
  add({write_to(large, key_, Write::kPut, after, 2), write_to(large, other_, Write::kErase, none_, 2),
       write_to(large, inserted, Write::kInsert, after, 1)});

  BackupWrites::undo(record_);
  for (const uint64_t* key : {&key_, &other_}) {
    const KeyRef ref = write_to(large, *key, Write::kNone, none_, 0);
    const ReadResult read = large.read(ref.key, room.data(), room.size());
    ASSERT_TRUE(read.found);
    EXPECT_EQ(read.word.version(), Version(1));
    EXPECT_EQ(std::string(as_text({room.data(), read.value_bytes})), before);
  }
  EXPECT_EQ(large.records(), 2U);
}

using BackupWritesDeathTest = BackupWritesTest;

TEST_F(BackupWritesDeathTest, OnlyAWriteIsApplied) {
  EXPECT_DEATH(add({write(key_, Write::kNone, none_, 2)}), "a write is applied once");
}

TEST_F(BackupWritesDeathTest, AWriteIsNotBothAppliedAndDeferred) {
  PreparedKey key(write(key_, Write::kPut, new_, 2));
  key.applied = key.deferred_apply = true;
  EXPECT_DEATH(writes_.finish_key(key), "a write is either applied or deferred");
}

// The same from the outside: what a peer's messages write at this replica, until the notice that all have it.
using BackupWritesByMessageTest = ParticipantTest;

TEST_F(BackupWritesByMessageTest, ABackupHidesWhatItAppliesUntilTheNotice) {  // rule G4
  const uint64_t a = key_at(kOther), b = key_at(kOther, 1);
  load_record(a, "old");
  load_record(b, "gone");
  Named erase = named(b, Write::kErase, 1);
  erase.part.version = 2;
  handle(Kind::kReplicate, request(5), {with_value(a, "new", 2), erase});
  EXPECT_EQ(code(Phase::kReplicate), Code::kOk);
  EXPECT_EQ(record().state, kReplicated);
  EXPECT_EQ(word_of(a), Word(Version(2), 0));
  EXPECT_FALSE(word_of(b).readable());
  EXPECT_EQ(table().leak_report().tombstones, 1U);
  done(5);
  EXPECT_EQ(word_of(a), Word(Version(2), kReadable));
  EXPECT_EQ(value_of(a), "new");
  EXPECT_EQ(value_of(b), "(absent)");
  EXPECT_EQ(table().leak_report().tombstones, 0U);
  EXPECT_EQ(known(5), Known::kCommitted);
  EXPECT_EQ(records_.open_records(), 0U);
}

TEST_F(BackupWritesByMessageTest, ALateNoticeDoesNotShowWhatCameAfter) {  // rule G4
  const uint64_t a = key_at(kOther);
  load_record(a, "old");
  handle(Kind::kReplicate, request(5), {with_value(a, "two", 2)});
  handle(Kind::kReplicate, request(6), {with_value(a, "three", 3)}, kSlot + 1);
  done(5);
  EXPECT_EQ(word_of(a), Word(Version(3), 0));
}

TEST_F(BackupWritesByMessageTest, APrimaryOnlyLogsWhatIsReplicatedAndInstallsAtUnlock) {
  const uint64_t a = key_at(kSelf);
  load_record(a, "old");
  Named lock = named(a, Write::kPut);
  lock.part.value_bytes = 3;
  handle(Kind::kLock, request(5), {lock});
  handle(Kind::kReplicate, request(5), {with_value(a, "new", 2)});
  EXPECT_EQ(value_of(a), "old");
  EXPECT_EQ(record().state, kLocked | kReplicated);
  handle(Kind::kUnlock, request(5), {});
  EXPECT_EQ(value_of(a), "new");
  EXPECT_EQ(word_of(a), Word(Version(2), kReadable));
  done(5);
  EXPECT_EQ(records_.open_records(), 0U);
}

TEST_F(BackupWritesByMessageTest, WhatIsDeferredIsInstalledWhenItIsFinished) {
  const uint64_t a = key_at(kOther);
  load_record(a, "old");
  Named put = with_value(a, "new", 2);
  put.part.flags |= kDeferred;
  handle(Kind::kReplicate, request(5), {put});
  EXPECT_EQ(word_of(a), Word(Version(1), kReadable));
  EXPECT_TRUE(record().covers(0));
  done(5);
  EXPECT_EQ(value_of(a), "new");
  EXPECT_EQ(word_of(a), Word(Version(2), kReadable));
}

TEST_F(BackupWritesByMessageTest, ADeferredPutBringsNothingBackThatIsGone) {
  const uint64_t a = key_at(kOther);
  Named put = with_value(a, "late", 2);
  put.part.flags |= kDeferred;
  handle(Kind::kReplicate, request(5), {put});
  done(5);
  EXPECT_EQ(value_of(a), "(absent)");
}

TEST_F(BackupWritesByMessageTest, AReplicaThatFillsKeepsWritesUntilTheyAreFinished) {
  View next = *view_;
  next.epoch = Epoch(2);
  next.partitions[kPeer.value].catching_up = node_set({0});
  ctx_.views.stop(false);
  ctx_.views.adopt(std::make_shared<const View>(next));
  ctx_.views.activate(2);
  const uint64_t a = key_at(kPeer);
  handle(Kind::kReplicate, request(5), {with_value(a, "new", 3)});
  EXPECT_EQ(value_of(a), "(absent)");
  EXPECT_EQ(record().state, kReplicated);
  done(5);
  EXPECT_EQ(value_of(a), "new");
  EXPECT_EQ(word_of(a), Word(Version(3), kReadable));
}

TEST_F(BackupWritesByMessageTest, RecoveryTakesBackWhatABackupApplied) {
  const uint64_t a = key_at(kOther), b = key_at(kOther, 1), c = key_at(kOther, 2);
  load_record(a, "old");
  load_record(c, "stays");
  Named erase = named(c, Write::kErase, 2);
  erase.part.version = 2;
  handle(Kind::kReplicate, request(5), {with_value(a, "new", 2), with_value(b, "made", 1, 1, Write::kInsert), erase});
  participant_.abort_record(record(), owner(kSlot));
  EXPECT_EQ(value_of(a), "old");
  EXPECT_EQ(word_of(a).version(), Version(1));
  EXPECT_EQ(value_of(b), "(absent)");
  EXPECT_EQ(value_of(c), "stays");
  EXPECT_EQ(records_.open_records(), 1U) << "the record is left where it is";
}

}  // namespace
}  // namespace weft
