// CrashCluster: nodes over the local fabric in this process, of which one can die, and clients that keep every slot
// busy (crash.h says what is measured). Belongs to one thread, which is not a worker's.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/hash.h"
#include "weft/bench/crash.h"
#include "weft/fabric/local.h"
#include "weft/run/owned_task.h"
#include "weft/txn/node.h"

namespace weft::bench {

class CrashCluster final : public Environment, private TxnObserver {
 public:
  CrashCluster(const CrashOptions& options, const std::string& protocol, uint64_t seed);
  ~CrashCluster() override;
  CrashCluster(const CrashCluster&) = delete;
  CrashCluster& operator=(const CrashCluster&) = delete;

  Result<void> load();
  // Returns when the clients of every worker run; false if that takes too long.
  bool start();
  // The last node dies. Returns when no thread steps it any more.
  void kill();
  // Publishes the view without the dead node to all others.
  Result<void> publish();
  // Waits until every worker is active in the new view, every interrupted client has its outcome and every node has
  // committed again; false if that takes too long.
  bool wait_until_gone_on() const;
  // Clients end, what they left is dealt with, and the threads end; false if that takes too long.
  bool stop();
  // Only between kill() and the end, or after stop().
  Crash result() const;
  std::string check() const;

  Clock* clock(NodeId) override { return &clock_; }
  CostModel* cost_model(NodeId, WorkerId) override { return nullptr; }
  Wire* wire(NodeId node, WorkerId worker) override { return fabric_->wire(node, worker); }
  Regions* regions(NodeId node) override { return regions_[node.value].get(); }
  uint64_t seed(NodeId node, WorkerId worker) override { return mix64(seed_ + log_index(node, worker)); }
  TxnObserver* observer() override { return this; }

 private:
  // What the clients of one worker have seen. Written by the worker's thread, read when it has ended.
  struct alignas(64) ClientLog {
    uint64_t interrupted = 0, committed = 0;
    uint64_t answered_ns = 0;           // the last outcome of a transaction that was interrupted
    std::atomic<uint64_t> first_ns{0};  // the first commit of one that began in the new view
    std::deque<OwnedTask> clients;
    std::atomic<size_t> running{0};
  };

  int workers() const { return options_.cluster.workers; }
  size_t worker_count() const { return static_cast<size_t>(options_.cluster.nodes) * static_cast<size_t>(workers()); }
  size_t log_index(NodeId node, WorkerId worker) const {
    return size_t{node.value} * static_cast<size_t>(workers()) + worker.value;
  }
  NodeId victim() const { return NodeId(static_cast<uint8_t>(options_.cluster.nodes - 1)); }
  double ms_after(uint64_t ns) const {
    const uint64_t from = published_ns_.load();
    return ns > from ? static_cast<double>(ns - from) / 1e6 : 0;
  }
  void on_commit_point(NodeId, WorkerId, const TxnSlot&) override {}
  void on_recovery(Recovered step, WorkerId worker, NodeId leader, NodeSet members) override;
  bool gone_on(int thread, int threads) const;
  void run_thread(int thread, int threads);
  void end_threads();
  void start_clients(NodeId node, WorkerId worker);
  Task<void> client(Session session, ClientLog* log, uint64_t seed);
  void note(ClientLog& log, const Outcome& outcome, uint64_t began_ns, uint64_t now_ns) const;
  static bool wait_for(const std::function<bool()>& done);

  const CrashOptions& options_;
  const uint64_t seed_;
  ClusterSpec spec_;
  RealClock clock_;
  View view_;
  std::shared_ptr<const View> next_;
  std::vector<std::unique_ptr<Regions>> regions_;
  std::unique_ptr<LocalFabric> fabric_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<ClientLog> logs_;  // by node, then worker
  std::vector<std::thread> threads_;
  std::atomic<bool> ending_{false};    // of the threads
  std::atomic<bool> stopping_{false};  // of the clients
  std::atomic<bool> dead_{false};
  std::atomic<int> know_{0};  // threads that step the dead node no more
  std::atomic<uint64_t> published_ns_{0};
  std::atomic<uint64_t> decided_ns_{0}, written_ns_{0};
  std::atomic<uint64_t> cpu_ns_{0};  // that a thread took from the new view until its workers were active
  uint64_t open_dead_ = 0;
};

}  // namespace weft::bench
