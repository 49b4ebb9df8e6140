#include "weft/sim/simulation.h"

#include <algorithm>
#include <coroutine>
#include <list>
#include <memory>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/cluster/agent.h"
#include "weft/sim/events.h"
#include "weft/sim/membership.h"
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
  Witness* witness() override { return recovers() ? nullptr : &audit_; }

  void on_event(const Event& event) override;
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

  Node* nodes_of(NodeId node) const { return processes_[node.value].node.get(); }
  Loop& loop(NodeId node, WorkerId worker) {
    return loops_[size_t{node.value} * static_cast<size_t>(config_.options.workers) + worker.value];
  }
  // One process of a node: it lives from start to crash, and stays as it was then until the run ends.
  struct Process {
    std::unique_ptr<Node> node;
    std::unique_ptr<Agent> agent;
    uint64_t token = 0;
  };

  bool recovers() const { return config_.faults.recovers(); }
  bool build();
  void set_clocks();
  void start_agent(NodeId node);
  void set_crashes();
  bool may_crash(NodeId node) const;
  void crash(NodeId node, uint64_t down_ns);
  void restart(NodeId node);
  void look_at(NodeId node);
  bool lost() const;
  bool runs_somewhere(const Placement& placement, NodeId but) const;
  bool healed() const;
  bool heal();
  std::vector<Node*> members() const;
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
  ClusterSpec spec_;
  SimMembership membership_;
  std::vector<Process> processes_;  // by node
  std::vector<Process> ended_;
  std::vector<bool> down_;
  uint64_t tokens_ = 0;
  uint64_t crashes_ = 0;
  bool healing_ = false;
  CommitAudit audit_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::list<std::pair<Client*, Root>> roots_;  // destroyed before the engines they use
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
      workload_(sim::make_workload(&stage_)),
      membership_(config_.options.nodes, mix64(options.seed) ^ 0x3e3b, config_.network.base_ns * 4, config_.supervised,
                  &events_, &faults_),
      processes_(static_cast<size_t>(config_.options.nodes)),
      down_(static_cast<size_t>(config_.options.nodes)) {
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
  ClusterSpec& spec = spec_;
  spec.options = config_.options;
  spec.bugs = bugs_;
  spec.recovers = recovers();
  workload_->declare(spec);
  if (const Result<void> legal = check_spec(spec); !legal) {
    stage_.violation("the seed draws a bad configuration: " + legal.error().text());
    return false;
  }
  const int partitions = spec.options.partitions == 0 ? spec.options.nodes : spec.options.partitions;
  View view = make_view(spec.options.nodes, spec.options.replicas, partitions);
  for (Member& member : view.members) member.token = ++tokens_;
  set_clocks();
  std::vector<Node*> nodes;
  std::vector<std::unique_ptr<Node>> loaded;
  for (int n = 0; n < spec.options.nodes; ++n) {
    auto node = Node::create(NodeId(static_cast<uint8_t>(n)), spec, view, this);
    if (!node) {
      stage_.violation("a node does not start: " + node.error().text());
      return false;
    }
    loaded.push_back(std::move(*node));
    nodes.push_back(loaded.back().get());
  }
  // Who has the value is looked up by node: of a run in which nodes come back, the crashes themselves are the test.
  if (!recovers()) audit_.set_nodes(nodes);
  workload_->load(loaded);
  for (size_t n = 0; n < loaded.size(); ++n) {
    processes_[n].node = std::move(loaded[n]);
    processes_[n].token = view.members[n].token;
    network_.set_incarnation(NodeId(static_cast<uint8_t>(n)), view.members[n].incarnation);
  }
  for (Loop& loop : loops_) loop.worker = nodes_of(loop.node)->worker(loop.id);
  if (!recovers()) return true;
  membership_.start(view);
  for (size_t n = 0; n < processes_.size(); ++n) start_agent(NodeId(static_cast<uint8_t>(n)));
  set_crashes();
  return true;
}

void Simulation::set_clocks() {
  if (!config_.faults.has(Fault::kSkew)) return;
  Random random(mix64(seed_) ^ 0x5c3e);
  for (SimClock& clock : clocks_) {
    clock.set_skew(random.below(1'000'000'000));
    clock.set_drift(random.below(6));
  }
}

void Simulation::start_agent(NodeId id) {
  Process& process = processes_[id.value];
  AgentOptions options;
  options.lease_ns = config_.lease_ns;
  options.self.node = id;
  options.self.token = process.token;
  process.agent = std::make_unique<Agent>(options, process.node.get(), membership_.end(id));
  process.node->set_wake([this, id] {
    for (int w = 0; w < config_.options.workers; ++w) wake(id, WorkerId(static_cast<uint8_t>(w)));
  });
  for (int w = 0; w < config_.options.workers; ++w) wake(id, WorkerId(static_cast<uint8_t>(w)));
}

void Simulation::set_crashes() {
  for (const FaultWindow& window : faults_.windows()) {
    if (window.fault != Fault::kCrash) continue;
    events_.set(window.from_ns, EventKind::kCrash, this, window.a.value, window.to_ns - window.from_ns);
    // Often two at once, or one while the first is being recovered from.
    if (window.factor % 2 == 0 || window.a == window.b) continue;
    events_.set(window.from_ns + random_.below(config_.lease_ns * 3), EventKind::kCrash, this, window.b.value,
                window.to_ns - window.from_ns);
  }
}

// No more than f at a time: every partition keeps a whole replica that runs.
bool Simulation::may_crash(NodeId node) const {
  if (down_[node.value]) return false;
  const View& view = membership_.current();
  return std::all_of(view.partitions.begin(), view.partitions.end(),
                     [&](const Placement& placement) { return runs_somewhere(placement, node); });
}

void Simulation::crash(NodeId id, uint64_t down_ns) {
  Process& process = processes_[id.value];
  WEFT_MARK("a node crashes");
  if (process.agent->view() == nullptr) WEFT_MARK("a node crashes before it has joined");
  ++crashes_;
  down_[id.value] = true;
  if (const View* view = process.agent->view()) {
    if (const Member* member = view->find(id)) membership_.ended(id, member->incarnation);
  }
  stage_.crashing = true;
  for (auto root = roots_.begin(); root != roots_.end();) {
    if (root->first->node != id) {
      ++root;
      continue;
    }
    root->first->done = true;
    root = roots_.erase(root);
  }
  stage_.crashing = false;
  for (const auto& client : clients_) {
    if (client->node == id) client->done = true;  // also those that wait in a mailbox
  }
  network_.set_incarnation(id, 0);
  for (int w = 0; w < config_.options.workers; ++w) {
    Loop& of = loop(id, WorkerId(static_cast<uint8_t>(w)));
    of.due_ns = UINT64_MAX;
    ++of.turn;
  }
  process.agent.reset();
  ended_.push_back(std::move(process));
  events_.set(events_.now_ns() + down_ns, EventKind::kRestart, this, id.value);
}

void Simulation::restart(NodeId id) {
  View before = membership_.current();
  std::erase_if(before.members, [&](const Member& m) { return m.node == id; });
  before.epoch = Epoch(1);
  auto node = Node::create(id, spec_, before, this, true);
  WEFT_CHECK(node, "what started once starts again");
  Process& process = processes_[id.value];
  process.node = std::move(*node);
  process.token = ++tokens_;
  down_[id.value] = false;
  for (int w = 0; w < config_.options.workers; ++w) {
    Loop& of = loop(id, WorkerId(static_cast<uint8_t>(w)));
    of.worker = process.node->worker(of.id);
    of.busy_until_ns = events_.now_ns();
  }
  membership_.restarted(id);
  start_agent(id);
  if (healing_) return;
  for (int w = 0; w < config_.options.workers; ++w) start_client(id, WorkerId(static_cast<uint8_t>(w)), false);
}

// Before a step: a process that has joined has an incarnation; one that was removed ends, and another one starts.
void Simulation::look_at(NodeId id) {
  const Process& process = processes_[id.value];
  if (process.agent == nullptr) return;
  if (const std::shared_ptr<const View> view = membership_.end(id)->latest()) {
    const Member* member = view->find(id);
    if (member != nullptr && member->token == process.token) network_.set_incarnation(id, member->incarnation);
  }
  if (process.agent->retired() && !down_[id.value]) {
    WEFT_MARK("a removed node starts again");
    events_.set(events_.now_ns() + 1'000, EventKind::kCrash, this, uint64_t{id.value} | 256, 100'000);
  }
}

void Simulation::on_event(const Event& event) {
  const NodeId node(static_cast<uint8_t>(event.a));
  switch (event.kind) {
    case EventKind::kCrash: {
      const bool removed = event.a >= 256;
      if (removed ? !down_[node.value] && processes_[node.value].agent->retired() : !healing_ && may_crash(node)) {
        crash(node, event.b);
      }
      return;
    }
    case EventKind::kRestart:
      restart(node);
      return;
    default:
      step(loops_[event.a], event.b);
      return;
  }
}

// More than f replicas of a partition are gone, by crashes and by removal of the silent together: nothing runs any more
// that has it whole. The cluster stops, as it must.
bool Simulation::lost() const {
  const View& view = membership_.current();
  return std::any_of(view.partitions.begin(), view.partitions.end(),
                     [this](const Placement& placement) { return !runs_somewhere(placement, NodeId(kNodesMax)); });
}

// Whether a whole replica of it runs, at another node than this one.
bool Simulation::runs_somewhere(const Placement& placement, NodeId but) const {
  const View& view = membership_.current();
  for (int r = 0; r < placement.count; ++r) {
    const NodeId replica = placement.replicas[static_cast<size_t>(r)];
    const Process& process = processes_[replica.value];
    if (replica != but && !down_[replica.value] && view.find(replica)->token == process.token &&
        !process.agent->retired()) {
      return true;
    }
  }
  return false;
}

// All nodes are members and active, and nothing is missing or filling.
bool Simulation::healed() const {
  const View& view = membership_.current();
  if (view.members.size() != processes_.size() || !view.whole()) return false;
  for (size_t n = 0; n < processes_.size(); ++n) {
    if (down_[n]) return false;
    for (int w = 0; w < config_.options.workers; ++w) {
      const Engine* engine = processes_[n].node->engine(WorkerId(static_cast<uint8_t>(w)));
      if (!engine->active() || engine->view().epoch != view.epoch) return false;
    }
  }
  return true;
}

bool Simulation::heal() {
  healing_ = true;
  faults_.heal(events_.now_ns());
  while (recovers() && !healed()) {
    if (lost()) return false;
    if (events_.next_ns() > config_.limit_ns || events_.ran() > kEventsMax || !events_.run_one()) {
      stage_.violation("never whole again: epoch " + std::to_string(membership_.current().epoch.value) + ", " +
                       std::to_string(membership_.current().members.size()) + " members; " + stuck_text());
      return false;
    }
  }
  return true;
}

std::vector<Node*> Simulation::members() const {
  std::vector<Node*> nodes;
  for (const Process& process : processes_) nodes.push_back(process.node.get());
  return nodes;
}

void Simulation::schedule(Loop& loop, uint64_t at_ns) {
  if (down_[loop.node.value]) return;
  at_ns = faults_.runs_at(loop.node, std::max(at_ns, loop.busy_until_ns));
  if (at_ns >= loop.due_ns) return;
  loop.due_ns = at_ns;
  events_.set(at_ns, EventKind::kStep, this, static_cast<uint64_t>(&loop - loops_.data()), ++loop.turn);
}

void Simulation::step(Loop& loop, uint64_t turn) {
  if (turn != loop.turn) return;
  loop.due_ns = UINT64_MAX;
  if (recovers()) look_at(loop.node);
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
    const uint64_t deadline_ns = clocks_[loop.node.value].when(loop.worker->deadline_ns());
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
    const Session session(nodes_of(client->node)->engine(client->worker));
    Task<void> task = last ? workload_->finish(client, session) : workload_->run(client, session);
    roots_.emplace_back(client, await(std::move(task), client));
    roots_.back().second.start();
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
    if (recovers() && lost()) return false;
    if (events_.next_ns() > config_.limit_ns || events_.ran() > kEventsMax || !events_.run_one()) {
      check_peers();
      stage_.violation(stuck_text());
      return false;
    }
  }
  return true;
}

bool Simulation::idle() const {
  for (const Process& process : processes_) {
    for (int w = 0; w < process.node->workers(); ++w) {
      if (!process.node->engine(WorkerId(static_cast<uint8_t>(w)))->idle()) return false;
    }
  }
  return true;
}

// Nobody here sends malformed packets.
void Simulation::check_peers() {
  for (const Loop& loop : loops_) {
    if (down_[loop.node.value]) continue;
    for (int n = 0; n < config_.options.nodes; ++n) {
      const NodeId peer(static_cast<uint8_t>(n));
      if (!nodes_of(loop.node)->engine(loop.id)->port().closed(peer)) continue;
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
  const View& view = processes_[0].node->engine(WorkerId(0))->view();
  if (const std::string wrong = audit_replicas(members(), view); !wrong.empty()) {
    stage_.violation("replicas: " + wrong);
  }
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
    if (down_[loop.node.value]) {
      text += " n" + std::to_string(loop.node.value) + " is down;";
      continue;
    }
    const Engine* engine = nodes_of(loop.node)->engine(loop.id);
    if (engine->idle() && !loop.worker->pending() && engine->active()) continue;
    if (!engine->active()) {
      text += " n" + std::to_string(loop.node.value) + "w" + std::to_string(loop.id.value) + " recovers into " +
              std::to_string(engine->view().epoch.value) + (engine->retired() ? ", retired;" : ";");
      continue;
    }
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
  finished = finished && heal();
  if (!finished && recovers() && lost()) {
    stage_.crashing = true;  // what was under way ends here, unknown
    roots_.clear();
    stage_.crashing = false;
  }
  if (finished) {
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
  result.crashes = crashes_;
  result.views = membership_.changes();
  result.lost = recovers() && lost() ? 1 : 0;
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
