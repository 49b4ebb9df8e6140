// Admission: how a process that is not a member gets into the view. It asks every member for approval: that the member
// is up, that its configuration agrees with this node's, and that the two reach each other in both directions
// (Interconnect::knock). A view with the new node may be proposed only after every member has approved. Members are
// always fully connected, so a node that a single member cannot reach would be removed at once, and every view change
// stops everybody for a moment.
//
// A1: a view that admits a node has only members that approved it shortly before.
// A2: a node that was removed while it ran waits before it asks again, longer each time, unless it had been a member
//     for long. A newly started process does not wait.
// A3: a silent member keeps nobody out for long: the others remove it.
//
// Pure logic: it neither sends nor waits. Owned by the control thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/member/view.h"
#include "weft/types.h"

namespace weft {

// How long a node that was removed while it ran stays outside (A2). It outlives the node's incarnations.
class JoinBackoff {
 public:
  // In paces (NodeAgentOptions::kPaceNs).
  static constexpr uint64_t kFirstPaces = 2, kMostPaces = 64;
  static constexpr uint64_t kStablePaces = 60;  // a node that was a member for this long starts over

  explicit JoinBackoff(uint64_t pace_ns) : pace_ns_(pace_ns) {}

  void joined(uint64_t now_ns) { joined_ns_ = now_ns; }
  void removed(uint64_t now_ns);
  uint64_t until_ns() const { return until_ns_; }
  uint64_t wait_ns() const { return wait_ns_; }    // the last wait
  uint32_t removals() const { return removals_; }  // since it was last stable

 private:
  uint64_t pace_ns_;
  uint64_t joined_ns_ = 0;
  uint64_t until_ns_ = 0;
  uint64_t wait_ns_ = 0;
  uint32_t removals_ = 0;
};

class Admission {
 public:
  // In paces: how long an approval is valid (it is renewed before it expires), and the longest interval between
  // retries to a member that has not approved.
  static constexpr uint64_t kApprovalPaces = 4;
  static constexpr uint64_t kRetryPacesMax = 4;
  static constexpr uint64_t kFirstRetryDivisor = 5;  // the first retry comes after this fraction of a pace

  // `self`: node and address.
  Admission(const Member& self, uint64_t pace_ns) : self_(self), pace_ns_(pace_ns) {}

  // Which members to ask now. Every question gets an answered() call, even if no reply came.
  std::vector<Member> due(const View& view, uint64_t now_ns);
  // `answer` is empty if the member approved. Returns the obstacle if it differs from the last one.
  std::string answered(NodeId from, uint32_t incarnation, const std::string& answer, uint64_t now_ns);
  // Whether the next change may be proposed: the removal of this node's previous process if that is still in the view
  // and no longer answers, otherwise the admission of this one.
  bool may_propose(const View& view, uint64_t now_ns) const;
  // What keeps the node out, for people: the first member that has not approved, and why. Empty if all have.
  std::string obstacle(const View& view, uint64_t now_ns) const;

 private:
  struct Approval {
    uint32_t incarnation = 0;  // of the member that was asked
    bool open = false;         // no answer yet
    bool runs = false;         // the previous process of this node still answers
    uint64_t given_until_ns = 0;
    uint64_t again_ns = 0;  // when to ask again
    uint64_t wait_ns = 0;
    std::string obstacle;  // why it did not approve
  };
  // No other process can have this one's address.
  bool has_own_address(const Member& member) const {
    return member.node == self_.node && member.address == self_.address;
  }
  bool given(const Member& member, uint64_t now_ns) const {
    const Approval& approval = approvals_[member.node.value];
    return approval.incarnation == member.incarnation && now_ns < approval.given_until_ns;
  }

  const Member self_;
  const uint64_t pace_ns_;
  std::array<Approval, kNodesMax + 1> approvals_{};
};

}  // namespace weft
