// A node's memory for one-sided verbs, and who may reach it when.
#include <algorithm>

#include "weft/base/check.h"
#include "weft/txn/node.h"
#include "weft/txn/protocol.h"
#include "weft/txn/slot_table.h"

namespace weft {

// For what limits allow a worker to have under way: each transaction reads records, and commits them as images of
// records and log entries to every replica. Reserved, and touched as it is used.
size_t Node::post_bytes() const {
  const Limits& limits = spec_.options.limits;
  const size_t of_one = 4 * (size_t{limits.txn_bytes_max} + size_t{limits.txn_keys_max} * 256) +
                        2 * static_cast<size_t>(spec_.options.replicas) * ring_bytes() / 4;
  return align_up(of_one * 2 * static_cast<size_t>(SlotTable::slots_for(limits)) + (size_t{16} << 20), kHugePageBytes);
}

std::byte* Node::post_memory(WorkerId worker) const { return post_memory_->base() + worker.value * post_bytes(); }

Result<void> Node::make_verb_memory() {
  const auto workers = static_cast<size_t>(spec_.options.workers);
  const size_t rings = ring_offset(WorkerId(static_cast<uint8_t>(workers)), NodeId(0));
  const size_t bytes = align_up(rings, kHugePageBytes);
  auto posts = Region::create(workers * post_bytes());
  if (!posts) return posts.error();
  post_memory_ = std::move(*posts);
  if (verb_memory_ != nullptr && verb_memory_->bytes() >= bytes) {
    // Made anew with other switches: nothing of an earlier life may look like an entry.
    verb_memory_->discard(0, verb_memory_->bytes());
    return {};
  }
  const RegionSharing sharing = spec_.shares_memory ? RegionSharing::kShared : RegionSharing::kPrivate;
  if (verb_memory_ != nullptr && sharing == RegionSharing::kShared) {
    return Error{Code::kBadOption, "protocol " + spec_.options.protocol + " needs " + std::to_string(bytes) +
                                       " bytes for verbs with these limits, there are " +
                                       std::to_string(verb_memory_->bytes()) + " since the cluster was opened"};
  }
  auto region = Region::create(bytes, RegionKind::kHost, sharing);
  if (!region) return region.error();
  if (verb_memory_ != nullptr) {
    regions_->replace(verb_region(), region->get());
    verb_memory_ = std::move(*region);
    return {};
  }
  verb_memory_ = std::move(*region);
  const RegionId id = regions_->add(verb_memory_.get());
  WEFT_CHECK(id == verb_region(), "the verb region comes after those of the tables");
  return {};
}

void Node::stop_access(Epoch epoch) {
  if (regions_ == nullptr || verb_memory_ == nullptr) return;
  const std::scoped_lock lock(access_mutex_);
  if (access_epoch_ >= epoch) return;
  access_epoch_ = epoch;
  access_ = false;
  if (spec_.bugs.has(Bug::kRevokeLate)) return;
  for (int n = 0; n < spec_.options.nodes; ++n) regions_->revoke(NodeId(static_cast<uint8_t>(n)));
}

void Node::grant_access(const View& view) {
  const std::scoped_lock lock(access_mutex_);
  if (access_epoch_ > view.epoch || access_) return;
  access_epoch_ = view.epoch;
  access_ = true;
  if (spec_.bugs.has(Bug::kRevokeLate)) {
    for (int n = 0; n < spec_.options.nodes; ++n) regions_->revoke(NodeId(static_cast<uint8_t>(n)));
  }
  for (const Member& member : view.members) regions_->grant(member.node);
}

void Node::went_active(std::shared_ptr<const View> view) {
  const std::scoped_lock lock(published_mutex_);
  if (last_active_ == nullptr || last_active_->epoch < view->epoch) last_active_ = std::move(view);
}

std::shared_ptr<const View> Node::last_active() const {
  const std::scoped_lock lock(published_mutex_);
  return last_active_;
}

bool Node::together(Together step, const View& view, WorkerId worker) {
  auto& reached = together_[static_cast<size_t>(step)];
  reached[worker.value].store(view.epoch.value, std::memory_order_release);
  const bool all = std::all_of(reached.begin(), reached.begin() + workers(),
                               [&](const auto& at) { return at.load(std::memory_order_acquire) >= view.epoch.value; });
  if (all && step == Together::kApply && protocol_->verbs()) grant_access(view);
  return all;
}

}  // namespace weft
