// NodeAgent: what a node does for its membership, on the thread of its worker 0: it holds and gives leases, notices
// members that are silent, proposes views, and has its workers adopt new ones.
//
// Leases (rule E1): every member asks every other for one, four times in its duration. Who asks counts from sending,
// who gives from answering; the node may say that something is current until the first of those it holds runs out. A
// member that adopts a new view gives no more leases in the old one, and counts itself stopped only when those it gave
// to removed members have run out or the membership says that they are fenced (rule E2).
//
// Whom to propose for removal says failure_detector.h. Who hears of an older view passes its own on: only one member
// has to reach the membership.
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
  static constexpr uint64_t kPaceNs = 500'000'000;  // a longer lease makes nothing slower but noticing who is silent
  uint64_t drift_permille = 10;                     // clocks of two nodes run apart by at most this
  Member self;                                      // node, token and address: to join with
};

class NodeAgent final : public NodeAgentHook {
 public:
  // Both outlive the agent. Registers itself with the node; the workers do not run yet.
  NodeAgent(const NodeAgentOptions& options, AgentHost* host, Membership* membership);
  ~NodeAgent() override;
  NodeAgent(const NodeAgent&) = delete;
  NodeAgent& operator=(const NodeAgent&) = delete;

  bool step(uint64_t now_ns) override;
  uint64_t deadline_ns() const override { return notified_.load(std::memory_order_acquire) ? 0 : next_step_ns_; }
  void on_message(NodeId from, ByteView message) override;

  const View* view() const { return view_.get(); }  // adopted; nullptr before the first. By the worker's thread.

  // Notes: short texts that members' control threads give each other (server/cluster_stats.h), one way and without
  // promise. They are no part of the agent's business and only use its way. From any thread.
  static constexpr size_t kGossipBytesMax = 16 << 10;
  void send_gossip(const std::string& text);  // to all members, at the next step; the last one counts
  struct Gossip {
    NodeId from;
    std::string text;
  };
  std::vector<Gossip> take_gossip();  // what came since; of each member a few at most

  // From any thread: a node that is no member may propose the view that follows this one, to replace the last process
  // of its name or to come in itself (admission.h).
  void allow_join(Epoch epoch) { join_allowed_epoch_.store(epoch.value, std::memory_order_release); }

  // From any thread.
  void notify() { notified_.store(true, std::memory_order_release); }  // the membership has news: look at the next step
  bool retired() const { return retired_.load(std::memory_order_acquire); }
  // Members of the view that were silent for too long, bit n: node n.
  uint64_t suspects() const { return suspects_.load(std::memory_order_relaxed); }
  // Who is silent has the last whole replica of a partition: the text says which. The cluster waits for it.
  std::string unavailable_reason() const {
    const std::scoped_lock lock(unavailable_mutex_);
    return unavailable_reason_;
  }

 private:
  struct Peer {
    uint64_t held_until_ns = 0;   // the lease that this node holds of it
    uint64_t given_until_ns = 0;  // and the one it gave
    uint64_t forwarded_ns = 0;    // when the view was last passed on to it
    uint32_t suspected = 0;       // the incarnation that was last said to be
  };

  bool in(const View& view) const;
  void adopt(const std::shared_ptr<const View>& view, uint64_t now_ns);
  bool join(const View& view, uint64_t now_ns);
  void ask_leases(uint64_t now_ns);
  void forward_view(NodeId to, uint64_t now_ns);
  void take_view(ByteView text);
  void flush_gossip();
  void receive_gossip(NodeId from, ByteView text);
  void update_lease();
  Contact contact_of(const Member& member) const;
  bool may_renew(uint64_t silent) const;
  void log_suspected(const Member& member, const FailureDetector::Verdict& verdict, uint64_t now_ns);
  void check_failures(uint64_t now_ns);
  void propose_in_sync(uint64_t now_ns);
  void propose(View next, Change change, uint64_t now_ns);
  void set_unavailable_reason(const std::string& reason);
  Peer& peer(NodeId node) { return peers_[node.value]; }

  const NodeAgentOptions options_;
  const uint64_t pace_ns_;  // what is done again and again is timed by it, whatever the lease
  AgentHost* const host_;
  NodeState& state_;
  Membership* const membership_;
  std::shared_ptr<const View> view_;
  std::shared_ptr<const View> forwarded_;  // by another member; the membership may not have told it yet
  FailureDetector detector_;
  uint64_t announced_unheard_ = 0;  // to the others
  std::array<Peer, kNodesMax + 1> peers_{};
  uint64_t next_step_ns_ = 0;
  uint64_t next_ask_ns_ = 0;
  uint64_t next_proposal_ns_ = 0;
  std::atomic<uint32_t> join_allowed_epoch_{0};
  std::atomic<bool> notified_{false};
  std::atomic<bool> retired_{false};
  std::atomic<uint64_t> suspects_{0};
  mutable std::mutex gossip_mutex_;
  std::vector<std::byte> outgoing_gossip_;  // to send, the header included
  std::vector<Gossip> received_gossip_;     // that came
  mutable std::mutex unavailable_mutex_;
  bool started_ = false;
  std::string unavailable_reason_;
};

}  // namespace weft
