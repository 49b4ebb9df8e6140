#include "weft/fabric/sender.h"

#include <algorithm>
#include <cstring>

#include "weft/base/check.h"

namespace weft {
namespace {

// Frames cost 8 bytes each, so a queue of the smallest packets takes 4/3 of their bytes, and the wrap wastes less than
// one packet.
constexpr size_t queue_capacity(size_t bytes) { return align_up(bytes + bytes / 2 + 2 * kPacketBytesMax, 4096); }

}  // namespace

Sender::Sender(const PortOptions& options, Wire* wire, CostModel* cost_model, PortCounters* counters)
    : self_(options.self),
      worker_(options.worker),
      nodes_(static_cast<size_t>(options.nodes)),
      message_bytes_max_(options.message_bytes_max),
      queued_bytes_max_(align_up(options.queued_bytes_max, 8)),
      batching_(options.batching),
      wire_(wire),
      cost_model_(cost_model),
      counters_(counters) {
  WEFT_CHECK(options.nodes >= 1 && options.nodes <= kNodesMax && options.self.value < options.nodes,
             "the caller checks its options");
  const size_t channels = nodes_ * kFlows;
  const size_t opens = align_up(kOpens * sizeof(Open), 4096);
  const size_t staging = align_up(message_bytes_max_, 4096);
  const size_t queue = queue_capacity(queued_bytes_max_);
  // The loopback buffers are staggered by some cache lines, so that their hot beginnings do not share cache sets.
  const size_t own = align_up(queued_bytes_max_, 4096) + 320;
  memory_ = Mapping::or_throw(opens + staging + channels * (kPacketBytesMax + 320 + queue) + 2 * kFlows * own);

  std::byte* at = memory_.base();
  const auto carve = [&at](size_t bytes) {
    std::byte* part = at;
    at += bytes;
    return part;
  };
  open_ = reinterpret_cast<Open*>(carve(opens));
  staging_ = carve(staging);
  waiting_ = std::make_unique<FrameQueue[]>(channels);
  waiting_bytes_.resize(channels);
  for (size_t c = 0; c < channels; ++c) {
    if (node_of(c) == self_) continue;
    open_[c].base = carve(kPacketBytesMax + 320);
    waiting_[c].set_up(carve(queue), queue);
  }
  for (size_t flow = 0; flow < kFlows; ++flow) {
    loopback_buffers_[flow] = {carve(own), carve(own)};
    open_loopback(flow);
  }
}

void Sender::open_loopback(size_t flow) {
  Open& open = open_[channel_index(self_, static_cast<Flow>(flow))];
  open.base = open.next = loopback_buffers_[flow][loopback_active_[flow]];
  open.room = queued_bytes_max_;
  open.count = 0;
}

std::byte* Sender::reserve_slow(NodeId to, Flow flow, uint8_t kind, size_t bytes, uint32_t tag) {
  post_staged();
  WEFT_CHECK(to.value < nodes_, "the destination is a node of this cluster");
  WEFT_CHECK(kind < kKindsMax && bytes <= message_bytes_max_, "the caller keeps message_bytes_max");
  const size_t channel = channel_index(to, flow);
  Open& open = open_[channel];
  if (to == self_) {
    WEFT_CHECK(sizeof(MessageHeader) + sizeof(uint64_t) + bytes <= open.room,
               "loopback messages over queued_bytes_max: take credit");
    return bytes <= kMessageBytesMax ? append(open, kind, bytes, tag) : append_large(open, kind, bytes, tag);
  }
  if (bytes > kUnfragmentedBytesMax) {
    staged_ = {channel, bytes, tag, kind};
    staged_in_packet_ = false;
    has_staged_ = true;
    return staging_;
  }
  if (sizeof(MessageHeader) + bytes > open.room) {
    if (is_open(channel)) post_open(channel);
    open_packet(channel);
  }
  if (!batching_) {
    staged_.channel = channel;
    staged_in_packet_ = has_staged_ = true;
  }
  return append(open, kind, bytes, tag);
}

// To the local node: the size does not fit a header.
std::byte* Sender::append_large(Open& open, uint8_t kind, size_t bytes, uint32_t tag) {
  std::byte* const body = append(open, kind, sizeof(uint64_t) + bytes, tag);
  store(body - sizeof(MessageHeader), header_bits(0, kind, kFirst, tag));
  store(body, uint64_t{bytes});
  return body + sizeof(uint64_t);
}

// Opens a packet with room for a message of that size. Returns false if there is none.
bool Sender::make_room(NodeId to, Flow flow, size_t bytes_max) {
  post_staged();
  WEFT_CHECK(to.value < nodes_, "the destination is a node of this cluster");
  if (to == self_ || !batching_ || bytes_max > kUnfragmentedBytesMax) return false;
  const size_t channel = channel_index(to, flow);
  if (sizeof(MessageHeader) + bytes_max > open_[channel].room) {
    if (is_open(channel)) post_open(channel);
    open_packet(channel);
  }
  return true;
}

void Sender::post_staged_slow() {
  has_staged_ = false;
  if (staged_in_packet_) {
    post_open(staged_.channel);
  } else {
    fragment_staged();
  }
}

void Sender::fragment_staged() {
  const size_t channel = staged_.channel;
  Open& open = open_[channel];
  if (is_open(channel)) post_open(channel);
  size_t done = 0;
  while (done < staged_.bytes) {
    const bool first = done == 0;
    const size_t bytes = std::min(staged_.bytes - done, first ? kFirstBytesMax : kUnfragmentedBytesMax);
    const bool last = done + bytes == staged_.bytes;
    open_packet(channel);
    std::byte* body = append(open, staged_.kind, bytes + (first ? sizeof(uint64_t) : 0), staged_.tag);
    open.count = first ? 1 : 0;
    const Fragment fragment = first ? kFirst : last ? kLast : kMiddle;
    const size_t body_bytes = bytes + (first ? sizeof(uint64_t) : 0);
    store(body - sizeof(MessageHeader), header_bits(body_bytes, staged_.kind, fragment, staged_.tag));
    if (first) {
      store(body, uint64_t{staged_.bytes});
      body += sizeof(uint64_t);
    }
    std::memcpy(body, staging_ + done, bytes);
    done += bytes;
    // Other messages may follow the last fragment in its packet.
    if (!last || !batching_) post_open(channel);
  }
}

void Sender::open_packet(size_t channel) {
  Open& open = open_[channel];
  open.next = open.base + sizeof(PacketHeader);
  open.room = kPacketBytesMax - sizeof(PacketHeader);
  open.count = 0;
  open_nodes_[channel % kFlows].add(node_of(channel));
}

void Sender::close_packet(size_t channel) {
  Open& open = open_[channel];
  open.room = 0;
  open.count = 0;
  open_nodes_[channel % kFlows].remove(node_of(channel));
}

ByteView Sender::seal(size_t channel) {
  Open& open = open_[channel];
  const auto bytes = static_cast<uint16_t>(open.next - open.base);
  store(open.base, PacketHeader{bytes, static_cast<uint16_t>(open.count), static_cast<uint8_t>(flow_of(channel)),
                                self_.value, worker_.value, 0, epoch_.value, open.sequence});
  return {open.base, bytes};
}

// If false, the packet stays open and unsealed. Call it only when nothing waits on this channel.
bool Sender::send_open(size_t channel) {
  const ByteView packet = seal(channel);
  if (!wire_->send(node_of(channel), flow_of(channel), packet)) return false;
  count_sent(packet);
  ++open_[channel].sequence;
  close_packet(channel);
  return true;
}

// Hands the open packet to the wire or to the queue.
void Sender::post_open(size_t channel) {
  const NodeId to = node_of(channel);
  if (closed_nodes_.contains(to)) {
    close_packet(channel);
    return;
  }
  NodeSet& waiting = waiting_nodes_[channel % kFlows];
  if (!waiting.contains(to) && send_open(channel)) return;
  const ByteView packet = seal(channel);
  size_t& queued = waiting_bytes_[channel];
  queued += packet.size();
  WEFT_CHECK(queued <= queued_bytes_max_ && waiting_[channel].push(packet),
             "packets that wait for the wire over queued_bytes_max: take credit before sending");
  waiting.add(to);
  ++open_[channel].sequence;
  close_packet(channel);
}

void Sender::count_sent(ByteView packet) {
  const auto header = load<PacketHeader>(packet.data());
  counters_->packets_sent += 1;
  counters_->messages_sent += header.count;
  counters_->bytes_sent += packet.size();
  if (cost_model_ == nullptr) return;
  cost_model_->charge(CostStep::kPacket, 1);
  if (header.count != 0) cost_model_->charge(CostStep::kMessage, header.count);
}

bool Sender::retry_slow() {
  bool sent = false;
  for (size_t flow = 0; flow < kFlows; ++flow) {
    for (const NodeId to : waiting_nodes_[flow]) {
      const size_t channel = channel_index(to, static_cast<Flow>(flow));
      FrameQueue& queue = waiting_[channel];
      for (ByteView packet = queue.front(); !packet.empty(); packet = queue.front()) {
        if (!wire_->send(to, static_cast<Flow>(flow), packet)) break;
        count_sent(packet);
        waiting_bytes_[channel] -= packet.size();
        queue.pop(packet);
        sent = true;
      }
      queue.release();
      if (queue.empty()) waiting_nodes_[flow].remove(to);
    }
  }
  return sent;
}

bool Sender::flush() {
  post_staged();
  bool sent = retry();
  for (size_t flow = 0; flow < kFlows; ++flow) {
    for (const NodeId to : open_nodes_[flow] - waiting_nodes_[flow]) {
      const size_t channel = channel_index(to, static_cast<Flow>(flow));
      if (closed_nodes_.contains(to)) {
        close_packet(channel);
      } else {
        sent |= send_open(channel);
      }
    }
  }
  return sent;
}

bool Sender::has_open(NodeId to, Flow flow) const {
  if (to == self_) return open_[channel_index(to, flow)].count != 0;
  const auto f = static_cast<size_t>(flow);
  const bool staged = has_staged_ && staged_.channel == channel_index(to, flow);
  return staged || (open_nodes_[f] | waiting_nodes_[f]).contains(to);
}

void Sender::set_epoch(Epoch epoch) {
  post_staged();
  for (size_t flow = 0; flow < kFlows; ++flow) {
    if (!bound_to_epoch(static_cast<Flow>(flow))) continue;
    for (const NodeId to : open_nodes_[flow] | waiting_nodes_[flow]) {
      drop_unsent(channel_index(to, static_cast<Flow>(flow)));
    }
    if (open_[channel_index(self_, static_cast<Flow>(flow))].count != 0) {
      counters_->dropped_old_epoch += 1;
      open_loopback(flow);
    }
  }
  epoch_ = epoch;
}

// Drops what was not sent on this channel: the waiting packets and the open one. Their sequence numbers are reused.
void Sender::drop_unsent(size_t channel) {
  const NodeId to = node_of(channel);
  FrameQueue& queue = waiting_[channel];
  const ByteView first = queue.front();
  if (!first.empty()) open_[channel].sequence = load<PacketHeader>(first.data()).sequence;
  for (ByteView packet = queue.front(); !packet.empty(); packet = queue.front()) {
    waiting_bytes_[channel] -= packet.size();
    counters_->dropped_old_epoch += 1;
    queue.pop(packet);
  }
  queue.release();
  waiting_nodes_[channel % kFlows].remove(to);
  if (!is_open(channel)) return;
  counters_->dropped_old_epoch += 1;
  close_packet(channel);
}

void Sender::close(NodeId peer) {
  post_staged();
  closed_nodes_.add(peer);
  for (size_t flow = 0; flow < kFlows; ++flow) {
    const size_t channel = channel_index(peer, static_cast<Flow>(flow));
    if (is_open(channel)) close_packet(channel);
    FrameQueue& queue = waiting_[channel];
    for (ByteView packet = queue.front(); !packet.empty(); packet = queue.front()) queue.pop(packet);
    queue.release();
    waiting_nodes_[flow].remove(peer);
    waiting_bytes_[channel] = 0;
  }
}

void Sender::reset_peer(NodeId peer) {
  close(peer);
  closed_nodes_.remove(peer);
  for (size_t flow = 0; flow < kFlows; ++flow) open_[channel_index(peer, static_cast<Flow>(flow))].sequence = 0;
}

size_t Sender::queued_bytes(NodeId to, Flow flow) const {
  const size_t channel = channel_index(to, flow);
  if (to != self_) return waiting_bytes_[channel];
  const Open& open = open_[channel];
  return static_cast<size_t>(open.next - open.base);
}

ByteView Sender::swap_loopback(size_t flow) {
  const Open& open = open_[channel_index(self_, static_cast<Flow>(flow))];
  const ByteView filled(open.base, static_cast<size_t>(open.next - open.base));
  loopback_active_[flow] ^= 1;
  open_loopback(flow);
  return filled;
}

bool Sender::loopback_pending() const {
  for (size_t flow = 0; flow < kFlows; ++flow) {
    if (open_[channel_index(self_, static_cast<Flow>(flow))].count != 0) return true;
  }
  return false;
}

}  // namespace weft
