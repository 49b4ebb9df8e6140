// A participant's part in commits: all keys of a message or none, a record from the first message to the last notice,
// and nothing for what a peer says of records that are not here.
#include "weft/txn/participant.h"

#include <optional>

#include "weft/txn/participant_testing.h"

namespace weft {
namespace {

TEST_F(ParticipantTest, AllKeysOfAMessageAreLockedOrNone) {
  const uint64_t a = key_at(kSelf), b = key_at(kSelf, 1), c = key_at(kSelf, 2), d = key_at(kSelf, 3);
  for (const uint64_t key : {a, b, c}) load_record(key, "old");
  lock_elsewhere(c);
  handle(Kind::kLock, request(5),
         {with_value(a, "new", 0, 0), with_value(d, "made", 0, 1), with_value(b, "new", 0, 2),
          with_value(c, "new", 0, 3)});
  const PhaseReply reply = answer(Phase::kLock);
  EXPECT_EQ(static_cast<Code>(reply.code), Code::kLocked);
  EXPECT_EQ(reply.index, 3U);
  EXPECT_EQ(reply.holder, owner(7, kOther).bits);
  EXPECT_EQ(reply.bases, 0U);
  for (const uint64_t key : {a, b}) EXPECT_EQ(word_of(key), Word(Version(1), kReadable));
  EXPECT_FALSE(absence_of(d).owner()) << "what was to be inserted is free again";
  EXPECT_EQ(value_of(d), "(absent)");
  EXPECT_EQ(word_of(c).owner(), owner(7, kOther)) << "the other one's lock stays";
  EXPECT_EQ(records_.open_records(), 0U);

  handle(Kind::kLock, request(5), {with_value(a, "new", 0, 0), with_value(b, "new", 0, 2)});
  EXPECT_EQ(code(Phase::kLock), Code::kOk);
  EXPECT_EQ(word_of(a).owner(), owner(kSlot));
  EXPECT_EQ(word_of(b).owner(), owner(kSlot));
  EXPECT_EQ(records_.open_records(), 1U);
}

TEST_F(ParticipantTest, ALockOfAVersionThatMovedIsRefused) {
  const uint64_t a = key_at(kSelf);
  load_record(a, "old");
  Named key = with_value(a, "new", 2);
  key.part.flags |= kHasVersion;
  handle(Kind::kLock, request(5), {key});
  EXPECT_EQ(code(Phase::kLock), Code::kVersionMoved);
  EXPECT_FALSE(word_of(a).owner());
  EXPECT_FALSE(acked_);
  key.part.version = 1;
  handle(Kind::kLock, request(5), {key});
  EXPECT_EQ(code(Phase::kLock), Code::kOk);
  EXPECT_TRUE(acked_);
}

TEST_F(ParticipantTest, ASlotIsNotUsedAgainBeforeItsRecordIsTruncated) {  // rule K4
  const uint64_t a = key_at(kSelf), b = key_at(kSelf, 1);
  load_record(a, "old");
  load_record(b, "old");
  handle(Kind::kLock, request(5), {with_value(a, "new")});
  EXPECT_EQ(code(Phase::kLock), Code::kOk);
  for (const Kind kind : {Kind::kLock, Kind::kReplicate}) {
    handle(kind, request(6), {with_value(b, "other", 2)});
    EXPECT_EQ(take_faults(), (std::vector<NodeId>{kPeer}));
    EXPECT_TRUE(answers().empty());
    EXPECT_EQ(word_of(b), Word(Version(1), kReadable));
    EXPECT_EQ(record().sequence, 5U);
  }
  handle(Kind::kLock, request(6), {with_value(b, "other")}, kSlot + 1);
  EXPECT_TRUE(take_faults().empty()) << "another slot is another transaction";
  EXPECT_EQ(word_of(b).owner(), owner(kSlot + 1));
}

TEST_F(ParticipantTest, ACommitInstallsAndItsRecordStaysUntilTheNotice) {  // rule K4
  const uint64_t a = key_at(kSelf), b = key_at(kSelf, 1);
  load_record(a, "old");
  load_record(b, "gone");
  handle(Kind::kLock, request(5), {with_value(a, "new", 0, 0), named(b, Write::kErase, 1)});
  EXPECT_EQ(code(Phase::kLock), Code::kOk);
  EXPECT_EQ(value_of(a), "old") << "not before it is unlocked";
  handle(Kind::kUnlock, request(5), {});
  EXPECT_EQ(code(Phase::kUnlock), Code::kOk);
  EXPECT_EQ(value_of(a), "new");
  EXPECT_EQ(word_of(a), Word(Version(2), kReadable));
  EXPECT_EQ(value_of(b), "(absent)");
  EXPECT_EQ(records_.open_records(), 1U);
  EXPECT_EQ(record().state, kLocked | kCommitted);
  EXPECT_EQ(known(5), Known::kCommitted);
  done(4);
  EXPECT_EQ(records_.open_records(), 1U) << "a notice of another transaction";
  done(5, kSlot + 1);
  EXPECT_EQ(records_.open_records(), 1U);
  done(5);
  EXPECT_EQ(records_.open_records(), 0U);
  EXPECT_TRUE(record().finished_commit);
  EXPECT_TRUE(record().was_finished(ctx_.views.incarnation_of(kPeer), 5));
  EXPECT_FALSE(record().was_finished(ctx_.views.incarnation_of(kPeer), 6));
  done(5);
  EXPECT_TRUE(take_faults().empty()) << "a notice that comes twice";
}

TEST_F(ParticipantTest, AnAbortReleasesAndLeavesAFinishedMark) {  // rule K4
  const uint64_t a = key_at(kSelf), b = key_at(kSelf, 1);
  load_record(a, "old");
  handle(Kind::kLock, request(5), {with_value(a, "new", 0, 0), with_value(b, "made", 0, 1, Write::kInsert)});
  answers();
  handle(Kind::kUnlock, request(5, false), {});
  EXPECT_EQ(code(Phase::kUnlock), Code::kOk);
  EXPECT_EQ(value_of(a), "old");
  EXPECT_EQ(word_of(a), Word(Version(1), kReadable));
  EXPECT_EQ(value_of(b), "(absent)");
  EXPECT_EQ(table().leak_report().locked, 0U);
  EXPECT_EQ(records_.open_records(), 0U);
  EXPECT_TRUE(record().was_finished(ctx_.views.incarnation_of(kPeer), 5));
  EXPECT_FALSE(record().finished_commit);
}

TEST_F(ParticipantTest, AnAbortIsKnownWhenItIsFinalOrTheSlotIsUsedAgain) {
  const uint64_t a = key_at(kSelf);
  load_record(a, "old");
  const CommitRequest final_one = request(5, false, kRefusalIsFinal);
  handle(Kind::kLock, final_one, {with_value(a, "new")});
  handle(Kind::kUnlock, final_one, {});
  EXPECT_EQ(known(5), Known::kAborted);
  handle(Kind::kLock, request(6), {with_value(a, "new")});
  handle(Kind::kUnlock, request(6, false), {});
  EXPECT_EQ(known(6), Known::kNothing) << "others may have it locked, and commit it";
  EXPECT_EQ(record().aborted_here, 6U);
  handle(Kind::kLock, request(7), {with_value(a, "new")});
  EXPECT_EQ(known(6), Known::kAborted);
  EXPECT_EQ(known(7), Known::kNothing);
}

TEST_F(ParticipantTest, ARefusalIsAnOutcomeOnlyWhereItIsFinal) {
  const uint64_t a = key_at(kSelf);
  load_record(a, "old");
  lock_elsewhere(a);
  handle(Kind::kLock, request(5), {with_value(a, "new")});
  EXPECT_EQ(known(5), Known::kNothing);
  const CommitRequest final_one = request(6, true, kRefusalIsFinal);
  handle(Kind::kLock, final_one, {with_value(a, "new")});
  EXPECT_EQ(known(6), Known::kAborted);
}

TEST_F(ParticipantTest, AnUnlockOfWhatIsNotLockedIsReportedAndChangesNothing) {
  const uint64_t a = key_at(kSelf);
  load_record(a, "old");
  const auto refused = [&](uint64_t sequence, bool commit) {
    handle(Kind::kUnlock, request(sequence, commit), {with_value(a, "bad")});
    EXPECT_EQ(take_faults(), (std::vector<NodeId>{kPeer}));
    EXPECT_TRUE(answers().empty());
  };
  refused(5, true);
  refused(5, false);
  EXPECT_EQ(value_of(a), "old");
  handle(Kind::kLock, request(5), {with_value(a, "new")});
  answers();
  refused(6, true);
  refused(4, false);
  EXPECT_EQ(word_of(a).owner(), owner(kSlot));
  handle(Kind::kUnlock, request(5), {});
  answers();
  refused(5, true);
  refused(5, false);
  EXPECT_EQ(word_of(a), Word(Version(2), kReadable)) << "it was committed once";
  EXPECT_EQ(value_of(a), "new");
}

// Also for a key that is absent, where the table has nothing to install into.
// Of a key that is there, and of one that is not. A lock that changes its purpose counts with its new room, not with
// what its first message said.
TEST_F(ParticipantTest, AValueThatALockIsNotForIsReportedAndNotInstalled) {
  struct Case {
    uint32_t read_room;  // which a read does not need
    std::optional<uint32_t> write_room;
    size_t value_bytes;
  };
  uint64_t sequence = 4;
  int keys = 0;
  for (const Case& c : {Case{8, {}, 6}, Case{64, 4, 64}}) {
    for (const bool present : {true, false}) {
      const uint64_t key = key_at(kSelf, keys++);
      if (present) load_record(key, "old");
      Named lock = named(key, Write::kNone);
      lock.part.value_bytes = c.read_room;
      handle(Kind::kLock, request(++sequence), {lock});
      EXPECT_EQ(code(Phase::kLock), Code::kOk);
      if (c.write_room) {
        lock = named(key, Write::kPut);
        lock.part.flags = kHeld;
        lock.part.value_bytes = *c.write_room;
        handle(Kind::kLock, request(sequence), {lock});
        EXPECT_EQ(code(Phase::kLock), Code::kOk);
      }
      handle(Kind::kUnlock, request(sequence), {with_value(key, std::string(c.value_bytes, 'x'))});
      EXPECT_EQ(take_faults(), (std::vector<NodeId>{kPeer}));
      EXPECT_EQ(value_of(key), present ? "old" : "(absent)");
      EXPECT_EQ(table().leak_report().locked, 0U);
      answers();
      done(sequence);
    }
  }
}

TEST_F(ParticipantTest, AnUnlockBringsTheValueOfALockWithoutOne) {
  const uint64_t a = key_at(kSelf), b = key_at(kSelf, 1);
  load_record(a, "old a");
  load_record(b, "old b");
  Named lock_a = named(a, Write::kPut, 3), lock_b = named(b, Write::kPut, 4);
  lock_a.part.value_bytes = lock_b.part.value_bytes = 5;
  handle(Kind::kLock, request(5), {lock_a, lock_b});
  answers();
  handle(Kind::kUnlock, request(5), {with_value(b, "new b", 0, 4)});
  EXPECT_EQ(value_of(b), "new b");
  EXPECT_EQ(value_of(a), "old a") << "an update that did not come";
  EXPECT_EQ(table().leak_report().locked, 0U);
}

TEST_F(ParticipantTest, AValueLargerThanWhatWasLockedForIsReportedAndNotInstalled) {
  const uint64_t a = key_at(kSelf);
  load_record(a, "old");
  Named lock = named(a, Write::kPut);
  lock.part.value_bytes = 4;
  handle(Kind::kLock, request(5), {lock});
  handle(Kind::kUnlock, request(5), {with_value(a, "12345")});
  EXPECT_EQ(take_faults(), (std::vector<NodeId>{kPeer}));
  EXPECT_EQ(value_of(a), "old");
  EXPECT_EQ(table().leak_report().locked, 0U);
}

TEST_F(ParticipantTest, AHeldLockHasTheRoomThatItsWriteNeeds) {
  const uint64_t key = key_at(kSelf);
  load_record(key, "old");
  handle(Kind::kLock, request(5), {named(key, Write::kNone)});
  Named write = named(key, Write::kPut);
  write.part.flags = kHeld;
  write.part.value_bytes = 8;
  handle(Kind::kLock, request(5), {write});
  answers();
  handle(Kind::kUnlock, request(5), {with_value(key, "12345678")});
  EXPECT_TRUE(take_faults().empty());
  EXPECT_EQ(value_of(key), "12345678");
}

TEST_F(ParticipantTest, AKeyLockedForReadingIsUnchangedByTheCommit) {
  const uint64_t a = key_at(kSelf), b = key_at(kSelf, 1);
  load_record(a, "old");
  handle(Kind::kLock, request(5), {named(a, Write::kNone, 0), named(b, Write::kNone, 1)});
  EXPECT_EQ(code(Phase::kLock), Code::kOk);
  EXPECT_TRUE(word_of(a).read_locked());
  EXPECT_EQ(word_of(a).owner(), owner(kSlot));
  EXPECT_EQ(record().state, kLocked) << "rule K1: keys only read have a record too";
  handle(Kind::kUnlock, request(5), {});
  EXPECT_EQ(word_of(a), Word(Version(1), kReadable));
  EXPECT_EQ(value_of(b), "(absent)");
  EXPECT_EQ(table().leak_report().locked, 0U);
}

TEST_F(ParticipantTest, AReadIsValidIfItsVersionIsThereAndNoOtherHasLockedIt) {  // rule G2
  const uint64_t a = key_at(kSelf), b = key_at(kSelf, 1);
  load_record(a, "old");
  load_record(b, "old");
  Named read_a = named(a, Write::kNone, 8), read_b = named(b, Write::kNone, 9);
  read_a.part.version = read_b.part.version = 1;
  handle(Kind::kValidate, request(5), {read_a, read_b});
  EXPECT_EQ(code(Phase::kValidate), Code::kOk);
  EXPECT_EQ(known(5), Known::kNothing);
  read_b.part.version = 2;
  handle(Kind::kValidate, request(6), {read_a, read_b});
  PhaseReply reply = answer(Phase::kValidate);
  EXPECT_EQ(static_cast<Code>(reply.code), Code::kVersionMoved);
  EXPECT_EQ(reply.index, 9U);
  EXPECT_EQ(known(6), Known::kAborted) << "nobody can commit it";
  lock_elsewhere(a);
  handle(Kind::kValidate, request(7), {read_a});
  reply = answer(Phase::kValidate);
  EXPECT_EQ(static_cast<Code>(reply.code), Code::kLocked);
  EXPECT_EQ(reply.holder, owner(7, kOther).bits);
  EXPECT_EQ(records_.open_records(), 0U) << "validation leaves no record (rule K1)";
}

TEST_F(ParticipantTest, ItsOwnLockDoesNotInvalidateARead) {
  const uint64_t a = key_at(kSelf);
  load_record(a, "old");
  handle(Kind::kLock, request(5), {with_value(a, "new")});
  answers();
  Named read = named(a, Write::kNone);
  read.part.version = 1;
  handle(Kind::kValidate, request(5), {read});
  EXPECT_EQ(code(Phase::kValidate), Code::kOk);
  handle(Kind::kValidate, request(5), {read}, kSlot + 1);
  EXPECT_EQ(static_cast<Code>(answers().at(0).as<PhaseReply>().code), Code::kLocked) << "another slot's does";
}

TEST_F(ParticipantTest, ARingEntryOfTheSlotsNextTransactionFinishesTheLast) {
  const uint64_t a = key_at(kOther), b = key_at(kOther, 1);
  load_record(a, "old");
  log_from_ring(5, {with_value(a, "new", 2)});
  EXPECT_TRUE(answers().empty()) << "nobody is answered";
  EXPECT_EQ(word_of(a), Word(Version(2), 0));
  log_from_ring(6, {with_value(b, "made", 1)});
  EXPECT_TRUE(take_faults().empty());
  EXPECT_EQ(word_of(a), Word(Version(2), kReadable));
  EXPECT_EQ(known(5), Known::kCommitted);
  EXPECT_EQ(record().sequence, 6U);
  done(5);
  EXPECT_EQ(record().state, kReplicated) << "the notice that was overtaken";
  log_from_ring(5, {with_value(a, "bad", 9)});
  EXPECT_EQ(take_faults(), (std::vector<NodeId>{kPeer})) << "an earlier one never comes after";
  EXPECT_EQ(value_of(a), "new");
}

TEST_F(ParticipantTest, ARingEntryDoesNotEndATransactionThatIsOnlyLocked) {
  const uint64_t a = key_at(kSelf), b = key_at(kOther);
  load_record(a, "old");
  handle(Kind::kLock, request(5), {with_value(a, "new")});
  log_from_ring(6, {with_value(b, "made", 1)});
  EXPECT_EQ(take_faults(), (std::vector<NodeId>{kPeer}));
  EXPECT_EQ(record().sequence, 5U);
  EXPECT_EQ(word_of(a).owner(), owner(kSlot));
  EXPECT_EQ(value_of(b), "(absent)");
}

TEST_F(ParticipantTest, AnUnlockIsAcknowledgedByANoticeWhereTheRowSaysSo) {
  at(1000);
  const uint64_t a = key_at(kSelf);
  load_record(a, "old");
  const CommitRequest passive = request(5, true, kPiggybackAck);
  handle(Kind::kLock, passive, {with_value(a, "new")});
  answers();
  handle(Kind::kUnlock, passive, {});
  EXPECT_TRUE(participant_.has_notices());
  EXPECT_TRUE(answers().empty());
  EXPECT_EQ(participant_.deadline_ns(), 1000 + NoticeQueue::kRideAlongNs);
  at(1000 + NoticeQueue::kRideAlongNs);
  EXPECT_TRUE(participant_.send_notices());
  const auto got = answers();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].kind, Kind::kUnlocked);
  EXPECT_EQ(got[0].as<TxnCompleteNotice>().sequence(), 5U);
  EXPECT_EQ(got[0].as<TxnCompleteNotice>().slot(), kSlot);
}

TEST_F(ParticipantTest, AnAbortIsAnsweredAtOnceInEveryRow) {
  const uint64_t a = key_at(kSelf);
  load_record(a, "old");
  const CommitRequest passive = request(5, false, kPiggybackAck);
  handle(Kind::kLock, passive, {with_value(a, "new")});
  answers();
  handle(Kind::kUnlock, passive, {});
  EXPECT_FALSE(participant_.has_notices());
  EXPECT_EQ(code(Phase::kUnlock), Code::kOk);
}

TEST_F(ParticipantTest, NoticesEndWithTheView) {
  const uint64_t a = key_at(kSelf);
  load_record(a, "old");
  const CommitRequest passive = request(5, true, kPiggybackAck);
  handle(Kind::kLock, passive, {with_value(a, "new")});
  handle(Kind::kUnlock, passive, {});
  answers();
  handle(Kind::kReplicate, request(6), {with_value(key_at(kOther), "made", 1)}, kSlot + 1);
  EXPECT_TRUE(participant_.has_acks());
  participant_.drop_notices();
  EXPECT_FALSE(participant_.has_notices());
  EXPECT_FALSE(participant_.has_acks());
  EXPECT_TRUE(answers().empty());
  EXPECT_EQ(participant_.deadline_ns(), UINT64_MAX);
}

TEST_F(ParticipantTest, RecoveryCommitsOnceWhatIsLockedOrApplied) {
  const uint64_t a = key_at(kSelf), b = key_at(kOther);
  load_record(a, "old");
  load_record(b, "old");
  handle(Kind::kLock, request(5), {with_value(a, "new", 0, 0)});
  handle(Kind::kReplicate, request(5), {with_value(b, "new", 2, 1)});
  for (int i = 0; i < 2; ++i) {
    participant_.commit_record(record(), owner(kSlot), nullptr);
    EXPECT_EQ(word_of(a), Word(Version(2), kReadable));
    EXPECT_EQ(word_of(b), Word(Version(2), kReadable));
    EXPECT_EQ(value_of(a), "new");
    EXPECT_TRUE((record().state & kCommitted) != 0);
    EXPECT_EQ(record().decided, nullptr);
  }
}

TEST_F(ParticipantTest, RecoveryBringsTheValueThatTheRecordHasNot) {
  const uint64_t a = key_at(kSelf);
  load_record(a, "old");
  Named lock = named(a, Write::kPut, 4);
  lock.part.value_bytes = 7;
  handle(Kind::kLock, request(5), {lock});
  const auto body = body_of(request(5), {with_value(a, "decided", 2, 4)});
  Message m = message(Kind::kReplicate, kSlot, body);
  ASSERT_TRUE(parse(m));
  PreparedKeys* decided = records_.make_part(batch_.keys_of(m)).keys;
  participant_.commit_record(record(), owner(kSlot), decided);
  EXPECT_EQ(value_of(a), "decided");
  EXPECT_EQ(record().decided, nullptr) << "it is not this record's";
  records_.drop_parts(decided);
}

}  // namespace
}  // namespace weft
