#include "weft/wires/verbs/packets.h"

#include <cerrno>
#include <cstring>
#include <utility>

namespace weft {

Result<std::unique_ptr<VerbsPackets>> VerbsPackets::create(const VerbsNic& nic, const VerbsCq& cq, NodeId peer,
                                                           uint16_t generation, std::byte* memory, uint32_t key,
                                                           uint32_t sequence) {
  VerbsQp::Options options;
  options.sends = kSends;
  options.receives = kReceives;
  options.inline_bytes = kInlineBytes;
  options.sequence = sequence;
  auto qp = VerbsQp::create(nic, cq, options);
  if (!qp) return qp.error();
  std::unique_ptr<VerbsPackets> packets(new VerbsPackets(std::move(*qp), peer, generation, memory, key));
  for (uint32_t index = 0; index < kReceives; ++index) packets->give_back(index);
  if (const int error = packets->repost(); error != 0) {
    return Error{Code::kOs, nic.name() + ": receives are not taken: " + strerrordesc_np(error)};
  }
  return packets;
}

VerbsPackets::VerbsPackets(std::unique_ptr<VerbsQp> qp, NodeId peer, uint16_t generation, std::byte* memory,
                           uint32_t key)
    : qp_(std::move(qp)), peer_(peer), generation_(generation), memory_(memory), key_(key) {
  for (uint32_t i = 0; i < kReceives; ++i) {
    receive_parts_[i] = {reinterpret_cast<uint64_t>(receive_buffer(i)), kPacketBytesMax, key_};
    receives_[i].wr_id = VerbsTag{VerbsWork::kReceive, Domain::kEngine, peer_, generation_, i}.pack();
    receives_[i].sg_list = &receive_parts_[i];
    receives_[i].num_sge = 1;
  }
}

bool VerbsPackets::add(ByteView bytes, ibv_wr_opcode opcode) {
  if (!has_room()) return false;
  const uint32_t index = made_++;
  std::memcpy(send_buffer(index), bytes.data(), bytes.size());
  ibv_sge& part = send_parts_[index % kSends];
  part = {reinterpret_cast<uint64_t>(send_buffer(index)), static_cast<uint32_t>(bytes.size()), key_};
  ibv_send_wr& send = sends_[index % kSends];
  send = {};
  send.wr_id = VerbsTag{VerbsWork::kSend, Domain::kEngine, peer_, generation_, index}.pack();
  send.sg_list = &part;
  send.num_sge = 1;
  send.opcode = opcode;
  if (bytes.size() <= qp_->inline_bytes()) send.send_flags |= IBV_SEND_INLINE;
  if (index % kSignalEvery == kSignalEvery - 1) send.send_flags |= IBV_SEND_SIGNALED;
  if (first_ == nullptr) {
    first_ = &send;
  } else {
    last_->next = &send;
  }
  last_ = &send;
  return true;
}

int VerbsPackets::post() {
  ibv_send_wr* const first = std::exchange(first_, nullptr);
  return first == nullptr ? 0 : qp_->post(first);
}

void VerbsPackets::give_back(uint32_t index) {
  receives_[index].next = first_back_;
  first_back_ = &receives_[index];
}

int VerbsPackets::repost() {
  ibv_recv_wr* const first = std::exchange(first_back_, nullptr);
  return first == nullptr ? 0 : qp_->post(first);
}

}  // namespace weft
