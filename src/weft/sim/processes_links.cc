// Connections between simulated processes: how they break, and how a node that wants to join asks for them.
#include <algorithm>

#include "weft/base/marks.h"
#include "weft/sim/processes.h"

namespace weft {

void Processes::set_breaks() {
  for (const FaultWindow& window : faults_->windows()) {
    const bool breaks = window.fault == Fault::kBreak || window.fault == Fault::kDown;
    if (!breaks || window.a == window.b) continue;
    events_->set(window.from_ns, EventKind::kBreak, this, window.a.value, window.b.value);
  }
}

void Processes::sever_after(NodeId a, NodeId deaf, uint64_t delay_ns, uint64_t deaf_ns) {
  const uint64_t from_ns = events_->now_ns() + delay_ns;
  const FaultWindow window{Fault::kBreak, from_ns, from_ns + deaf_ns + 1, a, deaf, 2};
  faults_->add(window);
  host_->link_fails(window);
  events_->set(from_ns, EventKind::kBreak, this, a.value, deaf.value);
}

// This process's entry in the newest view; nullptr if it does not run or is not a member.
const Member* Processes::member_of(NodeId id) const {
  if (down_[id.value]) return nullptr;
  const Member* const member = membership_.current().find(id);
  return member != nullptr && member->token == processes_[id.value].token ? member : nullptr;
}

// Of two members that have lost each other, one must be removed or both must reconnect. Each end notices at its own
// time.
void Processes::break_link(NodeId a, NodeId b) {
  const Member* const at_a = member_of(a);
  const Member* const at_b = member_of(b);
  if (at_a == nullptr || at_b == nullptr || network_->severed(a, b)) return;
  WEFT_MARK("a connection between two that run breaks");
  ++breaks_;
  network_->sever(a, b);
  const uint64_t trip_ns = config_.network.base_ns + config_.network.jitter_ns;
  const auto notify_end = [&](NodeId id, const Member& peer) {
    const uint64_t delay_ns = link_random_.below(link_random_.chance(70) ? trip_ns + 1 : config_.lease_ns);
    events_->set(events_->now_ns() + delay_ns, EventKind::kBreakSeen, this, id.value | uint64_t{peer.node.value} << 8,
                 peer.incarnation);
  };
  notify_end(a, *at_b);
  notify_end(b, *at_a);
}

// As Server::lose() does.
void Processes::tell_broken(NodeId id, NodeId peer, uint32_t incarnation) {
  if (down_[id.value] || !network_->severed(id, peer)) return;
  network_->drop_undelivered(id, peer);
  processes_[id.value].lost[peer.value] = incarnation;
  processes_[id.value].node->state().links.set_lost(peer, incarnation);
  processes_[id.value].agent->notify();
  host_->wake(id, WorkerId(0));
}

// As Server::rejoin() does. The connection is made when both ends want it.
void Processes::rejoin(NodeId id) {
  Process& process = processes_[id.value];
  for (size_t n = 0; n < processes_.size(); ++n) {
    const NodeId peer(static_cast<uint8_t>(n));
    const uint32_t lost = process.lost[n];
    if (lost == 0 || !process.node->state().links.may_reconnect(peer, lost)) continue;
    process.lost[n] = 0;
    const Member* const other = member_of(peer);
    if (member_of(id) == nullptr || other == nullptr || other->incarnation != lost) continue;
    process.wants[n] = lost;
    if (processes_[n].wants[id.value] != member_of(id)->incarnation) continue;
    events_->set(faults_->link_up_at(id, peer, events_->now_ns()) + config_.network.base_ns, EventKind::kMend, this,
                 id.value, n);
  }
}

void Processes::mend(NodeId a, NodeId b) {
  if (down_[a.value] || down_[b.value] || !network_->severed(a, b)) return;
  if (const uint64_t up_ns = faults_->link_up_at(a, b, events_->now_ns()); up_ns > events_->now_ns()) {
    events_->set(up_ns, EventKind::kMend, this, a.value, b.value);
    return;
  }
  WEFT_MARK("two that run are connected again");
  processes_[a.value].wants[b.value] = processes_[b.value].wants[a.value] = 0;
  network_->mend(a, b);
}

// As Server::may_join() does. A node's control thread does not run while its workers do not.
void Processes::ask_to_join(NodeId id, const View& view) {
  Process& process = processes_[id.value];
  const uint64_t now_ns = events_->now_ns();
  if (bugs_.has(PlantedBug::kHastyJoin) || now_ns < join_backoffs_[id.value].until_ns()) return;
  const auto trip_ns = [&](NodeId from, NodeId to, uint64_t at_ns) {
    const uint64_t latency_ns = config_.network.base_ns + join_random_.below(config_.network.jitter_ns + 1);
    return faults_->runs_at(to, at_ns + faults_->latency_with_faults(from, to, at_ns, latency_ns, join_random_));
  };
  for (const Member& member : process.admission->due(view, now_ns)) {
    uint64_t at_ns = now_ns;
    for (int call = 0; call < 2; ++call) at_ns = trip_ns(member.node, id, trip_ns(id, member.node, at_ns));
    events_->set(at_ns, EventKind::kAnswer, this, id.value | uint64_t{member.node.value} << 8,
                 member.incarnation | process.token << 32);
  }
  if (!process.admission->may_propose(view, now_ns)) return;
  process.agent->allow_join(view.epoch);
}

void Processes::answered(NodeId id, NodeId from, uint32_t incarnation, uint64_t token) {
  Process& process = processes_[id.value];
  if (down_[id.value] || process.token != token) return;
  const Member* const member = member_of(from);
  const bool there = member != nullptr && member->incarnation == incarnation;
  process.admission->answered(from, incarnation, there ? "" : "nobody is there", events_->now_ns());
  host_->wake(id, WorkerId(0));
}

}  // namespace weft
