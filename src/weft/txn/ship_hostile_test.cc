// A peer that ships or logs what no correct peer does: it is closed, nothing was locked or written, and the others go
// on.
#include <functional>

#include "weft/txn/piece.h"
#include "weft/txn/ship_hostile_testing.h"

namespace weft {
namespace {

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

// A procedure whose keys are not the same at both nodes is the application's mistake, not the peer's.
TEST_F(ShipHostile, OtherKeysThanHere) {
  Ship other = words(words_of("u", key_at(NodeId(2))));
  other.keys = digest_of(other.arguments) + 1;
  other.values.resize(1);  // of no key, which is not looked at
  ship(other);
  EXPECT_FALSE(closed(2));
  ASSERT_EQ(heard_.size(), 1U);
  EXPECT_EQ(heard_[0].kind, Kind::kShipped);
  EXPECT_EQ(static_cast<Code>(load<ShippedReply>(heard_[0].body.data()).code), Code::kImpure);
  expect_alive();
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
  bool twice = false;
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
    if (twice && !closed(2)) send(NodeId(2), Kind::kReplicateFor, request.tag(spec_.options.nodes), body);
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
  twice = true;
  EXPECT_TRUE(log(0, here)) << "once";
}

// Only nodes of the view coordinate. (A message of another view is dropped with its packet.)
TEST_F(ShipHostile, LogsForWhoIsNoMember) {
  for (const bool removed : {false, true}) {
    spec_ = three_nodes();
    spec_.options.protocol = "hop";
    spec_.procedures = {words_procedure()};
    make_network();
    View view = removed ? *view_without(NodeId(0)) : view_;
    view.epoch = view_.epoch;
    start_node(NodeId(2), view);
    start_enemy();
    uint64_t key = 0;
    for (;; ++key) {
      const auto at = reinterpret_cast<const std::byte*>(&key);
      const HashedKey hashed = nodes_[2]->table(kTable)->hashed({at, sizeof key});
      if (view.placement(hashed.partition).in_sync.contains(NodeId(2))) break;
    }
    CommitRequest request{};
    request.sequence = 5;
    request.writes = 1;
    request.participants = NodeSet::from_bits(7);
    std::vector<std::byte> body;
    append(&body, uint64_t{0});
    const std::vector<std::byte> head = request_bytes(request);
    body.insert(body.end(), head.begin(), head.end());
    append_key(body, put_of(0, 1), as_bytes_of(key), as_bytes_of(key));
    send(NodeId(2), Kind::kReplicateFor, request.tag(spec_.options.nodes), body);
    EXPECT_EQ(closed(2), removed);
    nodes_[2].reset();
  }
}

TEST_F(ShipHostile, ATransactionThatIsOver) {
  ship(words(words_of("u", key_at(NodeId(2)))), 7);
  EXPECT_FALSE(closed(2));
  unlock(7, kCommits);
  ship(words(words_of("u", key_at(NodeId(2)))), 8);
  EXPECT_FALSE(closed(2)) << "the slot's next one";
  unlock(8, 0);
  EXPECT_FALSE(closed(2));
  ship(words(words_of("u", key_at(NodeId(2)))), 7);
  EXPECT_TRUE(closed(2));
}

// What is shipped again before it is unlocked, or whose unlock came in pieces, as only large commits' do.
TEST_F(ShipHostile, ASlotThatIsUsedAgainTooEarly) {
  ship(words(words_of("u", key_at(NodeId(2)))), 7);
  EXPECT_FALSE(closed(2));
  ship(words(words_of("u", key_at(NodeId(2), 1))), 8);
  EXPECT_TRUE(closed(2));
  start();
  ship(words(words_of("u", key_at(NodeId(2)))), 7);
  const CommitRequest request = request_with(7, kCommits | kPiggybackAck);
  std::vector<std::byte> body;
  append(&body, PieceHeader{request.tag(spec_.options.nodes), 8, 0, 0});
  const std::vector<std::byte> head = request_bytes(request);
  body.insert(body.end(), head.begin(), head.end());
  std::byte* at = enemy_->reserve(NodeId(2), kPieceFlow, static_cast<uint8_t>(Kind::kPiece), body.size(),
                                  PieceHeader::piece_tag(0, Kind::kUnlock));
  std::memcpy(at, body.data(), body.size());
  steps(20);
  ship(words(words_of("u", key_at(NodeId(2)))), 8);
  EXPECT_TRUE(closed(2));
  expect_alive();
}

TEST_F(ShipHostile, NoKeysAndTooMany) {
  ship(words(""));
  EXPECT_TRUE(closed(2)) << "no key of the receiver";
  start();
  std::string many;
  const uint64_t key = key_at(NodeId(2));
  for (int i = 0; i <= StoredProcedure::kKeysMax; ++i) many += words_of("r", key) + " ";
  ship(words(many));
  EXPECT_FALSE(closed(2)) << "it may have other limits";
  ASSERT_EQ(heard_.size(), 1U);
  EXPECT_EQ(static_cast<Code>(load<ShippedReply>(heard_[0].body.data()).code), Code::kAskInstead);
  expect_alive();
}

}  // namespace
}  // namespace weft
