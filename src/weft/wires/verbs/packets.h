// VerbsPackets: packets between two workers over one queue pair, by SEND and RECEIVE: the receiver keeps kReceives
// buffers posted, the sender has kSends buffers.
//
// Sending: send() copies into the next buffer and adds to a chain; post() hands the chain to the device with one
// doorbell. One SEND in kSignalEvery is signalled: its completion frees the buffers of all before it. Small packets are
// sent inline, so that the device does not read the buffer.
//
// Back-pressure: a receiver without a free buffer makes the sender's device wait and retry (RNR), the sender's buffers
// fill up, and send() returns false.
//
// Control messages (handshake.h) are sent between the packets and in order with them. They are marked by immediate
// data.
//
// Only the worker that owns the connection uses it.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "weft/base/bytes.h"
#include "weft/fabric/wire.h"
#include "weft/status.h"
#include "weft/types.h"
#include "weft/wires/verbs/qp.h"

namespace weft {

// The id of a work request, by which its completion is matched.
enum class VerbsWork : uint8_t { kSend = 1, kReceive = 2, kVerb = 3 };
struct VerbsTag {
  VerbsWork work;
  Domain domain;  // of a verb
  NodeId peer;
  uint16_t generation;  // of the queue pair: completions that an earlier one left are ignored
  uint32_t index;

  uint64_t pack() const {
    return uint64_t{static_cast<uint8_t>(domain)} << 60 | uint64_t{static_cast<uint8_t>(work)} << 56 |
           uint64_t{peer.value} << 48 | uint64_t{generation} << 32 | index;
  }
  static VerbsTag unpack(uint64_t id) {
    return {static_cast<VerbsWork>(id >> 56 & 0xf), static_cast<Domain>(id >> 60),
            NodeId(static_cast<uint8_t>(id >> 48)), static_cast<uint16_t>(id >> 32), static_cast<uint32_t>(id)};
  }
};

class VerbsPackets {
 public:
  static constexpr size_t kSends = 64;
  static constexpr size_t kReceives = 64;
  static constexpr size_t kSignalEvery = kSends / 4;
  static constexpr uint32_t kInlineBytes = 256;
  static constexpr size_t kMemoryBytes = (kSends + kReceives) * kPacketBytesMax;

  // `memory` has kMemoryBytes and outlives it. All receives are posted.
  static Result<std::unique_ptr<VerbsPackets>> create(const VerbsNic& nic, const VerbsCq& cq, NodeId peer,
                                                      uint16_t generation, std::byte* memory, uint32_t key,
                                                      uint32_t sequence);

  QpAddress address() const { return qp_->address(); }
  Result<void> connect(const QpAddress& peer) { return qp_->connect(peer, true); }
  uint16_t generation() const { return generation_; }

  // False if no buffer is free.
  bool send(ByteView packet) { return add(packet, IBV_WR_SEND); }
  bool send_control(ByteView message) { return add(message, IBV_WR_SEND_WITH_IMM); }
  bool has_room() const { return made_ - done_ != kSends; }
  bool waiting() const { return first_ != nullptr; }
  // Posts what send() and send_control() have gathered; returns 0 or an errno.
  int post();
  // The SEND with this index and all before it are complete.
  void sent(uint32_t index) { done_ = index + 1; }

  // The bytes of the RECEIVE with this index. Valid until give_back().
  ByteView received(uint32_t index, uint32_t bytes) const { return {receive_buffer(index), bytes}; }
  static bool is_control(const ibv_wc& wc) { return (wc.wc_flags & IBV_WC_WITH_IMM) != 0; }
  // Returns a buffer; the next repost() posts it again and returns 0 or an errno.
  void give_back(uint32_t index);
  int repost();

 private:
  VerbsPackets(std::unique_ptr<VerbsQp> qp, NodeId peer, uint16_t generation, std::byte* memory, uint32_t key);
  bool add(ByteView bytes, ibv_wr_opcode opcode);
  std::byte* send_buffer(uint32_t index) const { return memory_ + index % kSends * kPacketBytesMax; }
  std::byte* receive_buffer(uint32_t index) const { return memory_ + (kSends + index) * kPacketBytesMax; }

  const std::unique_ptr<VerbsQp> qp_;
  const NodeId peer_;
  const uint16_t generation_;
  std::byte* const memory_;
  const uint32_t key_;

  uint32_t made_ = 0;  // SENDs
  uint32_t done_ = 0;
  ibv_send_wr* first_ = nullptr;  // of the chain that waits for post()
  ibv_send_wr* last_ = nullptr;
  ibv_recv_wr* first_back_ = nullptr;
  std::array<ibv_send_wr, kSends> sends_{};
  std::array<ibv_sge, kSends> send_parts_{};
  std::array<ibv_recv_wr, kReceives> receives_{};
  std::array<ibv_sge, kReceives> receive_parts_{};
};

}  // namespace weft
