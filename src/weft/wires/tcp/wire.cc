#include "weft/wires/tcp/wire.h"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "weft/base/check.h"

namespace weft {
namespace {

constexpr uint64_t kWakeupEvent = kNodesMax;  // the id of the wake-up eventfd's events; those of a link carry its peer

void ring(int eventfd) {
  const uint64_t one = 1;
  // It can only fail if it was written 2^64 times and never read.
  if (write(eventfd, &one, sizeof one) != sizeof one) return;
}

}  // namespace

TcpWire::TcpWire(NodeId self, size_t completions_max, int reports)
    : self_(self),
      reports_(reports),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wakeup_eventfd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      completions_(std::max<size_t>(completions_max, 1)) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.u64 = kWakeupEvent;
  WEFT_CHECK(epoll_ && wakeup_eventfd_ && epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wakeup_eventfd_.get(), &event) == 0,
             "the process has descriptors for its wires");
}

TcpWire::Slot& TcpWire::slot_of(NodeId peer) {
  WEFT_CHECK(peer != self_ && peer.value < kNodesMax, "a wire goes to the other nodes");
  return slots_[peer.value];
}

TcpLink* TcpWire::usable(const Slot& slot) const {
  if (slot.link == nullptr || !active_.contains(slot.link->peer)) return nullptr;
  return slot.link->dead.load(std::memory_order_relaxed) ? nullptr : slot.link;
}

bool TcpWire::waits_for_connection(const Slot& slot) const {
  const bool has = slot.link != nullptr && slot.link != slot.past && slot.link->incarnation == slot.accepted;
  const bool had = slot.lost == slot.accepted || has;
  return slot.accepted != 0 && !had;
}

bool TcpWire::send(NodeId to, Flow flow, ByteView packet) {
  WEFT_CHECK(!packet.empty() && packet.size() <= kPacketBytesMax, "a packet is at most kPacketBytesMax");
  const Slot& slot = slot_of(to);
  TcpLink* const link = usable(slot);
  if (link == nullptr) {
    const bool wait = waits_for_connection(slot);
    ++(wait ? counters_.packets_refused : counters_.packets_dropped);
    return !wait;
  }
  const size_t bytes = tcp_frame_bytes(packet.size());
  // A packet that follows a grant must not arrive before its announcement.
  if (!link->announce() || !link->output.fits(bytes)) {
    ++counters_.packets_refused;
    return false;
  }
  std::byte* const frame = link->output.prepare(bytes);
  std::memcpy(tcp_put_frame(frame, TcpFrameKind::kPacket, flow, packet.size()), packet.data(), packet.size());
  link->output.commit(bytes);
  ++counters_.packets_sent;
  waiting_.add(to);
  if (link->output.size() >= kEagerBytes && link->writable) write(*link);
  return true;
}

bool TcpWire::post(NodeId to, Domain domain, std::span<const Verb> verbs) {
  TcpLink* const link = usable(slot_of(to));
  if (link == nullptr) {
    Completions& completions = completions_.of(domain);
    if (!completions.reserve(verbs.size())) return false;
    for (const Verb& verb : verbs) completions.add({to, VerbStatus::kFlushed, verb.tag});
  } else {
    if (!link->posted(domain).post(verbs, link->output)) return false;
    if (!link->output.empty()) waiting_.add(to);
    if (link->output.size() >= kEagerBytes && link->writable) write(*link);
  }
  ++counters_.doorbells;
  counters_.verbs += verbs.size();
  return true;
}

void TcpWire::reset(NodeId to, Domain domain) {
  if (TcpLink* const link = slot_of(to).link) link->posted(domain).reset();
}

void TcpWire::accept_incarnation(NodeId peer, uint32_t incarnation) {
  Slot& slot = slot_of(peer);
  if (slot.accepted == incarnation) return;
  slot.accepted = incarnation;
  reconsider_ = true;
  // A newly accepted incarnation is waited for, even if a connection to it was lost before.
  const bool dead = slot.link != nullptr && slot.link->dead.load(std::memory_order_seq_cst);
  slot.past = dead ? slot.link : nullptr;
  slot.lost = 0;
  if (slot.link == nullptr) return;
  if (slot.link->incarnation == incarnation && !dead) {
    activate(peer);
  } else {
    active_.remove(peer);
    ready_.remove(peer);
    slot.link->flush();
  }
}

void TcpWire::activate(NodeId peer) {
  TcpLink& link = *slots_[peer.value].link;
  if (link.lost.load(std::memory_order_relaxed)) return;
  active_.add(peer);
  slots_[peer.value].connection = ++connections_;
  if (link.readable) ready_.add(peer);
}

uint64_t TcpWire::connection(NodeId peer) const {
  const Slot& slot = slots_[peer.value];
  if (slot.link == nullptr || !active_.contains(peer)) return 0;
  return slot.link->dead.load(std::memory_order_seq_cst) ? 0 : slot.connection;
}

bool TcpWire::is_lost(NodeId peer) const {
  const Slot& slot = slots_[peer.value];
  return usable(slot) == nullptr && !waits_for_connection(slot);
}

void TcpWire::give_up(NodeId peer, const TcpFault& fault) {
  if (TcpLink* const link = slot_of(peer).link) fail(*link, fault);
}

size_t TcpWire::poll(std::span<Packet> out) {
  const uint64_t gate = gate_.load(std::memory_order_relaxed);
  gate_.store(gate + 1, std::memory_order_seq_cst);
  take_changes();
  announce_grants();
  write_waiting();
  look();
  size_t count = 0;
  // From first_ on, then from the beginning.
  const NodeSet before = NodeSet::below(first_);
  for (const bool again : {false, true}) {
    const NodeSet part = again ? (ready_ & before) : (ready_ - before);
    for (const NodeId peer : part) {
      if (count == out.size()) break;
      count += serve(*slots_[peer.value].link, out.subspan(count));
      if (count == out.size()) first_ = NodeId(static_cast<uint8_t>((peer.value + 1) % kNodesMax));
    }
  }
  write_waiting();  // the replies to verbs
  counters_.packets_received += count;
  gate_.store(gate + 2, std::memory_order_release);
  return count;
}

void TcpWire::release() { write_waiting(); }

bool TcpWire::pending() const {
  if (!completions_.empty() || !ready_.empty() || has_changes()) return true;
  if (!((waiting_ & active_) - blocked_).empty()) return true;
  // Checks for events that were not fetched yet; fetching them here would consume them.
  pollfd events{epoll_.get(), POLLIN, 0};
  return ::poll(&events, 1, 0) > 0;
}

void TcpWire::look() {
  std::array<epoll_event, kNodesMax + 1> events;
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    if (event.data.u64 == kWakeupEvent) continue;
    const NodeId peer(static_cast<uint8_t>(event.data.u64));
    TcpLink* const link = slots_[peer.value].link;
    if (link == nullptr) continue;
    const bool hung_up = (event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    link->hung_up |= hung_up;
    if ((event.events & EPOLLOUT) != 0 || hung_up) {
      link->writable = true;
      blocked_.remove(peer);
    }
    // TLS may have to write before it can continue to read.
    if ((event.events & EPOLLIN) != 0 || hung_up || link->stream.tls()) link->readable = true;
    if (active_.contains(peer)) {
      if (link->readable) ready_.add(peer);
    } else if (hung_up) {
      TcpFault fault;
      fault.set("the other side closed the connection");
      fail(*link, fault);
    }
  }
}

void TcpWire::announce_grants() {
  for (const NodeId peer : active_) {
    TcpLink& link = *slots_[peer.value].link;
    link.announce();
    if (!link.output.empty()) waiting_.add(peer);
  }
}

void TcpWire::write_waiting() {
  for (const NodeId peer : (waiting_ & active_) - blocked_) write(*slots_[peer.value].link);
}

void TcpWire::write(TcpLink& link) {
  const ByteView bytes = link.output.waiting();
  TcpFault fault;
  const TcpStream::Moved moved = link.stream.write(bytes.data(), bytes.size(), &fault);
  ++counters_.writes;
  counters_.bytes_written += moved.bytes;
  link.output.consume(moved.bytes);
  if (link.output.empty()) waiting_.remove(link.peer);
  if (moved.io == TcpIo::kClosed) {
    fail(link, fault);
  } else if (moved.io == TcpIo::kAgain) {
    link.writable = false;
    blocked_.add(link.peer);
  }
}

bool TcpWire::fill(TcpLink& link) {
  const size_t room = link.input.room();
  const size_t most = link.stream.tls() ? std::min(room, kTlsReadBytes) : room;
  TcpFault fault;
  const TcpStream::Moved moved = link.stream.read(link.input.end(), most, &fault);
  ++counters_.reads;
  counters_.bytes_read += moved.bytes;
  link.input.add(moved.bytes);
  if (moved.io == TcpIo::kClosed) fail(link, fault);
  link.readable = moved.io == TcpIo::kDone || link.hung_up;
  return moved.bytes != 0;
}

// Hands out packets and executes verbs until the buffer holds no complete frame, `out` is full or the link has used its
// share. Keeps the link ready_ if there is more to do.
size_t TcpWire::serve(TcpLink& link, std::span<Packet> out) {
  size_t count = 0;
  size_t verb_work = 0;
  bool filled = false;
  TcpFrame frame;
  TcpFault fault;
  for (;;) {
    const TcpDecoded decoded = tcp_decode(link.input.waiting(), &frame, &fault);
    if (decoded == TcpDecoded::kBad) {
      fail(link, fault);
      return count;
    }
    if (decoded == TcpDecoded::kPartial) {
      if (!link.readable) {
        ready_.remove(link.peer);
        return count;
      }
      // Packets handed out are in the buffer, so nothing in it may be moved now.
      if (filled || (count != 0 && !link.input.has_room())) return count;
      if (count == 0) link.input.make_room();
      filled = true;
      if (fill(link)) continue;
      if (!link.readable) ready_.remove(link.peer);
      return count;
    }
    if (frame.kind == TcpFrameKind::kPacket) {
      if (count == out.size()) return count;
      out[count++] = {link.peer, frame.data};
    } else {
      if (!take_verb(link, frame)) return count;
      verb_work += sizeof(TcpVerbRequest) + frame.data.size() + frame.request.bytes;
    }
    link.input.pop(frame.frame_bytes);
    if (verb_work >= kVerbWorkBytes) return count;
  }
}

bool TcpWire::take_verb(TcpLink& link, const TcpFrame& frame) {
  TcpFault fault;
  bool sound = true;
  if (frame.kind == TcpFrameKind::kRequest) {
    ++counters_.verbs_served;
    const auto domain = static_cast<Domain>(frame.request.domain & ~kTcpReplies);
    sound = link.served(domain).serve(frame, link.output, &fault);
    if (!link.output.empty()) waiting_.add(link.peer);
  } else if (frame.kind == TcpFrameKind::kReply) {
    sound = link.posted(static_cast<Domain>(frame.reply.domain)).take_reply(frame, &fault);
  } else {
    link.posted(static_cast<Domain>(frame.grant.domain)).set_grant(frame.grant.grant);
  }
  if (!sound) fail(link, fault);
  return sound;
}

void TcpWire::take_changes() {
  const uint64_t changes = changes_.load(std::memory_order_seq_cst);
  if (changes == seen_changes_ && !reconsider_) [[likely]]
    return;
  seen_changes_ = changes;
  reconsider_ = false;
  for (size_t n = 0; n < slots_.size(); ++n) {
    const NodeId peer(static_cast<uint8_t>(n));
    Slot& slot = slots_[n];
    if (offered_[n].load(std::memory_order_relaxed) != nullptr) {
      if (TcpLink* const link = offered_[n].exchange(nullptr, std::memory_order_seq_cst)) install(peer, link);
    }
    if (slot.link == nullptr) continue;
    if (slot.link->incarnation < slot.accepted) {
      TcpFault fault;
      fault.set("incarnation %u was admitted instead", slot.accepted);
      fail(*slot.link, fault);
    }
    if (slot.link->lost.load(std::memory_order_relaxed) || slot.link->dead.load(std::memory_order_seq_cst)) {
      let_go(peer);
    }
  }
  reconsider_ = false;
}

void TcpWire::install(NodeId peer, TcpLink* link) {
  Slot& slot = slots_[peer.value];
  if (slot.link != nullptr) let_go(peer);
  slot.link = link;
  if (slot.lost == link->incarnation) slot.lost = 0;
  blocked_.remove(peer);
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = peer.value;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, link->stream.fd(), &event) != 0) {
    TcpFault fault;
    fault.set("epoll_ctl: %s", tcp_error_text(errno));
    fail(*link, fault);
  } else if (link->incarnation == slot.accepted) {
    activate(peer);
  }
}

// The link is not used any more, but packets handed out are in its buffer, so the next poll drops it.
void TcpWire::fail(TcpLink& link, const TcpFault& fault) {
  active_.remove(link.peer);
  ready_.remove(link.peer);
  reconsider_ = true;
  if (link.lost.load(std::memory_order_relaxed)) return;
  link.fault = fault;
  link.lost.store(true, std::memory_order_release);
  report();
}

void TcpWire::let_go(NodeId peer) {
  Slot& slot = slots_[peer.value];
  TcpLink* const link = slot.link;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, link->stream.fd(), nullptr);
  link->flush();
  slot.lost = link == slot.past ? 0 : link->incarnation;
  slot.link = slot.past = nullptr;
  active_.remove(peer);
  ready_.remove(peer);
  waiting_.remove(peer);
  blocked_.remove(peer);
  link->released.store(true, std::memory_order_release);
  report();
}

void TcpWire::report() const { ring(reports_); }

void TcpWire::wake() {
  changes_.fetch_add(1, std::memory_order_seq_cst);
  ring(wakeup_eventfd_.get());
}

void TcpWire::offer(TcpLink* link) {
  TcpLink* const before = offered_[link->peer.value].exchange(link, std::memory_order_seq_cst);
  WEFT_CHECK(before == nullptr, "the link before was withdrawn");
  wake();
}

bool TcpWire::withdraw(TcpLink* link) {
  wake();
  TcpLink* expected = link;
  if (offered_[link->peer.value].compare_exchange_strong(expected, nullptr, std::memory_order_seq_cst)) return true;
  const uint64_t gate = gate_.load(std::memory_order_seq_cst);
  if (gate % 2 == 0) return false;
  while (gate_.load(std::memory_order_seq_cst) == gate) sched_yield();
  return false;
}

}  // namespace weft
