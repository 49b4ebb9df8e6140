#include "weft/member/node_agent.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/member/view_json.h"

namespace weft {

namespace {

struct LeaseMessage {
  uint64_t sent_ns;  // by the requester's clock; returned in the answer
  uint32_t epoch;
  uint32_t answer;  // 0: request, 1: grant, 2: a newer view follows as text, 3: gossip follows
  NodeSet unheard;  // whom the sender does not hear
};
static_assert(sizeof(LeaseMessage) == 24);
constexpr uint32_t kForwardsView = 2;
constexpr uint32_t kGossip = 3;
constexpr size_t kGossipMax = 4;  // per member, waiting here

ByteView bytes_of(const LeaseMessage& message) {
  return {reinterpret_cast<const std::byte*>(&message), sizeof message};
}

}  // namespace

NodeAgent::NodeAgent(const NodeAgentOptions& options, AgentHost* host, Membership* membership)
    : options_(options),
      pace_ns_(std::min(options.lease_ns, NodeAgentOptions::kPaceNs)),
      host_(host),
      state_(host->state()),
      membership_(membership),
      detector_(options.self.node, options.lease_ns, pace_ns_) {
  if (!state_.views.joins()) view_ = state_.views.first();
  state_.views.set_token(options_.self.token);
  state_.lease.set_until(0);
  host_->set_agent(this);
}

NodeAgent::~NodeAgent() { host_->set_agent(nullptr); }

bool NodeAgent::in(const View& view) const {
  const Member* member = view.find(options_.self.node);
  return member != nullptr && member->token == options_.self.token;
}

bool NodeAgent::step(uint64_t now_ns) {
  if (retired_ || (now_ns < next_step_ns_ && !notified_.load(std::memory_order_acquire))) return false;
  notified_.store(false, std::memory_order_release);
  const uint64_t on_time_ns = next_step_ns_ + options_.lease_ns / 4;
  if (started_ && now_ns > on_time_ns) detector_.on_local_stall(now_ns - on_time_ns, now_ns);
  next_step_ns_ = now_ns + pace_ns_ / 16;
  if (!std::exchange(started_, true)) {
    detector_.start(now_ns);
    if (view_ != nullptr) detector_.adopt(*view_, now_ns);
  }
  std::shared_ptr<const View> latest = membership_->latest();
  if (latest != nullptr && !check_view(*latest, host_->cluster_options()))
    latest = nullptr;  // it was written by another configuration
  if (forwarded_ != nullptr && (latest == nullptr || forwarded_->epoch > latest->epoch)) latest = forwarded_;
  if (latest == nullptr) latest = view_;
  if (latest == nullptr) return false;
  if (view_ == nullptr || latest->epoch > view_->epoch) {
    if (view_ == nullptr && !in(*latest)) return join(*latest, now_ns);
    adopt(latest, now_ns);
    next_step_ns_ = now_ns + 1;  // the worker adopts it before anything is sent in it
    return true;
  }
  if (retired_) return true;
  if (!unfenced_.empty()) update_fence(now_ns);
  if (now_ns >= next_ask_ns_) ask_leases(now_ns);
  flush_gossip();
  // The members asked may not have been in the view yet. Nothing can be acknowledged without leases, so ask again
  // soon.
  if (state_.lease.until_ns() <= now_ns) next_ask_ns_ = next_step_ns_ = now_ns + pace_ns_ / 64;
  check_failures(now_ns);
  propose_in_sync(now_ns);
  return true;
}

bool NodeAgent::join(const View& view, uint64_t now_ns) {
  const bool allowed = join_allowed_epoch_.load(std::memory_order_acquire) == view.epoch.value;
  if (now_ns < next_proposal_ns_ || !(allowed || host_->planted_bugs().has(PlantedBug::kHastyJoin))) return false;
  const NodeSet own = NodeSet::of(options_.self.node);
  // The previous process of this node has to be removed first: its records are decided without it.
  if (view.find(options_.self.node) != nullptr) {
    const Result<View> without = without_members(view, own);
    if (without) propose(*without, {Cause::kReplaced, options_.self.node, own}, now_ns);
  } else {
    propose(with_member(view, options_.self), {Cause::kJoined, options_.self.node, own}, now_ns);
  }
  return true;
}

void NodeAgent::adopt(const std::shared_ptr<const View>& view, uint64_t now_ns) {
  WEFT_CHECK(view_ == nullptr || view->epoch > view_->epoch, "views only grow");
  WEFT_CHECK(!retired_, "who has retired adopts nothing");
  // In any other view, a member that has lost another keeps trying to have it removed.
  const bool again = view_ != nullptr && view_->members == view->members && view_->partitions == view->partitions;
  for (int n = 0; n < kNodesMax; ++n) {
    const NodeId id(static_cast<uint8_t>(n));
    const Member* before = view_ == nullptr ? nullptr : view_->find(id);
    const Member* now = view->find(id);
    const bool same = before != nullptr && now != nullptr && before->incarnation == now->incarnation;
    if (before != nullptr && !same) unfenced_.push_back({id, before->incarnation, peer(id).given_until_ns});
    peer(id).held_until_ns = 0;  // from an earlier epoch
    if (same && again && state_.links.is_lost(id, now->incarnation)) {
      state_.links.reconnect(id, view->epoch);
    }
    if (!same) peer(id).given_until_ns = 0;
  }
  detector_.adopt(*view, now_ns);
  announced_unheard_ = {};
  update_fence(now_ns);
  state_.lease.set_until(0);
  retired_ = !in(*view);
  view_ = view;
  next_ask_ns_ = now_ns;
  state_.views.publish(view);
}

// Until when removed members may have leases, also those of an earlier epoch that was never active. A view that another
// member forwards may come before the membership says that the process has ended: then the wait ends with that word.
void NodeAgent::update_fence(uint64_t now_ns) {
  std::erase_if(unfenced_, [&](const Removed& removed) {
    return removed.lease_until_ns <= now_ns || membership_->fenced(removed.node, removed.incarnation);
  });
  uint64_t fenced_after_ns = 0;
  for (const Removed& removed : unfenced_) fenced_after_ns = std::max(fenced_after_ns, removed.lease_until_ns);
  state_.lease.set_fenced_after(fenced_after_ns);
}

void NodeAgent::ask_leases(uint64_t now_ns) {
  next_ask_ns_ = now_ns + options_.lease_ns / 4;
  announced_unheard_ = detector_.unheard(now_ns);
  const LeaseMessage ask{now_ns, view_->epoch.value, 0, announced_unheard_};
  for (const Member& member : view_->members) {
    if (member.node == options_.self.node || host_->control_queued_bytes(member.node) > 0) continue;
    host_->send_control(member.node, bytes_of(ask));
  }
  update_lease();
}

void NodeAgent::on_message(NodeId from, ByteView message) {
  if (message.size() < sizeof(LeaseMessage) || view_ == nullptr || retired_) return;
  const auto lease = load<LeaseMessage>(message.data());
  if (view_->find(from) == nullptr) return;
  const uint64_t now_ns = host_->clock_ns();  // not the step's time, which may be long ago
  detector_.heard(from, now_ns);
  if (lease.answer == kForwardsView) return take_view(message.subspan(sizeof lease));
  if (lease.answer == kGossip) return receive_gossip(from, message.subspan(sizeof lease));
  // A member that asks and does not read gets no answers. The bound is that of recovery's messages: a full wire alone
  // is no reason to let a lease run out.
  const bool reads = host_->control_queued_bytes(from) <= host_->cluster_options().limits.credit_bytes / 2;
  if (lease.epoch < view_->epoch.value && reads) forward_view(from, now_ns);
  if (lease.epoch != view_->epoch.value) return;
  if (detector_.heard_in_current_view(from, lease.unheard, now_ns)) notify();
  if (lease.answer == 0) {
    if (!reads) return;
    const uint64_t permille = host_->planted_bugs().has(PlantedBug::kNoDriftMargin) ? 0 : options_.drift_permille;
    peer(from).given_until_ns = now_ns + options_.lease_ns + options_.lease_ns * permille / 1000;
    const LeaseMessage answer{lease.sent_ns, lease.epoch, 1, detector_.unheard(now_ns)};
    host_->send_control(from, bytes_of(answer));
    return;
  }
  const uint64_t until_ns = lease.sent_ns + options_.lease_ns;
  peer(from).held_until_ns = std::max(peer(from).held_until_ns, until_ns);
  update_lease();
}

// A member that does not know the newest view may only be slow to learn of it, if the membership was unavailable.
void NodeAgent::forward_view(NodeId to, uint64_t now_ns) {
  if (now_ns < peer(to).forwarded_ns + pace_ns_ / 16) return;
  peer(to).forwarded_ns = now_ns;
  const LeaseMessage header{0, view_->epoch.value, kForwardsView, {}};
  const std::string text = to_json(*view_);
  const size_t most = host_->cluster_options().limits.credit_bytes / 2;
  if (text.size() > most) return log_not_forwarded(text.size(), most);
  std::vector<std::byte> message(sizeof header + text.size());
  std::memcpy(message.data(), &header, sizeof header);
  std::memcpy(message.data() + sizeof header, text.data(), text.size());
  host_->send_control(to, message);
}

// Once per view: members that do not know it ask again and again.
void NodeAgent::log_not_forwarded(size_t bytes, size_t most) {
  const uint32_t epoch = view_->epoch.value;
  EventLog* const events = host_->events();
  if (std::exchange(not_forwarded_, epoch) == epoch || events == nullptr) return;
  events->emit_of(options_.self.node.value, Level::kWarn, "view_not_forwarded",
                  {{"epoch", epoch}, {"bytes", bytes}, {"bytes_max", most}});
}

void NodeAgent::take_view(ByteView text) {
  const Result<View> view = view_from_json(as_text(text));
  if (!view || view->epoch <= view_->epoch || !check_view(*view, host_->cluster_options())) return;
  WEFT_MARK("a member passes the view on");
  forwarded_ = std::make_shared<const View>(*view);
  notify();
}

void NodeAgent::send_gossip(const std::string& text) {
  if (text.size() > kGossipBytesMax) return;
  const LeaseMessage header{0, 0, kGossip, {}};
  {
    const std::scoped_lock lock(gossip_mutex_);
    outgoing_gossip_.resize(sizeof header + text.size());
    std::memcpy(outgoing_gossip_.data(), &header, sizeof header);
    std::memcpy(outgoing_gossip_.data() + sizeof header, text.data(), text.size());
  }
  notify();
}

void NodeAgent::flush_gossip() {
  const std::scoped_lock lock(gossip_mutex_);
  if (outgoing_gossip_.empty()) return;
  for (const Member& member : view_->members) {
    if (member.node == options_.self.node || host_->control_queued_bytes(member.node) > 0) continue;
    host_->send_control(member.node, outgoing_gossip_);
  }
  outgoing_gossip_.clear();
}

void NodeAgent::receive_gossip(NodeId from, ByteView text) {
  if (text.size() > kGossipBytesMax) return;
  const std::scoped_lock lock(gossip_mutex_);
  const auto of_it = std::count_if(received_gossip_.begin(), received_gossip_.end(),
                                   [&](const Gossip& note) { return note.from == from; });
  if (static_cast<size_t>(of_it) < kGossipMax) received_gossip_.push_back({from, std::string(as_text(text))});
}

std::vector<NodeAgent::Gossip> NodeAgent::take_gossip() {
  const std::scoped_lock lock(gossip_mutex_);
  return std::exchange(received_gossip_, {});
}

void NodeAgent::update_lease() {
  uint64_t until_ns = UINT64_MAX - 1;  // a single node needs no lease of others, but is leased
  for (const Member& member : view_->members) {
    if (member.node != options_.self.node) until_ns = std::min(until_ns, peer(member.node).held_until_ns);
  }
  state_.lease.set_until(until_ns);
}

Contact NodeAgent::contact_of(const Member& member) const {
  if (membership_->fenced(member.node, member.incarnation)) return Contact::kEnded;
  if (state_.links.is_closed(member.node, member.incarnation)) return Contact::kClosed;
  return state_.links.is_lost(member.node, member.incarnation) ? Contact::kLost : Contact::kOpen;
}

void NodeAgent::check_failures(uint64_t now_ns) {
  for (const Member& member : view_->members) detector_.set_contact(member.node, contact_of(member), now_ns);
  const FailureDetector::Verdict verdict = detector_.judge(now_ns);
  suspects_.store(verdict.silent | verdict.gone, std::memory_order_relaxed);
  if ((verdict.silent | verdict.gone).empty()) return set_unavailable_reason({});
  if (!(verdict.silent - announced_unheard_).empty()) ask_leases(now_ns);  // the others may not hear it either
  if (verdict.gone.empty() || now_ns < next_proposal_ns_) return;
  const Result<View> next = without_members(*view_, verdict.gone);
  if (!next) {
    WEFT_MARK("a partition has lost its last replica");
    set_unavailable_reason(next.error().detail);
    const Change change{Cause::kReconnect, options_.self.node, verdict.gone};
    if (may_renew(verdict.gone)) propose(with_next_epoch(*view_), change, now_ns);
    return;
  }
  set_unavailable_reason({});
  for (const Member& member : view_->members) {
    if (verdict.gone.contains(member.node)) log_suspected(member, verdict, now_ns);
  }
  propose(*next, verdict.change, now_ns);
}

// Of two members that have lost each other neither can be removed. If only their connection is lost they get a new
// one, and start over in a view that differs only in its epoch. What the old connection lost does not matter then:
// recovery asks for everything that is open. This does not work where peers access this node's memory directly (shm):
// an access that was begun there could land later.
bool NodeAgent::may_renew(NodeSet silent) const {
  if (host_->shares_memory()) return false;
  return std::any_of(view_->members.begin(), view_->members.end(), [&](const Member& member) {
    return silent.contains(member.node) && state_.links.is_lost(member.node, member.incarnation);
  });
}

// Once per incarnation: the removal may be proposed many times until the view is without it.
void NodeAgent::log_suspected(const Member& member, const FailureDetector::Verdict& verdict, uint64_t now_ns) {
  EventLog* const events = host_->events();
  if (std::exchange(peer(member.node).suspected, member.incarnation) == member.incarnation || events == nullptr) return;
  const Change& change = verdict.change;
  const bool link = change.cause == Cause::kLink && change.of.contains(member.node);
  const auto why = [&]() -> std::string_view {
    if (!verdict.silent.contains(member.node)) return "it says that it does not hear this node";
    switch (detector_.contact(member.node)) {
      case Contact::kEnded:
        return "its process has ended";
      case Contact::kClosed:
        return "it sent what no member sends";
      case Contact::kLost:
        return link ? "the connection to it is lost, and others still hear it" : "the connection to it is lost";
      case Contact::kOpen:
        return link ? "its lease has run out here, and others still hear it" : "its lease has run out";
    }
    return {};
  };
  events->emit_of(options_.self.node.value, Level::kWarn, "member_suspected",
                  {{"member", static_cast<uint64_t>(member.node.value)},
                   {"incarnation", member.incarnation},
                   {"address", member.address},
                   {"why", why()},
                   {"silent_ms", (now_ns - std::min(now_ns, detector_.heard_ns(member.node))) / 1'000'000},
                   {"lease_ms", options_.lease_ns / 1'000'000}});
}

void NodeAgent::set_unavailable_reason(const std::string& reason) {
  const std::scoped_lock lock(unavailable_mutex_);
  if (unavailable_reason_ != reason) unavailable_reason_ = reason;
}

void NodeAgent::propose_in_sync(uint64_t now_ns) {
  if (now_ns < next_proposal_ns_) return;
  std::vector<PartitionId> caught_up;
  for (size_t p = 0; p < view_->partitions.size(); ++p) {
    if (view_->partitions[p].is_catching_up(options_.self.node)) caught_up.emplace_back(static_cast<uint16_t>(p));
  }
  if (caught_up.empty()) return;
  if (!host_->caught_up(view_->epoch)) return;
  propose(with_replica_in_sync(*view_, options_.self.node, caught_up), {Cause::kCaughtUp, options_.self.node, {}},
          now_ns);
}

void NodeAgent::propose(View next, Change change, uint64_t now_ns) {
  WEFT_CHECK(view_ == nullptr || next.epoch.value == view_->epoch.value + 1,
             "a proposal follows the view it is made of");
  next.change = change;
  next_proposal_ns_ = now_ns + pace_ns_ / 4;
  membership_->propose(next);
}

}  // namespace weft
