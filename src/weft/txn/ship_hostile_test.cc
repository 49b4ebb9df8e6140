// A peer that ships, answers or logs what no correct peer does: it is closed, nothing was locked or written, and the
// others go on. Nodes 0 and 2 are real; node 1 is a bare port that the test controls.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "weft/txn/key_part.h"
#include "weft/txn/messages.h"
#include "weft/txn/node_testing.h"
#include "weft/txn/procedure_testing.h"

namespace weft {
namespace {

class ShipHostile : public testing::Test, public HandNodes {
 protected:
  void SetUp() override { start(); }

  void start() {
    spec_ = three_nodes();
    spec_.options.protocol = "hop";
    spec_.procedures = {words_procedure()};
    make_network();
    for (const uint8_t n : {uint8_t{0}, uint8_t{2}}) start_node(NodeId(n), view_);
    start_enemy();
    heard_.clear();
  }

  void enemy_hears(std::span<const Message> run) override {
    for (const Message& m : run)
      heard_.push_back({m.source, static_cast<Kind>(m.kind), m.tag, {m.body.begin(), m.body.end()}});
  }

  void send(NodeId to, Kind kind, uint32_t tag, const std::vector<std::byte>& body) {
    std::byte* at = enemy_->reserve(to, Flow::kCommit, static_cast<uint8_t>(kind), body.size(), tag);
    std::memcpy(at, body.data(), body.size());
    steps(20);
  }
  static void append(std::vector<std::byte>* to, const auto& what) {
    const size_t at = to->size();
    to->resize(at + sizeof what);
    store(to->data() + at, what);
  }
  std::vector<std::byte> request_bytes(const CommitRequest& request) const {
    std::vector<std::byte> bytes(CommitRequest::bytes(spec_.options.nodes));
    request.put(bytes.data(), spec_.options.nodes);
    return bytes;
  }

  // A kShip of the enemy, and what may be wrong with it.
  struct Ship {
    uint8_t slot = 0;
    uint16_t procedure = 0;
    std::string arguments;
    uint16_t argument_bytes = 0;
    uint16_t waits = 0;
    std::vector<ShippedValue> values;
    size_t more = 0;
  };
  void ship(const Ship& what) {
    CommitRequest request{};
    request.slot = what.slot;
    request.sequence = 1;
    request.participants = NodeSet::from_bits(7);
    std::vector<std::byte> body = request_bytes(request);
    append(&body,
           ShipHeader{what.procedure, static_cast<uint16_t>(what.values.size()), what.argument_bytes, what.waits});
    const size_t at = body.size();
    body.resize(at + padded(what.arguments.size()));
    std::memcpy(body.data() + at, what.arguments.data(), what.arguments.size());
    for (const ShippedValue& value : what.values) append(&body, value);
    body.resize(body.size() + what.more);
    send(NodeId(2), Kind::kShip, request.tag(spec_.options.nodes), body);
  }
  static Ship words(const std::string& arguments) {
    Ship out;
    out.arguments = arguments;
    out.argument_bytes = static_cast<uint16_t>(arguments.size());
    return out;
  }
  bool closed(size_t at) { return txn_worker(at)->context().port.closed(enemy_id_); }
  // The others go on, and nothing is locked.
  void expect_alive() {
    std::vector<Outcome> outcomes;
    put(Session(txn_worker(0)), key_at(NodeId(2)), &outcomes);
    steps(60);
    ASSERT_EQ(outcomes.size(), 1U);
    EXPECT_TRUE(outcomes[0].committed()) << outcomes[0].text();
  }
  DetachedTask call(Session session, std::string arguments, std::vector<Outcome>* outcomes) {
    Task<Outcome> task = session.call(ProcedureId(0), arguments);
    outcomes->push_back(co_await task);
  }

  struct Heard {
    NodeId from;
    Kind kind;
    uint32_t tag;
    std::vector<std::byte> body;
  };
  std::vector<Heard> heard_;
};

std::string words_of(const char* what, uint64_t key) { return what + std::to_string(key); }

TEST_F(ShipHostile, WhatAPeerMayShipIsExecuted) {
  ship(words(words_of("u", key_at(NodeId(2)))));
  EXPECT_FALSE(closed(2));
  ASSERT_EQ(heard_.size(), 2U) << "the answer, and the backup's acknowledgement";
  if (heard_[0].kind != Kind::kShipped) std::swap(heard_[0], heard_[1]);
  EXPECT_EQ(heard_[0].kind, Kind::kShipped);
  EXPECT_EQ(heard_[1].kind, Kind::kAck);
  EXPECT_EQ(heard_[1].from, NodeId(0));
  const auto reply = load<ShippedReply>(heard_[0].body.data());
  EXPECT_EQ(static_cast<Code>(reply.code), Code::kOk);
  EXPECT_EQ(reply.holds, 1);
  EXPECT_EQ(reply.writes, 1);
}

TEST_F(ShipHostile, ShipsThatMakeNoSense) {
  const std::string there = words_of("u", key_at(NodeId(2)));
  const std::string own = words_of("u", key_at(enemy_id_)), third = words_of("u", key_at(NodeId(0)));
  const auto with = [](Ship ship, const std::function<void(Ship&)>& f) {
    f(ship);
    return ship;
  };
  const auto value = [](uint32_t index, uint32_t bytes, uint32_t found, uint64_t version = 1) {
    ShippedValue out{};
    out.version = version;
    out.index = index;
    out.bytes = bytes & 0x7fffffffU;
    out.found = found & 1U;
    return out;
  };
  const struct {
    const char* what;
    Ship ship;
  } wrongs[] = {
      {"a slot that no worker has", with(words(there), [](Ship& s) { s.slot = 250; })},
      {"a procedure that nobody declared", with(words(there), [](Ship& s) { s.procedure = 1; })},
      {"more arguments than bytes", with(words(there), [](Ship& s) { s.argument_bytes = 4000; })},
      {"arguments beyond the limit", with(words(there), [](Ship& s) { s.argument_bytes = UINT16_MAX; })},
      {"something else than whether it waits", with(words(there), [](Ship& s) { s.waits = 2; })},
      {"bytes after the last value", with(words(there), [](Ship& s) { s.more = 8; })},
      {"a value longer than the message", with(words(own), [&](Ship& s) { s.values = {value(0, 64, 1)}; })},
      {"a version of too many bits", with(words(own), [&](Ship& s) { s.values = {value(0, 0, 1, ~uint64_t{0})}; })},
      {"bytes of what is absent", with(words(own), [&](Ship& s) { s.values = {value(0, 8, 0)}, s.more = 8; })},
      {"a value of no key", with(words(there), [&](Ship& s) { s.values = {value(1, 0, 0)}; })},
      {"a value of a key that it does not hold", with(words(there), [&](Ship& s) { s.values = {value(0, 0, 0)}; })},
      {"a value twice", with(words(own),
                             [&](Ship& s) {
                               s.values = {value(0, 0, 0), value(0, 0, 0)};
                             })},
      {"without the value of its own key", words(there + " " + own)},
      {"with a key of a third node", words(there + " " + third)},
      {"no key of the receiver", with(words(own), [&](Ship& s) { s.values = {value(0, 0, 0)}; })},
      {"a value of the last version",
       with(words(there + " " + own), [&](Ship& s) { s.values = {value(1, 0, 0, kVersionMax)}; })},
      {"a value that is too long", with(words(own), [&](Ship& s) { s.values = {value(0, 24, 1)}, s.more = 24; })},
  };
  for (const auto& wrong : wrongs) {
    SCOPED_TRACE(wrong.what);
    start();
    ship(wrong.ship);
    EXPECT_TRUE(closed(2));
    EXPECT_TRUE(heard_.empty());
    ASSERT_NO_FATAL_FAILURE(expect_alive());
  }
}

TEST_F(ShipHostile, TheSameTransactionTwice) {
  ship(words(words_of("u", key_at(NodeId(2)))));
  EXPECT_FALSE(closed(2));
  ship(words(words_of("u", key_at(NodeId(2), 1))));
  EXPECT_TRUE(closed(2));
  start();
  ASSERT_NO_FATAL_FAILURE(expect_alive());
}

TEST_F(ShipHostile, LogsThatMakeNoSense) {
  const auto log = [&](uint64_t coordinator, uint64_t key, uint8_t slot = 0) {
    start();
    CommitRequest request{};
    request.slot = slot;
    request.sequence = 5;
    request.writes = 1;
    request.participants = NodeSet::from_bits(7);
    std::vector<std::byte> body;
    append(&body, coordinator);
    const std::vector<std::byte> head = request_bytes(request);
    body.insert(body.end(), head.begin(), head.end());
    KeyPart part{};
    part.version = 1;
    part.key_bytes = 8;
    part.value_bytes = 8;
    part.write = static_cast<uint8_t>(Write::kPut);
    part.flags = kHasValue;
    append_key(body, part, {reinterpret_cast<const std::byte*>(&key), 8},
               {reinterpret_cast<const std::byte*>(&key), 8});
    send(NodeId(2), Kind::kReplicateFor, request.tag(spec_.options.nodes), body);
    return closed(2);
  };
  const uint64_t here = key_at(NodeId(2));
  // Two replicas of three nodes: the next one is the backup.
  const uint64_t elsewhere = key_at(NodeId(0));
  EXPECT_TRUE(log(99, here)) << "no such node";
  EXPECT_TRUE(log(2, here)) << "the receiver itself";
  EXPECT_TRUE(log(1, here)) << "the sender itself";
  EXPECT_TRUE(log(0, here, 250)) << "no such slot";
  EXPECT_TRUE(log(0, elsewhere)) << "a key of which there is no replica here";
  EXPECT_FALSE(log(0, here)) << "what an executor of node 0 may do";
}

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

}  // namespace
}  // namespace weft
