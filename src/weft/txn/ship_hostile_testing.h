// Nodes 0 and 2 are real and run the row hop; node 1 is a bare port that the test controls, and says whatever a hostile
// peer may say about shipped transactions.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/txn/key_part.h"
#include "weft/txn/messages.h"
#include "weft/txn/node_testing.h"
#include "weft/txn/procedure.h"
#include "weft/txn/procedure_testing.h"

namespace weft {

class ShipHostile : public testing::Test, public HandNodes {
 protected:
  void SetUp() override { start(); }

  void start() {
    spec_ = three_nodes();
    spec_.options.protocol = "hop";
    spec_.procedures = {words_procedure()};
    spec_.bugs = bugs_;
    spec_.tables[0].value_bytes_max = value_bytes_max_;
    spec_.options.limits.credit_bytes = credit_bytes_;
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
    std::optional<uint64_t> keys;  // instead of the digest of those that it names
    std::vector<ShippedValue> values;
    size_t more = 0;
  };
  static CommitRequest request_with(uint64_t sequence, int flags) {
    CommitRequest request{};
    request.sequence = sequence;
    request.flags = static_cast<uint8_t>(flags);
    request.participants = NodeSet::from_bits(7);
    return request;
  }
  void unlock(uint64_t sequence, int flags) {
    const CommitRequest request = request_with(sequence, flags);
    send(NodeId(2), Kind::kUnlock, request.tag(spec_.options.nodes), request_bytes(request));
  }
  // As its receiver computes it.
  uint64_t digest_of(const std::string& arguments) {
    const auto slot = std::make_unique<TxnSlot>();
    clear(*slot);
    slot->stage = TxnStage::kExecuting;
    ProcedureKeys keys(txn_worker(2)->keys(), *slot);
    keys.collect(spec_.procedures[0], arguments);
    return keys.digest();
  }
  void ship(const Ship& what, uint64_t sequence = 1) {
    CommitRequest request = request_with(sequence, 0);
    request.slot = what.slot;
    std::vector<std::byte> body = request_bytes(request);
    append(&body, ShipHeader{what.keys.value_or(digest_of(what.arguments)), what.procedure,
                             static_cast<uint16_t>(what.values.size()), what.argument_bytes, what.waits});
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
  // Of a key with a value of 8 bytes.
  static KeyPart put_of(uint16_t index, uint64_t version) {
    KeyPart part{};
    part.version = version;
    part.index = index;
    part.key_bytes = part.value_bytes = 8;
    part.write = static_cast<uint8_t>(Write::kPut);
    part.flags = kHasValue;
    return part;
  }
  static ByteView as_bytes_of(const uint64_t& word) { return {reinterpret_cast<const std::byte*>(&word), sizeof word}; }
  // Node 0 calls a procedure that goes to the enemy. Returns the answer that it may give.
  ShippedReply let_ship(const std::string& arguments, std::vector<Outcome>* outcomes) {
    start();
    call(Session(txn_worker(0)), arguments, outcomes);
    steps(20);
    EXPECT_EQ(heard_.size(), 1U);
    EXPECT_EQ(heard_.back().kind, Kind::kShip);
    EXPECT_TRUE(outcomes->empty());
    ShippedReply reply{};
    reply.sequence = static_cast<uint32_t>(load<uint64_t>(heard_.back().body.data()) & CommitRequest::kSequenceMax);
    reply.holds = 1;
    reply.writes = 1;
    return reply;
  }
  void answer_ship(const ShippedReply& reply, const std::vector<std::byte>& keys = {}) {
    std::vector<std::byte> bytes;
    append(&bytes, reply);
    bytes.insert(bytes.end(), keys.begin(), keys.end());
    send(NodeId(0), Kind::kShipped, static_cast<uint8_t>(heard_.front().tag), bytes);
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

  PlantedBugs bugs_;
  uint32_t value_bytes_max_ = 16;
  uint32_t credit_bytes_ = Limits().credit_bytes;
  struct Heard {
    NodeId from;
    Kind kind;
    uint32_t tag;
    std::vector<std::byte> body;
  };
  std::vector<Heard> heard_;
};

inline std::string words_of(const char* what, uint64_t key) { return what + std::to_string(key); }

}  // namespace weft
