// Arriving messages are checked and handed to their parts; a malformed one is handed to none and reported.
#include "weft/txn/dispatcher.h"

#include "weft/txn/participant_testing.h"

namespace weft {
namespace {

class DispatcherTest : public CommitPartTest {
 protected:
  static constexpr Kind kKnown[] = {Kind::kGet,    Kind::kGetReply, Kind::kLock, Kind::kValidate, Kind::kReplicate,
                                    Kind::kUnlock, Kind::kReply,    Kind::kDone, Kind::kUnlocked, Kind::kAck};
  static constexpr Kind kOwn = Kind::kRingRead;  // a kind that the dispatcher does not know

  // Keeps what it was handed.
  struct Part {
    struct Handed {
      Kind kind;
      bool ok;
      size_t keys;
      uint64_t first_hash;
    };
    void on_messages(const Batch& batch, std::span<const Message> run) {
      for (const Message& m : run) {
        const auto keys = m.ok ? batch.keys_of(m) : std::span<const KeyRef>();
        handed.push_back({static_cast<Kind>(m.kind), m.ok, keys.size(), keys.empty() ? 0 : keys.front().key.hash});
      }
    }
    bool parse(const Message& m) const { return m.body.size() == 8; }
    std::vector<Handed> handed;
  };

  DispatcherTest() {
    for (const Kind kind : kKnown) dispatcher_.handle<&Part::on_messages>(kind, &part_);
    dispatcher_.handle<&Part::parse, &Part::on_messages>(kOwn, &part_);
  }
  void send(Kind kind, const std::vector<std::byte>& body, uint32_t tag = 0, NodeId from = kPeer) {
    std::byte* to = peer(from).reserve(kSelf, Flow::kCommit, static_cast<uint8_t>(kind), body.size(), tag);
    std::copy(body.begin(), body.end(), to);
  }
  void send(Kind kind, const Body& body, uint8_t slot = 0, NodeId from = kPeer) {
    send(kind, static_cast<const std::vector<std::byte>&>(body), body.tag | slot, from);
  }
  template <class T>
  static std::vector<std::byte> bytes_of(const T& message, size_t more = 0) {
    std::vector<std::byte> body(sizeof message + more);
    store(body.data(), message);
    return body;
  }
  // How many of the messages handed over since the last call are well-formed.
  size_t take_good() {
    deliver();
    size_t good = 0;
    for (const Part::Handed& one : part_.handed) good += one.ok ? 1 : 0;
    part_.handed.clear();
    return good;
  }
  // No part gets the message as well-formed, and its sender is reported once.
  void expect_refused(Kind kind, const std::vector<std::byte>& body, uint32_t tag = 0) {
    send(kind, body, tag);
    EXPECT_EQ(take_good(), 0U);
    EXPECT_EQ(take_faults(), (std::vector<NodeId>{kPeer}));
  }
  void expect_taken(Kind kind, const std::vector<std::byte>& body, uint32_t tag = 0) {
    send(kind, body, tag);
    EXPECT_EQ(take_good(), 1U);
    EXPECT_TRUE(take_faults().empty());
  }

  SlotTable slots_{ctx_, pool_.get(), nullptr, 1000, 0};
  Dispatcher dispatcher_{ctx_, parser_, slots_};
  Part part_;
};

TEST_F(DispatcherTest, AMessageThatIsRefusedTakesNoKeysFromItsNeighbours) {
  const Named a = with_value(key_at(kSelf), "a", 1);
  const Named b = with_value(key_at(kSelf, 1), "b", 1);
  Named bad = with_value(key_at(kSelf, 2), "c", 1);
  bad.part.table = 9;
  send(Kind::kLock, body_of(request(1), {a, b}), 1);
  send(Kind::kLock, body_of(request(2), {a, bad}), 2);  // wrong in its second key
  send(Kind::kLock, body_of(request(3), {b}), 3);
  deliver();
  ASSERT_EQ(part_.handed.size(), 3U);
  EXPECT_TRUE(part_.handed[0].ok);
  EXPECT_EQ(part_.handed[0].keys, 2U);
  EXPECT_EQ(part_.handed[0].first_hash, hashed(a.key).hash);
  EXPECT_FALSE(part_.handed[1].ok);
  EXPECT_TRUE(part_.handed[2].ok);
  EXPECT_EQ(part_.handed[2].keys, 1U);
  EXPECT_EQ(part_.handed[2].first_hash, hashed(b.key).hash);
  EXPECT_EQ(take_faults(), (std::vector<NodeId>{kPeer}));
}

TEST_F(DispatcherTest, TheFaultIsTheSendersAndNobodyElses) {
  send(Kind::kLock, body_of(request(1), {named(key_at(kSelf), Write::kPut)}), 0, kOther);
  send(Kind::kLock, std::vector<std::byte>(4), 0, kPeer);
  EXPECT_EQ(take_good(), 1U);
  EXPECT_EQ(take_faults(), (std::vector<NodeId>{kPeer}));
}

TEST_F(DispatcherTest, AKindThatNobodyHandlesClosesItsSender) {
  send(Kind::kScan, std::vector<std::byte>(64));
  deliver();
  EXPECT_TRUE(part_.handed.empty());
  EXPECT_TRUE(port_.closed(kPeer));
  EXPECT_FALSE(port_.closed(kOther));
}

TEST_F(DispatcherTest, AKindThatItDoesNotKnowIsCheckedByItsPart) {
  expect_taken(kOwn, std::vector<std::byte>(8));
  expect_refused(kOwn, std::vector<std::byte>(16));
}

TEST_F(DispatcherTest, AnAnswerToAGetIsWholeAndNamesASlot) {
  const auto bytes = [](size_t count) { return std::vector<std::byte>(count); };
  GetReply reply;
  reply.slot = static_cast<uint8_t>(slots_.size() - 1);
  expect_taken(Kind::kGetReply, bytes(8), reply.tag());
  expect_taken(Kind::kGetReply, bytes(16), reply.tag());
  expect_taken(Kind::kGetReply, bytes(9), reply.tag());  // a value of one byte
  ++reply.slot;
  expect_refused(Kind::kGetReply, bytes(16), reply.tag());
  reply.slot = UINT8_MAX;
  expect_refused(Kind::kGetReply, bytes(16), reply.tag());
  reply.slot = 0;
  for (size_t cut = 0; cut < 8; ++cut) expect_refused(Kind::kGetReply, bytes(cut), reply.tag());
  reply.has_where = true;
  expect_taken(Kind::kGetReply, bytes(8 + sizeof(GetWhere)), reply.tag());
  for (size_t cut = 0; cut < 8 + sizeof(GetWhere); ++cut) expect_refused(Kind::kGetReply, bytes(cut), reply.tag());
  reply.has_where = false;
  reply.code = Code::kPeerLost;
  expect_taken(Kind::kGetReply, bytes(8), reply.tag());
  for (const int code : {static_cast<int>(Code::kBadOption), static_cast<int>(Code::kOs), kCodes, 255}) {
    expect_refused(Kind::kGetReply, bytes(8), static_cast<uint32_t>(code) << 8);
  }
}

TEST_F(DispatcherTest, AnAnswerToAPhaseIsWholeAndNamesASlot) {
  PhaseReply reply{};
  reply.bases = 2;
  reply.erased = 1;
  const auto last = static_cast<uint32_t>(slots_.size() - 1);
  expect_taken(Kind::kReply, bytes_of(reply, 24), last);
  for (const uint32_t tag : {last + 1, 255U, 256U, 1U << 16, 1U << 31, UINT32_MAX}) {
    expect_refused(Kind::kReply, bytes_of(reply, 24), tag);
  }
  expect_refused(Kind::kReply, bytes_of(reply, 16));  // a version is missing
  expect_refused(Kind::kReply, std::vector<std::byte>(sizeof reply - 8));
  for (size_t i = 0; i < 3; ++i) {  // each of the versions
    auto body = bytes_of(reply, 24);
    store(body.data() + sizeof reply + i * 8, kVersionMax);
    expect_taken(Kind::kReply, body);
    store(body.data() + sizeof reply + i * 8, kVersionMax + 1);
    expect_refused(Kind::kReply, body);
  }
  reply.erased = UINT16_MAX;
  expect_refused(Kind::kReply, bytes_of(reply, 24));
  reply.bases = UINT16_MAX;
  expect_refused(Kind::kReply, bytes_of(reply, 24));
  reply.erased = reply.bases = 0;
  reply.code = 255;
  expect_refused(Kind::kReply, bytes_of(reply));
}

TEST_F(DispatcherTest, AcksAreWholeAndNameSlotsOfThisWorker) {
  const auto last = static_cast<uint8_t>(slots_.size() - 1);
  const auto acks = [](const std::vector<uint8_t>& slots) {
    std::vector<std::byte> body(slots.size() * sizeof(PhaseAck));
    for (size_t i = 0; i < slots.size(); ++i) store(body.data() + i * sizeof(PhaseAck), PhaseAck{slots[i], 1, 7});
    return body;
  };
  expect_taken(Kind::kAck, acks({0}));
  expect_taken(Kind::kAck, acks({last, 0, last}));
  expect_taken(Kind::kAck, acks(std::vector<uint8_t>(500, last)));
  expect_refused(Kind::kAck, acks({static_cast<uint8_t>(last + 1)}));
  expect_refused(Kind::kAck, acks({0, UINT8_MAX, 0}));
  expect_refused(Kind::kAck, acks({0, 0, static_cast<uint8_t>(last + 1)}));
  auto body = acks({0, 1});
  for (int i = 0; i < 3; ++i) {
    body.pop_back();
    expect_refused(Kind::kAck, body);
  }
  body.pop_back();
  expect_taken(Kind::kAck, body);
}

TEST_F(DispatcherTest, NoticesOfUnlocksNameSlotsOfThisWorker) {
  const auto slots = static_cast<uint32_t>(slots_.size());
  expect_taken(Kind::kUnlocked, bytes_of(TxnCompleteNotice(1, static_cast<uint8_t>(slots - 1))));
  expect_refused(Kind::kUnlocked, bytes_of(TxnCompleteNotice(1, static_cast<uint8_t>(slots))));
  expect_refused(Kind::kUnlocked, bytes_of(TxnCompleteNotice(1, 0), 4));
}

TEST_F(DispatcherTest, EveryKindThatNamesKeysIsParsedAsOne) {
  const uint64_t key = key_at(kSelf);
  send(Kind::kGet, bytes_of(key), GetRequest{.table = kTable.value}.tag());
  send(Kind::kValidate, body_of(request(1), {named(key, Write::kNone)}));
  send(Kind::kReplicate, body_of(request(1), {with_value(key, "v", 1)}));
  send(Kind::kUnlock, body_of(request(1), {with_value(key, "v", 1)}));
  deliver();
  ASSERT_EQ(part_.handed.size(), 4U);
  for (const Part::Handed& one : part_.handed) {
    EXPECT_TRUE(one.ok);
    EXPECT_EQ(one.keys, 1U);
    EXPECT_EQ(one.first_hash, hashed(key).hash);
  }
  EXPECT_EQ(ctx_.counters.table_batched, 4U);
}

}  // namespace
}  // namespace weft
