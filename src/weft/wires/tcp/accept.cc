// The set-up side of TcpInterconnect: incoming and outgoing connections, until they are accepted or refused.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/clock.h"
#include "weft/fabric/nodes.h"
#include "weft/wires/tcp/tcp.h"

namespace weft {
namespace {}  // namespace

TcpHello TcpInterconnect::hello_to(NodeId node, uint32_t incarnation, WorkerId worker) const {
  const DomainGrants grants = regions_ != nullptr ? regions_->grants_of(node) : DomainGrants{};
  return {options_.self, incarnation_, worker, node, incarnation, grants, options_.params};
}

void TcpInterconnect::accept_some() {
  for (int i = 0; i < kAcceptsPerStep; ++i) {
    Descriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      // Out of descriptors: evict a stranger, so that the next step finds one.
      if (errno == EMFILE || errno == ENFILE) evict_stranger();
      return;
    }
    while (strangers_ >= options_.strangers_max) evict_stranger();
    const uint64_t deadline_ns = clock_->now_ns() + options_.hello_ms * kMillisecondNs;
    ++strangers_;
    const uint64_t serial = next_serial_++;
    setups_.emplace(serial, std::make_unique<TcpSetup>(std::move(socket), tls_.get(), deadline_ns));
    watch_setup(serial);
  }
}

// Closes the oldest that has not sent a valid hello; if all have, the oldest.
void TcpInterconnect::evict_stranger() {
  uint64_t oldest = 0;
  for (const auto& [serial, setup] : setups_) {
    const bool silent = setup->stage() < TcpSetup::Stage::kWaiting || setup->stage() == TcpSetup::Stage::kRefusing;
    const bool waits = setup->stage() == TcpSetup::Stage::kWaiting || setup->stage() == TcpSetup::Stage::kCalling;
    if (setup->connected_by_us() || (!silent && !waits)) continue;
    if (oldest == 0) oldest = serial;
    if (!silent) continue;
    oldest = serial;
    break;
  }
  const auto it = setups_.find(oldest);
  if (it == setups_.end()) return;
  fail_setup(oldest, "closed to make room for newer connections", it->second->stage() != TcpSetup::Stage::kRefusing);
}

void TcpInterconnect::connect(Member& member, WorkerId worker) {
  // The other side may make us wait before it replies.
  const uint64_t deadline_ns = clock_->now_ns() + (options_.hello_ms + options_.wait_ms) * kMillisecondNs;
  const uint64_t serial = next_serial_++;
  member.setups[worker.value] = serial;
  add_setup(std::make_unique<TcpSetup>(tls_.get(), deadline_ns, member.peer,
                                       hello_to(member.peer.node, member.peer.incarnation, worker)),
            serial);
}

// Adds an outgoing one.
void TcpInterconnect::add_setup(std::unique_ptr<TcpSetup> setup, uint64_t serial) {
  TcpSetup& added = *setups_.emplace(serial, std::move(setup)).first->second;
  resolve(serial, added);
}

// Members' names do not wait behind names from strangers.
void TcpInterconnect::resolve(uint64_t serial, TcpSetup& setup) {
  HostLookup& lookup = setup.calls_for != 0 ? callers_ : hosts_;
  const auto address = lookup.find(setup.address(), clock_->now_ns());
  if (!address) return;  // the next step retries
  Result<Descriptor> socket = *address ? tcp_connect(**address) : Result<Descriptor>(address->error());
  if (!socket) {
    // That nobody listens is not reported; an invalid address is.
    fail_setup(serial, socket.error().detail, socket.error().code == Code::kBadOption);
    return;
  }
  setup.connecting(std::move(*socket));
  watch_setup(serial);
}

void TcpInterconnect::resolve_setups() {
  std::vector<uint64_t> resolving;
  for (const auto& [serial, setup] : setups_) {
    if (setup->stage() == TcpSetup::Stage::kResolving) resolving.push_back(serial);
  }
  for (const uint64_t serial : resolving) {
    if (const auto it = setups_.find(serial); it != setups_.end()) resolve(serial, *it->second);
  }
}

void TcpInterconnect::watch_setup(uint64_t serial) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = serial;
  const int fd = setups_.find(serial)->second->fd();
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) fail_setup(serial, "no memory for its events", false);
}

void TcpInterconnect::on_setup(uint64_t serial, uint32_t events) {
  const auto settled = [&] {
    const auto it = setups_.find(serial);
    return it != setups_.end() &&
           (it->second->stage() == TcpSetup::Stage::kWaiting || it->second->stage() == TcpSetup::Stage::kCalling ||
            it->second->stage() == TcpSetup::Stage::kReady);
  };
  const auto it = setups_.find(serial);
  if (it == setups_.end()) return;
  if (!settled()) step_setup(serial, *it->second);
  // A set-up that waits does not read, so this event is the only sign that the connection ended.
  const bool hung_up = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  if (hung_up && settled()) fail_setup(serial, "the other side closed the connection", false);
}

void TcpInterconnect::step_setup(uint64_t serial, TcpSetup& setup) {
  const bool connecting = setup.stage() == TcpSetup::Stage::kConnecting;
  TcpFault fault;
  if (!setup.advance(&fault)) {
    // That nobody listens yet is not reported.
    const bool unreachable = connecting && setup.stage() == TcpSetup::Stage::kConnecting;
    if (setup.stage() == TcpSetup::Stage::kExchanging && !setup.connected_by_us()) {
      refuse(serial, setup, fault.text);
    } else {
      fail_setup(serial, fault.text, !unreachable && setup.stage() != TcpSetup::Stage::kRefusing);
    }
    return;
  }
  if (setup.stage() == TcpSetup::Stage::kReceived) {
    judge(serial, setup);
  } else if (setup.all_sent() && setup.stage() == TcpSetup::Stage::kRefusing) {
    setup.drain();
    close_setup(serial);
  } else if (setup.all_sent() && setup.stage() == TcpSetup::Stage::kAnswering) {
    setup.set_stage(TcpSetup::Stage::kReady);
    bring_up_if_complete(*member_of(setup.peer));
  }
}

void TcpInterconnect::judge(uint64_t serial, TcpSetup& setup) {
  if (setup.connected_by_us()) {
    judge_answer(serial, setup);
    return;
  }
  if (setup.prefix().kind != TcpMessageKind::kHello) {
    refuse(serial, setup, "a refusal where a hello was expected");
    return;
  }
  if (setup.prefix().version != kTcpVersion) {
    refuse(serial, setup,
           "tcp version is " + std::to_string(kTcpVersion) + " at node " + std::to_string(options_.self.value) +
               " and " + std::to_string(setup.prefix().version) + " at the other side");
    return;
  }
  auto hello = tcp_decode_hello(setup.body());
  if (!hello) {
    refuse(serial, setup, hello.error().detail);
    return;
  }
  setup.peer = hello->node;
  setup.incarnation = hello->incarnation;
  setup.worker = hello->worker;
  if (const std::string why = objection(setup, *hello); !why.empty()) {
    refuse(serial, setup, why);
    return;
  }
  if (hello->incarnation == 0 || hello->probe.token != 0) {
    on_probe(serial, setup, *hello);
    return;
  }
  setup.set_stage(TcpSetup::Stage::kWaiting);
  setup.set_deadline_ns(clock_->now_ns() + options_.wait_ms * kMillisecondNs);
  consider(serial, setup);
}

// A fault that no later join() can fix.
std::string TcpInterconnect::objection(const TcpSetup& setup, const TcpHello& hello) const {
  std::string why = mismatch(options_.self, options_.params, hello.node, hello.params);
  if (why.empty()) why = setup.identity_fault(options_.params.cluster, hello.node);
  if (!why.empty()) return why;
  if (hello.to_node != options_.self) {
    return "this is node " + std::to_string(options_.self.value) + ", and node " + std::to_string(hello.to_node.value) +
           " was meant";
  }
  const bool calls_back = hello.incarnation != 0 && hello.probe.token != 0;
  if (calls_back && hello.probe.token == token_) return {};
  if (calls_back) return "another process than this one has knocked, and is called back here";
  if (hello.node >= options_.self && hello.incarnation != 0) {
    return "node " + std::to_string(hello.node.value) + " does not connect to node " +
           std::to_string(options_.self.value) + ": the smaller id connects";
  }
  if (setup.worker.value >= wires_.size()) {
    return "worker " + std::to_string(setup.worker.value) + ", and workers is " + std::to_string(wires_.size()) +
           " at node " + std::to_string(options_.self.value);
  }
  if (incarnation_ != 0 && hello.to_incarnation != incarnation_) {
    return "this is " + member_text(options_.self, incarnation_) + ", and incarnation " +
           std::to_string(hello.to_incarnation) + " was meant";
  }
  return {};
}

// For a valid hello: accepts it if its sender is a member that is not connected; else it keeps waiting.
void TcpInterconnect::consider(uint64_t serial, TcpSetup& setup) {
  Member* const member = member_of(setup.peer);
  if (member == nullptr || member->state != State::kConnecting) return;
  if (member->peer.incarnation != setup.incarnation) {
    if (setup.incarnation < member->peer.incarnation) {
      refuse(serial, setup,
             member_text(setup.peer, setup.incarnation) + " was followed by incarnation " +
                 std::to_string(member->peer.incarnation));
    }
    return;
  }
  // This node's incarnation may have been unknown when the hello arrived.
  auto hello = tcp_decode_hello(setup.body());
  if (const std::string why = objection(setup, *hello); !why.empty()) {
    refuse(serial, setup, why);
    return;
  }
  // The newest connection counts: its sender has abandoned the earlier one.
  close_setup(std::exchange(member->setups[setup.worker.value], serial));
  --strangers_;
  const TcpHello answer = hello_to(setup.peer, setup.incarnation, setup.worker);
  setup.grants_received = hello->grants;
  setup.grants_sent = answer.grants;
  setup.send(tcp_encode_hello(answer), TcpSetup::Stage::kAnswering);
  setup.set_deadline_ns(clock_->now_ns() + options_.hello_ms * kMillisecondNs);
  step_setup(serial, setup);
}

void TcpInterconnect::judge_answer(uint64_t serial, TcpSetup& setup) {
  if (setup.prefix().kind == TcpMessageKind::kRefusal) {
    fail_setup(serial, tcp_decode_refusal(setup.body()).why, true);
    return;
  }
  auto hello = tcp_decode_hello(setup.body());
  std::string why;
  if (setup.prefix().version != kTcpVersion) {
    why = "tcp version is " + std::to_string(kTcpVersion) + " at node " + std::to_string(options_.self.value) +
          " and " + std::to_string(setup.prefix().version) + " at the other side";
  } else if (!hello) {
    why = hello.error().detail;
  } else if (setup.calls_for != 0 && hello->node == setup.peer && hello->probe.token != setup.token) {
    why = "another process of node " + std::to_string(setup.peer.value) + " answers there";
  } else if (hello->node != setup.peer || hello->worker != setup.worker ||
             (setup.calls_for == 0 && hello->incarnation != setup.incarnation)) {
    why = "it is " + member_text(hello->node, hello->incarnation) + ", and " +
          member_text(setup.peer, setup.incarnation) + " was meant";
  } else {
    why = mismatch(options_.self, options_.params, hello->node, hello->params);
    if (why.empty()) why = setup.identity_fault(options_.params.cluster, hello->node);
  }
  if (!why.empty()) {
    fail_setup(serial, why, true);
    return;
  }
  if (setup.calls_for != 0) {
    end_call(serial, {});
    return;
  }
  if (setup.probes) {
    event(InterconnectEvent::Kind::kProbeReply, setup.peer, setup.incarnation, {});
    close_setup(serial);
    return;
  }
  Member& member = *member_of(setup.peer);
  setup.grants_received = hello->grants;
  setup.set_stage(TcpSetup::Stage::kReady);
  member.retry_ns = 0;
  retry_connections();
  bring_up_if_complete(member);
}

void TcpInterconnect::refuse(uint64_t serial, TcpSetup& setup, const std::string& why) {
  event(InterconnectEvent::Kind::kRefused, setup.peer, setup.incarnation, setup.address() + ": " + why);
  setup.set_deadline_ns(clock_->now_ns() + options_.hello_ms * kMillisecondNs);
  setup.send(tcp_encode_refusal(options_.self, why), TcpSetup::Stage::kRefusing);
  step_setup(serial, setup);
}

// Ends the connection. `refused`: with an event.
void TcpInterconnect::fail_setup(uint64_t serial, const std::string& why, bool refused) {
  const auto it = setups_.find(serial);
  if (it == setups_.end()) return;
  TcpSetup& setup = *it->second;
  Member* const member = setup.connected_by_us() ? member_of(setup.peer) : nullptr;
  const std::string text = setup.address() + ": " + why;
  if (setup.calls_for != 0) {
    end_call(serial, why);
    return;
  }
  if (setup.probes) {
    event(InterconnectEvent::Kind::kProbeReply, setup.peer, setup.incarnation, text);
    close_setup(serial);
    return;
  }
  if (refused && (member == nullptr || member->refused != text)) {
    if (member != nullptr) member->refused = text;
    event(InterconnectEvent::Kind::kRefused, setup.peer, setup.incarnation, text);
  }
  if (member != nullptr) back_off(*member);
  close_setup(serial);
}

void TcpInterconnect::close_setup(uint64_t serial) {
  const auto it = setups_.find(serial);
  if (it == setups_.end()) return;
  const TcpSetup& setup = *it->second;
  Member* const member = member_of(setup.peer);
  const bool accepted = setup.stage() == TcpSetup::Stage::kAnswering || setup.stage() == TcpSetup::Stage::kReady;
  if (!setup.connected_by_us() && !accepted) --strangers_;
  if (member != nullptr) std::replace(member->setups.begin(), member->setups.end(), serial, uint64_t{0});
  setups_.erase(it);
}

void TcpInterconnect::expire_setups() {
  const uint64_t now_ns = clock_->now_ns();
  std::vector<uint64_t> late;
  for (const auto& [serial, setup] : setups_) {
    if (setup->stage() != TcpSetup::Stage::kReady && setup->deadline_ns() <= now_ns) late.push_back(serial);
  }
  for (const uint64_t serial : late) {
    TcpSetup& setup = *setups_.find(serial)->second;
    if (setup.stage() == TcpSetup::Stage::kWaiting) {
      const Member* const member = member_of(setup.peer);
      const bool up = member != nullptr && member->state == State::kUp && member->peer.incarnation == setup.incarnation;
      refuse(serial, setup,
             member_text(setup.peer, setup.incarnation) +
                 (up ? " is connected already to node " : " is not expected by node ") +
                 std::to_string(options_.self.value));
    } else {
      const bool resolving = setup.stage() == TcpSetup::Stage::kResolving;
      const bool connecting = setup.stage() == TcpSetup::Stage::kConnecting;
      fail_setup(serial,
                 resolving    ? "its name was not looked up in time"
                 : connecting ? "no answer in time"
                              : "no hello in time",
                 !connecting && setup.stage() != TcpSetup::Stage::kRefusing);
    }
  }
}

}  // namespace weft
