#include "weft/sim/processes.h"

#include <algorithm>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/hash.h"
#include "weft/base/marks.h"
#include "weft/txn/txn_worker.h"

namespace weft {

namespace {

// Bits of a crash event's number, beside the node.
constexpr uint64_t kRemoved = 256, kAimed = 512;

}  // namespace

Processes::Processes(const SimConfig& config, uint64_t seed, PlantedBugs bugs, Events* events, FaultPlan* faults,
                     Network* network, ProcessHost* host)
    : config_(config),
      seed_(seed),
      bugs_(bugs),
      events_(events),
      faults_(faults),
      network_(network),
      host_(host),
      random_(mix64(seed) ^ 0xa14),
      link_random_(mix64(seed) ^ 0x11c6),
      join_random_(mix64(seed) ^ 0x1019),
      cost_model_(static_cast<size_t>(config.options.nodes) * static_cast<size_t>(config.options.workers)),
      membership_(config.options.nodes, mix64(seed) ^ 0x3e3b, config.network.base_ns * 4, config.supervised, events,
                  faults),
      crash_injector_(config, seed, this),
      processes_(static_cast<size_t>(config.options.nodes)),
      join_backoffs_(static_cast<size_t>(config.options.nodes), JoinBackoff(pace_ns())),
      down_(static_cast<size_t>(config.options.nodes)) {
  for (int n = 0; n < config_.options.nodes; ++n) clocks_.emplace_back(events_);
}

std::string Processes::start(sim::Workload& workload, Random& random) {
  ClusterSpec& spec = spec_;
  spec.options = config_.options;
  spec.bugs = bugs_;
  spec.recovers = recovers();
  spec.answer_ns = config_.answer_ns;
  spec.piece_bytes = config_.piece_bytes;
  spec.verb_credit_period_ns = config_.verb_credit_period_ns;
  spec.rotates_rows = true;
  // Two jumps are more than a signed comparison of 32 bits can order.
  if (seed_ % 4 == 3) spec.sequence_gap = 0x5000'0001;
  workload.declare(spec);
  if (const Result<void> legal = check_spec(spec); !legal) {
    return "the seed draws a bad configuration: " + legal.error().text();
  }
  std::vector<NodeRoles> roles;
  for (int n = 0; n < config_.initial_members; ++n) roles.push_back(spec.options.roles_of(n));
  View view = make_view(roles, spec.options.replicas, spec.options.partition_count());
  for (Member& member : view.members) member.token = ++tokens_;
  set_clocks();
  std::vector<Node*> nodes;
  std::vector<std::unique_ptr<Node>> loaded;
  for (int n = 0; n < spec.options.nodes; ++n) {
    auto node = Node::create(NodeId(static_cast<uint8_t>(n)), spec, view, this, n >= config_.initial_members);
    if (!node) return "a node does not start: " + node.error().text();
    loaded.push_back(std::move(*node));
    nodes.push_back(loaded.back().get());
  }
  // The audit finds the values by node, so it does not work in runs in which nodes come back. There the crashes
  // themselves are the test.
  if (!recovers()) {
    audit_.set_nodes(nodes);
    crash_injector_.set_audit(&audit_);
  }
  workload.load(loaded);
  for (size_t n = 0; n < loaded.size(); ++n) {
    processes_[n].node = std::move(loaded[n]);
    if (n >= view.members.size()) {
      WEFT_MARK("a node comes later");
      down_[n] = true;
      events_->set(random.below(2 * config_.fault_horizon_ns), EventKind::kRestart, this, n);
      continue;
    }
    processes_[n].token = view.members[n].token;
    network_->set_incarnation(NodeId(static_cast<uint8_t>(n)), view.members[n].incarnation);
    set_wake(NodeId(static_cast<uint8_t>(n)));
  }
  if (!recovers()) return {};
  membership_.start(view);
  for (size_t n = 0; n < view.members.size(); ++n) start_agent(NodeId(static_cast<uint8_t>(n)));
  set_crashes(random);
  set_breaks();
  return {};
}

void Processes::set_clocks() {
  if (!config_.faults.has(Fault::kSkew)) return;
  Random random(mix64(seed_) ^ 0x5c3e);
  for (SimClock& clock : clocks_) {
    clock.set_skew(random.below(1'000'000'000));
    clock.set_drift(random.below(config_.drift_permille + 1));
  }
}

void Processes::set_wake(NodeId id) {
  processes_[id.value].node->state().views.set_wake([this, id] {
    for (int w = 0; w < config_.options.workers; ++w) host_->wake(id, WorkerId(static_cast<uint8_t>(w)));
  });
}

std::vector<std::string> Processes::contradictions() const {
  std::vector<std::string> out;
  const auto check = [&](const Process& process) {
    for (int w = 0; process.node != nullptr && w < process.node->workers(); ++w) {
      const uint64_t wrong = process.node->txn_worker(WorkerId(static_cast<uint8_t>(w)))->outcomes().contradictions();
      if (wrong == 0) continue;
      out.push_back("n" + std::to_string(process.node->id().value) + "w" + std::to_string(w) + " has noted " +
                    std::to_string(wrong) + " outcomes that contradict what it had noted before");
    }
  };
  for (const Process& process : processes_) check(process);
  for (const Process& process : ended_) check(process);
  return out;
}

void Processes::start_agent(NodeId id) {
  Process& process = processes_[id.value];
  NodeAgentOptions options;
  options.lease_ns = config_.lease_ns;
  options.drift_permille = config_.margin_permille;
  options.self.node = id;
  options.self.token = process.token;
  options.self.roles = config_.options.roles_of(id.value);
  process.agent = std::make_unique<NodeAgent>(options, process.node->agent_host(), membership_.endpoint(id));
  for (int w = 0; w < config_.options.workers; ++w) host_->wake(id, WorkerId(static_cast<uint8_t>(w)));
}

void Processes::set_crashes(Random& random) {
  for (const FaultWindow& window : faults_->windows()) {
    if (window.fault != Fault::kCrash) continue;
    events_->set(window.from_ns, EventKind::kCrash, this, window.a.value, window.to_ns - window.from_ns);
    // Often two nodes at once, or a second one during the recovery from the first.
    if (window.factor % 2 == 0 || window.a == window.b) continue;
    events_->set(window.from_ns + random.below(config_.lease_ns * 3), EventKind::kCrash, this, window.b.value,
                 window.to_ns - window.from_ns);
  }
}

void Processes::crash_after(NodeId node, uint64_t delay_ns) {
  const uint64_t down_ns = random_.between(10'000, random_.chance(70) ? 1'000'000 : 10'000'000);
  events_->set(events_->now_ns() + delay_ns, EventKind::kCrash, this, node.value | kAimed, down_ns);
}

// No more than f at a time: every partition keeps an in-sync replica that runs.
bool Processes::may_crash(NodeId id) const {
  if (down_[id.value]) return false;
  const View& view = membership_.current();
  return std::all_of(view.partitions.begin(), view.partitions.end(),
                     [&](const Placement& placement) { return runs_somewhere(placement, id); });
}

void Processes::on_event(const Event& event) {
  const NodeId id(static_cast<uint8_t>(event.a));
  if (event.kind == EventKind::kRestart) {
    restart(id);
    return;
  }
  if (event.kind == EventKind::kBreak) {
    if (!healing_) break_link(id, NodeId(static_cast<uint8_t>(event.b)));
    return;
  }
  if (event.kind == EventKind::kAnswer) {
    answered(id, NodeId(static_cast<uint8_t>(event.a >> 8)), static_cast<uint32_t>(event.b), event.b >> 32);
    return;
  }
  if (event.kind == EventKind::kMend) {
    mend(id, NodeId(static_cast<uint8_t>(event.b)));
    return;
  }
  if (event.kind == EventKind::kBreakSeen) {
    tell_broken(id, NodeId(static_cast<uint8_t>(event.a >> 8)), static_cast<uint32_t>(event.b));
    return;
  }
  if ((event.a & kRemoved) != 0) {
    if (down_[id.value] || !processes_[id.value].agent->retired()) return;
    ++removals_;
    join_backoffs_[id.value].removed(events_->now_ns());
    crash(id, event.b);
    return;
  }
  if (healing_ || !may_crash(id)) return;
  std::vector<const Node*> running;
  for (size_t n = 0; n < processes_.size(); ++n) running.push_back(down_[n] ? nullptr : processes_[n].node.get());
  counter_.count(id, membership_.current().epoch, running);
  if ((event.a & kAimed) != 0) {
    ++aimed_crashes_;
    network_->lose_unsent(id, random_);
  }
  join_backoffs_[id.value] = JoinBackoff(pace_ns());  // the next process does not know of this one
  crash(id, event.b);
}

void Processes::crash(NodeId id, uint64_t down_ns) {
  Process& process = processes_[id.value];
  WEFT_MARK("a node crashes");
  if (process.agent->view() == nullptr) WEFT_MARK("a node crashes before it has joined");
  ++crashes_;
  down_[id.value] = true;
  if (const View* view = process.agent->view()) {
    if (const Member* member = view->find(id)) membership_.ended(id, member->incarnation);
  }
  host_->process_ends(id);
  network_->set_incarnation(id, 0);
  process.agent.reset();
  ended_.push_back(std::move(process));
  events_->set(events_->now_ns() + down_ns, EventKind::kRestart, this, id.value);
}

void Processes::restart(NodeId id) {
  if (processes_[id.value].node != nullptr) network_->start_regions(id);
  auto node = Node::create(id, spec_, pre_join_view(membership_.current(), id), this, true);
  WEFT_CHECK(node, "what started once starts again");
  Process& process = processes_[id.value];
  if (process.node != nullptr) ended_.push_back(std::exchange(process, {}));  // of a node that had not started yet
  process.node = std::move(*node);
  process.token = ++tokens_;
  Member self;
  self.node = id;
  process.admission = std::make_unique<Admission>(self, pace_ns());
  down_[id.value] = false;
  membership_.restarted(id);
  host_->process_starts(id);
  set_wake(id);
  start_agent(id);
  host_->process_started(id);
}

void Processes::check_process(NodeId id) {
  Process& process = processes_[id.value];
  if (process.agent == nullptr) return;
  if (const std::shared_ptr<const View> view = membership_.endpoint(id)->latest()) {
    const Member* member = view->find(id);
    const bool in = member != nullptr && member->token == process.token;
    if (in) network_->set_incarnation(id, member->incarnation);
    if (in && !std::exchange(process.came_in, true)) join_backoffs_[id.value].joined(events_->now_ns());
    if (!in && process.agent->view() == nullptr) ask_to_join(id, *view);
  }
  rejoin(id);
  if (process.agent->retired() && !down_[id.value]) {
    WEFT_MARK("a removed node starts again");
    events_->set(events_->now_ns() + 1'000, EventKind::kCrash, this, id.value | kRemoved, 100'000);
  }
}

bool Processes::lost() const {
  const View& view = membership_.current();
  return std::any_of(view.partitions.begin(), view.partitions.end(),
                     [this](const Placement& placement) { return !runs_somewhere(placement, NodeId(kNodesMax)); });
}

// Whether an in-sync replica of the partition runs at a node other than `but`.
bool Processes::runs_somewhere(const Placement& placement, NodeId but) const {
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

bool Processes::healed() const {
  const View& view = membership_.current();
  if (view.members.size() != processes_.size() || !view.fully_replicated()) return false;
  for (size_t n = 0; n < processes_.size(); ++n) {
    if (down_[n] || processes_[n].node->sweep().has_stale()) return false;
    for (int w = 0; w < config_.options.workers; ++w) {
      const TxnWorker* txn_worker = processes_[n].node->txn_worker(WorkerId(static_cast<uint8_t>(w)));
      if (!txn_worker->active() || txn_worker->view().epoch != view.epoch) return false;
    }
  }
  return true;
}

std::vector<Node*> Processes::nodes() const {
  std::vector<Node*> nodes;
  for (const Process& process : processes_) nodes.push_back(process.node.get());
  return nodes;
}

}  // namespace weft
