// Admission: how a process that is no member gets into the view. It asks every member for its word: that it is there,
// agrees with this node, and that the two reach each other, both ways (Interconnect::knock). Only when it has the word
// of all of them may a view with it be proposed: members are always fully connected, so one that a single member does
// not reach would be removed at once, and every view change stops everybody for a moment.
//
// A1: a view that lets a node in has only members that gave it their word shortly before.
// A2: who was removed while it ran waits before it asks again, longer each time, unless it was a member for long. A
//     process that was started anew waits for nothing.
// A3: a member that is silent keeps nobody out for long: the others remove it.
//
// Pure: it neither asks nor waits itself. The control thread's.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/member/view.h"
#include "weft/types.h"

namespace weft {

// How long a node stays outside that was removed while it ran (A2). It outlives the node's lives.
class JoinBackoff {
 public:
  // In paces (NodeAgentOptions::kPaceNs).
  static constexpr uint64_t kFirstPaces = 2, kMostPaces = 64;
  static constexpr uint64_t kStablePaces = 60;  // a member for so long starts anew

  explicit JoinBackoff(uint64_t pace_ns) : pace_ns_(pace_ns) {}

  void joined(uint64_t now_ns) { joined_ns_ = now_ns; }
  void removed(uint64_t now_ns);
  uint64_t until_ns() const { return until_ns_; }
  uint64_t wait_ns() const { return wait_ns_; }    // of the last time
  uint32_t removals() const { return removals_; }  // with no calm in between

 private:
  uint64_t pace_ns_;
  uint64_t joined_ns_ = 0;
  uint64_t until_ns_ = 0;
  uint64_t wait_ns_ = 0;
  uint32_t removals_ = 0;
};

class Admission {
 public:
  // In paces: a word counts for so long, and is asked for again in good time; who has not given it is asked again after
  // up to so many.
  static constexpr uint64_t kApprovalPaces = 4;
  static constexpr uint64_t kRetryPacesMax = 4;
  static constexpr uint64_t kFirstRetryDivisor = 5;  // the first time after a part of a pace, one of so many

  // `self`: node and address.
  Admission(const Member& self, uint64_t pace_ns) : self_(self), pace_ns_(pace_ns) {}

  // Whom to ask now. Each question gets an answer, also if that is that none came.
  std::vector<Member> due(const View& view, uint64_t now_ns);
  // `answer` is empty if it gave its word. Returns what is in the way, if that is something else than before.
  std::string answered(NodeId from, uint32_t incarnation, const std::string& answer, uint64_t now_ns);
  // Whether the next change may be proposed: to remove the last process of this node, if it is in the view still and
  // does not answer any more, or else to let this one in.
  bool may_propose(const View& view, uint64_t now_ns) const;
  // What keeps it outside, for people: the first member that has not given its word, and why. Empty if all have.
  std::string obstacle(const View& view, uint64_t now_ns) const;

 private:
  struct Approval {
    uint32_t incarnation = 0;  // that was asked
    bool open = false;         // no answer yet
    bool runs = false;         // the last process of this node's name answers
    uint64_t given_until_ns = 0;
    uint64_t again_ns = 0;  // ask again
    uint64_t wait_ns = 0;
    std::string obstacle;  // what was in the way
  };
  // Another process cannot be where this one is.
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
