#include "weft/sim/simulation.h"

#include <algorithm>
#include <coroutine>
#include <memory>

#include "weft/base/check.h"
#include "weft/sim/events.h"
#include "weft/sim/network.h"
#include "weft/sim/workload.h"
#include "weft/txn/audit.h"
#include "weft/txn/engine.h"
#include "weft/txn/node.h"

namespace weft {

namespace {

using sim::Client;

constexpr uint64_t kBlockedStepNs = 500;     // until a worker that waits for room in a channel looks again
constexpr uint64_t kQuietNs = 100'000'000;   // more than any ride-along timer, after the last client is done
constexpr uint64_t kEventsMax = 20'000'000;  // a run of some hundred transactions needs a hundredth of that

// The outermost coroutine of a client: awaits the workload's task. Destroying it destroys all it awaits.
class Root {
 public:
  struct promise_type {
    Root get_return_object() { return Root(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
  Root(Root&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Root& operator=(Root&&) = delete;
  ~Root() {
    if (handle_) handle_.destroy();
  }
  void start() { handle_.resume(); }

 private:
  explicit Root(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

Root await(Task<void> task, Client* client) {
  co_await task;
  client->done = true;
}

class Simulation final : public Environment, public EventSink, public Wakeups {
 public:
  Simulation(const SimOptions& options, HistorySink* sink);
  ~Simulation() override;
  SimResult run();

  // Environment
  Clock* clock(NodeId node) override { return &clocks_[node.value]; }
  Charges* charges(NodeId node, WorkerId worker) override { return &loop(node, worker).charges; }
  Wire* wire(NodeId node, WorkerId worker) override { return network_.wire(node, worker); }
  Regions* regions(NodeId node) override { return network_.regions(node); }
  uint64_t seed(NodeId node, WorkerId worker) override {
    return mix64(seed_ ^ (uint64_t{node.value} << 8 | worker.value) << 32);
  }
  Witness* witness() override { return &audit_; }

  void on_event(const Event& event) override { step(loops_[event.a], event.b); }
  void wake(NodeId node, WorkerId worker) override { schedule(loop(node, worker), events_.now_ns()); }

 private:
  struct Loop {  // one worker
    NodeId node;
    WorkerId id;
    Worker* worker = nullptr;
    SimCharges charges;
    uint64_t busy_until_ns = 0;
    uint64_t due_ns = UINT64_MAX;  // of the step that is scheduled
    uint64_t turn = 0;             // names it; events of earlier turns are void
  };

  Loop& loop(NodeId node, WorkerId worker) {
    return loops_[size_t{node.value} * static_cast<size_t>(config_.options.workers) + worker.value];
  }
  bool build();
  void schedule(Loop& loop, uint64_t at_ns);
  void step(Loop& loop, uint64_t turn);
  void start_client(NodeId node, WorkerId worker, bool last);
  bool run_clients();
  void check_peers();
  void quiet_down();
  void check_end();
  std::string stuck_text() const;
  bool idle() const;
  SimResult result();

  const uint64_t seed_;
  const SimConfig config_;
  const Bugs bugs_;
  Random random_;
  Events events_;
  FaultPlan faults_;
  Network network_;
  sim::Stage stage_;
  std::unique_ptr<sim::Workload> workload_;
  std::vector<SimClock> clocks_;
  std::vector<Loop> loops_;
  std::vector<std::unique_ptr<Node>> nodes_;
  CommitAudit audit_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<Root> roots_;  // destroyed before the engines they use
  uint64_t steps_ = 0;
  uint64_t fault_windows_ = 0;
};

FaultPlan draw_faults(const SimConfig& config, uint64_t seed) {
  Random random(mix64(seed) ^ 0xfa17);
  return FaultPlan::draw(random, config.faults, config.options.nodes, config.fault_horizon_ns);
}

Simulation::Simulation(const SimOptions& options, HistorySink* sink)
    : seed_(options.seed),
      config_(draw_config(options)),
      bugs_(options.bugs),
      random_(mix64(options.seed) ^ 0x5c4ed),
      faults_(draw_faults(config_, options.seed)),
      network_(config_.network, config_.options.nodes, config_.options.workers, mix64(options.seed) ^ 0x3e7, &events_,
               &faults_),
      stage_(config_.workload, &events_, sink),
      workload_(sim::make_workload(&stage_)) {
  network_.set_wakeups(this);
  for (int n = 0; n < config_.options.nodes; ++n) {
    clocks_.emplace_back(&events_);
    for (int w = 0; w < config_.options.workers; ++w) {
      loops_.push_back({});
      loops_.back().node = NodeId(static_cast<uint8_t>(n));
      loops_.back().id = WorkerId(static_cast<uint8_t>(w));
    }
  }
}

Simulation::~Simulation() { roots_.clear(); }

bool Simulation::build() {
  ClusterSpec spec;
  spec.options = config_.options;
  spec.bugs = bugs_;
  workload_->declare(spec);
  if (const Result<void> legal = check_spec(spec); !legal) {
    stage_.violation("the seed draws a bad configuration: " + legal.error().text());
    return false;
  }
  const int partitions = spec.options.partitions == 0 ? spec.options.nodes : spec.options.partitions;
  const View view = make_view(spec.options.nodes, spec.options.replicas, partitions);
  std::vector<Node*> nodes;
  for (int n = 0; n < spec.options.nodes; ++n) {
    auto node = Node::create(NodeId(static_cast<uint8_t>(n)), spec, view, this);
    if (!node) {
      stage_.violation("a node does not start: " + node.error().text());
      return false;
    }
    nodes_.push_back(std::move(*node));
    nodes.push_back(nodes_.back().get());
  }
  audit_.set_nodes(nodes);
  for (Loop& loop : loops_) loop.worker = nodes_[loop.node.value]->worker(loop.id);
  workload_->load(nodes_);
  return true;
}

void Simulation::schedule(Loop& loop, uint64_t at_ns) {
  at_ns = faults_.runs_at(loop.node, std::max(at_ns, loop.busy_until_ns));
  if (at_ns >= loop.due_ns) return;
  loop.due_ns = at_ns;
  events_.set(at_ns, EventKind::kStep, this, static_cast<uint64_t>(&loop - loops_.data()), ++loop.turn);
}

void Simulation::step(Loop& loop, uint64_t turn) {
  if (turn != loop.turn) return;
  loop.due_ns = UINT64_MAX;
  ++steps_;
  const uint64_t now_ns = events_.now_ns();
  const bool busy = loop.worker->step();
  const uint64_t cost_ns = loop.charges.take() * faults_.step_factor(loop.node, now_ns);
  loop.busy_until_ns = now_ns + std::max<uint64_t>(cost_ns, 1) + random_.below(config_.step_jitter_ns + 1);
  network_.depart(loop.node, loop.id, loop.busy_until_ns);
  if (busy) {
    schedule(loop, loop.busy_until_ns);
  } else if (loop.worker->pending()) {
    schedule(loop, loop.busy_until_ns + kBlockedStepNs);
  } else {
    loop.worker->before_sleep();
    const uint64_t deadline_ns = loop.worker->deadline_ns();
    if (deadline_ns != UINT64_MAX) schedule(loop, deadline_ns);
  }
}

void Simulation::start_client(NodeId node, WorkerId worker, bool last) {
  clients_.push_back(std::make_unique<Client>());
  Client* client = clients_.back().get();
  client->id = clients_.size();
  client->node = node;
  client->worker = worker;
  client->random = Random(mix64(seed_ + client->id * 0x9e3779b97f4a7c15U));
  const bool taken = loop(node, worker).worker->mailbox().post([this, client, last] {
    const Session session(nodes_[client->node.value]->engine(client->worker));
    Task<void> task = last ? workload_->finish(client, session) : workload_->run(client, session);
    roots_.push_back(await(std::move(task), client));
    roots_.back().start();
  });
  WEFT_CHECK(taken, "a mailbox has room for a simulation's clients");
  schedule(loop(node, worker), events_.now_ns() + random_.below(1000));
}

// Until all clients are done; false if they are stuck.
bool Simulation::run_clients() {
  const auto done = [this] {
    return std::all_of(clients_.begin(), clients_.end(), [](const auto& client) { return client->done; });
  };
  while (!done()) {
    if (events_.next_ns() > config_.limit_ns || events_.ran() > kEventsMax || !events_.run_one()) {
      check_peers();
      stage_.violation(stuck_text());
      return false;
    }
  }
  return true;
}

bool Simulation::idle() const {
  for (const auto& node : nodes_) {
    for (int w = 0; w < node->workers(); ++w) {
      if (!node->engine(WorkerId(static_cast<uint8_t>(w)))->idle()) return false;
    }
  }
  return true;
}

// Nobody here sends malformed packets.
void Simulation::check_peers() {
  for (const Loop& loop : loops_) {
    for (int n = 0; n < config_.options.nodes; ++n) {
      const NodeId peer(static_cast<uint8_t>(n));
      if (!nodes_[loop.node.value]->engine(loop.id)->port().closed(peer)) continue;
      stage_.violation("n" + std::to_string(loop.node.value) + "w" + std::to_string(loop.id.value) +
                       " has closed its channel to n" + std::to_string(n));
    }
  }
}

// What rides on later messages goes alone after a while: lets it.
void Simulation::quiet_down() {
  const uint64_t until_ns = events_.now_ns() + kQuietNs;
  while (events_.next_ns() <= until_ns && events_.ran() <= kEventsMax) events_.run_one();
  if (idle()) return;
  stage_.violation("not idle long after the last transaction:" + stuck_text());
}

void Simulation::check_end() {
  check_peers();
  std::vector<Node*> nodes;
  for (const auto& node : nodes_) nodes.push_back(node.get());
  if (const std::string wrong = audit_replicas(nodes); !wrong.empty()) stage_.violation("replicas: " + wrong);
}

std::string Simulation::stuck_text() const {
  std::string text = "stuck at " + std::to_string(events_.now_ns()) + " ns:";
  int shown = 0;
  for (const auto& client : clients_) {
    if (client->done || ++shown > 8) continue;
    text += " client " + std::to_string(client->id) + " at n" + std::to_string(client->node.value) + "w" +
            std::to_string(client->worker.value) + " " + client->doing + " since " + std::to_string(client->since_ns) +
            ";";
  }
  for (const Loop& loop : loops_) {
    const Engine* engine = nodes_[loop.node.value]->engine(loop.id);
    if (engine->idle() && !loop.worker->pending()) continue;
    text += " n" + std::to_string(loop.node.value) + "w" + std::to_string(loop.id.value) +
            (loop.worker->pending() ? " is pending" : " is not idle") +
            (loop.due_ns == UINT64_MAX ? ", no step due;" : ", a step due;");
  }
  return text + " network:" + network_.text();
}

SimResult Simulation::run() {
  if (!build()) return result();
  for (const Loop& loop : loops_) {
    for (int i = 0; i < config_.workload.clients; ++i) start_client(loop.node, loop.id, false);
  }
  bool finished = run_clients();
  for (const FaultWindow& window : faults_.windows()) fault_windows_ += window.from_ns <= events_.now_ns() ? 1 : 0;
  if (finished) {
    faults_.heal(events_.now_ns());
    for (int n = 0; n < config_.options.nodes; ++n) {
      start_client(NodeId(static_cast<uint8_t>(n)), WorkerId(0), true);
    }
    finished = run_clients();
  }
  if (finished) {
    quiet_down();
    check_end();
  }
  return result();
}

SimResult Simulation::result() {
  SimResult result;
  result.config = config_;
  result.violations = stage_.violations;
  for (const std::string& violation : audit_.violations) result.violations.push_back("commit point: " + violation);
  result.trace_hash = events_.trace().hash();
  result.events = events_.ran();
  result.virtual_ns = events_.now_ns();
  result.steps = steps_;
  result.packets = network_.packets();
  result.refused_sends = network_.refused_sends();
  result.faults = fault_windows_;
  result.committed = stage_.committed;
  result.aborted = stage_.aborted;
  result.rejected = stage_.rejected;
  result.unknown = stage_.unknown;
  result.dropped = stage_.dropped;
  return result;
}

}  // namespace

SimResult run_simulation(const SimOptions& options, HistorySink* sink) {
  Simulation simulation(options, sink);
  return simulation.run();
}

}  // namespace weft
