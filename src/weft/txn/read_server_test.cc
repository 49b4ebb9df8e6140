// Answers to the reads of other nodes' transactions, and locks that reads take.
#include "weft/txn/read_server.h"

#include "weft/txn/outcomes.h"
#include "weft/txn/participant.h"
#include "weft/txn/participant_testing.h"

namespace weft {
namespace {

class ReadServerTest : public CommitPartTest {
 protected:
  using CommitPartTest::CommitPartTest;

  static constexpr uint8_t kSlot = 3;
  static constexpr uint16_t kEntry = 249;

  struct Answer {
    GetReply reply{};
    GetWhere where{};
    std::string value;
  };
  void get(uint64_t key, uint8_t flags, uint64_t sequence = 5, uint8_t slot = kSlot) {
    const GetRequest get{.slot = slot, .flags = flags, .entry = kEntry, .table = kTable.value, .sequence = sequence};
    std::vector<std::byte> body(get.bytes() + sizeof key);
    store(get.put(body.data()), key);
    Message m = message(Kind::kGet, get.tag(), body);
    ASSERT_TRUE(parse(m));
    server_.on_get(batch_, {&m, 1});
  }
  void get_with_room(uint64_t key, uint32_t room, bool head) {
    GetRequest get{.slot = kSlot, .flags = kGetRoom, .entry = kEntry, .table = kTable.value};
    get.room = room;
    get.head = head;
    std::vector<std::byte> body(get.bytes() + sizeof key);
    store(get.put(body.data()), key);
    Message m = message(Kind::kGet, get.tag(), body);
    ASSERT_TRUE(parse(m));
    server_.on_get(batch_, {&m, 1});
  }
  Answer answer() {
    const auto got = answers();
    EXPECT_EQ(got.size(), 1U);
    Answer out;
    if (got.size() != 1) return out;
    EXPECT_EQ(got[0].kind, Kind::kGetReply);
    EXPECT_TRUE(GetReply::take(got[0].tag, got[0].body, &out.reply));
    EXPECT_EQ(out.reply.slot, kSlot);
    EXPECT_EQ(out.reply.entry, kEntry);
    if (out.reply.has_where) out.where = load<GetWhere>(got[0].body.data() + sizeof out.reply.word);
    const ByteView value = ByteView(got[0].body).subspan(out.reply.bytes());
    out.value = as_text(value);
    return out;
  }
  Code code(const Answer& answer) { return answer.reply.code; }
  PreparedTxn& record() { return records_.at(kPeer, kSlot); }

  OutcomeLog outcomes_{1 << 20};
  Participant participant_{ctx_, records_, outcomes_, false};
  ReadServer server_{ctx_, records_, participant_};
};

TEST_F(ReadServerTest, ARecordIsAnsweredWithItsWordAndValue) {
  const uint64_t a = key_at(kSelf);
  load_record(a, "a value");
  get(a, 0);
  const Answer got = answer();
  EXPECT_EQ(code(got), Code::kOk);
  EXPECT_TRUE(got.reply.found);
  EXPECT_EQ(Word(got.reply.word), Word(Version(1), kReadable));
  EXPECT_EQ(got.value, "a value");
  EXPECT_FALSE(got.reply.has_where);
  EXPECT_EQ(records_.open_records(), 0U);
}

TEST_F(ReadServerTest, AbsenceIsAnsweredWithItsVersion) {
  const uint64_t a = key_at(kSelf);
  get(a, kGetWhere);
  const Answer got = answer();
  EXPECT_EQ(code(got), Code::kOk);
  EXPECT_FALSE(got.reply.found);
  EXPECT_EQ(Word(got.reply.word).version(), absence_of(a).version());
  EXPECT_TRUE(got.value.empty());
  EXPECT_TRUE(got.reply.has_where);
  EXPECT_EQ(got.where.record, 0U) << "rule O2: absence has no place";
  EXPECT_EQ(got.where.bins, table().index_address().bins);
}

TEST_F(ReadServerTest, WhereARecordIsIsSaidToWhoAsks) {
  const uint64_t a = key_at(kSelf);
  load_record(a, "12345");
  get(a, kGetWhere);
  const Answer got = answer();
  EXPECT_EQ(got.where.record, table().locate(hashed(a)).bits);
  EXPECT_EQ(got.where.index, table().index_address().offset);
  EXPECT_EQ(got.value, "12345") << "the value comes behind it";
}

TEST_F(ReadServerTest, ASingleReadOfWhatIsWriteLockedIsRefused) {  // rule G3
  const uint64_t a = key_at(kSelf);
  load_record(a, "old");
  ASSERT_EQ(table().lock(hashed(a), owner(7, kOther), Write::kPut, std::nullopt, 8).code, Code::kOk);
  get(a, kGetSingle | kGetWhere);
  Answer got = answer();
  EXPECT_EQ(code(got), Code::kLocked);
  EXPECT_EQ(Word(got.reply.word).owner(), owner(7, kOther));
  EXPECT_TRUE(got.value.empty());
  EXPECT_FALSE(got.reply.has_where);
  get(a, 0);
  got = answer();
  EXPECT_EQ(code(got), Code::kOk) << "one that is validated later is answered (rule G2)";
  EXPECT_EQ(got.value, "old");
}

TEST_F(ReadServerTest, ALockTakenOnlyForReadingDoesNotRefuseASingleRead) {  // rule G3
  const uint64_t a = key_at(kSelf);
  load_record(a, "old");
  ASSERT_EQ(table().lock(hashed(a), owner(7, kOther), Write::kNone, std::nullopt, 0).code, Code::kOk);
  get(a, kGetSingle);
  const Answer got = answer();
  EXPECT_EQ(code(got), Code::kOk);
  EXPECT_EQ(got.value, "old");
}

TEST_F(ReadServerTest, AReadThatLocksLeavesARecordOfItsTransaction) {
  const uint64_t a = key_at(kSelf);
  const uint64_t sequence = (uint64_t{3} << 32) + 5;
  load_record(a, "old");
  get(a, kGetLocks, sequence);
  const Answer got = answer();
  EXPECT_EQ(code(got), Code::kOk);
  EXPECT_EQ(got.value, "old");
  EXPECT_EQ(Word(got.reply.word), Word(Version(1), 0)) << "the base, without the lock that it took itself";
  EXPECT_EQ(word_of(a).owner(), owner(kSlot));
  EXPECT_EQ(record().state, kLocked);
  EXPECT_EQ(record().sequence, sequence);
  EXPECT_EQ(record().incarnation, ctx_.views.incarnation_of(kPeer));
  ASSERT_NE(record().locked, nullptr);
  EXPECT_EQ(record().locked->all()[0].index, kEntry);
  EXPECT_EQ(record().locked->all()[0].room, table().spec().value_bytes_max);
}

TEST_F(ReadServerTest, AReadThatCannotLockReadsNothingAndLeavesNoRecord) {
  const uint64_t a = key_at(kSelf);
  load_record(a, "old");
  ASSERT_EQ(table().lock(hashed(a), owner(7, kOther), Write::kPut, std::nullopt, 8).code, Code::kOk);
  get(a, kGetLocks);
  const Answer got = answer();
  EXPECT_EQ(code(got), Code::kLocked);
  EXPECT_EQ(Word(got.reply.word).owner(), owner(7, kOther));
  EXPECT_FALSE(got.reply.found);
  EXPECT_TRUE(got.value.empty());
  EXPECT_EQ(records_.open_records(), 0U);
  EXPECT_EQ(word_of(a).owner(), owner(7, kOther));
}

TEST_F(ReadServerTest, AReadThatLocksInASlotWhoseRecordIsThereIsReported) {  // rule K4
  const uint64_t a = key_at(kSelf), b = key_at(kSelf, 1);
  load_record(a, "old");
  load_record(b, "old");
  get(a, kGetLocks, 5);
  answer();
  get(b, kGetLocks, 6);
  const Answer got = answer();
  EXPECT_EQ(code(got), Code::kBusy);
  EXPECT_EQ(take_faults(), (std::vector<NodeId>{kPeer}));
  EXPECT_FALSE(word_of(b).owner());
  EXPECT_EQ(record().sequence, 5U);
  get(b, kGetLocks, 5);
  EXPECT_EQ(code(answer()), Code::kOk) << "another key of the same transaction";
  EXPECT_EQ(word_of(b).owner(), owner(kSlot));
  EXPECT_TRUE(take_faults().empty());
}

// Recovery counts the values of a transaction by what its records say of it.
TEST_F(ReadServerTest, WhatAnEarlierTransactionOfTheSlotWasRefusedIsNotTakenForThisOne) {
  const uint64_t a = key_at(kSelf), b = key_at(kSelf, 1);
  load_record(a, "old");
  load_record(b, "old");
  ASSERT_EQ(table().lock(hashed(a), owner(7, kOther), Write::kPut, std::nullopt, 8).code, Code::kOk);
  OutcomeLog outcomes(64 << 10);
  Participant participant(ctx_, records_, outcomes, true);
  CommitRequest refused = request(5);
  refused.writes = 1;
  const auto body = body_of(refused, {with_value(a, "new", 1, 0)});
  Message m = message(Kind::kLock, kSlot, body);
  ASSERT_TRUE(parse(m));
  participant.on_lock(batch_, {&m, 1});
  ASSERT_EQ(answers().size(), 1U);
  ASSERT_EQ(record().state, 0U);
  get(b, kGetLocks, 6);
  EXPECT_EQ(code(answer()), Code::kOk);
  EXPECT_EQ(record().sequence, 6U);
  EXPECT_EQ(record().participants, NodeSet{});
  EXPECT_EQ(record().writes, 0U);
  EXPECT_FALSE(record().unanimous);
}

TEST_F(ReadServerTest, ALockTakenWhileReadingHasRoomForTheLargestValue) {
  const uint64_t a = key_at(kSelf), b = key_at(kSelf, 1);
  load_record(a, "1");
  const std::string largest(table().spec().value_bytes_max, 'x');
  OutcomeLog outcomes(64 << 10);
  Participant participant(ctx_, records_, outcomes, true);
  for (const uint64_t key : {a, b}) {
    get(key, kGetLocks);
    answers();
    const auto body = body_of(request(5), {with_value(key, largest, 0, kEntry)});
    Message m = message(Kind::kUnlock, kSlot, body);
    ASSERT_TRUE(parse(m));
    participant.on_unlock(batch_, {&m, 1});
    EXPECT_EQ(value_of(key), largest);
    EXPECT_TRUE(take_faults().empty());
    std::vector<std::byte> done(sizeof(TxnCompleteNotice));
    store(done.data(), TxnCompleteNotice(5, kSlot));
    Message notice = message(Kind::kDone, 0, done);
    ASSERT_TRUE(parse(notice));
    participant.on_done(batch_, {&notice, 1});
  }
}

TEST_F(ReadServerTest, ALockTakenWhileReadingCanBecomeAnErase) {
  const uint64_t a = key_at(kSelf);
  load_record(a, "old");
  OutcomeLog outcomes(64 << 10);
  Participant participant(ctx_, records_, outcomes, true);
  get(a, kGetLocks);
  answers();
  Named erase = named(a, Write::kErase, kEntry);
  erase.part.flags = kHeld;
  for (const Kind kind : {Kind::kLock, Kind::kUnlock}) {
    const auto body = body_of(request(5), kind == Kind::kLock ? std::vector<Named>{erase} : std::vector<Named>{});
    Message m = message(kind, kSlot, body);
    ASSERT_TRUE(parse(m));
    if (kind == Kind::kLock) {
      participant.on_lock(batch_, {&m, 1});
    } else {
      participant.on_unlock(batch_, {&m, 1});
    }
    participant.flush();
    const Received got = answers().at(0);
    if (kind == Kind::kUnlock) {
      EXPECT_EQ(got.acks().size(), 1U);
    } else {
      EXPECT_EQ(got.kind, Kind::kReply) << "its base is not one that it named";
      EXPECT_EQ(static_cast<Code>(got.as<PhaseReply>().code), Code::kOk);
    }
  }
  EXPECT_EQ(value_of(a), "(absent)");
  EXPECT_EQ(table().leak_report().locked, 0U);
}

class ReadServerLargeTest : public ReadServerTest {
 protected:
  ReadServerLargeTest() : ReadServerTest(Setup{.value_bytes_max = 4096}) {}
};

TEST_F(ReadServerLargeTest, ALargeValueHasAFlowOfItsOwn) {
  int n = 0;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{1024}, size_t{1025}, size_t{2048}}) {
    const uint64_t key = key_at(kSelf, n++);
    const std::string value(bytes, 'v');
    load_record(key, value);
    for (const uint8_t flags : {uint8_t{0}, uint8_t{kGetWhere}}) {
      get(key, flags);
      const bool large = bytes > 1024;
      EXPECT_EQ(port_.has_open(kPeer, Flow::kExecution), large) << bytes;
      EXPECT_EQ(port_.has_open(kPeer, Flow::kCommit), !large) << "small ones share packets with commits " << bytes;
      const Answer got = answer();
      EXPECT_EQ(code(got), Code::kOk);
      EXPECT_TRUE(got.reply.found);
      EXPECT_EQ(got.value, value);
    }
  }
}

TEST_F(ReadServerLargeTest, AValueIsCutToTheRoomThatTheRequestHas) {
  const uint64_t key = key_at(kSelf);
  const std::string value = std::string(2000, 'a') + std::string(2096, 'b');
  load_record(key, value);
  get(key, 0);
  Answer got = answer();
  EXPECT_TRUE(got.reply.found && got.reply.cut) << "there is room for 2,048 bytes if nobody says more";
  EXPECT_EQ(got.reply.length, value.size());
  EXPECT_EQ(got.value, "");
  for (const bool head : {false, true}) {
    for (const uint32_t room : {0U, 16U, 4095U, 4096U, UINT32_MAX}) {
      get_with_room(key, room, head);
      got = answer();
      EXPECT_EQ(code(got), Code::kOk);
      EXPECT_EQ(got.reply.cut, room < value.size());
      EXPECT_EQ(got.value, !got.reply.cut ? value : head ? value.substr(0, room) : "") << room;
      if (got.reply.cut) {
        EXPECT_EQ(got.reply.length, value.size());
      }
    }
  }
}

TEST_F(ReadServerTest, WhatIsNotWellFormedIsNotAnswered) {
  Message m = message(Kind::kGet, kSlot, std::vector<std::byte>());
  ASSERT_FALSE(parse(m));
  server_.on_get(batch_, {&m, 1});
  EXPECT_TRUE(answers().empty());
}

}  // namespace
}  // namespace weft
