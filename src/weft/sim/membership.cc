#include "weft/sim/membership.h"

namespace weft {

namespace {

constexpr uint64_t kProposal = 0, kView = 1, kResend = 2;  // Event::a: the kind, and for a view the node
constexpr uint64_t kResendNs = 200'000;                    // views are sent again, for nodes that missed one

}  // namespace

SimMembership::SimMembership(int nodes, uint64_t seed, uint64_t latency_ns, bool supervised, Events* events,
                             const FaultPlan* faults)
    : latency_ns_(latency_ns),
      supervised_(supervised),
      events_(events),
      faults_(faults),
      random_(seed),
      lives_(static_cast<size_t>(nodes)) {
  for (int n = 0; n < nodes; ++n)
    endpoints_.push_back(std::make_unique<Endpoint>(this, NodeId(static_cast<uint8_t>(n))));
}

void SimMembership::start(const View& first) {
  current_ = std::make_shared<const View>(first);
  for (const auto& endpoint : endpoints_) endpoint->latest_ = current_;
  events_->set(events_->now_ns() + kResendNs, EventKind::kMembership, this, kResend);
}

void SimMembership::restarted(NodeId node) {
  endpoints_[node.value]->latest_ = nullptr;
  ++lives_[node.value];
  send_view(node);
}

void SimMembership::ended(NodeId node, uint32_t incarnation) {
  ++lives_[node.value];
  ended_.insert({node.value, incarnation});
}

void SimMembership::receive_proposal(NodeId from, const View& next) {
  if (faults_->membership_reachable_at(from, events_->now_ns()) != events_->now_ns()) return;
  proposals_.push_back(next);
  events_->set(events_->now_ns() + latency_ns_ + random_.below(latency_ns_ + 1), EventKind::kMembership, this,
               kProposal, proposals_.size() - 1);
}

void SimMembership::send_view(NodeId node) {
  sent_views_.push_back(current_);
  events_->set(
      faults_->membership_reachable_at(node, events_->now_ns()) + latency_ns_ + random_.below(latency_ns_ * 4 + 1),
      EventKind::kMembership, this, kView | uint64_t{node.value} << 8 | lives_[node.value] << 16,
      sent_views_.size() - 1);
}

void SimMembership::broadcast_view() {
  for (const auto& endpoint : endpoints_) send_view(endpoint->node_);
}

void SimMembership::on_event(const Event& event) {
  const bool away = faults_->membership_away(event.at_ns);
  if (event.a == kResend) {
    events_->set(event.at_ns + kResendNs, EventKind::kMembership, this, kResend);
    for (const auto& endpoint : endpoints_) {
      if (endpoint->latest_ == nullptr || endpoint->latest_->epoch < current_->epoch) send_view(endpoint->node_);
    }
    return;
  }
  if (away) return;
  if (event.a == kProposal) {
    const View& next = proposals_[event.b];
    if (next.epoch.value != current_->epoch.value + 1) return;
    current_ = std::make_shared<const View>(next);
    ++changes_;
    broadcast_view();
    return;
  }
  const NodeId node(static_cast<uint8_t>(event.a >> 8));
  if (event.a >> 16 != lives_[node.value]) return;
  Endpoint& endpoint = *endpoints_[node.value];
  const std::shared_ptr<const View>& view = sent_views_[event.b];
  if (endpoint.latest_ == nullptr || endpoint.latest_->epoch < view->epoch) endpoint.latest_ = view;
}

}  // namespace weft
