#include "weft/member/failure_detector.h"

#include <algorithm>
#include <utility>

#include "weft/base/marks.h"

namespace weft {

void FailureDetector::start(uint64_t now_ns) {
  for (Peer& peer : peers_) peer.heard_ns = peer.current_view_heard_ns = now_ns;
}

void FailureDetector::adopt(const View& view, uint64_t now_ns) {
  if (view.change.cause == Cause::kLink) {
    for (const NodeId gone : view.change.of) {
      for (const auto& [end, other] : {std::pair(gone, view.change.by), std::pair(view.change.by, gone)}) {
        Peer& peer = peers_[end.value];
        if (now_ns > peer.links_ns + kLinkMemoryPaces * pace_ns_) peer.links = {};
        peer.links.add(other);
        peer.links_ns = now_ns;
      }
    }
  }
  members_ = view.member_nodes();
  for (size_t n = 0; n < peers_.size(); ++n) {
    Peer& peer = peers_[n];
    const Member* const member = view.find(NodeId(static_cast<uint8_t>(n)));
    const uint32_t incarnation = member == nullptr ? 0 : member->incarnation;
    peer.unheard = {};  // announced in an earlier view
    if (std::exchange(peer.incarnation, incarnation) == incarnation) continue;
    peer.heard_ns = peer.current_view_heard_ns = now_ns;
    peer.contact = Contact::kOpen;
  }
}

void FailureDetector::set_contact(NodeId node, Contact contact, uint64_t now_ns) {
  Peer& peer = peers_[node.value];
  if (std::exchange(peer.contact, contact) == Contact::kOpen) peer.contact_ns = now_ns - 1;
}

void FailureDetector::heard(NodeId node, uint64_t now_ns) { peers_[node.value].heard_ns = now_ns; }

bool FailureDetector::heard_in_current_view(NodeId node, NodeSet unheard, uint64_t now_ns) {
  Peer& peer = peers_[node.value];
  peer.current_view_heard_ns = now_ns;
  if (!(peer.unheard & unheard).contains(self_)) peer.deaf_from_ns = now_ns;
  return std::exchange(peer.unheard, unheard) != unheard;
}

// A quarter of a lease counts all the same (the agent ensures it), so that a node that is late at every step still
// notices failures, after a few of them.
void FailureDetector::on_local_stall(uint64_t for_ns, uint64_t now_ns) {
  WEFT_MARK("a node that was away itself suspects nobody yet");
  for (Peer& peer : peers_) {
    peer.heard_ns = std::min(peer.heard_ns + for_ns, now_ns);
    peer.current_view_heard_ns = std::min(peer.current_view_heard_ns + for_ns, now_ns);
    peer.deaf_from_ns = std::min(peer.deaf_from_ns + for_ns, now_ns);
  }
}

// F1.
uint64_t FailureDetector::silent_from_ns(const Peer& peer) const {
  if (peer.contact == Contact::kEnded) return 0;
  if (peer.contact != Contact::kOpen) return peer.contact_ns;
  return std::min(peer.heard_ns + lease_ns_, peer.current_view_heard_ns + 2 * lease_ns_);
}

// F3. A member that does not hear this node announces it early, and must keep announcing it until its lease would be
// over.
uint64_t FailureDetector::lost_from_ns(const Peer& peer) const {
  const bool deaf = peer.unheard.contains(self_) && peer.current_view_heard_ns >= peer.deaf_from_ns + early_ns();
  return std::min(silent_from_ns(peer), deaf ? peer.deaf_from_ns + early_ns() : UINT64_MAX);
}

// Members ask each other four times in a lease. When the first of them has not heard a dead member for a lease, the
// others' last announcements are up to a quarter old, and what they knew then is another quarter behind. So they
// announce early.
NodeSet FailureDetector::unheard(uint64_t now_ns) const {
  NodeSet nodes;
  for (const NodeId node : others()) {
    const Peer& peer = peers_[node.value];
    const uint64_t from_ns = silent_from_ns(peer);
    if (now_ns > (peer.contact == Contact::kOpen ? from_ns - early_ns() : from_ns)) nodes.add(node);
  }
  return nodes;
}

// The members that it does not hear or that do not hear it, as far as this node knows.
NodeSet FailureDetector::lost_links(NodeId node, NodeSet lost_here) const {
  NodeSet lost = node == self_ ? lost_here : peers_[node.value].unheard;
  if (node != self_ && lost_here.contains(node)) lost.add(self_);
  for (const NodeId other : others() - NodeSet::of(node)) {
    if (peers_[other.value].unheard.contains(node)) lost.add(other);
  }
  return lost & members_;
}

bool FailureDetector::loses_to(NodeId a, NodeId b, NodeSet lost_here, uint64_t now_ns) const {
  const auto rank = [&](NodeId node, NodeId other) {
    const Peer& peer = peers_[node.value];
    const bool late = now_ns > peer.links_ns + kLinkMemoryPaces * pace_ns_;
    const NodeSet links = (late ? NodeSet{} : peer.links) | lost_links(node, lost_here);
    return std::pair((links - NodeSet::of(other)).size(), peer.incarnation);
  };
  return rank(a, b) > rank(b, a);
}

FailureDetector::Verdict FailureDetector::judge(uint64_t now_ns) const {
  Verdict verdict;
  uint64_t since_ns = 0;
  NodeSet ended, closed, lost;  // lost: only the link, so others may hear it
  for (const NodeId node : others()) {
    const Peer& peer = peers_[node.value];
    if (now_ns > silent_from_ns(peer)) verdict.silent.add(node);
    if (now_ns <= lost_from_ns(peer)) continue;
    if (peer.contact == Contact::kEnded) {
      ended.add(node);
      continue;
    }
    (peer.contact == Contact::kClosed ? closed : lost).add(node);
    since_ns = std::max(since_ns, lost_from_ns(peer));
  }
  const auto missing = static_cast<uint64_t>((closed | lost).size());
  if (missing > 1 && now_ns < since_ns + (missing - 1) * lease_ns_ / 2) closed = lost = {};  // F4
  const NodeSet witnesses = others() - verdict.silent;
  NodeSet unheard, links;
  for (const NodeId node : lost) {
    const Peer& peer = peers_[node.value];
    bool heard = !verdict.silent.contains(node);  // by a member that this one hears
    for (const NodeId other : witnesses - NodeSet::of(node)) {
      heard = heard || !peers_[other.value].unheard.contains(node);
    }
    const bool stays = loses_to(node, self_, lost, now_ns);
    const bool waited = now_ns > lost_from_ns(peer) + (stays ? pace_ns_ / 16 : lease_ns_);
    const bool everybody = !heard && !witnesses.empty();
    if (everybody || waited) (heard ? links : unheard).add(node);
  }
  verdict.gone = ended | closed | links | unheard;
  verdict.change.by = self_;
  const std::array<std::pair<Cause, NodeSet>, 4> causes = {
      {{Cause::kLink, links}, {Cause::kMisconduct, closed}, {Cause::kEnded, ended}, {Cause::kUnheard, unheard}}};
  for (const auto& [cause, of] : causes) {
    if (of.empty()) continue;
    verdict.change.cause = cause;
    verdict.change.of = of;
    break;
  }
  return verdict;
}

}  // namespace weft
