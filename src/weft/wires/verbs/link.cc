#include "weft/wires/verbs/link.h"

#include <utility>

#include "weft/base/bytes.h"

namespace weft {

Result<std::unique_ptr<VerbsLink>> VerbsLink::create(VerbsShared* shared, NodeId peer, uint64_t connection,
                                                     const VerbsMemory& memory) {
  auto packets = VerbsPackets::create(shared->nic, *shared->cq, peer, shared->generation(), memory.base(), memory.key(),
                                      shared->sequence());
  if (!packets) return packets.error();
  return std::unique_ptr<VerbsLink>(new VerbsLink(shared, peer, connection, std::move(*packets)));
}

VerbsLink::VerbsLink(VerbsShared* shared, NodeId peer, uint64_t connection, std::unique_ptr<VerbsPackets> packets)
    : shared_(shared), peer_(peer), connection_(connection), packets_(std::move(packets)) {
  for (const Domain domain : kAllDomains) {
    posted_.emplace_back(peer, domain, &shared->windows[peer.value][index_of(domain)], &shared->completions.of(domain),
                         &shared->counters);
  }
}

VerbsLink::~VerbsLink() { shared_->close(peer_); }

bool VerbsLink::broken(const Error& error, TcpFault* fault) const {
  fault->set("%.180s", error.detail.c_str());
  return false;
}

bool VerbsLink::send(ByteView packet) {
  TcpFault fault;  // if it cannot be announced the next step() fails again, and reports it
  return up() && announce(&fault) && packets_->send(packet);
}

bool VerbsLink::step(TcpWire& tcp, TcpFault* fault) {
  if (!send_setup(tcp) || !up()) return true;
  if (!announce(fault) && fault->text[0] != '\0') return false;
  if (answers_waiting_ != 0) send_answers();
  for (const Domain domain : kAllDomains) {
    if (!ask(domain, fault)) return false;
  }
  if (const int error = packets_->post(); error != 0) {
    fault->set("%.100s: sends are not taken: %s", shared_->nic.name().c_str(), tcp_error_text(error));
    return false;
  }
  return true;
}

// False if there was no room.
bool VerbsLink::send_setup(TcpWire& tcp) {
  VerbsMessage message;
  if (!hello_sent_) {
    message.kind = VerbsMessageKind::kHello;
    message.address = packets_->address();
    hello_sent_ = tcp.send(peer_, Flow::kControl, as_bytes(verbs_encode(message)));
  }
  if (hello_sent_ && hello_received_ && !ready_sent_) {
    message = VerbsMessage();
    message.kind = VerbsMessageKind::kReady;
    ready_sent_ = tcp.send(peer_, Flow::kControl, as_bytes(verbs_encode(message)));
  }
  return hello_sent_;
}

// False if there is no room now, or with a fault.
bool VerbsLink::announce(TcpFault* fault) {
  const uint64_t changes = shared_->regions == nullptr ? 0 : shared_->regions->changes();
  const bool all_regions = !granted_ || regions_announced_ >= shared_->registered->added();
  if (changes == announced_changes_ && all_regions) [[likely]]
    return true;
  granted_ = false;
  for (const Domain domain : kAllDomains) granted_ |= shared_->grant_to(peer_, domain) != 0;
  if (granted_ && !announce_regions(fault)) return false;
  for (const Domain domain : kAllDomains) {
    if (!announce_grant(domain)) return false;
  }
  announced_changes_ = changes;
  return true;
}

bool VerbsLink::announce_grant(Domain domain) {
  std::optional<uint32_t>& announced = announced_[index_of(domain)];
  VerbsMessage message;
  message.kind = VerbsMessageKind::kGrant;
  message.domain = domain;
  message.grant = shared_->grant_to(peer_, domain);
  if (announced == message.grant) return true;
  if (!send_control(message)) return false;
  announced = message.grant;
  return true;
}

void VerbsLink::send_answers() {
  for (std::optional<VerbsMessage>& answer : open_answers_) {
    if (!answer || !send_control(*answer)) continue;
    answer.reset();
    --answers_waiting_;
  }
}

bool VerbsLink::announce_regions(TcpFault* fault) {
  const auto count = shared_->registered->refresh();
  if (!count) return broken(count.error(), fault);
  for (; regions_announced_ < *count; ++regions_announced_) {
    const VerbsRegions::Entry entry = shared_->registered->at(regions_announced_);
    VerbsMessage message;
    message.kind = VerbsMessageKind::kRegion;
    message.region = static_cast<uint16_t>(regions_announced_);
    message.region_base = entry.base;
    message.region_bytes = entry.bytes;
    message.region_key = entry.key;
    if (!send_control(message)) return false;
  }
  return true;
}

bool VerbsLink::ask(Domain domain, TcpFault* fault) {
  VerbsMessage message;
  message.kind = VerbsMessageKind::kAsk;
  message.domain = domain;
  message.grant = posted(domain).wants_queue();
  if (message.grant == 0 || !packets_->has_room()) return true;
  const auto address = posted(domain).ask(shared_->nic, *shared_->cq, shared_->generation(), shared_->sequence());
  if (!address) return broken(address.error(), fault);
  message.address = *address;
  return send_control(message);
}

bool VerbsLink::on_message(ByteView bytes, bool over_tcp, TcpFault* fault) {
  VerbsMessage message;
  if (!verbs_decode(bytes, &message, fault)) return false;
  const bool setup = message.kind == VerbsMessageKind::kHello || message.kind == VerbsMessageKind::kReady;
  if (setup != over_tcp) {
    fault->set("bad verbs message: kind %d where it is not said", static_cast<int>(message.kind));
    return false;
  }
  switch (message.kind) {
    case VerbsMessageKind::kHello:
    case VerbsMessageKind::kReady:
      return on_setup_message(message, fault);
    case VerbsMessageKind::kRegion:
      for (VerbsInitiatorQueue& queue : posted_) {
        queue.set_region(RegionId(message.region), message.region_base, message.region_bytes, message.region_key);
      }
      return true;
    case VerbsMessageKind::kGrant:
      posted(message.domain).set_grant(message.grant);
      return true;
    case VerbsMessageKind::kAsk:
      return answer(message, fault);
    case VerbsMessageKind::kOpen:
      if (const auto opened = posted(message.domain).open(message.asked, message.address); !opened)
        return broken(opened.error(), fault);
      return true;
  }
  return true;
}

bool VerbsLink::on_setup_message(const VerbsMessage& message, TcpFault* fault) {
  const bool hello = message.kind == VerbsMessageKind::kHello;
  if (hello_received_ == hello || ready_received_) {
    fault->set("bad verbs message: %s out of turn", hello ? "a hello" : "ready");
    return false;
  }
  if (!hello) {
    ready_received_ = true;
    return true;
  }
  hello_received_ = true;
  const auto connected = packets_->connect(message.address);
  return connected ? true : broken(connected.error(), fault);
}

bool VerbsLink::answer(const VerbsMessage& ask, TcpFault* fault) {
  std::optional<VerbsMessage>& waiting = open_answers_[index_of(ask.domain)];
  if (waiting) --answers_waiting_;
  waiting.reset();
  if (shared_->regions == nullptr) return true;
  const auto address = shared_->served_to(peer_, ask.domain)
                           .open(shared_->nic, shared_->target_cq, *shared_->regions, peer_, ask.domain, ask.grant,
                                 ask.address, shared_->sequence());
  if (!address) return broken(address.error(), fault);
  if (!*address) return true;  // the message that this grant has ended is on its way
  ++shared_->counters.queues_opened;
  VerbsMessage message;
  message.kind = VerbsMessageKind::kOpen;
  message.domain = ask.domain;
  message.asked = ask.address.number;
  message.address = **address;
  waiting = message;
  ++answers_waiting_;
  return true;
}

}  // namespace weft
