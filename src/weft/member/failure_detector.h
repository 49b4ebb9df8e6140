// FailureDetector: whom a member takes for gone, and which of two that have lost each other goes.
//
// F1: a member is silent at once when its process has ended, when it sent what no correct member sends, or when the
//     connection to it is lost; else when it was not heard of for a lease, or not in the newest view for two.
// F2: members tell each other whom they do not hear. Whom nobody hears any more goes at once.
// F3: a link is lost if either end does not hear the other; then one of the two goes: the one that has lost links with
//     more other members, now or of late, else the younger. The end that stays proposes that, after the short time in
//     which others may find out that they do not hear it either; the end that is to go waits for a lease, in case the
//     other one cannot.
// F4: of two halves the smaller goes: the more are lost here, the longer it waits for somebody who misses fewer.
//
// A view change does not start the count anew: members that come and go all the time do not hide one that is silent.
// The time that this node itself did not run does not count: after a stall of the whole machine the first to wake would
// remove all others.
//
// Pure: it neither sends nor proposes. The agent's.
#pragma once

#include <array>
#include <cstdint>

#include "weft/member/view.h"
#include "weft/types.h"

namespace weft {

// What is known of a member without hearing it.
enum class Contact : uint8_t {
  kOpen,    // nothing is wrong with its connection
  kLost,    // the connection is
  kClosed,  // for what it sent
  kEnded,   // its process
};

class FailureDetector {
 public:
  static constexpr uint64_t kLinkMemoryPaces = 120;  // which links were lost

  // `pace_ns`: what is short, whatever the lease.
  FailureDetector(NodeId self, uint64_t lease_ns, uint64_t pace_ns)
      : self_(self), lease_ns_(lease_ns), pace_ns_(pace_ns) {}

  void start(uint64_t now_ns);  // nobody was silent before
  void adopt(const View& view, uint64_t now_ns);
  void set_contact(NodeId node, Contact contact, uint64_t now_ns);
  void heard(NodeId node, uint64_t now_ns);
  // In the view that is adopted, with those that it does not hear itself. Whether that is news.
  bool heard_in_current_view(NodeId node, uint64_t unheard, uint64_t now_ns);
  // What the others sent meanwhile is not read yet.
  void on_local_stall(uint64_t for_ns, uint64_t now_ns);

  struct Verdict {
    uint64_t silent = 0;  // bit n: node n
    uint64_t gone = 0;    // to be removed now; not all of them need be silent here
    Change change;        // why
  };
  Verdict judge(uint64_t now_ns) const;
  uint64_t unheard(uint64_t now_ns) const;  // to tell the others
  uint64_t heard_ns(NodeId node) const { return peers_[node.value].heard_ns; }
  Contact contact(NodeId node) const { return peers_[node.value].contact; }

 private:
  struct Peer {
    uint32_t incarnation = 0;  // 0: no member
    Contact contact = Contact::kOpen;
    uint64_t heard_ns = 0;               // the last time: of any view
    uint64_t current_view_heard_ns = 0;  // and of the view that was the newest here then
    uint64_t contact_ns = 0;             // when its connection was found to be lost or closed
    uint64_t unheard = 0;                // whom it does not hear, as it says
    uint64_t deaf_from_ns = 0;           // unheard has this node: since when it says so
    uint64_t links = 0;  // members with which it has lost a link while others heard it; of its node, not of the process
    uint64_t links_ns = 0;  // the last of them
  };
  uint64_t silent_from_ns(const Peer& peer) const;
  // When the link with it counts as lost, because it is silent or because it does not hear this node.
  uint64_t lost_from_ns(const Peer& peer) const;
  uint64_t lost_links(NodeId node, uint64_t lost_here) const;
  bool loses_to(NodeId a, NodeId b, uint64_t lost_here, uint64_t now_ns) const;
  uint64_t others() const { return members_ & ~bit(self_); }
  // Members say early whom they do not hear: so much before a lease is over.
  uint64_t early_ns() const { return lease_ns_ - lease_ns_ * 3 / 8; }

  const NodeId self_;
  const uint64_t lease_ns_;
  const uint64_t pace_ns_;
  uint64_t members_ = 0;
  std::array<Peer, kNodesMax + 1> peers_{};
};

}  // namespace weft
