// The implementation of an embedded cluster (include/weft/cluster.h), shared by embedded.cc (making, starting,
// stopping, running) and embedded_data.cc (loading, scanning, counting).
#pragma once

#include <unistd.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/hash.h"
#include "weft/cluster.h"
#include "weft/cluster/embedded_fabric.h"
#include "weft/run/control.h"
#include "weft/run/detached_task.h"
#include "weft/run/thread.h"
#include "weft/txn/node.h"
#include "weft/txn/txn_worker.h"

namespace weft {

struct Cluster::Handle::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;

  void finish() {
    const std::scoped_lock lock(mutex);
    done = true;
    changed.notify_all();
  }
};

struct Cluster::Impl final : Environment {
  ClusterSpec spec;
  RealClock real_clock;
  std::optional<CountingClock> counting_clock;  // of the workers, instead of the real one
  WallClock wall_clock;
  EventLog event_log{STDERR_FILENO, EventLog::form_for(STDERR_FILENO), &wall_clock};
  std::vector<std::unique_ptr<Regions>> all_regions;
  std::unique_ptr<EmbeddedFabric> fabric;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<std::unique_ptr<Thread>> threads;
  std::vector<uint64_t> iterations_seen;  // of each thread, when supervise() last checked
  Control control{&real_clock};
  std::mutex mutex;
  std::condition_variable changed;
  size_t running = 0;      // spawned coroutines that have not ended
  bool accepting = false;  // spawn accepts coroutines
  bool started = false;    // the threads run

  Clock* worker_clock() { return counting_clock ? static_cast<Clock*>(&*counting_clock) : &real_clock; }
  Clock* clock(NodeId) override { return worker_clock(); }
  CostModel* cost_model(NodeId, WorkerId) override { return nullptr; }
  Wire* wire(NodeId node, WorkerId worker) override { return fabric->wire(node, worker); }
  LocalAtomics* local_atomics(NodeId node) override { return fabric->local_atomics(node); }
  Regions* regions(NodeId node) override { return all_regions[node.value].get(); }
  uint64_t seed(NodeId node, WorkerId worker) override {
    return mix64(spec.options.hash_seed + size_t{node.value} * 1000 + worker.value);
  }

  EventLog* events() override { return &event_log; }

  int thread_count() const {
    if (spec.options.threads > 0) return spec.options.threads;
    const auto cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    return std::min(spec.options.workers, cores);
  }
  Thread& thread_of(WorkerId worker) { return *threads[worker.value % threads.size()]; }

  Result<void> make_nodes();
  Result<void> make_fabric();
  bool post(Worker* worker, WorkerId id, Mailbox::Call call);
  void on_all_workers(const std::function<void(TxnWorker&)>& call);
  void drain();
  void supervise();
  DetachedTask drive(Session session, std::function<Task<void>(Session&)> make, std::shared_ptr<Handle::State> state);
};

}  // namespace weft
