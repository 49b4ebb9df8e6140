// The embedded cluster (include/weft/cluster.h): all nodes in this process. Worker i of every node
// runs on thread i mod threads: worker i talks only to workers i, so a message never crosses cores.
#include "weft/cluster/embedded.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "weft/base/check.h"
#include "weft/txn/row_set.h"

namespace weft {

void Cluster::Handle::wait() const {
  if (state_ == nullptr) return;
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->done; });
}

bool Cluster::Handle::done() const {
  if (state_ == nullptr) return true;
  const std::scoped_lock lock(state_->mutex);
  return state_->done;
}

Result<void> Cluster::Impl::make_fabric() {
  if (spec.options.clock_step_ns != 0) counting_clock.emplace(spec.options.clock_step_ns);
  auto made = EmbeddedFabric::create(spec.options, all_regions, &real_clock);
  if (!made) return made.error();
  fabric = std::move(*made);
  return {};
}

Result<void> Cluster::Impl::make_nodes() {
  const Options& o = spec.options;
  const View view = make_view(o);
  for (int n = 0; n < o.nodes; ++n) all_regions.push_back(std::make_unique<Regions>());
  if (auto made = make_fabric(); !made) {
    all_regions.clear();
    return made;
  }
  for (int n = 0; n < o.nodes; ++n) {
    auto node = Node::create(NodeId(static_cast<uint8_t>(n)), spec, view, this);
    if (!node) {
      nodes.clear();
      all_regions.clear();
      return node.error();
    }
    nodes.push_back(std::move(*node));
  }
  return {};
}

bool Cluster::Impl::post(Worker* worker, WorkerId id, Mailbox::Call call) {
  if (!worker->mailbox().post(std::move(call))) return false;
  thread_of(id).wake();
  return true;
}

// Runs a call on every worker's thread and waits for all of them; directly if the workers do not run.
void Cluster::Impl::on_all_workers(const std::function<void(TxnWorker&)>& call) {
  size_t left = 0;
  for (const auto& node : nodes) {
    for (int w = 0; w < node->workers(); ++w) {
      const WorkerId id(static_cast<uint8_t>(w));
      TxnWorker* txn_worker = node->txn_worker(id);
      if (!started) {
        call(*txn_worker);
        continue;
      }
      {
        const std::scoped_lock lock(mutex);
        ++left;
      }
      const auto report = [this, &call, &left, txn_worker] {
        call(*txn_worker);
        const std::scoped_lock lock(mutex);
        --left;
        changed.notify_all();
      };
      while (!post(node->worker(id), id, report)) std::this_thread::yield();
    }
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return left == 0; });
}

// What the applications left behind (unlocks, notices) is processed until the workers have nothing open.
void Cluster::Impl::drain() {
  for (;;) {
    std::atomic<bool> idle{true};
    on_all_workers([&](TxnWorker& txn_worker) {
      if (!txn_worker.idle()) idle = false;
    });
    if (idle) return;
    std::this_thread::yield();
  }
}

void Cluster::Impl::supervise() {
  for (size_t t = 0; t < threads.size(); ++t) {
    const uint64_t turns = threads[t]->iterations();
    if (turns == iterations_seen[t] && !threads[t]->asleep()) {
      event_log.emit(Level::kWarn, "worker_stalled", {{"thread", t}, {"turns", turns}});
    }
    iterations_seen[t] = turns;
  }
}

DetachedTask Cluster::Impl::drive(Session session, std::function<Task<void>(Session&)> make,
                                  std::shared_ptr<Handle::State> state) {
  {
    Task<void> task = make(session);
    co_await task;
  }
  make = nullptr;
  {
    const std::scoped_lock lock(mutex);
    --running;
    changed.notify_all();
  }
  state->finish();
}

Cluster::Cluster(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Cluster::~Cluster() { stop(); }

Result<std::unique_ptr<Cluster>> Cluster::open(const Options& options) {
  auto impl = std::make_unique<Impl>();
  impl->spec.options = options;
  if (auto r = check_spec(impl->spec); !r) return r.error();
  impl->spec.shares_memory = options.fabric == "shm" && RowSet::of(options).uses_verbs();
  impl->control.every_ms(1000, [raw = impl.get()] { raw->supervise(); });
  if (options.fabric != "local") {
    impl->control.every_ms(20, [raw = impl.get()] { raw->fabric->control_step(); });
  }
  return std::unique_ptr<Cluster>(new Cluster(std::move(impl)));
}

Result<TableId> Cluster::create_table(const TableSpec& spec) {
  if (!impl_->nodes.empty()) return Error{Code::kInvalidArgument, "tables are declared before the first load or start"};
  ClusterSpec with = impl_->spec;
  with.tables.push_back(spec);
  if (auto r = check_spec(with); !r) return r.error();
  impl_->spec = std::move(with);
  return TableId(static_cast<uint16_t>(impl_->spec.tables.size() - 1));
}

Result<ProcedureId> Cluster::declare(const StoredProcedure& procedure) {
  if (!impl_->nodes.empty())
    return Error{Code::kInvalidArgument, "procedures are declared before the first load or start"};
  if (procedure.keys == nullptr || procedure.execute == nullptr) {
    return Error{Code::kBadOption, "procedure " + procedure.name + " needs keys and execute"};
  }
  for (const StoredProcedure& other : impl_->spec.procedures) {
    if (other.name == procedure.name)
      return Error{Code::kBadOption, "procedure " + procedure.name + " is there already"};
  }
  impl_->spec.procedures.push_back(procedure);
  return ProcedureId(static_cast<uint16_t>(impl_->spec.procedures.size() - 1));
}

Result<void> Cluster::start() {
  if (impl_->started) return Error{Code::kInvalidArgument, "the cluster runs already"};
  if (impl_->nodes.empty()) {
    if (auto r = impl_->make_nodes(); !r) return r;
  }
  for (const auto& node : impl_->nodes) {
    if (node->workers() != impl_->spec.options.workers) {
      return Error{Code::kNoMemory, "the last reconfigure did not come to its end"};
    }
  }
  const int threads = impl_->thread_count();
  for (int t = 0; t < threads; ++t) impl_->threads.push_back(std::make_unique<Thread>(impl_->worker_clock()));
  for (int w = 0; w < impl_->spec.options.workers; ++w) {
    for (const auto& node : impl_->nodes) {
      impl_->thread_of(WorkerId(static_cast<uint8_t>(w))).add(node->worker(WorkerId(static_cast<uint8_t>(w))));
    }
    for (WakeupSource* bell : impl_->fabric->wakeup_sources(WorkerId(static_cast<uint8_t>(w)))) {
      impl_->thread_of(WorkerId(static_cast<uint8_t>(w))).add_wakeup_source(bell);
    }
  }
  for (const auto& node : impl_->nodes) {
    node->state().views.set_wake([impl = impl_.get()] {
      for (const auto& thread : impl->threads) thread->wake();
    });
  }
  const int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  impl_->iterations_seen.assign(impl_->threads.size(), UINT64_MAX);
  for (int t = 0; t < threads; ++t) {
    impl_->threads[static_cast<size_t>(t)]->start(impl_->spec.options.pin_threads ? t % cores : -1);
  }
  impl_->control.start();
  impl_->started = true;
  const std::scoped_lock lock(impl_->mutex);
  impl_->accepting = true;
  return {};
}

void Cluster::stop() {
  if (!impl_->started) return;
  {
    std::unique_lock lock(impl_->mutex);
    impl_->accepting = false;
    impl_->changed.wait(lock, [&] { return impl_->running == 0; });
  }
  impl_->drain();
  impl_->control.stop();
  for (const auto& thread : impl_->threads) thread->stop();
  impl_->threads.clear();
  impl_->started = false;
}

const Options& Cluster::options() const { return impl_->spec.options; }

Result<void> Cluster::reconfigure(const Options& options) {
  if (impl_->started) return Error{Code::kInvalidArgument, "stop the cluster before you reconfigure it"};
  const Options& now = impl_->spec.options;
  if (options.nodes != now.nodes || options.roles != now.roles || options.replicas != now.replicas ||
      options.workers != now.workers || options.partitions != now.partitions || options.hash_seed != now.hash_seed ||
      options.fabric != now.fabric) {
    return Error{Code::kBadOption,
                 "nodes, roles, replicas, workers, partitions, hash_seed and fabric stay as they were opened"};
  }
  ClusterSpec with = impl_->spec;
  with.options = options;
  if (auto r = check_spec(with); !r) return r;
  if (options.fabric == "shm" && RowSet::of(options).uses_verbs() && !with.shares_memory) {
    return Error{Code::kBadOption, "protocol " + options.protocol + " reaches memory by verbs, and on shm protocol " +
                                       now.protocol + " that the cluster was opened with does not share it"};
  }
  impl_->spec = std::move(with);
  if (impl_->nodes.empty()) return {};
  for (const auto& node : impl_->nodes) node->drop_workers();
  if (auto made = impl_->make_fabric(); !made) return made;
  for (const auto& node : impl_->nodes) {
    if (auto r = node->make_workers(impl_->spec.options, impl_.get()); !r) return r;
  }
  return {};
}

Cluster::Handle Cluster::spawn(NodeId node, WorkerId worker, std::function<Task<void>(Session&)> make) {
  Handle handle;
  {
    const std::scoped_lock lock(impl_->mutex);
    if (!impl_->accepting) return handle;
    if (node.value >= impl_->nodes.size() || worker.value >= impl_->spec.options.workers) return handle;
    ++impl_->running;
  }
  handle.state_ = std::make_shared<Handle::State>();
  Node* n = impl_->nodes[node.value].get();
  const Session session(n->txn_worker(worker));
  const auto start = [impl = impl_.get(), session, make = std::move(make), state = handle.state_] {
    impl->drive(session, make, state);
  };
  while (!impl_->post(n->worker(worker), worker, start)) std::this_thread::yield();
  return handle;
}

void Cluster::run_on(NodeId node, std::function<Task<void>(Session&)> make) {
  spawn(node, WorkerId(0), std::move(make)).wait();
}

Outcome Cluster::closed() {
  Outcome outcome;
  outcome.kind = OutcomeKind::kRejected;
  outcome.code = Code::kPeerUnreachable;
  return outcome;
}

Outcome Cluster::call(NodeId node, ProcedureId procedure, std::string_view arguments, std::string* reply) {
  Outcome outcome = closed();
  run_on(node, [&](Session& session) { return store(session.call(procedure, arguments, reply), outcome); });
  return outcome;
}

TxnStatus Cluster::query_outcome(NodeId node, TxnId id) {
  TxnStatus status = TxnStatus::kUnknownTxn;
  const auto body = [&](Session& session) -> Task<void> {
    Task<TxnStatus> task = session.query_outcome(id);
    status = co_await task;
  };
  run_on(node, body);
  return status;
}

Cluster::OneValue Cluster::get_one(NodeId node, TableId table, Key key) {
  OneValue out;
  out.outcome = closed();
  if (table.value >= impl_->spec.tables.size()) {
    out.outcome.kind = OutcomeKind::kRejected;
    out.outcome.code = Code::kNoSuchTable;
    return out;
  }
  out.value.resize(impl_->spec.tables[table.value].value_bytes_max);
  const auto body = [&](Session& session) -> Task<void> {
    Task<Session::GetResult> task = session.get_one(table, key, {out.value.data(), out.value.size()});
    const Session::GetResult one = co_await task;
    out.outcome = one.outcome;
    out.found = one.found;
    out.value.resize(one.bytes);
  };
  run_on(node, body);
  return out;
}

Outcome Cluster::put_one(NodeId node, TableId table, Key key, std::string_view value) {
  Outcome outcome = closed();
  run_on(node, [&](Session& session) { return store(session.put_one(table, key, value), outcome); });
  return outcome;
}

Outcome Cluster::insert_one(NodeId node, TableId table, Key key, std::string_view value) {
  Outcome outcome = closed();
  run_on(node, [&](Session& session) { return store(session.insert_one(table, key, value), outcome); });
  return outcome;
}

Outcome Cluster::erase_one(NodeId node, TableId table, Key key) {
  Outcome outcome = closed();
  run_on(node, [&](Session& session) { return store(session.erase_one(table, key), outcome); });
  return outcome;
}

}  // namespace weft
