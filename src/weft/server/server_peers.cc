// A node and its peers: how it joins, whom it is connected to, and what it logs about those that it is not.
#include <sys/socket.h>

#include <string>

#include "weft/server/server.h"

namespace weft {

namespace {

constexpr uint64_t kRefusalsLoggedMax = 10;  // per second

}  // namespace

// A node that joins replaces the previous process of its node, and every member waits for it in the next view. So it
// joins only with every member's approval.
bool Server::preflight_join(const View& view) {
  const uint64_t now_ns = clock_->now_ns();
  if (options_.join_backoff != nullptr && now_ns < options_.join_backoff->until_ns()) return false;
  const std::string trouble = admission_->obstacle(view, now_ns);
  for (const Member& member : admission_->due(view, now_ns)) {
    interconnect_->probe({member.node, member.incarnation, member.address}, {self_.token, self_.address, trouble});
  }
  return admission_->may_propose(view, now_ns);
}

// Answers clients of a node that has been outside for long: it may stay outside for as long as a link is down.
void Server::reject_clients() {
  if (clock_->now_ns() < front_shared_.started_ns + uint64_t{spec_.options.limits.answer_ms} * 1'000'000) return;
  constexpr std::string_view kText =
      "-CLUSTERDOWN this node is in no view of the cluster, and its log says why: ask another node\r\n";
  constexpr int kAtOnce = 16;
  for (int i = 0; i < kAtOnce; ++i) {
    const Fd socket(accept4(client_socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) return;
    char asked[4096];
    if (client_tls_ != nullptr || send(socket.get(), kText.data(), kText.size(), MSG_NOSIGNAL) < 0) continue;
    shutdown(socket.get(), SHUT_WR);
    if (recv(socket.get(), asked, sizeof asked, 0) < 0) continue;  // unread input would discard the answer
  }
}

void Server::on_probe_reply(const InterconnectEvent& event) {
  const std::string why = admission_->answered(event.peer, event.incarnation, event.why, clock_->now_ns());
  if (why.empty()) return;
  options_.events->emit(
      Level::kWarn, "join_refused",
      {{"peer", event.peer.value}, {"incarnation", event.incarnation}, {"address", self_.address}, {"why", why}});
}

// The connections follow the newest view at once: a removed member is not heard any more.
void Server::follow(const std::shared_ptr<const View>& view) {
  if (followed_ == nullptr || followed_->epoch != view->epoch) log_view(*view);
  followed_ = view;
  if (in(*view) && incarnation_ == 0) {
    incarnation_ = view->find(self_.node)->incarnation;
    interconnect_->set_incarnation(incarnation_);
    if (options_.join_backoff != nullptr) options_.join_backoff->joined(clock_->now_ns());
  }
  if (incarnation_ != 0) {
    for (uint8_t n = 0; n < kNodesMax; ++n) {
      const Member* member = in(*view) ? view->find(NodeId(n)) : nullptr;
      const uint32_t wanted = member == nullptr || member->node == self_.node ? 0 : member->incarnation;
      if (joined_[n] == wanted) continue;
      if (joined_[n] != 0) interconnect_->leave(NodeId(n));
      if (wanted != 0) interconnect_->join({member->node, member->incarnation, member->address});
      joiners_[n] = {};
      joined_[n] = wanted;
      lost_[n] = 0;
    }
  }
  if (agent_ != nullptr) agent_->notify();
  wake_workers();
}

// Members are always fully connected: of two that have lost each other one must be removed, or both start over
// (rejoin).
void Server::on_peer_lost(NodeId peer) {
  if (node_ == nullptr || joined_[peer.value] == 0) return;
  interconnect_->leave(peer);
  lost_[peer.value] = joined_[peer.value];
  node_->state().links.set_lost(peer, joined_[peer.value]);
  agent_->notify();
  wake_workers();
}

// Reconnects when all workers know that they start over with a member.
void Server::rejoin() {
  for (uint8_t n = 0; n < kNodesMax; ++n) {
    if (lost_[n] == 0 || !node_->state().links.may_reconnect(NodeId(n), lost_[n])) continue;
    const Member* const member = followed_->find(NodeId(n));
    if (member != nullptr && member->incarnation == lost_[n]) {
      interconnect_->join({member->node, member->incarnation, member->address});
    }
    lost_[n] = 0;
  }
}

void Server::handle_interconnect_events() {
  for (const InterconnectEvent& event : interconnect_->take_events()) {
    if (event.kind == InterconnectEvent::Kind::kUp) continue;
    if (event.kind == InterconnectEvent::Kind::kProbeReply) {
      on_probe_reply(event);
      continue;
    }
    if (event.kind == InterconnectEvent::Kind::kUnreached || event.kind == InterconnectEvent::Kind::kProbed) {
      log_joiner_event(event);
      continue;
    }
    if (event.kind == InterconnectEvent::Kind::kDoorbellsShared) {
      options_.events->emit(Level::kInfo, "doorbells_shared", {{"why", event.why}});
      continue;
    }
    const bool member = event.peer.value < kNodesMax && joined_[event.peer.value] == event.incarnation;
    if (event.kind == InterconnectEvent::Kind::kDown && member) on_peer_lost(event.peer);
    log_peer_event(event);
  }
}

// Anybody can connect to a port and be refused: a few log lines per second are enough for that.
bool Server::may_log_refusal() {
  const uint64_t second = clock_->now_ns() / 1'000'000'000;
  if (second != refusals_.second && refusals_.count > kRefusalsLoggedMax) {
    options_.events->emit(Level::kWarn, "refusals_suppressed", {{"count", refusals_.count - kRefusalsLoggedMax}});
  }
  if (second != refusals_.second) refusals_ = {second, 0};
  return ++refusals_.count <= kRefusalsLoggedMax;
}

// It probes repeatedly: only what is new is logged.
void Server::log_joiner_event(const InterconnectEvent& event) {
  const bool unreached = event.kind == InterconnectEvent::Kind::kUnreached;
  Joiner& joiner = joiners_[event.peer.value];
  std::string& said = unreached ? joiner.unreached : joiner.waits;
  const std::string now = event.address + " " + event.why;
  if (said == now || !may_log_refusal()) return;
  said = now;
  options_.events->emit(Level::kWarn, unreached ? "joiner_unreached" : "joiner_waits",
                        {{"peer", event.peer.value}, {"address", event.address}, {"why", event.why}});
}

void Server::log_peer_event(const InterconnectEvent& event) {
  const bool refused = event.kind != InterconnectEvent::Kind::kDown;
  if (refused && !may_log_refusal()) return;
  if (event.peer.value >= kNodesMax) {
    options_.events->emit(Level::kWarn, "unknown_peer_refused", {{"why", event.why}});
    return;
  }
  options_.events->emit(Level::kWarn, refused ? "peer_refused" : "peer_disconnected",
                        {{"peer", event.peer.value}, {"incarnation", event.incarnation}, {"why", event.why}});
}

}  // namespace weft
