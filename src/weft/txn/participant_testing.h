// For tests of the parts that handle peers' commit messages: such messages, as a peer would write them, handed to a
// part without a port in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/fabric/nodes_testing.h"
#include "weft/store/owner_testing.h"
#include "weft/txn/batch.h"
#include "weft/txn/commit_parser.h"
#include "weft/txn/key_part.h"
#include "weft/txn/messages.h"
#include "weft/txn/outcomes.h"
#include "weft/txn/part_testing.h"
#include "weft/txn/participant.h"
#include "weft/txn/prepared_table.h"

namespace weft {

class CommitPartTest : public PartTest {
 protected:
  static constexpr NodeId kPeer{1};
  static constexpr NodeId kOther{2};
  static constexpr int kSlots = 8;

  using PartTest::PartTest;

  // One key of a commit message.
  struct Named {
    uint64_t key;
    KeyPart part;
    std::string value;
  };
  Named named(uint64_t key, Write write, uint16_t index = 0) {
    Named out{key, {}, {}};
    out.part.table = kTable.value;
    out.part.key_bytes = 8;
    out.part.write = static_cast<uint8_t>(write);
    out.part.index = index;
    return out;
  }
  // A key with its value, at this version (of replication).
  Named with_value(uint64_t key, const std::string& value, uint64_t version = 0, uint16_t index = 0,
                   Write write = Write::kPut) {
    Named out = named(key, write, index);
    out.part.version = version;
    out.part.flags = kHasValue;
    out.part.value_bytes = static_cast<uint32_t>(value.size());
    out.value = value;
    return out;
  }
  static CommitRequest request(uint64_t sequence, bool commit = true, uint8_t flags = 0) {
    CommitRequest out{};
    out.sequence = sequence;
    out.participants = node_set({0, 1, 2});
    out.writes = 1;
    out.flags = static_cast<uint8_t>(flags | (commit ? kCommits : 0));
    return out;
  }
  // The body of a message, and the part of its tag that is not the slot.
  struct Body : std::vector<std::byte> {
    uint32_t tag = 0;
  };
  Body body_of(const CommitRequest& request, const std::vector<Named>& keys) const {
    Body body;
    body.tag = request.tag(ctx_.nodes) & ~0xffU;
    body.resize(CommitRequest::bytes(ctx_.nodes));
    request.put(body.data(), ctx_.nodes);
    for (const Named& one : keys) {
      append_key(body, one.part, {reinterpret_cast<const std::byte*>(&one.key), sizeof one.key}, as_bytes(one.value));
    }
    return body;
  }
  static Message message(Kind kind, uint32_t slot, const std::vector<std::byte>& body, NodeId from = kPeer) {
    return {from, static_cast<uint8_t>(kind), slot, body};
  }
  static Message message(Kind kind, uint32_t slot, const Body& body, NodeId from = kPeer) {
    return {from, static_cast<uint8_t>(kind), body.tag | slot, body};
  }

  // Parses a message, as the dispatcher would.
  bool parse(Message&& m) { return parse(m); }
  bool parse(Message& m) {
    batch_.begin();
    bool ok = false;
    switch (static_cast<Kind>(m.kind)) {
      case Kind::kGet:
        ok = parser_.parse_get(m, &batch_);
        break;
      case Kind::kUnlock:
        ok = parser_.parse_unlock(m, &batch_);
        break;
      case Kind::kDone:
        ok = parser_.parse_done(m, &batch_);
        break;
      case Kind::kReplicate:
        ok = parser_.parse_keys<Kind::kReplicate>(m, &batch_);
        break;
      default:
        ok = parser_.parse_keys<Kind::kLock>(m, &batch_);
    }
    batch_.note(m, 0, ok);
    return ok;
  }

  // The peers that were reported since the last call.
  std::vector<NodeId> take_faults() {
    std::vector<NodeId> out;
    while (auto fault = ctx_.faults.take()) out.push_back(fault->peer);
    return out;
  }
  // The answers that peers got.
  std::vector<Received> answers() {
    deliver();
    return take_received();
  }
  Word absence_of(uint64_t key) { return table().absence(hashed(key)); }
  Owner owner(uint8_t slot, NodeId node = kPeer) const { return make_owner(node, kWorker, slot); }

  PreparedTable records_{kNodes, kSlots, pool_.get()};
  CommitParser parser_{ctx_, records_};
  Batch batch_;
};

// A participant, and what a peer says to it.
class ParticipantTest : public CommitPartTest {
 protected:
  using CommitPartTest::CommitPartTest;

  static constexpr uint8_t kSlot = 2;
  using Known = OutcomeLog::Known;

  void handle(Kind kind, const CommitRequest& request, const std::vector<Named>& keys, uint8_t slot = kSlot,
              NodeId from = kPeer) {
    const auto body = body_of(request, keys);
    Message m = message(kind, slot, body, from);
    ASSERT_TRUE(parse(m));
    if (kind == Kind::kLock) participant_.on_lock(batch_, {&m, 1});
    if (kind == Kind::kValidate) participant_.on_validate(batch_, {&m, 1});
    if (kind == Kind::kReplicate) participant_.on_replicate(batch_, {&m, 1});
    if (kind == Kind::kUnlock) participant_.on_unlock(batch_, {&m, 1});
  }
  void log_from_ring(uint64_t sequence, const std::vector<Named>& keys) {
    const auto body = body_of(request(sequence), keys);
    Message m = message(Kind::kReplicate, kSlot, body);
    ASSERT_TRUE(parse(m));
    participant_.take_entry(batch_, m, Participant::Origin::kRing);
  }
  void done(uint64_t sequence, uint8_t slot = kSlot) {
    std::vector<std::byte> body(sizeof(TxnCompleteNotice));
    store(body.data(), TxnCompleteNotice(sequence, slot));
    Message m = message(Kind::kDone, 0, body);
    ASSERT_TRUE(parse(m));
    participant_.on_done(batch_, {&m, 1});
  }
  // The answers that peers got, after this step's acks have left.
  std::vector<Received> answers() {
    participant_.flush();
    return CommitPartTest::answers();
  }
  // The one answer since the last call. An ack is a reply that says nothing else.
  PhaseReply answer(Phase phase) {
    const std::vector<Received> got = answers();
    EXPECT_EQ(got.size(), 1U);
    if (got.size() != 1) return {};
    EXPECT_EQ(got[0].at, kPeer);
    acked_ = got[0].kind == Kind::kAck;
    if (acked_) {
      const std::vector<PhaseAck> acks = got[0].acks();
      EXPECT_EQ(acks.size(), 1U);
      if (acks.size() != 1) return {};
      EXPECT_EQ(acks[0].slot, kSlot);
      EXPECT_EQ(acks[0].phase, static_cast<uint8_t>(phase));
      last_.clear();
      PhaseReply out{};
      out.sequence = acks[0].sequence;
      out.phase = acks[0].phase;
      return out;
    }
    EXPECT_EQ(got[0].kind, Kind::kReply);
    EXPECT_EQ(got[0].tag, kSlot);
    const auto reply = got[0].as<PhaseReply>();
    EXPECT_EQ(reply.phase, static_cast<uint8_t>(phase));
    last_ = got[0].body;
    return reply;
  }
  Code code(Phase phase) { return static_cast<Code>(answer(phase).code); }
  uint64_t version_in_answer(size_t i) const {
    return load<uint64_t>(last_.data() + sizeof(PhaseReply) + i * sizeof(uint64_t));
  }
  PreparedTxn& record() { return records_.at(kPeer, kSlot); }
  Known known(uint64_t sequence) { return outcomes_.find(ctx_.views.incarnation_of(kPeer), sequence); }
  // Locks the key for another transaction.
  void lock_elsewhere(uint64_t key) {
    ASSERT_EQ(table().lock(hashed(key), owner(7, kOther), Write::kPut, std::nullopt, 8).code, Code::kOk);
  }

  OutcomeLog outcomes_{64 << 10};
  Participant participant_{ctx_, records_, outcomes_, true};
  std::vector<std::byte> last_;
  bool acked_ = false;  // the last answer was an ack
};

}  // namespace weft
