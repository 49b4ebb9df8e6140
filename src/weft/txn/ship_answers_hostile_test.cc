// A peer that answers what was shipped as no correct peer does: it is closed, the caller learns that its outcome is not
// known, and the others go on.
#include <functional>

#include "weft/txn/ship_hostile_testing.h"

namespace weft {
namespace {

TEST_F(ShipHostile, AnswersThatNobodyAskedFor) {
  const auto answer = [&](Kind kind, const auto& body, uint32_t tag) {
    start();
    std::vector<std::byte> bytes;
    append(&bytes, body);
    send(NodeId(0), kind, tag, bytes);
    const bool refused = closed(0);
    expect_alive();
    return refused;
  };
  EXPECT_TRUE(answer(Kind::kShipped, ShippedReply{}, 0));
  EXPECT_TRUE(answer(Kind::kShipped, ShippedReply{}, 250));
  EXPECT_TRUE(answer(Kind::kExecuted, ExecutedReply{}, 0));
  EXPECT_TRUE(answer(Kind::kExecuted, ExecutedReply{}, 250));
  ShippedReply keys{};
  keys.keys = 3;
  EXPECT_TRUE(answer(Kind::kShipped, keys, 0)) << "keys that do not follow";
  ExecutedReply executed{};
  executed.keys = 3;
  EXPECT_TRUE(answer(Kind::kExecuted, executed, 0));
}

// Node 0 has shipped to the enemy, which lies: the client learns that its outcome is not known.
TEST_F(ShipHostile, WrongAnswersToWhatWasShipped) {
  const std::function<void(ShippedReply&)> lies[] = {
      [](ShippedReply& r) { ++r.sequence; }, [](ShippedReply& r) { r.logged = NodeSet::from_bits(uint64_t{1} << 60); },
      [](ShippedReply& r) { r.code = 200; }, [](ShippedReply& r) { r.reply_bytes = 1U << 20; },
      [](ShippedReply& r) { r.keys = 1; },
  };
  for (const auto& lie : lies) {
    start();
    std::vector<Outcome> outcomes;
    call(Session(txn_worker(0)), words_of("u", key_at(enemy_id_)), &outcomes);
    steps(20);
    ASSERT_EQ(heard_.size(), 1U);
    EXPECT_EQ(heard_[0].kind, Kind::kShip);
    EXPECT_TRUE(outcomes.empty());
    ShippedReply reply{};
    reply.sequence = static_cast<uint32_t>(load<uint64_t>(heard_[0].body.data()) & CommitRequest::kSequenceMax);
    reply.holds = 1;
    reply.writes = 1;
    lie(reply);
    std::vector<std::byte> bytes;
    append(&bytes, reply);
    send(NodeId(0), Kind::kShipped, static_cast<uint8_t>(heard_[0].tag), bytes);
    EXPECT_TRUE(closed(0));
    ASSERT_EQ(outcomes.size(), 1U);
    EXPECT_EQ(outcomes[0].kind, OutcomeKind::kUnknown) << outcomes[0].text();
    EXPECT_EQ(outcomes[0].code, Code::kPeerLost);
    expect_alive();
  }
}

// The caller has locked x to write it, and r only because it reads it. What its executor logs there must be these
// locks'.
TEST_F(ShipHostile, LogsAtTheCallerOfWhatItHasNotLocked) {
  start();
  const uint64_t x = key_at(NodeId(0)), r = key_at(NodeId(0), 1), y = key_at(enemy_id_), third = key_at(NodeId(2));
  const std::string arguments = words_of("u", x) + " " + words_of("r", r) + " " + words_of("u", y);
  struct Log {
    const char* what;
    uint64_t key;
    KeyPart part;
    bool twice = false;
  };
  KeyPart erase = put_of(0, 1);
  erase.write = static_cast<uint8_t>(Write::kErase);
  erase.flags = 0;
  erase.value_bytes = 0;
  const Log logs[] = {
      {"a key that is only read", r, put_of(1, 1)},
      {"a key of the caller that it has not shipped", key_at(NodeId(0), 2), put_of(3, 1)},
      {"a key by the index of another", x, put_of(1, 1)},
      {"the executor's key by the index of one that is read", y, put_of(1, 1)},
      {"a key of a third node", third, put_of(3, 1)},
      {"a version that does not follow", x, put_of(0, 7)},
      {"a key twice", x, put_of(0, 1), true},
      {"an erase, whose lock is not enough", x, erase},
  };
  for (const Log& log : logs) {
    SCOPED_TRACE(log.what);
    std::vector<Outcome> outcomes;
    ShippedReply reply = let_ship(arguments, &outcomes);
    reply.writes = reply.keys = log.twice ? 2 : 1;
    CommitRequest request{};
    request.sequence = reply.sequence;
    request.writes = reply.writes;
    std::vector<std::byte> keys = request_bytes(request);
    const uint64_t value = 5;
    for (int i = 0; i < reply.keys; ++i) {
      append_key(keys, log.part, as_bytes_of(log.key), log.part.value_bytes != 0 ? as_bytes_of(value) : ByteView());
    }
    answer_ship(reply, keys);
    EXPECT_TRUE(closed(0));
    ASSERT_EQ(outcomes.size(), 1U);
    EXPECT_EQ(outcomes[0].kind, OutcomeKind::kUnknown) << outcomes[0].text();
    expect_alive();
  }
}

TEST_F(ShipHostile, AnswersThatNameWhoHasNoPart) {
  start();
  const std::string arguments = words_of("u", key_at(enemy_id_));
  for (const NodeId who : {NodeId(0), enemy_id_}) {
    std::vector<Outcome> outcomes;
    ShippedReply reply = let_ship(arguments, &outcomes);
    reply.logged = NodeSet::of(who);
    answer_ship(reply);
    EXPECT_TRUE(closed(0)) << int{who.value};
    ASSERT_EQ(outcomes.size(), 1U);
    EXPECT_EQ(outcomes[0].kind, OutcomeKind::kUnknown);
    expect_alive();
  }
}

TEST_F(ShipHostile, TwoAnswers) {
  std::vector<Outcome> outcomes;
  start();
  ShippedReply reply = let_ship(words_of("u", key_at(enemy_id_)), &outcomes);
  reply.logged = NodeSet::of(NodeId(2));  // who is never asked, so it stays open
  answer_ship(reply);
  EXPECT_FALSE(closed(0));
  EXPECT_TRUE(outcomes.empty());
  answer_ship(reply);
  EXPECT_TRUE(closed(0));
  expect_alive();
  clock_.now += Limits().answer_ms * uint64_t{1'000'000};
  steps(5);
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(outcomes[0].kind, OutcomeKind::kUnknown) << outcomes[0].text();
  EXPECT_EQ(outcomes[0].silent, uint64_t{1} << 2) << "the executor has answered";
}

// An executor must not acknowledge, and not refuse, but by its answer.
TEST_F(ShipHostile, OtherAnswersOfTheExecutor) {
  start();
  const std::string arguments = words_of("u", key_at(enemy_id_));
  std::vector<Outcome> outcomes;
  const ShippedReply shipped = let_ship(arguments, &outcomes);
  const auto slot = static_cast<uint8_t>(heard_.front().tag);
  std::vector<std::byte> ack;
  append(&ack, PhaseAck{slot, static_cast<uint8_t>(Phase::kReplicate), static_cast<uint16_t>(shipped.sequence)});
  append(&ack, PhaseAck{slot, static_cast<uint8_t>(Phase::kUnlock), static_cast<uint16_t>(shipped.sequence)});
  send(NodeId(0), Kind::kAck, 0, ack);
  EXPECT_FALSE(closed(0)) << "it may be an old one";
  EXPECT_TRUE(outcomes.empty());
  PhaseReply refusal{};
  refusal.sequence = shipped.sequence;
  refusal.phase = static_cast<uint8_t>(Phase::kReplicate);
  refusal.code = static_cast<uint8_t>(Code::kLocked);
  std::vector<std::byte> bytes;
  append(&bytes, refusal);
  send(NodeId(0), Kind::kReply, slot, bytes);
  EXPECT_TRUE(closed(0));
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(outcomes[0].kind, OutcomeKind::kUnknown) << outcomes[0].text();
  expect_alive();
}

// Node 0 has shipped to node 2; the enemy has no part in it.
TEST_F(ShipHostile, AnswersOfWhoWasNotAsked) {
  start();
  std::vector<Outcome> outcomes;
  call(Session(txn_worker(0)), words_of("u", key_at(NodeId(2))), &outcomes);
  step(0);
  uint32_t slot = 0, sequence = 0;
  txn_worker(0)->slots().for_each([&](const TxnSlot& open) {
    EXPECT_FALSE(open.executor.empty());
    slot = open.index;
    sequence = static_cast<uint32_t>(open.sequence);
  });
  std::vector<std::byte> ack;
  append(&ack, PhaseAck{static_cast<uint8_t>(slot), static_cast<uint8_t>(Phase::kReplicate),
                        static_cast<uint16_t>(sequence)});
  std::memcpy(enemy_->reserve(NodeId(0), Flow::kCommit, static_cast<uint8_t>(Kind::kAck), ack.size()), ack.data(),
              ack.size());
  PhaseReply refusal{};
  refusal.sequence = sequence;
  refusal.phase = static_cast<uint8_t>(Phase::kReplicate);
  refusal.code = static_cast<uint8_t>(Code::kLocked);
  store(enemy_->reserve(NodeId(0), Flow::kCommit, static_cast<uint8_t>(Kind::kReply), sizeof refusal, slot), refusal);
  enemy_->flush();
  for (int i = 0; i < 5; ++i) step(0);
  EXPECT_TRUE(outcomes.empty()) << "it waits for the executor";
  EXPECT_FALSE(closed(0));
  ShippedReply reply{};
  reply.sequence = sequence;
  store(enemy_->reserve(NodeId(0), Flow::kCommit, static_cast<uint8_t>(Kind::kShipped), sizeof reply, slot), reply);
  enemy_->flush();
  for (int i = 0; i < 5; ++i) step(0);
  EXPECT_TRUE(closed(0)) << "only an executor answers so";
  steps(60);
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_TRUE(outcomes[0].committed()) << outcomes[0].text();
}

// Where views do not change, nobody removes a backup that is lost: then the outcome is not known.
TEST_F(ShipHostile, ABackupThatIsLostWhileTheExecutorRuns) {
  std::vector<Outcome> outcomes;
  start();
  ShippedReply reply = let_ship(words_of("u", key_at(enemy_id_)), &outcomes);
  txn_worker(0)->context().faults.report(NodeId(2), "lost");
  for (int i = 0; i < 5; ++i) step(0);
  EXPECT_TRUE(outcomes.empty()) << "its executor has not answered";
  reply.logged = NodeSet::of(NodeId(2));
  answer_ship(reply);
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(outcomes[0].kind, OutcomeKind::kUnknown) << outcomes[0].text();
  EXPECT_EQ(outcomes[0].code, Code::kPeerLost);
  EXPECT_EQ(outcomes[0].silent, uint64_t{1} << 2);
}

}  // namespace
}  // namespace weft
