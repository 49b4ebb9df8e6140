#include "weft/wires/shm/shm.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/memory_file.h"

namespace weft {
namespace {

constexpr size_t kEventsMax = 1024;  // further refusals are dropped until the events are taken

Error os_error(const char* call) { return Error{Code::kOs, std::string(call) + ": " + strerrordesc_np(errno)}; }

void add_term(HandshakeParams& params, const char* name, uint64_t value) {
  const auto has = [&](const auto& field) { return field.first == name; };
  if (std::none_of(params.fields.begin(), params.fields.end(), has)) params.fields.emplace_back(name, value);
}

Fd make_eventfd() { return Fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)); }

void ring(const Fd& event_fd) {
  const uint64_t one = 1;
  (void)!write(event_fd.get(), &one, sizeof one);
}

void silence(const Fd& event_fd) {
  uint64_t count = 0;
  (void)!read(event_fd.get(), &count, sizeof count);
}

}  // namespace

Result<std::unique_ptr<ShmInterconnect>> ShmInterconnect::create(const ShmOptions& options, Clock* clock) {
  if (options.node.value >= kNodesMax || options.workers < 1 || options.workers > kWorkersMax) {
    return Error{Code::kBadOption, "node " + std::to_string(options.node.value) + " of at most " +
                                       std::to_string(kNodesMax) + ", workers " + std::to_string(options.workers) +
                                       " of at most " + std::to_string(kWorkersMax)};
  }
  if (options.ring_bytes < ShmOutbox::kRingBytesMin || options.ring_bytes > ShmOutbox::kRingBytesMax) {
    return Error{Code::kBadOption, "ring_bytes " + std::to_string(options.ring_bytes) + ", not in " +
                                       std::to_string(ShmOutbox::kRingBytesMin) + " to " +
                                       std::to_string(ShmOutbox::kRingBytesMax)};
  }
  std::unique_ptr<ShmInterconnect> interconnect(new ShmInterconnect(options, clock));
  const Result<void> made = interconnect->set_up();
  if (!made) return made.error();
  return interconnect;
}

Result<void> ShmInterconnect::set_up() {
  self_.node = options_.node;
  self_.incarnation = 0;
  self_.workers = static_cast<size_t>(options_.workers);
  self_.ring_bytes = align_up(options_.ring_bytes, 4096);
  self_.params = options_.params;
  self_.regions = options_.regions;
  add_term(self_.params, "wire version", kWireVersion);
  add_term(self_.params, "workers", self_.workers);

  Result<Fd> control = make_memory_file("weft board", kShmControlBytes);
  if (!control) return control.error();
  self_.control = std::move(*control);
  control_memory_ = Mapping::of_file(self_.control.get(), kShmControlBytes);
  if (control_memory_.base() == nullptr) return os_error("mmap of the board");
  control_ = new (control_memory_.base()) ShmControlBlock();

  epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  control_eventfd_ = make_eventfd();
  if (!epoll_ || !control_eventfd_) return os_error("epoll or eventfd");
  for (size_t w = 0; w < self_.workers; ++w) {
    self_.eventfds.push_back(make_eventfd());
    if (!self_.eventfds.back()) return os_error("eventfd");
    wires_.push_back(std::make_unique<ShmWire>(self_.node, WorkerId(static_cast<uint8_t>(w)), options_.completions_max,
                                               &links_, options_.regions, control_eventfd_.get()));
  }
  Result<Fd> listener = shm_listen(options_.address);
  if (!listener) return listener.error();
  listener_ = std::move(*listener);
  if (options_.incarnation != 0) set_incarnation(options_.incarnation);
  const Result<void> hearing = listen_to(control_eventfd_.get());
  if (!hearing) return hearing.error();
  if (options_.regions != nullptr) options_.regions->set_remote_initiators(this);
  return {};
}

ShmInterconnect::~ShmInterconnect() {
  if (options_.regions != nullptr && listener_) options_.regions->set_remote_initiators(nullptr);
  if (listener_) shm_unlink(options_.address);
}

Result<void> ShmInterconnect::listen_to(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return os_error("epoll_ctl");
  return {};
}

void ShmInterconnect::set_sleeping(WorkerId worker, bool sleeping) {
  control_->sleep_flags[worker.value].sleeping.store(sleeping ? 1 : 0, std::memory_order_seq_cst);
  if (!sleeping) silence(self_.eventfds[worker.value]);
}

void ShmInterconnect::wake_all() {
  for (const Fd& event_fd : self_.eventfds) ring(event_fd);
}

void ShmInterconnect::publish(NodeId peer, Domain domain, uint32_t grants) {
  control_->grants[peer.value][index_of(domain)].store(grants, std::memory_order_seq_cst);
}

// Called by revoke() on any thread. Also covers a link that is not up here, since the peer may already consider it up.
bool ShmInterconnect::inside(NodeId peer, Domain domain) {
  const std::scoped_lock lock(handshakes_mutex_);
  return std::any_of(handshakes_.begin(), handshakes_.end(), [&](const auto& handshake) {
    return handshake->peer() == peer && handshake->link() != nullptr && handshake->link()->peer_inside(domain) &&
           !shm_hung_up(handshake->socket());
  });
}

// Connections wait in the socket's queue until then.
void ShmInterconnect::set_incarnation(uint32_t incarnation) {
  const bool first = self_.incarnation == 0;
  WEFT_CHECK(std::none_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.wanted; }),
             "the incarnation changes while nobody is joined");
  self_.incarnation = incarnation;
  if (first) WEFT_CHECK(listen_to(listener_.get()), "epoll_ctl");
}

void ShmInterconnect::join(const InterconnectPeer& who) {
  const std::scoped_lock lock(handshakes_mutex_);
  WEFT_CHECK(who.node != self_.node && who.node.value < kNodesMax && who.incarnation != 0 && self_.incarnation != 0,
             "a peer of this node, which knows its own incarnation");
  Peer& peer = peers_[who.node.value];
  if (peer.wanted && peer.who.incarnation == who.incarnation && peer.who.address == who.address) return;
  if (peer.wanted) leave(who.node);
  peer = Peer();
  peer.wanted = true;
  peer.who = who;
  connect_due();
  step_handshakes();
}

void ShmInterconnect::leave(NodeId node) {
  const std::scoped_lock lock(handshakes_mutex_);
  WEFT_CHECK(node.value < kNodesMax, "a node of this cluster");
  Peer& peer = peers_[node.value];
  if (peer.handshake != nullptr) take_down(peer);
  peer = Peer();
  for (const auto& handshake : handshakes_) {
    if (handshake->peer() == node) handshake->end("left");
  }
  reap();
}

void ShmInterconnect::control_step() {
  const std::scoped_lock lock(handshakes_mutex_);
  std::array<epoll_event, 64> ready;
  const int count = epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < count; ++i) {
    const int fd = ready[static_cast<size_t>(i)].data.fd;
    if (fd == listener_.get()) {
      accept_all();
    } else if (fd == control_eventfd_.get()) {
      silence(control_eventfd_);
    } else {
      const auto handshake =
          std::find_if(handshakes_.begin(), handshakes_.end(), [&](const auto& t) { return t->socket() == fd; });
      if (handshake != handshakes_.end()) (*handshake)->read();
    }
  }
  connect_due();
  step_handshakes();
  reap();
}

std::vector<InterconnectEvent> ShmInterconnect::take_events() { return std::exchange(events_, {}); }

void ShmInterconnect::accept_all() {
  for (int i = 0; i < kAcceptsPerStep; ++i) {
    Fd socket = shm_accept(listener_.get());
    if (!socket) return;
    if (!listen_to(socket.get())) continue;
    handshakes_.push_back(std::make_unique<ShmHandshake>(self_, std::move(socket), setup_deadline()));
    const auto strange = [](const auto& t) {
      return !t->connecting() && t->stage() != ShmHandshake::Stage::kUp && t->stage() != ShmHandshake::Stage::kOver;
    };
    if (static_cast<size_t>(std::count_if(handshakes_.begin(), handshakes_.end(), strange)) <= options_.strangers_max)
      continue;
    (*std::find_if(handshakes_.begin(), handshakes_.end(), strange))->refuse("too many set-ups at once");
  }
}

void ShmInterconnect::connect_due() {
  for (Peer& peer : peers_) {
    if (!peer.wanted || peer.who.node < self_.node || peer.handshake != nullptr || peer.trying != nullptr) continue;
    const uint64_t now = clock_->now_ns();
    if (now < peer.next_try_ns) continue;
    peer.next_try_ns = now + options_.retry_ms * uint64_t{1'000'000};
    Result<Fd> socket = shm_connect(peer.who.address);
    if (!socket || !listen_to((*socket).get())) continue;  // nobody is there yet
    handshakes_.push_back(std::make_unique<ShmHandshake>(self_, std::move(*socket), setup_deadline(), peer.who));
    peer.trying = handshakes_.back().get();
  }
}

void ShmInterconnect::step_handshakes() {
  std::erase_if(handshakes_, [this](const auto& handshake) { return !step_handshake(*handshake); });
}

bool ShmInterconnect::step_handshake(ShmHandshake& handshake) {
  if (handshake.stage() == ShmHandshake::Stage::kHeld) decide(handshake);
  if (handshake.stage() == ShmHandshake::Stage::kUp && peers_[handshake.peer().value].handshake != &handshake)
    bring_up(handshake);
  if (handshake.stage() == ShmHandshake::Stage::kUp) {
    handshake.share_regions();
    if (const auto broken = handshake.link()->broken()) handshake.end(*broken);
  } else if (handshake.stage() != ShmHandshake::Stage::kOver && clock_->now_ns() >= handshake.deadline_ns()) {
    handshake.refuse("set-up: not finished within " + std::to_string(options_.setup_ms_max) + " ms");
  }
  if (handshake.stage() != ShmHandshake::Stage::kOver) return true;
  drop_handshake(handshake);
  return false;
}

// Decides whether a peer that connected and agrees is expected. It may connect before our join(), or just after the
// connection to it was lost: then it waits, as long as a set-up may take.
void ShmInterconnect::decide(ShmHandshake& handshake) {
  const Peer& peer = peers_[handshake.peer().value];
  if (!peer.wanted || peer.who.incarnation < handshake.incarnation()) return;
  if (peer.who.incarnation > handshake.incarnation()) {
    return handshake.refuse("incarnation: node " + std::to_string(handshake.peer().value) + " is expected in " +
                            std::to_string(peer.who.incarnation) + " and came in " +
                            std::to_string(handshake.incarnation()));
  }
  if (peer.handshake == nullptr) handshake.go_on();
}

void ShmInterconnect::bring_up(ShmHandshake& handshake) {
  Peer& peer = peers_[handshake.peer().value];
  if (!peer.wanted || peer.handshake != nullptr || peer.who.incarnation != handshake.incarnation()) {
    return handshake.refuse("node " + std::to_string(handshake.peer().value) + " is connected already");
  }
  peer.handshake = &handshake;
  peer.trying = nullptr;
  peer.last_refusal.clear();
  links_.set(handshake.peer(), handshake.link());
  wake_all();
  events_.push_back({InterconnectEvent::Kind::kUp, handshake.peer(), handshake.incarnation(), {}});
}

// Reports the events of a handshake that ended.
void ShmInterconnect::drop_handshake(ShmHandshake& handshake) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, handshake.socket(), nullptr);
  Peer* const peer = handshake.peer().value < kNodesMax ? &peers_[handshake.peer().value] : nullptr;
  if (peer != nullptr && peer->handshake == &handshake) {
    events_.push_back({InterconnectEvent::Kind::kDown, handshake.peer(), handshake.incarnation(), handshake.why()});
    peer->wanted = false;
    return take_down(*peer);
  }
  const bool ours = peer != nullptr && peer->trying == &handshake;
  if (ours) {
    peer->trying = nullptr;
    const uint64_t pause = options_.retry_ms * uint64_t{1'000'000} * (handshake.refused() ? 10 : 1);
    peer->next_try_ns = clock_->now_ns() + pause;
    if (!handshake.refused() || handshake.why() == peer->last_refusal) return;
    peer->last_refusal = handshake.why();
  }
  if (handshake.refused()) refused(handshake.peer(), handshake.incarnation(), handshake.why());
}

void ShmInterconnect::refused(NodeId peer, uint32_t incarnation, const std::string& why) {
  if (events_.size() < kEventsMax) events_.push_back({InterconnectEvent::Kind::kRefused, peer, incarnation, why});
}

// Withdraws the link from the workers. Wakes all of them whatever their flags say: the peer may have died between
// clearing a flag and writing the eventfd.
void ShmInterconnect::take_down(Peer& peer) {
  retired_.push_back(peer.handshake->link());
  links_.set(peer.who.node, nullptr);
  peer.handshake = nullptr;
  wake_all();
}

void ShmInterconnect::reap() {
  std::erase_if(handshakes_, [this](const auto& handshake) {
    if (handshake->stage() != ShmHandshake::Stage::kOver) return false;
    drop_handshake(*handshake);
    return true;
  });
  std::erase_if(retired_, [](const auto& link) { return link.use_count() == 1; });
}

}  // namespace weft
