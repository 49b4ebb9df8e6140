#include "weft/member/admission.h"

#include <algorithm>

namespace weft {

void BackOff::removed(uint64_t now_ns) {
  const bool calm = came_in_ns_ != 0 && now_ns - came_in_ns_ >= kCalm * pace_ns_;
  removals_ = calm ? 1 : removals_ + 1;
  came_in_ns_ = 0;
  // The first time may have been a single stall.
  const uint64_t doublings = std::min<uint64_t>(removals_, 16) - 1;
  wait_ns_ = doublings == 0 ? 0 : std::min((kFirst * pace_ns_) << (doublings - 1), kMost * pace_ns_);
  until_ns_ = now_ns + wait_ns_;
}

std::vector<Member> Admission::due(const View& view, uint64_t now_ns) {
  std::vector<Member> out;
  for (const Member& member : view.members) {
    if (was_here(member) || member.node.value >= kNodesMax) continue;
    Word& word = words_[member.node.value];
    if (word.incarnation != member.incarnation) {
      word = Word();
      word.incarnation = member.incarnation;
    }
    if (word.open || now_ns < word.again_ns) continue;
    word.open = true;
    word.wait_ns = std::clamp(2 * word.wait_ns, pace_ns_ / kAskFirst, kAskMost * pace_ns_);
    word.again_ns = now_ns + word.wait_ns;
    out.push_back(member);
  }
  return out;
}

std::string Admission::answered(NodeId from, uint32_t incarnation, const std::string& answer, uint64_t now_ns) {
  Word& word = words_[from.value];
  if (word.incarnation != incarnation || !word.open) return {};
  word.open = false;
  word.runs = from == self_.node && answer.empty();
  const std::string why = word.runs ? "it runs there already; it has to end first" : answer;
  word.given_until_ns = why.empty() ? now_ns + kWord * pace_ns_ : 0;
  if (why.empty()) {
    word.wait_ns = 0;
    word.again_ns = now_ns + kWord * pace_ns_ / 2;
  }
  const bool news = word.said != why;
  word.said = why;
  return news ? why : std::string();
}

bool Admission::may_go_on(const View& view, uint64_t now_ns) const {
  const auto has_given = [&](const Member& member) { return given(member, now_ns); };
  const Member* const last = view.find(self_.node);
  if (last == nullptr) return std::all_of(view.members.begin(), view.members.end(), has_given);
  if (was_here(*last)) return std::any_of(view.members.begin(), view.members.end(), has_given);
  // Its last process may be somewhere else, and run: then it answers.
  const Word& of_last = words_[self_.node.value];
  if (of_last.incarnation != last->incarnation || of_last.open || of_last.runs || of_last.said.empty()) {
    return false;
  }
  return view.members.size() > 1 && std::all_of(view.members.begin(), view.members.end(), [&](const Member& member) {
           return member.node == self_.node || has_given(member);
         });
}

std::string Admission::trouble(const View& view, uint64_t now_ns) const {
  for (const Member& member : view.members) {
    const Word& word = words_[member.node.value];
    if (was_here(member) || given(member, now_ns) || word.incarnation != member.incarnation || word.said.empty()) {
      continue;
    }
    return "node " + std::to_string(member.node.value) + ": " + word.said;
  }
  return {};
}

}  // namespace weft
