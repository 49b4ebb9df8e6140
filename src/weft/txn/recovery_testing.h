// For tests of recovery's parts: a host that keeps what they send and fakes how full its queues are, and messages as
// the other side writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/bytes.h"
#include "weft/txn/key_part.h"
#include "weft/txn/recovery_types.h"

namespace weft {

struct FakeRecoveryHost final : RecoveryHost {
  struct Sent {
    NodeId to;
    RecoveryHeader header;
    std::vector<std::byte> keys;
    RecoveryStep step() const { return static_cast<RecoveryStep>(header.step); }
    Ending ending() const { return static_cast<Ending>(header.ending); }
    RecoveryId txn() const { return {NodeId(header.coordinator), header.incarnation, header.slot, header.sequence()}; }
  };

  void send(NodeId to, const RecoveryHeader& header, ByteView keys) override {
    sent.push_back({to, header, {keys.begin(), keys.end()}});
    if (room != 0 && --room == 0) full = to;
  }
  size_t queued_bytes(NodeId to) const override { return to == full ? queued : 0; }
  void arrive() override { ++arrivals; }
  bool all_arrived() const override { return others_arrived; }
  void on_leader_step(TxnObserver::Recovered step, NodeSet members) override { steps.emplace_back(step, members); }

  std::vector<Sent> take() { return std::exchange(sent, {}); }

  std::vector<Sent> sent;
  NodeId full{kNodesMax};  // the node whose queue has `queued` bytes
  size_t queued = 0;
  int room = 0;  // after this many messages, the queue of the last one's receiver is full
  int arrivals = 0;
  bool others_arrived = true;
  std::vector<std::pair<TxnObserver::Recovered, NodeSet>> steps;
};

// The nodes that a message of this step was sent to.
inline std::vector<uint8_t> nodes_with(const std::vector<FakeRecoveryHost::Sent>& sent, RecoveryStep step) {
  std::vector<uint8_t> nodes;
  for (const auto& s : sent) {
    if (s.step() == step) nodes.push_back(s.to.value);
  }
  return nodes;
}

inline void PrintTo(const RecoveryId& id, std::ostream* out) {
  *out << "coordinator " << int{id.coordinator.value} << " incarnation " << id.incarnation << " slot " << int{id.slot}
       << " sequence " << id.sequence;
}

// A message about a transaction.
inline RecoveryHeader recovery_header(RecoveryStep step, Epoch epoch, const RecoveryId& txn,
                                      Ending ending = Ending::kOpen) {
  RecoveryHeader header = recovery_header(step, epoch);
  header.coordinator = txn.coordinator.value;
  header.incarnation = txn.incarnation;
  header.slot = txn.slot;
  header.set_sequence(txn.sequence);
  header.ending = static_cast<uint8_t>(ending);
  return header;
}
// The leader's decision of a transaction, first made in this epoch.
inline RecoveryHeader recovery_decision(Epoch epoch, const RecoveryId& txn, Ending ending, uint16_t keys = 0) {
  RecoveryHeader header = recovery_header(RecoveryStep::kDecide, epoch, txn, ending);
  header.decided_epoch = epoch.value;
  header.keys = keys;
  return header;
}

// One key as recovery messages carry it. Without a value: kErase, or a key that only says what was locked.
inline void add_recovery_key(std::vector<std::byte>& to, uint16_t index, uint64_t key, Write write, uint64_t version,
                             std::string_view value, bool has_value = true) {
  KeyPart part{};
  part.version = version;
  part.value_bytes = static_cast<uint32_t>(value.size());
  part.key_bytes = sizeof key;
  part.write = static_cast<uint8_t>(write);
  part.index = index;
  const bool with_value = has_value && write != Write::kErase;
  if (with_value) part.flags = kHasValue;
  append_key(to, part, {reinterpret_cast<const std::byte*>(&key), sizeof key},
             with_value ? as_bytes(value) : ByteView());
}

// The body of a message with one key.
inline std::vector<std::byte> recovery_key(uint16_t index, uint64_t key, Write write, uint64_t version,
                                           std::string_view value, bool has_value = true) {
  std::vector<std::byte> out;
  add_recovery_key(out, index, key, write, version, value, has_value);
  return out;
}

inline std::vector<KeyPartView> recovery_keys(const FakeRecoveryHost::Sent& sent) {
  std::vector<KeyPartView> out;
  const std::byte* at = sent.keys.data();
  for (KeyPartView in; out.size() < sent.header.keys && take_key(&at, sent.keys.data() + sent.keys.size(), &in);) {
    out.push_back(in);
  }
  return out;
}

}  // namespace weft
