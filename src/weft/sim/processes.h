// The processes of a simulated cluster: which nodes run, their views and leases, how they crash and start again. A
// process lives from its start to its crash; its state at the crash is kept until the run ends. The next process of the
// node is another incarnation.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/random.h"
#include "weft/member/admission.h"
#include "weft/member/node_agent.h"
#include "weft/sim/crash_injector.h"
#include "weft/sim/events.h"
#include "weft/sim/membership.h"
#include "weft/sim/network.h"
#include "weft/sim/workload.h"
#include "weft/txn/audit.h"
#include "weft/txn/node.h"

namespace weft {

class Processes final : public Environment, public EventSink, public CrashInjector::CrashExecutor {
 public:
  // Steps the workers and runs the clients of the nodes.
  class ProcessHost {
   public:
    virtual ~ProcessHost() = default;
    virtual void wake(NodeId node, WorkerId worker) = 0;
    virtual void process_ends(NodeId node) = 0;
    virtual void process_starts(NodeId node) = 0;
    virtual void process_started(NodeId node) = 0;  // and its agent is there
    virtual void link_fails(const FaultWindow& window) = 0;
  };

  // All pointers must outlive this object.
  Processes(const SimConfig& config, uint64_t seed, PlantedBugs bugs, Events* events, FaultPlan* faults,
            Network* network, ProcessHost* host);

  // Makes all nodes and loads the workload's data (nodes that are not initial members start later, empty), and
  // schedules the crashes of the plan. Returns an error text, or nothing.
  std::string start(sim::Workload& workload, Random& random);

  Node* node(NodeId id) const { return processes_[id.value].node.get(); }
  bool down(NodeId id) const { return down_[id.value]; }
  uint64_t when(NodeId id, uint64_t at_ns) const { return clocks_[id.value].when(at_ns); }
  SimCostModel& cost_model_of(NodeId id, WorkerId worker) { return cost_model_[index(id, worker)]; }
  std::vector<Node*> nodes() const;
  const SimMembership& membership() const { return membership_; }

  // Called before a step: gives a process that has joined its incarnation; ends one that was removed, so that another
  // starts.
  void check_process(NodeId id);
  // From now on no process crashes.
  void begin_healing() { healing_ = true; }
  bool healing() const { return healing_; }
  // All nodes are members and active; no replica is missing or catching up, and no dropped partition is left.
  bool healed() const;
  // More than f replicas of a partition are gone, by crashes and by removal of silent members together: no in-sync
  // replica of it runs any more. The cluster must stop.
  bool lost() const;
  bool crash_targets_pending() const { return crash_injector_.pending(); }
  // What the crashes of this run hit.
  const CrashCoverage& coverage() const { return counter_.coverage(); }
  uint64_t crashes() const { return crashes_; }
  uint64_t aimed_crashes() const { return aimed_crashes_; }
  uint64_t breaks() const { return breaks_; }
  uint64_t removals() const { return removals_; }  // of running processes
  // Where one node learned that a transaction was committed and another that it was aborted, including processes that
  // have ended. There must be none.
  std::vector<std::string> contradictions() const;
  const std::vector<std::string>& commit_point_violations() const { return audit_.violations; }

  // Environment
  Clock* clock(NodeId id) override { return &clocks_[id.value]; }
  CostModel* cost_model(NodeId id, WorkerId worker) override { return &cost_model_of(id, worker); }
  Wire* wire(NodeId id, WorkerId worker) override { return network_->wire(id, worker); }
  LocalAtomics* local_atomics(NodeId id) override { return network_->local_atomics(id); }
  Regions* regions(NodeId id) override { return network_->regions(id); }
  uint64_t seed(NodeId id, WorkerId worker) override {
    return mix64(seed_ ^ (uint64_t{id.value} << 8 | worker.value) << 32);
  }
  TxnObserver* observer() override {
    return recovers() && !config_.aimed && !config_.aimed_links ? nullptr : &crash_injector_;
  }

  void on_event(const Event& event) override;
  void crash_after(NodeId node, uint64_t delay_ns) override;
  void sever_after(NodeId a, NodeId deaf, uint64_t delay_ns, uint64_t deaf_ns) override;

 private:
  struct Process {
    std::unique_ptr<Node> node;
    std::unique_ptr<NodeAgent> agent;
    uint64_t token = 0;
    std::unique_ptr<Admission> admission{};  // of a process that has to join
    bool came_in = false;
    std::array<uint32_t, kNodesMax> lost{};   // by peer: the incarnation to which the connection is lost, as in Server
    std::array<uint32_t, kNodesMax> wants{};  // by peer: the incarnation to connect to again
  };

  bool recovers() const { return config_.faults.recovers(); }
  size_t index(NodeId id, WorkerId worker) const {
    return size_t{id.value} * static_cast<size_t>(config_.options.workers) + worker.value;
  }
  void set_clocks();
  void set_crashes(Random& random);
  void set_breaks();
  void set_wake(NodeId id);
  void start_agent(NodeId id);
  bool may_crash(NodeId id) const;
  const Member* member_of(NodeId id) const;
  void break_link(NodeId a, NodeId b);
  void tell_broken(NodeId id, NodeId peer, uint32_t incarnation);
  uint64_t pace_ns() const { return std::min(config_.lease_ns, NodeAgentOptions::kPaceNs); }
  void rejoin(NodeId id);
  void mend(NodeId a, NodeId b);
  void ask_to_join(NodeId id, const View& view);
  void answered(NodeId id, NodeId from, uint32_t incarnation, uint64_t token);
  bool runs_somewhere(const Placement& placement, NodeId but) const;
  void crash(NodeId id, uint64_t down_ns);
  void restart(NodeId id);

  const SimConfig config_;
  const uint64_t seed_;
  const PlantedBugs bugs_;
  Events* const events_;
  FaultPlan* const faults_;
  Network* const network_;
  ProcessHost* const host_;
  Random random_;  // for aimed crashes
  Random link_random_;
  Random join_random_;
  std::vector<SimClock> clocks_;
  std::vector<SimCostModel> cost_model_;  // by worker
  ClusterSpec spec_;
  SimMembership membership_;
  CrashInjector crash_injector_;
  CrashCounter counter_;
  CommitAudit audit_;
  std::vector<Process> processes_;  // by node
  std::vector<Process> ended_;
  std::vector<JoinBackoff> join_backoffs_;  // by node
  std::vector<bool> down_;
  uint64_t tokens_ = 0;
  uint64_t crashes_ = 0, aimed_crashes_ = 0, breaks_ = 0, removals_ = 0;
  bool healing_ = false;
};

}  // namespace weft
