#include "weft/member/admission.h"

#include <algorithm>

namespace weft {

void JoinBackoff::removed(uint64_t now_ns) {
  const bool stable = joined_ns_ != 0 && now_ns - joined_ns_ >= kStablePaces * pace_ns_;
  removals_ = stable ? 1 : removals_ + 1;
  joined_ns_ = 0;
  // The first removal may have been a single stall.
  const uint64_t doublings = std::min<uint64_t>(removals_, 16) - 1;
  wait_ns_ = doublings == 0 ? 0 : std::min((kFirstPaces * pace_ns_) << (doublings - 1), kMostPaces * pace_ns_);
  until_ns_ = now_ns + wait_ns_;
}

std::vector<Member> Admission::due(const View& view, uint64_t now_ns) {
  std::vector<Member> out;
  for (const Member& member : view.members) {
    if (has_own_address(member) || member.node.value >= kNodesMax) continue;
    Approval& approval = approvals_[member.node.value];
    if (approval.incarnation != member.incarnation) {
      approval = Approval();
      approval.incarnation = member.incarnation;
    }
    if (approval.open || now_ns < approval.again_ns) continue;
    approval.open = true;
    approval.wait_ns = std::clamp(2 * approval.wait_ns, pace_ns_ / kFirstRetryDivisor, kRetryPacesMax * pace_ns_);
    approval.again_ns = now_ns + approval.wait_ns;
    out.push_back(member);
  }
  return out;
}

std::string Admission::answered(NodeId from, uint32_t incarnation, const std::string& answer, uint64_t now_ns) {
  Approval& approval = approvals_[from.value];
  if (approval.incarnation != incarnation || !approval.open) return {};
  approval.open = false;
  approval.runs = from == self_.node && answer.empty();
  const std::string why = approval.runs ? "it runs there already; it has to end first" : answer;
  approval.given_until_ns = why.empty() ? now_ns + kApprovalPaces * pace_ns_ : 0;
  if (why.empty()) {
    approval.wait_ns = 0;
    approval.again_ns = now_ns + kApprovalPaces * pace_ns_ / 2;
  }
  const bool news = approval.obstacle != why;
  approval.obstacle = why;
  return news ? why : std::string();
}

bool Admission::may_propose(const View& view, uint64_t now_ns) const {
  const auto has_given = [&](const Member& member) { return given(member, now_ns); };
  const Member* const last = view.find(self_.node);
  if (last == nullptr) return std::all_of(view.members.begin(), view.members.end(), has_given);
  if (has_own_address(*last)) return std::any_of(view.members.begin(), view.members.end(), has_given);
  // The previous process may run at another address: then it answers.
  const Approval& of_last = approvals_[self_.node.value];
  if (of_last.incarnation != last->incarnation || of_last.open || of_last.runs || of_last.obstacle.empty()) {
    return false;
  }
  return view.members.size() > 1 && std::all_of(view.members.begin(), view.members.end(), [&](const Member& member) {
           return member.node == self_.node || has_given(member);
         });
}

std::string Admission::obstacle(const View& view, uint64_t now_ns) const {
  for (const Member& member : view.members) {
    const Approval& approval = approvals_[member.node.value];
    if (has_own_address(member) || given(member, now_ns) || approval.incarnation != member.incarnation ||
        approval.obstacle.empty()) {
      continue;
    }
    return "node " + std::to_string(member.node.value) + ": " + approval.obstacle;
  }
  return {};
}

}  // namespace weft
