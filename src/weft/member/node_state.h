// NodeState: state shared by a node's agent, its workers and its control thread: the newest view, when the lease
// expires, which peers are lost. Small atomics and one mutex; any thread may use it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "weft/base/check.h"
#include "weft/member/view.h"
#include "weft/options.h"
#include "weft/types.h"

namespace weft {

// The lease (rule E1): until when this node may claim that something is current. Unlimited until first set.
class Lease {
 public:
  void set_until(uint64_t ns) { until_ns_.store(ns, std::memory_order_release); }
  uint64_t until_ns() const { return until_ns_.load(std::memory_order_acquire); }
  bool in_use() const { return until_ns() != UINT64_MAX; }
  // When the leases that this node granted to removed members have expired (rule E2).
  void set_fenced_after(uint64_t ns) { fenced_after_ns_.store(ns, std::memory_order_release); }
  uint64_t fenced_after_ns() const { return fenced_after_ns_.load(std::memory_order_acquire); }

 private:
  std::atomic<uint64_t> until_ns_{UINT64_MAX};
  std::atomic<uint64_t> fenced_after_ns_{0};
};

// The links to the node's peers, by incarnation.
class PeerLinks {
 public:
  explicit PeerLinks(int workers) : workers_(static_cast<size_t>(workers)) {
    WEFT_CHECK(workers >= 0 && workers <= kWorkersMax, "a node has not too many workers");
  }

  // A worker has closed its channel to this peer because of what it sent: the peer must be removed.
  void set_closed(NodeId peer, uint32_t incarnation) {
    closed_[peer.value].store(incarnation, std::memory_order_release);
  }
  bool is_closed(NodeId peer, uint32_t incarnation) const {
    return closed_[peer.value].load(std::memory_order_acquire) == incarnation && incarnation != 0;
  }
  // The connection to this peer is lost. One of the two must be removed; if neither can be, they reconnect in a view
  // that has both.
  void set_lost(NodeId peer, uint32_t incarnation) { lost_[peer.value].store(incarnation, std::memory_order_release); }
  bool is_lost(NodeId peer, uint32_t incarnation) const {
    return lost_[peer.value].load(std::memory_order_acquire) == incarnation && incarnation != 0;
  }
  // Called before that view is published. The workers reset their state of the peer when they adopt it, and only when
  // all of them have may the nodes reconnect (may_reconnect): both ends of a connection count packets from 0.
  void reconnect(NodeId peer, Epoch epoch) {
    reconnects_[peer.value].store(epoch.value, std::memory_order_release);
    lost_[peer.value].store(0, std::memory_order_release);
  }
  uint32_t reconnects(NodeId peer) const { return reconnects_[peer.value].load(std::memory_order_acquire); }
  bool may_reconnect(NodeId peer, uint32_t incarnation) const {
    return !is_lost(peer, incarnation) &&
           std::all_of(adopted_.begin(), adopted_.begin() + static_cast<ptrdiff_t>(workers_),
                       [&](const auto& at) { return at.load(std::memory_order_acquire) >= reconnects(peer); });
  }
  void worker_adopted(Epoch epoch, WorkerId worker) {
    WEFT_CHECK(worker.value < workers_, "only workers of the node adopt");
    adopted_[worker.value].store(epoch.value, std::memory_order_release);
  }

 private:
  const size_t workers_;
  std::array<std::atomic<uint32_t>, kNodesMax + 1> closed_{};      // by peer: the incarnation
  std::array<std::atomic<uint32_t>, kNodesMax + 1> lost_{};        // the same
  std::array<std::atomic<uint32_t>, kNodesMax + 1> reconnects_{};  // by peer: the epoch
  std::array<std::atomic<uint32_t>, kWorkersMax> adopted_{};
};

// The views of a node.
class ViewBoard {
 public:
  // A node that joins starts with a view that it is not in.
  ViewBoard(View first, bool joins) : first_(std::make_shared<const View>(std::move(first))), joins_(joins) {}

  const std::shared_ptr<const View>& first() const { return first_; }
  bool joins() const { return joins_; }
  // Identifies this process in a view (Member::token). Set before the workers run.
  void set_token(uint64_t token) { token_ = token; }
  uint64_t token() const { return token_; }

  // Publishes a new view to all workers: each adopts it in its next step.
  void publish(std::shared_ptr<const View> view) {
    const uint32_t epoch = view->epoch.value;
    WEFT_CHECK(epoch != 0, "epochs begin with 1");
    {
      const std::scoped_lock lock(mutex_);
      // Before a node joins, its first view describes what an earlier process of the node held.
      if (on_publish_ && (published_ != nullptr || !joins_)) {
        on_publish_(published_ != nullptr ? *published_ : *first_, *view);
      }
      published_ = std::move(view);
    }
    published_epoch_.store(epoch, std::memory_order_release);
    wake();
  }
  uint32_t published_epoch() const { return published_epoch_.load(std::memory_order_acquire); }
  std::shared_ptr<const View> published() const {  // nullptr: none yet
    const std::scoped_lock lock(mutex_);
    return published_;
  }
  // Called with the previous view and the one being published. Set before the workers run.
  void set_on_publish(std::function<void(const View&, const View&)> call) { on_publish_ = std::move(call); }

  // The last view in which a worker of this node was active; nullptr: none. It does not change between
  // WorkerBarrier::Step::kApply, when all workers have stopped, and the moment the first is active in the new view, so
  // every worker sees the same: decisions of one must take into account what another has copied while it caught up on
  // a partition.
  void went_active(std::shared_ptr<const View> view) {
    const std::scoped_lock lock(mutex_);
    if (last_active_ == nullptr || last_active_->epoch < view->epoch) last_active_ = std::move(view);
  }
  std::shared_ptr<const View> last_active() const {
    const std::scoped_lock lock(mutex_);
    return last_active_;
  }

  // Wakes the threads that run this node's workers; publish() does so too. Set before they run.
  void set_wake(std::function<void()> wake) { wake_ = std::move(wake); }
  void wake() const {
    if (wake_) wake_();
  }

 private:
  const std::shared_ptr<const View> first_;
  const bool joins_;
  uint64_t token_ = 0;
  std::function<void()> wake_;
  std::function<void(const View&, const View&)> on_publish_;
  mutable std::mutex mutex_;
  std::shared_ptr<const View> published_;
  std::shared_ptr<const View> last_active_;
  std::atomic<uint32_t> published_epoch_{0};
};

struct NodeState {
  NodeState(const View& view, bool joins, int workers) : views(view, joins), links(workers) {}

  ViewBoard views;
  Lease lease;
  PeerLinks links;
};

}  // namespace weft
