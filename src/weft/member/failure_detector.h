// FailureDetector: which members this member considers failed, and which of two members that lost each other is
// removed.
//
// F1: a member is silent at once when its process has ended, when it sent what no correct member sends, or when the
//     connection to it is lost. Otherwise it is silent when it was not heard for one lease, or not in the newest view
//     for two.
// F2: members tell each other whom they do not hear. A member that nobody hears is removed at once.
// F3: a link is lost if either end does not hear the other. Then one of the two is removed: the one that has lost
//     links with more other members, now or recently, otherwise the younger. The end that stays proposes this after a
//     short time in which others may find that they do not hear it either. The end that is to go waits for a lease, in
//     case the other one cannot propose.
// F4: of two halves the smaller is removed: the more members are lost here, the longer this one waits for a member
//     that misses fewer.
//
// A view change does not restart the count, so members that join and leave all the time do not hide a silent one. Time
// during which this node itself did not run does not count; otherwise, after a stall of the whole machine, the first
// node to wake would remove all others.
//
// Pure logic: it neither sends nor proposes. Owned by the agent.
#pragma once

#include <array>
#include <cstdint>

#include "weft/member/view.h"
#include "weft/types.h"

namespace weft {

// What is known about a member other than by hearing it.
enum class Contact : uint8_t {
  kOpen,    // nothing is wrong with its connection
  kLost,    // its connection is lost
  kClosed,  // its connection was closed because of what it sent
  kEnded,   // its process has ended
};

class FailureDetector {
 public:
  static constexpr uint64_t kLinkMemoryPaces = 120;  // how long lost links are remembered

  // `pace_ns`: a short interval, independent of the lease.
  FailureDetector(NodeId self, uint64_t lease_ns, uint64_t pace_ns)
      : self_(self), lease_ns_(lease_ns), pace_ns_(pace_ns) {}

  void start(uint64_t now_ns);  // nobody counts as silent before
  void adopt(const View& view, uint64_t now_ns);
  void set_contact(NodeId node, Contact contact, uint64_t now_ns);
  void heard(NodeId node, uint64_t now_ns);
  // Heard in the adopted view, with the members that it does not hear itself. Returns whether that is new.
  bool heard_in_current_view(NodeId node, NodeSet unheard, uint64_t now_ns);
  // This node did not run; what the others sent in that time has not been read yet.
  void on_local_stall(uint64_t for_ns, uint64_t now_ns);

  struct Verdict {
    NodeSet silent;
    NodeSet gone;   // to be removed now; not all of them need be silent here
    Change change;  // the reason
  };
  Verdict judge(uint64_t now_ns) const;
  NodeSet unheard(uint64_t now_ns) const;  // to be announced to the others
  uint64_t heard_ns(NodeId node) const { return peers_[node.value].heard_ns; }
  Contact contact(NodeId node) const { return peers_[node.value].contact; }

 private:
  struct Peer {
    uint32_t incarnation = 0;  // 0: not a member
    Contact contact = Contact::kOpen;
    uint64_t heard_ns = 0;               // last heard, in any view
    uint64_t current_view_heard_ns = 0;  // last heard in the view that was the newest here then
    uint64_t contact_ns = 0;             // when its connection was found lost or closed
    NodeSet unheard;                     // whom it does not hear, according to itself
    uint64_t deaf_from_ns = 0;           // since when `unheard` includes this node
    NodeSet links;          // members with which it has lost a link while others heard it; per node, not per process
    uint64_t links_ns = 0;  // when the last of them was lost
  };
  uint64_t silent_from_ns(const Peer& peer) const;
  // When the link to it counts as lost, because it is silent or because it does not hear this node.
  uint64_t lost_from_ns(const Peer& peer) const;
  NodeSet lost_links(NodeId node, NodeSet lost_here) const;
  bool loses_to(NodeId a, NodeId b, NodeSet lost_here, uint64_t now_ns) const;
  NodeSet others() const { return members_ - NodeSet::of(self_); }
  // Members announce whom they do not hear this long before a lease is over.
  uint64_t early_ns() const { return lease_ns_ - lease_ns_ * 3 / 8; }

  const NodeId self_;
  const uint64_t lease_ns_;
  const uint64_t pace_ns_;
  NodeSet members_;
  std::array<Peer, kNodesMax + 1> peers_{};
};

}  // namespace weft
