#include "weft/member/supervisor_view_store.h"

#include <algorithm>

namespace weft {

Result<void> SupervisorViewStore::announce(const Member& self) {
  if (view_ != nullptr || self.node.value >= announced_.size()) return {};
  announced_[self.node.value] = self;
  const auto has_come = [](const auto& member) { return member.has_value(); };
  if (!std::all_of(announced_.begin(), announced_.end(), has_come)) return {};
  std::vector<Member> initial_members;
  for (const auto& member : announced_) initial_members.push_back(*member);
  const Result<View> first = first_view(bootstrap_, initial_members);
  if (!first) return first.error();
  accept(*first);
  return {};
}

bool SupervisorViewStore::propose(const View& next) {
  if (view_ == nullptr || next_ != nullptr || next.epoch.value != view_->epoch.value + 1) return false;
  accept(next);
  return true;
}

void SupervisorViewStore::accept(const View& next) {
  next_ = std::make_shared<const View>(next);
  for (const Member& member : next.members) {
    incarnations_[member.token] = member.incarnation;
    if (ended_tokens_.contains(member.token)) ended_incarnations_.insert(member.incarnation);
  }
  publish_if_fenced();
}

void SupervisorViewStore::process_ended(uint64_t token) {
  ended_tokens_.insert(token);
  if (view_ == nullptr) {
    for (auto& member : announced_) {
      if (member && member->token == token) member.reset();
    }
  }
  if (const auto known = incarnations_.find(token); known != incarnations_.end()) {
    ended_incarnations_.insert(known->second);
  }
  publish_if_fenced();
}

std::vector<uint64_t> SupervisorViewStore::processes_to_kill() const {
  std::vector<uint64_t> tokens;
  if (next_ == nullptr || view_ == nullptr) return tokens;
  for (const Member& member : view_->members) {
    const Member* still = next_->find(member.node);
    const bool stays = still != nullptr && still->token == member.token;
    if (!stays && !ended_tokens_.contains(member.token)) tokens.push_back(member.token);
  }
  return tokens;
}

void SupervisorViewStore::publish_if_fenced() {
  if (next_ == nullptr || !processes_to_kill().empty()) return;
  view_ = std::move(next_);
  next_ = nullptr;
}

std::string SupervisorViewStore::lost_partition() const {
  if (view_ == nullptr) return {};
  for (size_t p = 0; p < view_->partitions.size(); ++p) {
    const Placement& placement = view_->partitions[p];
    const bool gone = std::all_of(view_->members.begin(), view_->members.end(), [&](const Member& member) {
      return !placement.is_in_sync(member.node) || ended_tokens_.contains(member.token);
    });
    if (gone) return "partition " + std::to_string(p) + " has lost its last whole replica";
  }
  return {};
}

}  // namespace weft
