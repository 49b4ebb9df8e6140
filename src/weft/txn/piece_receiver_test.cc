// A message in pieces has not arrived before its last piece; then a little is done of it at a time, and the end of the
// view finds it done or not begun.
#include "weft/txn/piece_receiver.h"

#include <algorithm>
#include <memory>

#include "weft/member/view.h"
#include "weft/txn/participant_testing.h"

namespace weft {
namespace {

constexpr size_t kMessageBytesMax = 4 << 20;

class PieceReceiverTest : public ParticipantTest {
 protected:
  PieceReceiverTest() : ParticipantTest(Setup{.value_bytes_max = 300'000}) {}

  // The pieces of a message.
  std::vector<std::vector<std::byte>> cut(const Body& body, size_t keys, size_t piece_bytes) const {
    std::vector<std::vector<std::byte>> out;
    for (size_t at = 0; at < body.size(); at += piece_bytes) {
      const size_t bytes = std::min(piece_bytes, body.size() - at);
      const PieceHeader header{body.tag | kSlot, static_cast<uint32_t>(body.size()), static_cast<uint32_t>(at),
                               static_cast<uint32_t>(keys)};
      out.push_back(bytes_with(header, ByteView(body).subspan(at, bytes)));
    }
    return out;
  }
  bool give(Kind kind, const std::vector<std::byte>& piece, NodeId from = kPeer, uint8_t slot = kSlot) {
    Message m{from, static_cast<uint8_t>(Kind::kPiece), PieceHeader::piece_tag(slot, kind), piece};
    m.ok = receiver_.parse(m);
    receiver_.on_piece(batch_, {&m, 1});
    return m.ok;
  }
  void send(Kind kind, const CommitRequest& request, const std::vector<Named>& keys, size_t piece_bytes = 16) {
    for (const auto& piece : cut(body_of(request, keys), keys.size(), piece_bytes)) EXPECT_TRUE(give(kind, piece));
  }
  int run_to_end() {
    int steps = 0;
    while (!receiver_.empty()) {
      EXPECT_TRUE(receiver_.step(0));
      ++steps;
    }
    return steps;
  }
  uint64_t backup_key(int i = 0) { return key_at(kOther, i); }  // its backup is here

  PieceReceiver receiver_{ctx_, parser_, records_, participant_, kMessageBytesMax};
};

TEST_F(PieceReceiverTest, NothingHappensBeforeTheLastPiece) {
  const uint64_t a = key_at(kSelf), b = key_at(kSelf, 1);
  load_record(a, "old");
  load_record(b, "old");
  const std::vector<Named> keys{with_value(a, "new", 0, 0), with_value(b, std::string(100, 'n'), 0, 1)};
  const auto pieces = cut(body_of(request(5), keys), keys.size(), 24);
  ASSERT_GT(pieces.size(), 3U);
  for (size_t i = 0; i + 1 < pieces.size(); ++i) {
    EXPECT_TRUE(give(Kind::kLock, pieces[i]));
    EXPECT_FALSE(word_of(a).owner());
    EXPECT_EQ(record().state, 0);
    EXPECT_TRUE(answers().empty());
  }
  EXPECT_TRUE(give(Kind::kLock, pieces.back()));
  EXPECT_EQ(code(Phase::kLock), Code::kOk);
  EXPECT_EQ(word_of(a).owner(), owner(kSlot));
  EXPECT_EQ(word_of(b).owner(), owner(kSlot));
  EXPECT_EQ(record().state, kLocked);
  send(Kind::kUnlock, request(5), {});
  EXPECT_EQ(word_of(a).owner(), owner(kSlot)) << "it is done in the next step";
  run_to_end();
  EXPECT_EQ(code(Phase::kUnlock), Code::kOk);
  EXPECT_EQ(value_of(a), "new");
  EXPECT_EQ(value_of(b), std::string(100, 'n'));
  EXPECT_EQ(record().state, kLocked | kCommitted);
  EXPECT_EQ(known(5), Known::kCommitted);
}

TEST_F(PieceReceiverTest, AllLocksOrNone) {
  const uint64_t a = key_at(kSelf), b = key_at(kSelf, 1);
  load_record(a, "old");
  load_record(b, "old");
  lock_elsewhere(b);
  send(Kind::kLock, request(5), {with_value(a, "new", 0, 0), with_value(b, "new", 0, 1)});
  EXPECT_EQ(code(Phase::kLock), Code::kLocked);
  EXPECT_FALSE(word_of(a).owner());
  EXPECT_EQ(records_.open_records(), 0U);
  send(Kind::kLock, request(6), {with_value(a, "new", 0, 0)});
  EXPECT_EQ(code(Phase::kLock), Code::kOk);
  send(Kind::kUnlock, request(6, false), {});
  EXPECT_EQ(code(Phase::kUnlock), Code::kOk) << "an abort is done at once";
  EXPECT_EQ(value_of(a), "old");
  EXPECT_FALSE(word_of(a).owner());
}

TEST_F(PieceReceiverTest, ABackupAppliesALittleInEachStep) {
  std::vector<Named> keys;
  for (uint16_t i = 0; i < 4; ++i) {
    load_record(backup_key(i), "old");
    keys.push_back(with_value(backup_key(i), std::string(200'000, static_cast<char>('a' + i)), 2, i));
  }
  send(Kind::kReplicate, request(5), keys, 8000);
  EXPECT_EQ(value_of(backup_key(0)), "old");
  EXPECT_TRUE(receiver_.step(0));
  EXPECT_EQ(value_of(backup_key(0)).size(), 200'000U);
  EXPECT_EQ(value_of(backup_key(3)), "old");
  EXPECT_EQ(record().state & kReplicated, 0) << "it is not replicated here yet";
  EXPECT_TRUE(answers().empty());
  EXPECT_GE(run_to_end(), 1);
  EXPECT_EQ(code(Phase::kReplicate), Code::kOk);
  EXPECT_EQ(record().state, kReplicated);
  for (uint16_t i = 0; i < 4; ++i) EXPECT_EQ(value_of(backup_key(i)), keys[i].value);
  participant_.abort_record(record(), owner(kSlot));
  for (uint16_t i = 0; i < 4; ++i) EXPECT_EQ(value_of(backup_key(i)), "old") << "what it replaced is kept";
}

TEST_F(PieceReceiverTest, TheEndOfTheViewFindsItDoneOrNotBegun) {
  std::vector<Named> keys;
  for (uint16_t i = 0; i < 4; ++i) {
    load_record(backup_key(i), "old");
    keys.push_back(with_value(backup_key(i), std::string(200'000, 'n'), 2, i));
  }
  const auto pieces = cut(body_of(request(5), keys), keys.size(), 8000);
  for (size_t i = 0; i + 1 < pieces.size(); ++i) give(Kind::kReplicate, pieces[i]);
  receiver_.on_view_ended();
  EXPECT_EQ(record().state, 0) << "a message that is not complete has not arrived";
  EXPECT_EQ(value_of(backup_key(0)), "old");
  for (const auto& piece : pieces) give(Kind::kReplicate, piece);
  EXPECT_TRUE(take_faults().empty()) << "it begins anew";
  EXPECT_TRUE(receiver_.step(0));
  EXPECT_EQ(record().state, 0);
  receiver_.on_view_ended();
  EXPECT_FALSE(receiver_.has_left_view()) << "recovery waits";
  while (!receiver_.has_left_view()) EXPECT_TRUE(receiver_.step(0));
  EXPECT_EQ(record().state, kReplicated);
  EXPECT_EQ(value_of(backup_key(3)), keys[3].value);
  EXPECT_TRUE(answers().empty()) << "nobody of this view waits for it";
}

// The crash of a primary makes this backup the next one while it applies what the old one had replicated.
TEST_F(PieceReceiverTest, WhatArrivedIsDoneAsTheRolesWereThen) {
  std::vector<Named> keys;
  for (uint16_t i = 0; i < 4; ++i) {
    load_record(backup_key(i), "old");
    keys.push_back(with_value(backup_key(i), std::string(200'000, 'n'), 2, i));
  }
  send(Kind::kReplicate, request(5), keys, 8000);
  EXPECT_TRUE(receiver_.step(0));
  EXPECT_EQ(value_of(backup_key(3)), "old");
  receiver_.on_view_ended();
  const auto placement = [&] { return ctx_.view().placement(hashed(backup_key(3)).partition); };
  const Result<View> next = without_members(ctx_.view(), NodeSet::of(placement().primary()));
  ASSERT_TRUE(next) << next.error().text();
  ctx_.views.stop(false);
  ctx_.views.adopt(std::make_shared<const View>(*next));
  ASSERT_EQ(placement().primary(), kSelf);
  while (!receiver_.has_left_view()) EXPECT_TRUE(receiver_.step(0));
  EXPECT_EQ(record().state, kReplicated);
  for (uint16_t i = 0; i < 4; ++i) EXPECT_EQ(value_of(backup_key(i)), keys[i].value) << i;
  participant_.abort_record(record(), owner(kSlot));
  for (uint16_t i = 0; i < 4; ++i) EXPECT_EQ(value_of(backup_key(i)), "old") << i;
}

TEST_F(PieceReceiverTest, ValidationLeavesNothing) {
  const uint64_t a = key_at(kSelf);
  load_record(a, "old");
  Named read = named(a, Write::kNone);
  read.part.flags = kHasVersion;
  read.part.version = 1;
  send(Kind::kValidate, request(5), {read});
  EXPECT_EQ(code(Phase::kValidate), Code::kOk);
  read.part.version = 2;
  send(Kind::kValidate, request(5), {read});
  EXPECT_EQ(code(Phase::kValidate), Code::kVersionMoved);
  EXPECT_EQ(records_.open_records(), 0U);
}

// A peer that sends more about a transaction of which a message is in progress is at fault, and disturbs nothing.
TEST_F(PieceReceiverTest, NothingElseMayBeSaidOfWhatIsInProgress) {
  const uint64_t a = key_at(kSelf);
  load_record(a, "old");
  const auto reported = std::vector<NodeId>{kPeer};
  const std::vector<Named> keys{with_value(a, "new", 0, 0)};
  send(Kind::kLock, request(5), keys);
  EXPECT_EQ(code(Phase::kLock), Code::kOk);
  send(Kind::kUnlock, request(5), {});
  EXPECT_TRUE(record().in_progress);
  send(Kind::kUnlock, request(5), {});
  EXPECT_EQ(take_faults(), reported) << "the same again";
  CommitRequest aborts = request(5);
  aborts.flags = 0;
  aborts.coordinator = kPeer;
  EXPECT_FALSE(participant_.unlock(aborts, {}));
  EXPECT_EQ(take_faults(), reported) << "an abort";
  send(Kind::kLock, request(6), keys);
  EXPECT_EQ(take_faults(), reported) << "the slot's next";
  EXPECT_EQ(run_to_end(), 1);
  EXPECT_EQ(value_of(a), "new");
  EXPECT_EQ(record().state, kLocked | kCommitted);
}

TEST_F(PieceReceiverTest, NothingElseMayBeSaidOfAReplicateInProgress) {
  const uint64_t b = backup_key();
  load_record(b, "old");
  const auto reported = std::vector<NodeId>{kPeer};
  const std::vector<Named> keys{with_value(b, "new", 2, 0)};
  send(Kind::kReplicate, request(5), keys);
  EXPECT_EQ(record().state, 0);
  EXPECT_TRUE(record().in_progress);
  for (const uint64_t sequence : {5, 6}) {
    send(Kind::kReplicate, request(sequence), keys);
    EXPECT_EQ(take_faults(), reported);
    send(Kind::kLock, request(sequence), keys);
    EXPECT_EQ(take_faults(), reported);
  }
  EXPECT_EQ(run_to_end(), 1);
  EXPECT_EQ(record().state, kReplicated);
  EXPECT_EQ(value_of(b), "new");
}

// What a peer has credit for, and the one message that has its turn: it cannot make this node keep more.
TEST_F(PieceReceiverTest, WhatAPeerHasBegunIsBounded) {
  const size_t most = kMessageBytesMax + ctx_.limits.credit_bytes;
  const auto begin = [&](uint8_t slot, size_t total, NodeId from = kPeer) {
    const PieceHeader header{slot, static_cast<uint32_t>(total), 0, 1};
    EXPECT_TRUE(give(Kind::kLock, bytes_with(header, std::vector<std::byte>(16)), from, slot));
    return take_faults().empty();
  };
  uint8_t slot = 0;
  size_t begun = 0;
  for (; begun + kMessageBytesMax <= most; begun += kMessageBytesMax) EXPECT_TRUE(begin(slot++, kMessageBytesMax));
  EXPECT_TRUE(begun == most || begin(slot++, most - begun));
  EXPECT_FALSE(begin(slot, 24)) << "one more";
  EXPECT_TRUE(begin(0, kMessageBytesMax, kOther)) << "of another peer";
  receiver_.on_view_ended();
  EXPECT_TRUE(begin(0, kMessageBytesMax)) << "in the next view";
  receiver_.on_view_ended();
}

TEST_F(PieceReceiverTest, PiecesThatMakeNoSense) {
  const std::vector<Named> keys{with_value(key_at(kSelf), std::string(50, 'n'))};
  const Body body = body_of(request(5), keys);
  const auto pieces = cut(body, 1, 24);
  const auto reported = std::vector<NodeId>{kPeer};
  EXPECT_TRUE(give(Kind::kLock, pieces[1]));
  EXPECT_EQ(take_faults(), reported) << "the first is missing";
  EXPECT_TRUE(give(Kind::kLock, pieces[0]));
  EXPECT_TRUE(give(Kind::kLock, pieces[2]));
  EXPECT_EQ(take_faults(), reported) << "one is left out";
  EXPECT_TRUE(give(Kind::kLock, pieces[0]));
  EXPECT_EQ(take_faults(), reported) << "begins again";
  EXPECT_TRUE(give(Kind::kReplicate, pieces[1]));
  EXPECT_EQ(take_faults(), reported) << "another kind";
  EXPECT_TRUE(give(Kind::kLock, pieces[0], kOther)) << "another peer's is another message";
  EXPECT_TRUE(take_faults().empty());
  receiver_.on_view_ended();
  for (const auto& piece : cut(body, 2, 24)) give(Kind::kLock, piece);
  EXPECT_EQ(take_faults(), reported) << "it names fewer keys than it said";
  EXPECT_FALSE(give(Kind::kAck, pieces[0])) << "no phase of a commit";
  auto broken = pieces[0];
  store(broken.data() + 4, uint32_t{kMessageBytesMax + 8});
  EXPECT_FALSE(give(Kind::kLock, broken)) << "too long";
  broken = pieces[0];
  store(broken.data() + 8, static_cast<uint32_t>(body.size()));
  EXPECT_FALSE(give(Kind::kLock, broken)) << "beyond the end";
  broken = pieces[0];
  store(broken.data() + 12, ctx_.limits.txn_keys_max + 1);
  EXPECT_FALSE(give(Kind::kLock, broken)) << "too many keys";
  EXPECT_FALSE(give(Kind::kLock, {pieces[0].begin(), pieces[0].begin() + sizeof(PieceHeader)})) << "nothing in it";
  send(Kind::kUnlock, request(9), {});
  EXPECT_EQ(take_faults(), reported) << "an unlock of what is not locked";
  EXPECT_EQ(records_.open_records(), 0U);
}

}  // namespace
}  // namespace weft
