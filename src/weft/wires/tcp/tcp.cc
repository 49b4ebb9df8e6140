#include "weft/wires/tcp/tcp.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/clock.h"

namespace weft {
namespace {

constexpr uint64_t kRetryFirstNs = 10 * kMillisecondNs;
constexpr uint64_t kNone = 0;  // serials of events: the reports, the listener, then the set-ups
constexpr uint64_t kListener = 1;

bool watch(int epoll, int fd, uint64_t data) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = data;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

Result<std::unique_ptr<TcpInterconnect>> TcpInterconnect::create(const TcpOptions& options, Regions* regions,
                                                                 Clock* clock) {
  if (options.self.value >= kNodesMax) {
    return Error{Code::kBadOption,
                 "node " + std::to_string(options.self.value) + ", must be below " + std::to_string(kNodesMax)};
  }
  if (options.workers < 1 || options.workers > kWorkersMax) {
    return Error{Code::kBadOption,
                 "workers is " + std::to_string(options.workers) + ", must be 1 to " + std::to_string(kWorkersMax)};
  }
  if (options.output_bytes_max < 4 * kPacketBytesMax) {
    return Error{Code::kBadOption, "output_bytes_max is " + std::to_string(options.output_bytes_max) +
                                       ", must be at least " + std::to_string(4 * kPacketBytesMax)};
  }
  if (const auto sayable = tcp_check_params(options.params); !sayable) return sayable.error();
  std::unique_ptr<TcpTls> tls;
  if (options.tls) {
    auto made = TcpTls::create(*options.tls);
    if (!made) return made.error();
    tls = std::move(*made);
  }
  auto listener = tcp_listen(options.listen);
  if (!listener) return listener.error();
  std::unique_ptr<TcpInterconnect> interconnect(
      new TcpInterconnect(options, regions, clock, std::move(*listener), std::move(tls)));
  if (!interconnect->epoll_ || !interconnect->reports_ ||
      !watch(interconnect->epoll_.get(), interconnect->listener_.get(), kListener) ||
      !watch(interconnect->epoll_.get(), interconnect->reports_.get(), kNone)) {
    return Error{Code::kOs, "no descriptor for the control thread's events"};
  }
  return interconnect;
}

TcpInterconnect::TcpInterconnect(const TcpOptions& options, Regions* regions, Clock* clock, Descriptor listener,
                                 std::unique_ptr<TcpTls> tls)
    : options_(options),
      incarnation_(options.incarnation),
      regions_(regions),
      clock_(clock),
      tls_(std::move(tls)),
      listener_(std::move(listener)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      reports_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      address_(tcp_local_address(listener_.get())),
      hosts_(options.resolve),
      callers_(options.resolve) {
  for (int i = 0; i < options.workers; ++i) {
    wires_.push_back(std::make_unique<TcpWire>(options.self, options.completions_max, reports_.get()));
  }
}

TcpInterconnect::~TcpInterconnect() = default;

void TcpInterconnect::set_incarnation(uint32_t incarnation) {
  WEFT_CHECK(std::all_of(members_.begin(), members_.end(), [](const auto& member) { return member == nullptr; }),
             "the incarnation changes while nobody is joined");
  incarnation_ = incarnation;
}

void TcpInterconnect::join(const InterconnectPeer& peer) {
  WEFT_CHECK(peer.node != options_.self && peer.node.value < kNodesMax && incarnation_ != 0,
             "a node joins other nodes, and knows its incarnation");
  if (const Member* const known = member_of(peer.node)) {
    const bool same = known->peer.incarnation == peer.incarnation && known->peer.address == peer.address;
    if (same && known->state != State::kDown) return;
    leave(peer.node);
  }
  auto member = std::make_unique<Member>();
  member->peer = peer;
  member->setups.resize(wires_.size());
  members_[peer.node.value] = std::move(member);
  // Some connections of this peer may be waiting for the join.
  std::vector<uint64_t> waiting;
  for (const auto& [serial, setup] : setups_) {
    if (setup->stage() == TcpSetup::Stage::kWaiting && setup->peer == peer.node) waiting.push_back(serial);
  }
  for (const uint64_t serial : waiting) {
    const auto it = setups_.find(serial);
    if (it != setups_.end()) consider(serial, *it->second);
  }
  retry_connections();
}

void TcpInterconnect::leave(NodeId peer) {
  Member* const member = member_of(peer);
  if (member == nullptr) return;
  for (const uint64_t serial : member->setups) close_setup(serial);
  kill_links(*member);
  members_[peer.value].reset();
}

void TcpInterconnect::control_step() {
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    if (event.data.u64 == kListener) {
      accept_some();
    } else if (event.data.u64 == kNone) {
      uint64_t rung = 0;
      if (read(reports_.get(), &rung, sizeof rung) < 0) continue;
    } else {
      on_setup(event.data.u64, event.events);
    }
  }
  watch_links();
  watch_grants();
  resolve_setups();
  expire_setups();
  retry_connections();
}

void TcpInterconnect::retry_connections() {
  const uint64_t now_ns = clock_->now_ns();
  for (const auto& member : members_) {
    if (member == nullptr || member->state != State::kConnecting || member->peer.node < options_.self) continue;
    if (member->retry_at_ns > now_ns) continue;
    for (size_t w = 0; w < wires_.size(); ++w) {
      if (member->setups[w] == 0) connect(*member, WorkerId(static_cast<uint8_t>(w)));
      // The first connection finds out whether the peer is running and agrees; the others follow.
      const auto it = setups_.find(member->setups[w]);
      if (it == setups_.end() || (w == 0 && it->second->stage() != TcpSetup::Stage::kReady)) break;
    }
  }
}

void TcpInterconnect::back_off(Member& member) {
  member.retry_ns = std::clamp(2 * member.retry_ns, kRetryFirstNs, options_.retry_ms_max * kMillisecondNs);
  member.retry_at_ns = clock_->now_ns() + member.retry_ns;
}

void TcpInterconnect::bring_up_if_complete(Member& member) {
  for (const uint64_t serial : member.setups) {
    const auto it = setups_.find(serial);
    if (it == setups_.end() || it->second->stage() != TcpSetup::Stage::kReady) return;
  }
  member.state = State::kUp;
  member.refused.clear();
  for (size_t w = 0; w < wires_.size(); ++w) {
    const auto it = setups_.find(member.setups[w]);
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, it->second->fd(), nullptr);
    auto link = std::make_unique<TcpLink>(it->second->take_stream(), member.peer.node, member.peer.incarnation,
                                          options_.output_bytes_max, regions_, wires_[w]->completions());
    for (const Domain domain : kAllDomains) {
      link->posted(domain).set_grant(it->second->grants_received[index_of(domain)]);
      link->served(domain).set_announced(it->second->grants_sent[index_of(domain)]);
    }
    links_.push_back(std::move(link));
    setups_.erase(it);
    member.setups[w] = 0;
    member.links.push_back(links_.back().get());
    wires_[w]->offer(links_.back().get());
  }
  event(InterconnectEvent::Kind::kUp, member.peer.node, member.peer.incarnation, {});
}

void TcpInterconnect::take_down(Member& member, const std::string& why) {
  kill_links(member);
  member.state = State::kDown;
  event(InterconnectEvent::Kind::kDown, member.peer.node, member.peer.incarnation, why);
}

void TcpInterconnect::kill_links(Member& member) {
  for (size_t w = 0; w < member.links.size(); ++w) {
    TcpLink* const link = member.links[w];
    link->dead.store(true, std::memory_order_seq_cst);
    // The peer learns of it now, even if this worker is asleep. The descriptor itself stays open until the link is
    // freed.
    shutdown(link->stream.fd(), SHUT_RDWR);
    if (wires_[w]->withdraw(link)) link->released.store(true, std::memory_order_relaxed);
  }
  member.links.clear();
}

void TcpInterconnect::watch_links() {
  for (const auto& member : members_) {
    if (member == nullptr) continue;
    for (size_t w = 0; w < member->links.size(); ++w) {
      const TcpLink* const link = member->links[w];
      if (!link->lost.load(std::memory_order_acquire)) continue;
      take_down(*member, "worker " + std::to_string(w) + ": " + link->fault.text);
      break;
    }
  }
  std::erase_if(links_, [](const auto& link) { return link->released.load(std::memory_order_acquire); });
}

// Wakes workers, since a sleeping worker announces a new grant to its peer only when it is woken.
void TcpInterconnect::watch_grants() {
  if (regions_ == nullptr) return;
  for (const auto& member : members_) {
    if (member == nullptr || member->state != State::kUp) continue;
    const DomainGrants grants = regions_->grants_of(member->peer.node);
    if (grants == member->grants) continue;
    member->grants = grants;
    for (const auto& wire : wires_) wire->wake();
  }
}

void TcpInterconnect::event(InterconnectEvent::Kind kind, NodeId peer, uint32_t incarnation, std::string why,
                            std::string address) {
  const bool of_strangers = kind == InterconnectEvent::Kind::kRefused || kind == InterconnectEvent::Kind::kUnreached ||
                            kind == InterconnectEvent::Kind::kProbed;
  if (of_strangers && events_.size() >= kEventsMax) return;
  events_.push_back({kind, peer, incarnation, std::move(why), std::move(address)});
}

std::vector<InterconnectEvent> TcpInterconnect::take_events() { return std::exchange(events_, {}); }

}  // namespace weft
