// Simulation: one run of a simulated cluster, from the seed to its result. simulation.cc runs the cluster and its
// clients in virtual time; simulation_end.cc has the checks for when they are done, or stuck.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/random.h"
#include "weft/run/owned_task.h"
#include "weft/sim/events.h"
#include "weft/sim/network.h"
#include "weft/sim/processes.h"
#include "weft/sim/simulation.h"
#include "weft/sim/workload.h"

namespace weft {

class Simulation final : public EventSink, public Wakeups, public Processes::ProcessHost {
 public:
  Simulation(const SimOptions& options, HistorySink* sink);
  ~Simulation() override;
  SimResult run();

  void on_event(const Event& event) override;
  void wake(NodeId node, WorkerId worker) override { schedule(loop(node, worker), events_.now_ns()); }
  void process_ends(NodeId node) override;
  void process_starts(NodeId node) override;
  void process_started(NodeId node) override;
  void link_fails(const FaultWindow& window) override;

 private:
  static constexpr uint64_t kQuietNs = 100'000'000;  // longer than any timer of a piggybacked message
  // Without progress. A run of a few hundred transactions needs a hundredth of this.
  static constexpr uint64_t kEventsMax = 20'000'000;

  struct Loop {  // one worker
    NodeId node;
    WorkerId id;
    Worker* worker = nullptr;
    uint64_t busy_until_ns = 0;
    uint64_t due_ns = UINT64_MAX;  // when the next step is scheduled
    uint64_t turn = 0;             // identifies the scheduled step; events of earlier turns are ignored
  };

  Loop& loop(NodeId node, WorkerId worker) {
    return loops_[size_t{node.value} * static_cast<size_t>(config_.options.workers) + worker.value];
  }
  bool recovers() const { return config_.faults.recovers(); }
  bool clients_come_back() const;
  bool has_clients(NodeId node) const { return runs_transactions(config_.options.roles_of(node.value)); }
  bool build();
  bool heal();
  void schedule(Loop& loop, uint64_t at_ns);
  void step(Loop& loop, uint64_t turn);
  void start_client(NodeId node, WorkerId worker, bool last, int visit = 0);
  bool wants_more() const;
  bool run_clients();
  void check_peers();
  void progress();
  bool stuck();
  bool stops();
  void quiet_down();
  void check_end();
  std::string stuck_text() const;
  bool idle() const;
  uint64_t faults_begun() const;
  SimResult result();

  const uint64_t seed_;
  const SimConfig config_;
  Random random_;
  Events events_;
  FaultPlan faults_;
  Network network_;
  sim::WorkloadContext context_;
  std::unique_ptr<sim::Workload> workload_;
  std::vector<Loop> loops_;
  Processes processes_;
  std::vector<std::unique_ptr<sim::Client>> clients_;
  std::list<std::pair<sim::Client*, OwnedTask>> client_tasks_;  // destroyed before the workers they use
  uint64_t steps_ = 0;
  uint64_t begun_faults_ = 0;
  bool stopped_ = false;                            // the cluster had to stop
  uint64_t progress_ns_ = 0, progress_events_ = 0;  // at the last progress
  uint64_t ended_then_ = 0, views_then_ = 0;        // transactions that had ended then, and views
};

}  // namespace weft
