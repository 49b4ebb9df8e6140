// For tests of recovery's parts: a host that keeps what they send and fakes how full its queues are.
#pragma once

#include <cstddef>
#include <cstdint>
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
  };

  void send(NodeId to, const RecoveryHeader& header, ByteView keys) override {
    sent.push_back({to, header, {keys.begin(), keys.end()}});
    if (room != 0 && --room == 0) full = to;
  }
  size_t queued_bytes(NodeId to) const override { return to == full ? queued : 0; }
  void arrive() override { ++arrivals; }
  bool all_arrived() const override { return others_arrived; }
  void on_leader_step(TxnObserver::Recovered step, uint64_t members) override { steps.emplace_back(step, members); }

  std::vector<Sent> take() { return std::exchange(sent, {}); }

  std::vector<Sent> sent;
  NodeId full{kNodesMax};  // the node whose queue has `queued` bytes
  size_t queued = 0;
  int room = 0;  // after this many messages, the queue of the last one's receiver is full
  int arrivals = 0;
  bool others_arrived = true;
  std::vector<std::pair<TxnObserver::Recovered, uint64_t>> steps;
};

// One key as recovery messages carry it. Without a value: kErase, or a key that only says what was locked.
inline void add_recovery_key(std::vector<std::byte>& to, uint8_t index, uint64_t key, Write write, uint64_t version,
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

inline std::vector<KeyPartView> recovery_keys(const FakeRecoveryHost::Sent& sent) {
  std::vector<KeyPartView> out;
  const std::byte* at = sent.keys.data();
  for (KeyPartView in; out.size() < sent.header.keys && take_key(&at, sent.keys.data() + sent.keys.size(), &in);) {
    out.push_back(in);
  }
  return out;
}

}  // namespace weft
