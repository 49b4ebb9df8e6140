// ViewState: which view one worker is in, and how far it has come with it. Every part of a worker reads it; only
// recovery changes it (recovery.cc).
//
//   a view is adopted -> recovering -> active -> ...
//                     \-> removed: the view is without this node, or has another one of its name
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "weft/base/check.h"
#include "weft/member/view.h"
#include "weft/types.h"

namespace weft {

// The epoch of packets, while recovering into a view, and when it is active.
inline constexpr Epoch port_epoch(Epoch view, bool active) { return Epoch(2 * view.value - (active ? 1 : 2)); }

// What this node has of a partition, as bits.
enum ReplicaRole : uint8_t { kInSync = 1, kCatchingUp = 2, kPrimary = 4 };

class ViewState {
 public:
  // A node that starts with its cluster is active at once; one that joins waits for a view that it is in.
  ViewState(NodeId self, std::shared_ptr<const View> view, bool active)
      : self_(self), view_(std::move(view)), active_(active), was_active_(active) {
    WEFT_CHECK(view_ != nullptr && self.value < kNodesMax, "a worker has a name, and always a view");
    roles_.resize(view_->partitions.size());
    set_roles();
    if (!active) return;
    incarnation_ = incarnation_of(self);
    WEFT_CHECK(incarnation_ != 0, "who starts active is a member");
    active_epoch_ = view_->epoch;
    for (const Member& m : view_->members) {
      if (m.node != self) peer_incarnations_[m.node.value] = m.incarnation;
    }
  }

  const View& current() const { return *view_; }
  bool runs_transactions() const { return runs_transactions_; }  // this node, in the view
  bool runs_transactions(NodeId node) const {
    const Member* const member = member_of(node);
    return member != nullptr && weft::runs_transactions(member->roles);
  }
  // ReplicaRoles of this node in the view, by partition. They stay where they are.
  const uint8_t* roles() const { return roles_.data(); }
  const std::shared_ptr<const View>& shared() const { return view_; }
  bool active() const { return active_; }
  bool removed() const { return removed_; }
  bool recovering() const { return !active_ && !removed_; }
  bool was_active() const { return was_active_; }        // once
  Epoch active_epoch() const { return active_epoch_; }   // the last one
  uint32_t incarnation() const { return incarnation_; }  // of this node; 0: not a member yet
  uint32_t incarnation_of(NodeId node) const {           // in the view; 0: not a member
    const Member* const member = member_of(node);
    return member == nullptr ? 0 : member->incarnation;
  }

  // Peers whose channel is closed because of a fault.
  NodeSet lost_peers() const { return lost_peers_; }
  bool is_lost(NodeId node) const { return lost_peers_.contains(node); }
  void mark_lost(NodeId node) {
    WEFT_CHECK(node != self_, "a node does not lose itself");
    lost_peers_.add(node);
  }

  // The incarnation of the peer whose channel is open; 0: none.
  uint32_t peer_incarnation(NodeId node) const { return peer_incarnations_[node.value]; }
  // Another process has this peer's name now, or none has.
  void replace_peer(NodeId node, uint32_t incarnation) {
    uint32_t& known = peer_incarnations_[node.value];
    WEFT_CHECK(node != self_ && known != incarnation, "a peer is replaced by another one");
    if (known != 0) departed_.add(node);
    known = incarnation;
    lost_peers_.remove(node);
  }
  // Whether the node has departed since this worker was last active.
  bool departed(NodeId node) const { return departed_.contains(node); }

  // Whether the view excludes this process. It stays only if the view has it as it was when it last served.
  bool is_removed_by(const View& view, uint64_t token) const {
    const Member* self = view.find(self_);
    return self == nullptr || self->token != token || (was_active_ && self->incarnation != incarnation_);
  }
  void stop(bool removed) {
    active_ = false;
    removed_ = removed;
  }
  void adopt(std::shared_ptr<const View> view) {
    WEFT_CHECK(!active_ && (view->epoch > view_->epoch || !was_active_), "a worker stops, and views only grow");
    old_views_.push_back(std::move(view_));
    view_ = std::move(view);
    set_roles();
    WEFT_CHECK(removed_ || view_->find(self_) != nullptr, "who is not in a view is removed by it");
    if (!removed_ && !was_active_) incarnation_ = view_->find(self_)->incarnation;
  }
  // `oldest_in_use`: the oldest view that transactions still point into.
  void activate(uint32_t oldest_in_use) {
    WEFT_CHECK(recovering(), "a worker recovers, then it is active");
    WEFT_CHECK(incarnation_ != 0, "a member has an incarnation");
    WEFT_CHECK(oldest_in_use <= view_->epoch.value, "no transaction is of a later view");
    active_ = was_active_ = true;
    active_epoch_ = view_->epoch;
    departed_ = {};
    std::erase_if(old_views_, [&](const auto& view) { return view->epoch.value < oldest_in_use; });
  }

 private:
  const Member* member_of(NodeId node) const {
    // Members are sorted; while none is missing, each is at the index of its id.
    const std::vector<Member>& members = view_->members;
    if (node.value < members.size() && members[node.value].node == node) return &members[node.value];
    return view_->find(node);
  }
  void set_roles() {
    const Member* const self = view_->find(self_);
    runs_transactions_ = self != nullptr && weft::runs_transactions(self->roles);
    WEFT_CHECK(view_->partitions.size() == roles_.size(), "a cluster keeps its number of partitions");
    for (size_t p = 0; p < roles_.size(); ++p) {
      const Placement& placement = view_->partitions[p];
      const bool primary = placement.count != 0 && placement.primary() == self_;
      roles_[p] = static_cast<uint8_t>((placement.is_in_sync(self_) ? kInSync : 0) |
                                       (placement.is_catching_up(self_) ? kCatchingUp : 0) | (primary ? kPrimary : 0));
    }
  }

  const NodeId self_;
  std::vector<uint8_t> roles_;
  std::shared_ptr<const View> view_;
  std::vector<std::shared_ptr<const View>> old_views_;  // transactions that began in them still point to them
  bool active_;
  bool was_active_;
  bool removed_ = false;
  bool runs_transactions_ = false;
  uint32_t incarnation_ = 0;
  Epoch active_epoch_;
  std::array<uint32_t, kNodesMax + 1> peer_incarnations_{};
  NodeSet departed_;    // those that have been removed or replaced since this worker was last active
  NodeSet lost_peers_;  // those whose channel is closed
};

}  // namespace weft
