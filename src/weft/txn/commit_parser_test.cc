// Parsing the messages of transactions: a well-formed one gives its keys as it names them, and one that is wrong in a
// single field gives nothing.
#include "weft/txn/commit_parser.h"

#include <functional>
#include <limits>

#include "weft/txn/participant_testing.h"

namespace weft {
namespace {

class CommitParserTest : public CommitPartTest {
 protected:
  std::vector<std::byte> get_body(uint64_t key, const std::function<void(GetRequest&)>& change = {}) {
    GetRequest get{};
    get.sequence = 5;
    get.table = kTable.value;
    get.key_bytes = 8;
    if (change) change(get);
    std::vector<std::byte> body(sizeof get + 8);
    store(body.data(), get);
    store(body.data() + sizeof get, key);
    return body;
  }
  bool parse_get(const std::vector<std::byte>& body, uint16_t slot = 0) {
    return parse(message(Kind::kGet, slot, body));
  }
  bool parse_named(Kind kind, const Named& key, uint16_t slot = 0) {
    const auto body = body_of(request(5), {key});
    return parse(message(kind, slot, body));
  }
};

TEST_F(CommitParserTest, AGetNamesOneKey) {
  const uint64_t key = key_at(kSelf);
  const auto body = get_body(key);
  ASSERT_TRUE(parse_get(body, kSlots - 1));
  ASSERT_EQ(batch_.keys.size(), 1U);
  const KeyRef& ref = *batch_.keys.data();
  EXPECT_EQ(ref.key.hash, hashed(key).hash);
  EXPECT_EQ(ref.table, &table());
  EXPECT_EQ(ref.write, Write::kNone);
  EXPECT_FALSE(ref.has(kHasValue) || ref.has(kHasVersion) || ref.has(kHeld));
}

TEST_F(CommitParserTest, AGetThatIsWrongInOneFieldIsRefused) {
  const uint64_t key = key_at(kSelf);
  EXPECT_FALSE(parse_get(get_body(key), kSlots)) << "no such slot";
  EXPECT_FALSE(parse_get(get_body(key), UINT16_MAX));
  EXPECT_FALSE(parse_get(get_body(key, [](GetRequest& get) { get.table = 1; })));
  EXPECT_FALSE(parse_get(get_body(key, [](GetRequest& get) { get.table = UINT16_MAX; })));
  EXPECT_FALSE(parse_get(get_body(key, [](GetRequest& get) { get.key_bytes = 7; }))) << "an integer has 8 bytes";
  EXPECT_FALSE(parse_get(get_body(key, [](GetRequest& get) { get.key_bytes = 9; }))) << "more than came";
  EXPECT_FALSE(parse_get(get_body(key, [](GetRequest& get) { get.key_bytes = UINT32_MAX; })));
  auto cut = get_body(key);
  while (!cut.empty()) {
    cut.pop_back();
    EXPECT_FALSE(parse_get(cut)) << cut.size();
  }
}

TEST_F(CommitParserTest, AKeyThatThisNodeDoesNotHoldIsRefused) {
  EXPECT_TRUE(parse_get(get_body(key_at(kSelf)))) << "its primary";
  EXPECT_TRUE(parse_get(get_body(key_at(kOther)))) << "a backup of it";
  EXPECT_FALSE(parse_get(get_body(key_at(kPeer))));
  for (const Kind kind : {Kind::kLock, Kind::kReplicate, Kind::kUnlock}) {
    EXPECT_TRUE(parse_named(kind, with_value(key_at(kOther), "v", 1)));
    EXPECT_FALSE(parse_named(kind, with_value(key_at(kPeer), "v", 1)));
  }
}

TEST_F(CommitParserTest, AReplicaThatFillsGetsWritesAndNothingElse) {
  View next = *view_;
  next.epoch = Epoch(2);
  next.partitions[kPeer.value].catching_up = 1;  // this node
  ctx_.views.stop(false);
  ctx_.views.adopt(std::make_shared<const View>(next));
  EXPECT_TRUE(parse_named(Kind::kReplicate, with_value(key_at(kPeer), "v", 1)));
  EXPECT_FALSE(parse_named(Kind::kLock, with_value(key_at(kPeer), "v", 1)));
  EXPECT_FALSE(parse_named(Kind::kValidate, named(key_at(kPeer), Write::kNone)));
  EXPECT_FALSE(parse_named(Kind::kUnlock, with_value(key_at(kPeer), "v", 1)));
  EXPECT_FALSE(parse_get(get_body(key_at(kPeer))));
}

TEST_F(CommitParserTest, KeysAreAsTheMessageNamesThem) {
  Named first = with_value(key_at(kSelf), "one", 7, 3);
  first.part.flags |= kHasVersion | kHeld | kByVerb | kOrdered | kDeferred | kWantsReplaced;
  first.part.predecessor_delta = 9;
  Named second = named(key_at(kSelf, 1), Write::kErase, 4);
  second.part.value_bytes = 64;
  const auto body = body_of(request(5), {first, second});
  ASSERT_TRUE(parse(message(Kind::kLock, 2, body)));
  EXPECT_EQ(batch_.parsed[0].keys, 2U);
  ASSERT_EQ(batch_.keys.size(), 2U);
  const KeyRef& a = batch_.keys.data()[0];
  EXPECT_EQ(a.key.hash, hashed(first.key).hash);
  EXPECT_EQ(as_text(a.value), "one");
  EXPECT_EQ(a.version, Version(7));
  EXPECT_EQ(a.room, 3U);
  EXPECT_EQ(a.write, Write::kPut);
  EXPECT_EQ(a.index, 3U);
  EXPECT_EQ(a.predecessor_delta, 9U);
  EXPECT_TRUE(a.has(kHasValue) && a.has(kHasVersion) && a.has(kHeld) && a.has(kByVerb) && a.has(kOrdered) &&
              a.has(kDeferred) && a.has(kWantsReplaced));
  const KeyRef& b = batch_.keys.data()[1];
  EXPECT_EQ(b.key.hash, hashed(second.key).hash);
  EXPECT_EQ(b.write, Write::kErase);
  EXPECT_EQ(b.room, 64U);
  EXPECT_TRUE(b.value.empty());
  EXPECT_FALSE(b.has(kHasValue) || b.has(kHasVersion) || b.has(kHeld) || b.has(kByVerb) || b.has(kOrdered) ||
               b.has(kDeferred) || b.has(kWantsReplaced));
}

TEST_F(CommitParserTest, ACommitMessageThatIsWrongInOneFieldIsRefused) {
  const uint64_t key = key_at(kSelf);
  for (const Kind kind : {Kind::kLock, Kind::kReplicate, Kind::kUnlock}) {
    const auto refused = [&](const std::function<void(CommitRequest&, KeyPart&)>& change, uint16_t slot = 0) {
      auto body = body_of(request(5), {with_value(key, "12345678", 1)});
      auto header = load<CommitRequest>(body.data());
      auto part = load<KeyPart>(body.data() + sizeof header);
      if (change) change(header, part);
      store(body.data(), header);
      store(body.data() + sizeof header, part);
      return !parse(message(kind, slot, body));
    };
    EXPECT_FALSE(refused({}));
    EXPECT_FALSE(refused({}, kSlots - 1));
    EXPECT_TRUE(refused({}, kSlots));
    EXPECT_TRUE(refused([](CommitRequest& r, KeyPart&) { r.flags = kCommitFlagsMax + 1; }));
    EXPECT_TRUE(refused([](CommitRequest& r, KeyPart&) { r.flags = 0x80; }));
    EXPECT_TRUE(refused([](CommitRequest& r, KeyPart&) { r.keys = 2; })) << "more keys than came";
    EXPECT_TRUE(refused([](CommitRequest& r, KeyPart&) { r.keys = 255; }));
    EXPECT_TRUE(refused([](CommitRequest&, KeyPart& p) { p.table = 1; }));
    EXPECT_TRUE(refused([](CommitRequest&, KeyPart& p) { p.write = 4; })) << "no such write";
    EXPECT_TRUE(refused([](CommitRequest&, KeyPart& p) { p.write = 0; })) << "a value of a key only read";
    EXPECT_TRUE(refused([](CommitRequest&, KeyPart& p) { p.write = 3; })) << "a value of an erase";
    EXPECT_TRUE(refused([](CommitRequest&, KeyPart& p) { p.key_bytes = 0; }));
    EXPECT_TRUE(refused([](CommitRequest&, KeyPart& p) { p.key_bytes = 16; }));
    EXPECT_TRUE(refused([](CommitRequest&, KeyPart& p) { p.value_bytes = 9; })) << "more than came";
    EXPECT_TRUE(refused([](CommitRequest&, KeyPart& p) { p.value_bytes = UINT32_MAX; }));
    EXPECT_FALSE(refused([](CommitRequest&, KeyPart& p) { p.version = kVersionMax; }));
    EXPECT_TRUE(refused([](CommitRequest&, KeyPart& p) { p.version = kVersionMax + 1; }));
  }
}

TEST_F(CommitParserTest, AMessageThatIsCutShortAnywhereIsRefused) {
  for (const Kind kind : {Kind::kLock, Kind::kReplicate, Kind::kUnlock}) {
    const auto whole =
        body_of(request(5), {with_value(key_at(kSelf), "1234", 1), with_value(key_at(kSelf, 1), "5", 1)});
    for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
      const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
      EXPECT_FALSE(parse(message(kind, 0, cut))) << bytes;
    }
    EXPECT_TRUE(parse(message(kind, 0, whole)));
  }
}

TEST_F(CommitParserTest, ARoomLargerThanTheTablesValuesIsRefused) {
  Named key = named(key_at(kSelf), Write::kPut);
  key.part.value_bytes = 64;
  EXPECT_TRUE(parse_named(Kind::kLock, key));
  key.part.value_bytes = 65;
  EXPECT_FALSE(parse_named(Kind::kLock, key));
}

TEST_F(CommitParserTest, NoticesNameSlotsAndAreWhole) {
  std::vector<std::byte> body(3 * sizeof(TxnCompleteNotice));
  const auto put = [&](size_t i, uint8_t slot) {
    store(body.data() + i * sizeof(TxnCompleteNotice), TxnCompleteNotice(1, slot));
  };
  put(0, 0);
  put(1, kSlots - 1);
  put(2, 1);
  EXPECT_TRUE(parse(message(Kind::kDone, 0, body)));
  put(1, kSlots);
  EXPECT_FALSE(parse(message(Kind::kDone, 0, body)));
  put(1, UINT8_MAX);
  EXPECT_FALSE(parse(message(Kind::kDone, 0, body)));
  put(1, 2);
  body.pop_back();
  EXPECT_FALSE(parse(message(Kind::kDone, 0, body)));
}

TEST_F(CommitParserTest, KeysOfRecordsThatMessagesNameAreCounted) {
  PreparedTxn& record = records_.at(kPeer, 3);
  const auto body = body_of(request(5), {with_value(key_at(kSelf), "v", 1), with_value(key_at(kSelf, 1), "w", 1)});
  ASSERT_TRUE(parse(message(Kind::kLock, 3, body)));
  EXPECT_EQ(batch_.logged, 0U);
  std::byte* rest;
  record.locked = records_.make_part({batch_.keys.data(), 2}, 0, &rest);
  record.locked->all()[0].table = nullptr;  // its lock belongs to other PreparedKeys
  const auto unlock = body_of(request(5), {});
  ASSERT_TRUE(parse(message(Kind::kUnlock, 3, unlock)));
  EXPECT_EQ(batch_.logged, 1U);
  ASSERT_TRUE(parse(message(Kind::kUnlock, 2, unlock)));
  EXPECT_EQ(batch_.logged, 0U) << "another slot's record";
}

TEST(BatchOfMessages, KeysOfEachMessageStayTheirOwnWhileTheBufferGrows) {
  Batch batch;
  std::vector<Message> messages(300);
  for (int round = 0; round < 2; ++round) {
    batch.begin(messages);
    EXPECT_TRUE(batch.keys.empty());
    for (uint32_t i = 0; i < messages.size(); ++i) {
      batch.parsed[i] = {static_cast<uint32_t>(batch.keys.size()), 2, i % 3 != 0};
      for (uint8_t k = 0; k < 2; ++k) (new (batch.keys.add()) KeyRef())->predecessor_delta = 2 * i + k;
    }
    for (uint32_t i = 0; i < messages.size(); ++i) {
      EXPECT_EQ(batch.ok(messages[i]), i % 3 != 0);
      if (i % 3 == 0) continue;
      ASSERT_EQ(batch.keys_of(messages[i]).size(), 2U);
      EXPECT_EQ(batch.keys_of(messages[i])[0].predecessor_delta, 2 * i);
      EXPECT_EQ(batch.keys_of(messages[i])[1].predecessor_delta, 2 * i + 1);
    }
  }
}

}  // namespace
}  // namespace weft
