// NodeAgent: a node's part in the membership, on the thread of its worker 0. It holds and grants leases, detects
// silent members, proposes views, and has its workers adopt new ones.
//
// Leases (rule E1): every member asks every other for a lease, four times in the lease's duration. The holder counts
// from sending the request, the granter from answering it. The node may claim that something is current until the
// first lease that it holds expires. A member that adopts a new view grants no more leases in the old one. It counts
// itself as stopped only when the leases that it granted to removed members have expired or the membership says that
// they are fenced (rule E2).
//
// failure_detector.h decides whom to propose for removal. A member that sees another with an older view forwards its
// own, so only one member has to reach the membership.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "weft/member/agent_host.h"
#include "weft/member/failure_detector.h"
#include "weft/member/membership.h"

namespace weft {

struct NodeAgentOptions {
  uint64_t lease_ns = 500'000'000;
  static constexpr uint64_t kPaceNs = 500'000'000;  // a longer lease slows down nothing but failure detection
  uint64_t drift_permille = 10;                     // the clocks of two nodes drift by at most this
  Member self;                                      // node, token and address to join with
};

class NodeAgent final : public NodeAgentHook {
 public:
  // Both pointers outlive the agent. Registers itself with the host, before the workers run.
  NodeAgent(const NodeAgentOptions& options, AgentHost* host, Membership* membership);
  ~NodeAgent() override;
  NodeAgent(const NodeAgent&) = delete;
  NodeAgent& operator=(const NodeAgent&) = delete;

  bool step(uint64_t now_ns) override;
  uint64_t deadline_ns() const override { return notified_.load(std::memory_order_acquire) ? 0 : next_step_ns_; }
  void on_message(NodeId from, ByteView message) override;

  const View* view() const { return view_.get(); }  // adopted; nullptr before the first. Only on the worker's thread.

  // Gossip: short texts that members' control threads send each other (server/cluster_stats.h), one way and best
  // effort. The agent only transports them. From any thread.
  static constexpr size_t kGossipBytesMax = 16 << 10;
  void send_gossip(const std::string& text);  // to all members at the next step; the last one counts
  struct Gossip {
    NodeId from;
    std::string text;
  };
  std::vector<Gossip> take_gossip();  // received since the last call; at most a few from each member

  // From any thread: a node that is not a member may propose the view that follows this one, to replace the previous
  // process of its node or to join itself (admission.h).
  void allow_join(Epoch epoch) { join_allowed_epoch_.store(epoch.value, std::memory_order_release); }

  // From any thread.
  // the membership has news: handle it at the next step
  void notify() { notified_.store(true, std::memory_order_release); }
  bool retired() const { return retired_.load(std::memory_order_acquire); }
  // Members of the view that were silent for too long.
  NodeSet suspects() const { return suspects_.load(std::memory_order_relaxed); }
  // Not empty: a silent member has the last in-sync replica of a partition, which the text names. The cluster waits
  // for it.
  std::string unavailable_reason() const {
    const std::scoped_lock lock(unavailable_mutex_);
    return unavailable_reason_;
  }

 private:
  struct Peer {
    uint64_t held_until_ns = 0;   // the lease that this node holds from it
    uint64_t given_until_ns = 0;  // the lease that this node granted to it
    uint64_t forwarded_ns = 0;    // when the view was last forwarded to it
    uint32_t suspected = 0;       // the incarnation last logged as suspected
  };

  struct Removed {
    NodeId node;
    uint32_t incarnation;
    uint64_t lease_until_ns;
  };

  bool in(const View& view) const;
  void update_fence(uint64_t now_ns);
  void adopt(const std::shared_ptr<const View>& view, uint64_t now_ns);
  bool join(const View& view, uint64_t now_ns);
  void ask_leases(uint64_t now_ns);
  void forward_view(NodeId to, uint64_t now_ns);
  void log_not_forwarded(size_t bytes, size_t most);
  void take_view(ByteView text);
  void flush_gossip();
  void receive_gossip(NodeId from, ByteView text);
  void update_lease();
  Contact contact_of(const Member& member) const;
  bool may_renew(NodeSet silent) const;
  void log_suspected(const Member& member, const FailureDetector::Verdict& verdict, uint64_t now_ns);
  void check_failures(uint64_t now_ns);
  void propose_in_sync(uint64_t now_ns);
  void propose(View next, Change change, uint64_t now_ns);
  void set_unavailable_reason(const std::string& reason);
  Peer& peer(NodeId node) { return peers_[node.value]; }

  const NodeAgentOptions options_;
  const uint64_t pace_ns_;  // interval of periodic work, independent of the lease
  AgentHost* const host_;
  NodeState& state_;
  Membership* const membership_;
  std::shared_ptr<const View> view_;
  std::shared_ptr<const View> forwarded_;  // by another member; the membership may not have delivered it yet
  FailureDetector detector_;
  NodeSet announced_unheard_;   // to the others
  uint32_t not_forwarded_ = 0;  // epoch of the view last logged as too large to forward
  std::array<Peer, kNodesMax + 1> peers_{};
  std::vector<Removed> unfenced_;  // members that were removed, and may still have a lease
  uint64_t next_step_ns_ = 0;
  uint64_t next_ask_ns_ = 0;
  uint64_t next_proposal_ns_ = 0;
  std::atomic<uint32_t> join_allowed_epoch_{0};
  std::atomic<bool> notified_{false};
  std::atomic<bool> retired_{false};
  std::atomic<NodeSet> suspects_{};
  mutable std::mutex gossip_mutex_;
  std::vector<std::byte> outgoing_gossip_;  // including the header
  std::vector<Gossip> received_gossip_;
  mutable std::mutex unavailable_mutex_;
  bool started_ = false;
  std::string unavailable_reason_;
};

}  // namespace weft
