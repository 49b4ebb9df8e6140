// The simulator's membership: one service that holds the view. Proposals to it and views from it take time. It can be
// away for a while: then it accepts nothing and sends nothing, and messages that reach it or leave it are lost.
#pragma once

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "weft/base/random.h"
#include "weft/member/membership.h"
#include "weft/sim/events.h"
#include "weft/sim/faults.h"

namespace weft {

class SimMembership final : public EventSink {
 public:
  // `supervised`: it knows at once when a process has ended.
  SimMembership(int nodes, uint64_t seed, uint64_t latency_ns, bool supervised, Events* events,
                const FaultPlan* faults);

  void start(const View& first);
  const View& current() const { return *current_; }
  Membership* endpoint(NodeId node) { return endpoints_[node.value].get(); }
  // restarted: a node starts, knows nothing, and is sent the newest view. ended: a process has ended and is sent
  // nothing any more.
  void restarted(NodeId node);
  void ended(NodeId node, uint32_t incarnation);
  uint64_t changes() const { return changes_; }

  void on_event(const Event& event) override;

 private:
  class Endpoint final : public Membership {
   public:
    Endpoint(SimMembership* service, NodeId node) : service_(service), node_(node) {}
    std::shared_ptr<const View> latest() override { return latest_; }
    void propose(const View& next) override { service_->receive_proposal(node_, next); }
    bool fenced(NodeId node, uint32_t incarnation) override {
      return service_->supervised_ && service_->ended_.count({node.value, incarnation}) != 0;
    }

   private:
    friend class SimMembership;
    SimMembership* const service_;
    const NodeId node_;
    std::shared_ptr<const View> latest_;
  };

  void receive_proposal(NodeId from, const View& next);
  void send_view(NodeId node);
  void broadcast_view();

  const uint64_t latency_ns_;
  const bool supervised_;
  Events* const events_;
  const FaultPlan* const faults_;
  Random random_;
  std::shared_ptr<const View> current_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::vector<View> proposals_;
  std::vector<std::shared_ptr<const View>> sent_views_;
  std::vector<uint64_t> lives_;  // by node: a view that was sent to an earlier process is not delivered
  std::set<std::pair<uint8_t, uint32_t>> ended_;
  uint64_t changes_ = 0;
};

}  // namespace weft
