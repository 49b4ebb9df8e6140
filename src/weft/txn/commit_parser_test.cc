// Parsing the messages of transactions: a well-formed one gives its keys as it names them, and one that is wrong in a
// single field gives nothing.
#include "weft/txn/commit_parser.h"
#include "weft/fabric/nodes_testing.h"

#include <functional>
#include <limits>

#include "weft/txn/key_part.h"
#include "weft/txn/participant_testing.h"

namespace weft {
namespace {

class CommitParserTest : public CommitPartTest {
 protected:
  explicit CommitParserTest(int nodes = kNodes) : CommitPartTest(Setup{.nodes = nodes}) {}

  // The message of a get: its tag and its body.
  struct Get {
    uint32_t tag;
    std::vector<std::byte> body;
  };
  Get get_of(const GetRequest& request, uint64_t key, size_t key_bytes = 8) {
    Get out{request.tag(), std::vector<std::byte>(request.bytes() + padded(key_bytes))};
    store(request.put(out.body.data()), key);
    out.body.resize(request.bytes() + key_bytes);
    return out;
  }
  Get get_of(uint64_t key) { return get_of({.table = kTable.value}, key); }
  bool parse_get(const Get& get, uint8_t slot = 0) { return parse(message(Kind::kGet, get.tag | slot, get.body)); }
  bool parse_named(Kind kind, const Named& key, uint8_t slot = 0) {
    const auto body = body_of(request(5), {key});
    return parse(message(kind, slot, body));
  }
};

TEST_F(CommitParserTest, AGetNamesOneKey) {
  const uint64_t key = key_at(kSelf);
  const Get get = get_of(key);
  EXPECT_EQ(get.body.size(), 8U) << "the rest is in the tag";
  ASSERT_TRUE(parse_get(get, kSlots - 1));
  ASSERT_EQ(batch_.keys.size(), 1U);
  const KeyRef& ref = *batch_.keys.data();
  EXPECT_EQ(ref.key.hash, hashed(key).hash);
  EXPECT_EQ(ref.table, &table());
  EXPECT_EQ(ref.write, Write::kNone);
  EXPECT_FALSE(ref.has(kHasValue) || ref.has(kHasVersion) || ref.has(kHeld));
}

TEST_F(CommitParserTest, AGetThatIsWrongInOneFieldIsRefused) {
  const uint64_t key = key_at(kSelf);
  EXPECT_FALSE(parse_get(get_of(key), kSlots)) << "no such slot";
  EXPECT_FALSE(parse_get(get_of(key), UINT8_MAX));
  for (const int table : {1, 254, 255, 256, int{UINT16_MAX}}) {
    EXPECT_FALSE(parse_get(get_of({.table = static_cast<uint16_t>(table)}, key))) << table;
  }
  EXPECT_FALSE(parse_get(get_of({.table = kTable.value}, key, 7))) << "an integer has 8 bytes";
  EXPECT_FALSE(parse_get(get_of({.table = kTable.value}, key, 9)));
  Get longer = get_of(key);
  longer.body.resize(ctx_.limits.key_bytes_max + 1);
  EXPECT_FALSE(parse_get(longer));
  for (const uint8_t flags : {uint8_t{0}, uint8_t{kGetSingle}, uint8_t{kGetLocks}, uint8_t{kGetLocks | kGetWhere}}) {
    Get cut = get_of({.flags = flags, .table = kTable.value, .sequence = 5}, key);
    EXPECT_TRUE(parse_get(cut)) << int{flags};
    while (!cut.body.empty()) {
      cut.body.pop_back();
      // A sequence that is not there would be the key's first bytes.
      EXPECT_FALSE(parse_get(cut)) << int{flags} << " " << cut.body.size();
    }
  }
}

// The table is the 255th or a later one: there are no such tables here, but it is not taken for another.
TEST_F(CommitParserTest, ATableThatIsNotInTheTagComesInTheBody) {
  const uint64_t key = key_at(kSelf);
  for (const uint8_t flags : {uint8_t{0}, uint8_t{kGetLocks}}) {
    Get get = get_of({.flags = flags, .table = 300, .sequence = 5}, key);
    const size_t table_at = get.body.size() - 16;
    EXPECT_FALSE(parse_get(get));
    store(get.body.data() + table_at, uint64_t{kTable.value});
    EXPECT_TRUE(parse_get(get)) << "as this node's only table, it is known";
    store(get.body.data() + table_at, uint64_t{1});
    EXPECT_FALSE(parse_get(get));
    store(get.body.data() + table_at, uint64_t{kTable.value});
    while (!get.body.empty()) {
      get.body.pop_back();
      EXPECT_FALSE(parse_get(get)) << int{flags} << " " << get.body.size();
    }
  }
}

TEST_F(CommitParserTest, AKeyThatThisNodeDoesNotHoldIsRefused) {
  EXPECT_TRUE(parse_get(get_of(key_at(kSelf)))) << "its primary";
  EXPECT_TRUE(parse_get(get_of(key_at(kOther)))) << "a backup of it";
  EXPECT_FALSE(parse_get(get_of(key_at(kPeer))));
  for (const Kind kind : {Kind::kLock, Kind::kReplicate, Kind::kUnlock}) {
    EXPECT_TRUE(parse_named(kind, with_value(key_at(kOther), "v", 1)));
    EXPECT_FALSE(parse_named(kind, with_value(key_at(kPeer), "v", 1)));
  }
}

TEST_F(CommitParserTest, AReplicaThatFillsGetsWritesAndNothingElse) {
  View next = *view_;
  next.epoch = Epoch(2);
  next.partitions[kPeer.value].catching_up = node_set({0});  // this node
  ctx_.views.stop(false);
  ctx_.views.adopt(std::make_shared<const View>(next));
  EXPECT_TRUE(parse_named(Kind::kReplicate, with_value(key_at(kPeer), "v", 1)));
  EXPECT_FALSE(parse_named(Kind::kLock, with_value(key_at(kPeer), "v", 1)));
  EXPECT_FALSE(parse_named(Kind::kValidate, named(key_at(kPeer), Write::kNone)));
  EXPECT_FALSE(parse_named(Kind::kUnlock, with_value(key_at(kPeer), "v", 1)));
  EXPECT_FALSE(parse_get(get_of(key_at(kPeer))));
}

TEST_F(CommitParserTest, KeysAreAsTheMessageNamesThem) {
  Named first = with_value(key_at(kSelf), "one", 7, 3);
  first.part.flags |= kHasVersion | kHeld | kByVerb | kOrdered | kDeferred | kWantsReplaced;
  first.part.predecessor_delta = 9;
  Named second = named(key_at(kSelf, 1), Write::kErase, 4);
  second.part.value_bytes = 64;
  const auto body = body_of(request(5), {first, second});
  Message m = message(Kind::kLock, 2, body);
  ASSERT_TRUE(parse(m));
  EXPECT_EQ(m.keys, 2U);
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
    const auto refused = [&](const std::function<void(CommitRequest&, KeyPart&)>& change, uint8_t slot = 0) {
      CommitRequest header = request(5);
      Named one = with_value(key, "12345678", 1);
      if (change) change(header, one.part);
      Body body;
      body.tag = header.tag(kNodes);
      body.resize(CommitRequest::bytes(kNodes) + (is_narrow(one.part) ? kNarrowHeadBytes : kWideHeadBytes));
      put_key_head(header.put(body.data(), kNodes), one.part);
      body.resize(body.size() + 16);
      store(body.data() + body.size() - 16, key);
      store(body.data() + body.size() - 8, load<uint64_t>(as_bytes(one.value).data()));
      return !parse(message(kind, slot, body));
    };
    EXPECT_FALSE(refused({}));
    EXPECT_FALSE(refused({}, kSlots - 1));
    EXPECT_TRUE(refused({}, kSlots));
    EXPECT_TRUE(refused({}, UINT8_MAX));
    EXPECT_FALSE(refused([](CommitRequest& r, KeyPart&) { r.flags = kCommitFlagsMax; }));
    for (int bit = 4; bit < 8; ++bit) {
      EXPECT_TRUE(refused([&](CommitRequest& r, KeyPart&) { r.flags |= static_cast<uint8_t>(1U << bit); })) << bit;
    }
    EXPECT_TRUE(refused([](CommitRequest&, KeyPart& p) { p.table = 1; }));
    EXPECT_TRUE(refused([](CommitRequest&, KeyPart& p) { p.table = 8; }));
    EXPECT_TRUE(refused([](CommitRequest&, KeyPart& p) { p.table = UINT16_MAX; }));
    EXPECT_TRUE(refused([](CommitRequest&, KeyPart& p) { p.write = 0; })) << "a value of a key only read";
    EXPECT_TRUE(refused([](CommitRequest&, KeyPart& p) { p.write = 3; })) << "a value of an erase";
    for (const uint8_t wide : {uint8_t{0}, uint8_t{kHeld}}) {
      const auto sizes = [&](uint32_t key_bytes, uint32_t value_bytes) {
        return refused([&](CommitRequest&, KeyPart& p) {
          p.flags |= wide;
          p.key_bytes = key_bytes;
          p.value_bytes = value_bytes;
        });
      };
      EXPECT_FALSE(sizes(8, 8));
      EXPECT_TRUE(sizes(0, 8));
      EXPECT_TRUE(sizes(0, 16));
      EXPECT_TRUE(sizes(7, 8)) << "an integer has 8 bytes";
      EXPECT_TRUE(sizes(16, 0)) << "the value, as a part of the key";
      EXPECT_TRUE(sizes(31, 8));
      EXPECT_TRUE(sizes(32, 8));
      EXPECT_TRUE(sizes(UINT32_MAX, 8));
      EXPECT_TRUE(sizes(8, 9)) << "more than came";
      EXPECT_TRUE(sizes(8, 127));
      EXPECT_TRUE(sizes(8, 128));
      EXPECT_TRUE(sizes(8, UINT32_MAX));
      EXPECT_TRUE(sizes(UINT32_MAX, UINT32_MAX));
    }
    EXPECT_TRUE(refused([](CommitRequest&, KeyPart& p) { p.value_bytes = 0; })) << "bytes that nobody names";
    EXPECT_FALSE(refused([](CommitRequest&, KeyPart& p) { p.version = kVersionMax; }));
  }
}

// One that ends with a key is a message with fewer keys. Only an unlock may name none.
TEST_F(CommitParserTest, AMessageThatIsCutShortInsideAKeyIsRefused) {
  for (const Kind kind : {Kind::kLock, Kind::kReplicate, Kind::kUnlock}) {
    for (const uint8_t wide : {uint8_t{0}, uint8_t{kHeld}}) {
      Named one = with_value(key_at(kSelf), "1234", 1), two = with_value(key_at(kSelf, 1), "5", 1);
      one.part.flags |= wide;
      two.part.flags |= wide;
      const Body whole = body_of(request(5), {one, two});
      const size_t none = CommitRequest::bytes(kNodes);
      const size_t first = none + key_part_bytes(one.part);
      for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
        Body cut = whole;
        cut.resize(bytes);
        const bool good = bytes == first || (bytes == none && kind == Kind::kUnlock);
        EXPECT_EQ(parse(message(kind, 0, cut)), good) << bytes;
        if (good) {
          EXPECT_EQ(batch_.keys.size(), bytes == first ? 1U : 0U);
        }
      }
      EXPECT_TRUE(parse(message(kind, 0, whole)));
      EXPECT_EQ(batch_.keys.size(), 2U);
      Body more = whole;
      more.resize(whole.size() + 4);
      EXPECT_FALSE(parse(message(kind, 0, more)));
    }
  }
}

TEST_F(CommitParserTest, AMessageOfMoreKeysThanATransactionHasIsRefused) {
  std::vector<Named> keys(ctx_.limits.txn_keys_max, with_value(key_at(kSelf), "v", 1));
  for (const Kind kind : {Kind::kLock, Kind::kReplicate, Kind::kUnlock}) {
    const Body most = body_of(request(5), keys);
    EXPECT_TRUE(parse(message(kind, 0, most)));
    EXPECT_EQ(batch_.keys.size(), keys.size());
    keys.push_back(keys.back());
    const Body more = body_of(request(5), keys);
    EXPECT_FALSE(parse(message(kind, 0, more)));
    keys.pop_back();
  }
}

template <int kClusterNodes>
class CommitParserClusterTest : public CommitParserTest {
 protected:
  CommitParserClusterTest() : CommitParserTest(kClusterNodes) {}

  // A request without keys has this many bytes.
  void expect_request_bytes(size_t bytes) {
    const Body body = body_of(request(5), {with_value(key_at(kSelf), "v", 1)});
    EXPECT_TRUE(parse(message(Kind::kLock, 0, body)));
    EXPECT_EQ(batch_.keys.size(), 1U);
    Body cut = body;
    cut.resize(bytes);
    EXPECT_TRUE(parse(message(Kind::kUnlock, 0, cut)));
    EXPECT_TRUE(batch_.keys.empty());
    while (!cut.empty()) {
      cut.pop_back();
      EXPECT_FALSE(parse(message(Kind::kUnlock, 0, cut))) << cut.size();
    }
  }
};
using CommitParserSixteenNodesTest = CommitParserClusterTest<16>;
using CommitParserSeventeenNodesTest = CommitParserClusterTest<17>;

TEST_F(CommitParserSixteenNodesTest, TheParticipantsAreInTheTag) { expect_request_bytes(8); }
TEST_F(CommitParserSeventeenNodesTest, TheParticipantsAreInTheBody) { expect_request_bytes(16); }

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
  record.locked = records_.make_part({batch_.keys.data(), 2}).keys;
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
    batch.begin();
    EXPECT_TRUE(batch.keys.empty());
    for (uint32_t i = 0; i < messages.size(); ++i) {
      const size_t first = batch.keys.size();
      KeyRef* to = batch.keys.begin_adding(2);
      for (uint8_t k = 0; k < 2; ++k) (new (to++) KeyRef())->predecessor_delta = 2 * i + k;
      batch.keys.end_adding(to);
      batch.note(messages[i], first, i % 3 != 0);
    }
    for (uint32_t i = 0; i < messages.size(); ++i) {
      EXPECT_EQ(messages[i].ok, i % 3 != 0);
      EXPECT_EQ(messages[i].keys, i % 3 == 0 ? 0 : 2);
      if (i % 3 == 0) continue;
      ASSERT_EQ(batch.keys_of(messages[i]).size(), 2U);
      EXPECT_EQ(batch.keys_of(messages[i])[0].predecessor_delta, 2 * i);
      EXPECT_EQ(batch.keys_of(messages[i])[1].predecessor_delta, 2 * i + 1);
    }
  }
}

}  // namespace
}  // namespace weft
