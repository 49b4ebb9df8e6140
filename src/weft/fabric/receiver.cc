#include "weft/fabric/receiver.h"

#include <algorithm>
#include <cstring>

#include "weft/base/check.h"
#include "weft/base/inline.h"

namespace weft {
namespace {

// The loopback share, the wire's share less one, and one packet of empty messages on top.
constexpr size_t kGatherMax = 2 * Receiver::kBurstMessages + kPacketBytesMax / sizeof(MessageHeader);

}  // namespace

Receiver::Receiver(const PortOptions& options, Wire* wire, CostModel* cost_model, PortCounters* counters,
                   Sender* sender)
    : self_(options.self),
      worker_(options.worker),
      nodes_(static_cast<size_t>(options.nodes)),
      message_bytes_max_(options.message_bytes_max),
      held_bytes_max_(options.queued_bytes_max),
      wire_(wire),
      cost_model_(cost_model),
      counters_(counters),
      sender_(sender) {
  const size_t channels = nodes_ * kFlows;
  const size_t buffer = align_up(message_bytes_max_, 4096);
  const size_t held = align_up(held_bytes_max_ + held_bytes_max_ / 2 + 2 * kPacketBytesMax, 4096);
  memory_ = Mapping::or_throw(channels * (buffer + held));
  channels_ = std::make_unique<Channel[]>(channels);
  for (size_t c = 0; c < channels; ++c) {
    std::byte* const at = memory_.base() + c * (buffer + held);
    channels_[c].buffer = at;
    channels_[c].held.set_up(at + buffer, held);
  }
  held_bytes_.resize(nodes_);
  messages_ = std::make_unique<Message[]>(kGatherMax);
}

void Receiver::set_bad_peer(BadPeer hook, void* context) {
  bad_peer_ = hook;
  bad_peer_context_ = context;
}

size_t Receiver::gather() {
  count_ = 0;
  gather_loopback();
  const size_t own = count_;
  gather_held();
  if (count_ - own < kBurstMessages) gather_wire();
  counters_->messages_received += count_ - own;
  // A loopback message is charged once, here; one over the wire at both ends.
  if (cost_model_ != nullptr && count_ != 0) cost_model_->charge(CostStep::kMessage, count_);
  return count_;
}

void Receiver::finish() {
  ++burst_;
  for (size_t flow = 0; flow < kFlows; ++flow) {
    for (const NodeId peer : popped_nodes_[flow]) {
      FrameQueue& held = channels_[channel_index(peer, static_cast<Flow>(flow))].held;
      held.release();
      if (held.empty()) held_nodes_[flow].remove(peer);
    }
    popped_nodes_[flow] = {};
  }
  if (packet_count_ != 0 && packet_next_ == packet_count_) {
    packet_next_ = packet_count_ = 0;
    wire_->release();
  }
}

void Receiver::gather_loopback() {
  for (size_t flow = 0; flow < kFlows && count_ < kBurstMessages; ++flow) {
    ByteView& left = loopback_left_[flow];
    if (left.empty()) left = sender_->take_loopback(static_cast<Flow>(flow));
    const bool any_epoch = !bound_to_epoch(static_cast<Flow>(flow));
    while (!left.empty() && count_ < kBurstMessages) {
      const auto header = load<MessageHeader>(left.data());
      size_t head = sizeof header;
      size_t bytes = header.bytes;
      if (header.fragment == kFirst) [[unlikely]] {
        bytes = load<uint64_t>(left.data() + head);
        head += sizeof(uint64_t);
      }
      messages_[count_++] = {self_, static_cast<uint8_t>(header.kind), header.tag, left.subspan(head, bytes),
                             any_epoch};
      left = left.subspan(head + align_up(bytes, 8));
    }
  }
}

void Receiver::gather_held() {
  const size_t end = count_ + kBurstMessages;
  for (size_t flow = 0; flow < kFlows; ++flow) {
    for (const NodeId peer : held_nodes_[flow]) {
      Channel& channel = channels_[channel_index(peer, static_cast<Flow>(flow))];
      while (count_ < end) {
        const ByteView packet = channel.held.front();
        if (packet.empty() || load<PacketHeader>(packet.data()).epoch > epoch_.value) break;
        if (!closed(peer) && must_wait(channel, packet)) break;
        channel.held.pop(packet);
        held_bytes_[peer.value] -= packet.size();
        popped_nodes_[flow].add(peer);
        if (!closed(peer)) open(peer, channel, packet);
      }
    }
  }
}

void Receiver::gather_wire() {
  const size_t end = count_ + kBurstMessages;
  // One fill of packets_ per burst: they are released together at its end.
  if (packet_count_ == 0) packet_count_ = wire_->poll(packets_);
  while (packet_next_ < packet_count_ && count_ < end) {
    if (admit(packets_[packet_next_]) == Verdict::kLater) return;
    ++packet_next_;
  }
}

WEFT_INLINE Receiver::Verdict Receiver::admit(const Packet& packet) {
  WEFT_CHECK(packet.source.value < nodes_ && packet.source != self_, "a wire names the node at its other end");
  if (closed(packet.source) || packet.bytes.data() == nullptr) return Verdict::kTaken;  // or reset since
  if (packet.bytes.size() < sizeof(PacketHeader)) {
    refuse(packet.source, "packet bytes", packet.bytes.size(), "at least", sizeof(PacketHeader));
    return Verdict::kTaken;
  }
  const auto header = load<PacketHeader>(packet.bytes.data());
  if (!check_header(packet, header)) return Verdict::kTaken;
  const Flow flow = static_cast<Flow>(header.flow);
  Channel& channel = channels_[channel_index(packet.source, flow)];
  const bool bound = bound_to_epoch(flow);
  const bool hold_it = bound && (header.epoch > epoch_.value || !channel.held.empty());
  if (!hold_it && must_wait(channel, packet.bytes)) return Verdict::kLater;
  ++channel.sequence;
  channel.epoch = header.epoch;
  ++counters_->packets_received;
  if (cost_model_ != nullptr) cost_model_->charge(CostStep::kPacket, 1);
  if (hold_it) {
    hold(packet.source, channel, header, packet.bytes);
  } else {
    open(packet.source, channel, packet.bytes);
  }
  return Verdict::kTaken;
}

WEFT_INLINE bool Receiver::check_header(const Packet& packet, const PacketHeader& header) {
  const NodeId peer = packet.source;
  const size_t bytes = packet.bytes.size();
  if (bytes > kPacketBytesMax) return refuse(peer, "packet bytes", bytes, "at most", kPacketBytesMax);
  if (header.bytes != bytes) return refuse(peer, "packet bytes in the header", header.bytes, "received", bytes);
  if (bytes % 8 != 0) return refuse(peer, "packet bytes", bytes, "a multiple of", 8);
  const uint64_t misaligned = reinterpret_cast<uintptr_t>(packet.bytes.data()) % 8;
  if (misaligned != 0) return refuse(peer, "packet address modulo 8", misaligned, "must be", 0);
  if (header.flow >= kFlows) return refuse(peer, "flow", header.flow, "below", kFlows);
  if (header.source != peer.value) return refuse(peer, "source", header.source, "must be", peer.value);
  if (header.worker != worker_.value) return refuse(peer, "worker", header.worker, "must be", worker_.value);
  if (header.reserved != 0) return refuse(peer, "reserved byte", header.reserved, "must be", 0);
  const Channel& channel = channels_[channel_index(peer, static_cast<Flow>(header.flow))];
  if (header.sequence != channel.sequence) {
    return refuse(peer, "sequence", header.sequence, "must be", channel.sequence);
  }
  if (header.epoch < channel.epoch) return refuse(peer, "epoch", header.epoch, "not before", channel.epoch);
  return true;
}

// True if the reassembly buffer holds a message of this burst and the packet begins another one.
bool Receiver::must_wait(const Channel& channel, ByteView packet) const {
  if (channel.assembled_in != burst_) [[likely]]
    return false;
  return packet.size() >= sizeof(PacketHeader) + sizeof(MessageHeader) &&
         load<MessageHeader>(packet.data() + sizeof(PacketHeader)).fragment == kFirst;
}

void Receiver::hold(NodeId peer, Channel& channel, const PacketHeader& header, ByteView packet) {
  size_t& held = held_bytes_[peer.value];
  if (held + packet.size() > held_bytes_max_) {
    refuse(peer, "bytes held for a later epoch", held + packet.size(), "at most", held_bytes_max_);
    return;
  }
  WEFT_CHECK(channel.held.push(packet), "the queue has room for held_bytes_max_");
  held += packet.size();
  held_nodes_[header.flow].add(peer);
  ++counters_->held_new_epoch;
}

// For a packet that is next: in order on its channel, of this epoch, an older one or an exempt flow.
void Receiver::open(NodeId peer, Channel& channel, ByteView packet) {
  const auto header = load<PacketHeader>(packet.data());
  if (bound_to_epoch(static_cast<Flow>(header.flow)) && header.epoch < epoch_.value) {
    ++counters_->dropped_old_epoch;
    return;
  }
  take_messages(peer, channel, header, packet);
}

WEFT_INLINE bool Receiver::take_messages(NodeId peer, Channel& channel, const PacketHeader& header, ByteView packet) {
  const bool any_epoch = !bound_to_epoch(static_cast<Flow>(header.flow));
  const std::byte* at = packet.data() + sizeof header;
  const std::byte* const end = packet.data() + packet.size();
  if (at == end) return refuse(peer, "packet bytes", packet.size(), "more than", sizeof header);
  uint32_t begun = 0;
  Message* to = messages_.get() + count_;
  for (bool at_front = true; at != end; at_front = false) {
    const auto message = load<MessageHeader>(at);  // at and end are multiples of 8: at least 8 bytes are left
    at += sizeof message;
    const auto room = static_cast<size_t>(end - at);
    if (message.bytes > room) return refuse(peer, "message bytes", message.bytes, "at most", room);
    if ((kinds_ >> message.kind & 1U) == 0) {
      return refuse(peer, "kind without handler", message.kind, "kinds below", kKindsMax);
    }
    ByteView body(at, message.bytes);
    at += align_up(message.bytes, 8);
    if (message.fragment != kUnfragmented || channel.total != 0) [[unlikely]] {
      const size_t assembled = channel.assembled_in;
      if (!take_fragment(peer, channel, message, body, at_front)) return false;
      if (message.fragment == kFirst) ++begun;
      if (channel.assembled_in == assembled) continue;
      body = {channel.buffer, channel.have};
    } else {
      ++begun;
    }
    *to++ = {peer, static_cast<uint8_t>(message.kind), message.tag, body, any_epoch};
  }
  if (begun != header.count) return refuse(peer, "message count", header.count, "must be", begun);
  count_ = static_cast<size_t>(to - messages_.get());
  return true;
}

bool Receiver::take_fragment(NodeId peer, Channel& channel, const MessageHeader& header, ByteView body, bool at_front) {
  if (header.fragment > kLast) return refuse(peer, "piece", header.fragment, "at most", kLast);
  const bool first = header.fragment == kFirst;
  if (!at_front || header.fragment == kUnfragmented || first != (channel.total == 0)) {
    const uint64_t missing = channel.total == 0 ? 0 : channel.total - channel.have;
    return refuse(peer, "piece out of place", header.fragment, "bytes of a message still missing:", missing);
  }
  if (first) {
    if (body.size() < sizeof(uint64_t)) return refuse(peer, "first piece", body.size(), "at least", sizeof(uint64_t));
    const auto total = load<uint64_t>(body.data());
    if (total == 0 || total > message_bytes_max_) {
      return refuse(peer, "message bytes", total, "at most", message_bytes_max_);
    }
    channel.total = total;
    channel.have = 0;
    channel.kind = static_cast<uint8_t>(header.kind);
    channel.tag = header.tag;
    body = body.subspan(sizeof(uint64_t));
  }
  if (header.kind != channel.kind) return refuse(peer, "kind of a piece", header.kind, "must be", channel.kind);
  if (header.tag != channel.tag) return refuse(peer, "tag of a fragment", header.tag, "must be", channel.tag);
  const uint64_t missing = channel.total - channel.have;
  if (body.size() > missing) return refuse(peer, "bytes of a piece", body.size(), "at most", missing);
  if (!body.empty()) std::memcpy(channel.buffer + channel.have, body.data(), body.size());
  channel.have += body.size();
  if (header.fragment != kLast) return true;
  if (channel.have != channel.total) {
    return refuse(peer, "bytes of all pieces", channel.have, "must be", channel.total);
  }
  channel.total = 0;
  channel.assembled_in = burst_;
  return true;
}

void Receiver::set_epoch(Epoch epoch) {
  epoch_ = epoch;
  for (size_t c = 0; c < nodes_ * kFlows; ++c) {
    // The rest of a message begun in the old epoch will be dropped: its fragments all carry one epoch.
    if (bound_to_epoch(static_cast<Flow>(c % kFlows))) channels_[c].total = 0;
  }
  for (size_t flow = 0; flow < kFlows; ++flow) {
    if (!bound_to_epoch(static_cast<Flow>(flow)) || loopback_left_[flow].empty()) continue;
    counters_->dropped_old_epoch += 1;
    loopback_left_[flow] = {};
  }
}

void Receiver::reset_peer(NodeId peer) {
  closed_nodes_.remove(peer);
  for (size_t flow = 0; flow < kFlows; ++flow) {
    Channel& channel = channels_[channel_index(peer, static_cast<Flow>(flow))];
    for (ByteView packet = channel.held.front(); !packet.empty(); packet = channel.held.front()) {
      channel.held.pop(packet);
    }
    channel.held.release();
    held_nodes_[flow].remove(peer);
    channel.sequence = channel.epoch = 0;
    channel.total = 0;
  }
  held_bytes_[peer.value] = 0;
  for (size_t i = packet_next_; i < packet_count_; ++i) {
    if (packets_[i].source == peer) packets_[i].bytes = {};
  }
}

void Receiver::drop_stale(size_t from) {
  for (size_t i = from; i < count_; ++i) {
    if (!messages_[i].any_epoch) messages_[i].kind = kDropped;
  }
}

bool Receiver::pending() const {
  if (packet_next_ < packet_count_ || wire_->pending()) return true;
  for (const ByteView& left : loopback_left_) {
    if (!left.empty()) return true;
  }
  for (size_t flow = 0; flow < kFlows; ++flow) {
    for (const NodeId peer : held_nodes_[flow]) {
      Channel& channel = channels_[channel_index(peer, static_cast<Flow>(flow))];
      const ByteView packet = channel.held.front();
      if (!packet.empty() && load<PacketHeader>(packet.data()).epoch <= epoch_.value) return true;
    }
  }
  return false;
}

void Receiver::reject(NodeId peer, const Error& error) {
  if (closed(peer)) return;
  closed_nodes_.add(peer);
  sender_->close(peer);
  for (size_t flow = 0; flow < kFlows; ++flow) channels_[channel_index(peer, static_cast<Flow>(flow))].total = 0;
  if (bad_peer_ != nullptr) bad_peer_(bad_peer_context_, peer, error);
}

bool Receiver::refuse(NodeId peer, const char* what, uint64_t value, const char* rule, uint64_t other) {
  reject(peer, Error{Code::kBadPacket, "node " + std::to_string(peer.value) + ": " + what + " " +
                                           std::to_string(value) + ", " + rule + " " + std::to_string(other)});
  return false;
}

}  // namespace weft
