// For tests of the parts that handle peers' commit messages: such messages, as a peer would write them, handed to a
// part without a port in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weft/txn/batch.h"
#include "weft/txn/commit_parser.h"
#include "weft/txn/key_part.h"
#include "weft/txn/log.h"
#include "weft/txn/messages.h"
#include "weft/txn/part_testing.h"

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
  Named named(uint64_t key, Write write, uint8_t index = 0) {
    Named out{key, {}, {}};
    out.part.table = kTable.value;
    out.part.key_bytes = 8;
    out.part.write = static_cast<uint8_t>(write);
    out.part.index = index;
    return out;
  }
  // A key with its value, at this version (of replication).
  Named with_value(uint64_t key, const std::string& value, uint64_t version = 0, uint8_t index = 0,
                   Write write = Write::kPut) {
    Named out = named(key, write, index);
    out.part.version = version;
    out.part.flags = kHasValue;
    out.part.value_bytes = static_cast<uint32_t>(value.size());
    out.value = value;
    return out;
  }
  static CommitRequest request(uint64_t sequence, bool commit = true) {
    CommitRequest out{};
    out.sequence = sequence;
    out.participants = 7;
    out.entries = out.writes = 1;
    out.commit = commit ? 1 : 0;
    return out;
  }
  static std::vector<std::byte> body_of(CommitRequest request, const std::vector<Named>& keys) {
    request.keys = static_cast<uint8_t>(keys.size());
    std::vector<std::byte> body(sizeof request);
    store(body.data(), request);
    for (const Named& one : keys) {
      append_key(body, one.part, {reinterpret_cast<const std::byte*>(&one.key), sizeof one.key}, as_bytes(one.value));
    }
    return body;
  }
  static Message message(Kind kind, uint16_t slot, const std::vector<std::byte>& body, NodeId from = kPeer) {
    return {from, static_cast<uint8_t>(kind), slot, body};
  }

  // Parses a message, as the dispatcher would.
  bool parse(const Message& m) {
    batch_.begin({&m, 1});
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
      default:
        ok = parser_.parse_keys(m, &batch_);
    }
    batch_.add(0, 0, ok);
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
  Owner owner(uint8_t slot, NodeId node = kPeer) const { return {node, kWorker, slot}; }

  PreparedTable records_{kNodes, kSlots, pool_.get()};
  CommitParser parser_{ctx_, records_};
  Batch batch_;
};

}  // namespace weft
