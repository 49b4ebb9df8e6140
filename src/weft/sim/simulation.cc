#include "weft/sim/simulation_run.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/txn/txn_worker.h"

namespace weft {

namespace {

using sim::Client;

constexpr uint64_t kBlockedStepNs = 500;  // until a worker that waits for room in a channel tries again

Task<void> await(Task<void> task, Client* client) {
  co_await task;
  client->done = true;
}

FaultPlan draw_faults(const SimConfig& config, uint64_t seed) {
  Random random(mix64(seed) ^ 0xfa17);
  return FaultPlan::draw(random, config.faults, config.options.nodes, config.fault_horizon_ns, config.lease_ns);
}

}  // namespace

Simulation::Simulation(const SimOptions& options, HistorySink* sink)
    : seed_(options.seed),
      config_(draw_config(options)),
      random_(mix64(options.seed) ^ 0x5c4ed),
      faults_(draw_faults(config_, options.seed)),
      network_(config_.network, config_.options.nodes, config_.options.workers, mix64(options.seed) ^ 0x3e7, &events_,
               &faults_),
      context_(config_.workload, &events_, sink),
      workload_(options.workload_of ? options.workload_of(&context_) : sim::make_workload(&context_)),
      processes_(config_, options.seed, options.bugs, &events_, &faults_, &network_, this) {
  network_.set_wakeups(this);
  context_.wants_more = [this] { return wants_more(); };
  for (int n = 0; n < config_.options.nodes; ++n) {
    for (int w = 0; w < config_.options.workers; ++w) {
      loops_.push_back({});
      loops_.back().node = NodeId(static_cast<uint8_t>(n));
      loops_.back().id = WorkerId(static_cast<uint8_t>(w));
    }
  }
}

Simulation::~Simulation() { client_tasks_.clear(); }

bool Simulation::build() {
  const std::string wrong = processes_.start(*workload_, random_);
  if (!wrong.empty()) {
    context_.violation(wrong);
    return false;
  }
  for (Loop& loop : loops_) loop.worker = processes_.node(loop.node)->worker(loop.id);
  return true;
}

void Simulation::process_ends(NodeId id) {
  context_.crashing = true;
  for (auto root = client_tasks_.begin(); root != client_tasks_.end();) {
    if (root->first->node != id) {
      ++root;
      continue;
    }
    root->first->done = true;
    root = client_tasks_.erase(root);
  }
  context_.crashing = false;
  for (const auto& client : clients_) {
    if (client->node == id) client->done = true;  // also clients that still wait in a mailbox
  }
  for (int w = 0; w < config_.options.workers; ++w) {
    Loop& of = loop(id, WorkerId(static_cast<uint8_t>(w)));
    of.due_ns = UINT64_MAX;
    ++of.turn;
  }
}

void Simulation::process_starts(NodeId id) {
  for (int w = 0; w < config_.options.workers; ++w) {
    Loop& of = loop(id, WorkerId(static_cast<uint8_t>(w)));
    of.worker = processes_.node(id)->worker(of.id);
    of.busy_until_ns = events_.now_ns();
  }
}

void Simulation::process_started(NodeId id) {
  if (processes_.healing() || !has_clients(id)) return;
  for (int w = 0; w < config_.options.workers; ++w) start_client(id, WorkerId(static_cast<uint8_t>(w)), false);
}

void Simulation::on_event(const Event& event) {
  Loop& at = loops_[event.a];
  if (event.kind != EventKind::kVisit) {
    step(at, event.b);
  } else if (!processes_.healing() && !processes_.down(at.node) && has_clients(at.node)) {
    start_client(at.node, at.id, false, static_cast<int>(event.b));
  }
}

// All clients that are at a node when its links fail soon wait for an outcome. Only clients that arrive later see what
// the node answers later.
void Simulation::link_fails(const FaultWindow& window) {
  if (!config_.visitors || !FaultMask::links().has(window.fault)) return;
  Random random(mix64(seed_ ^ window.from_ns) ^ 0x11c7);
  const uint64_t long_ns = std::min(window.to_ns - window.from_ns, 8 * config_.lease_ns);
  for (uint64_t n = random.between(4, 24); n > 0; --n) {
    const NodeId node = random.chance(50) ? window.a : window.b;
    const WorkerId worker(static_cast<uint8_t>(random.below(static_cast<uint64_t>(config_.options.workers))));
    // Often about when the last leases expire.
    const uint64_t after_ns =
        random.chance(50) ? random.below(long_ns) : config_.lease_ns / 2 + random.below(config_.lease_ns);
    events_.set(window.from_ns + after_ns, EventKind::kVisit, this,
                static_cast<uint64_t>(&loop(node, worker) - loops_.data()), random.between(1, 2));
  }
}

bool Simulation::heal() {
  processes_.begin_healing();
  faults_.heal(events_.now_ns());
  const uint64_t quiet_ns = faults_.links_drained_ns(events_.now_ns());
  progress();
  while (recovers() && (!processes_.healed() || events_.now_ns() < quiet_ns)) {
    if (stops()) return false;
    if (stuck() || !events_.run_one()) {
      const View& view = processes_.membership().current();
      context_.violation("never whole again: epoch " + std::to_string(view.epoch.value) + ", " +
                         std::to_string(view.members.size()) + " members; " + stuck_text());
      return false;
    }
  }
  return true;
}

void Simulation::schedule(Loop& loop, uint64_t at_ns) {
  if (processes_.down(loop.node)) return;
  at_ns = faults_.runs_at(loop.node, std::max(at_ns, loop.busy_until_ns));
  if (at_ns >= loop.due_ns) return;
  loop.due_ns = at_ns;
  events_.set(at_ns, EventKind::kStep, this, static_cast<uint64_t>(&loop - loops_.data()), ++loop.turn);
}

void Simulation::step(Loop& loop, uint64_t turn) {
  if (turn != loop.turn) return;
  loop.due_ns = UINT64_MAX;
  if (recovers()) processes_.check_process(loop.node);
  ++steps_;
  const uint64_t now_ns = events_.now_ns();
  const bool busy = loop.worker->step();
  const uint64_t cost_ns = processes_.cost_model_of(loop.node, loop.id).take() * faults_.step_factor(loop.node, now_ns);
  loop.busy_until_ns = now_ns + std::max<uint64_t>(cost_ns, 1) + random_.below(config_.step_jitter_ns + 1);
  network_.depart(loop.node, loop.id, loop.busy_until_ns);
  if (busy) {
    schedule(loop, loop.busy_until_ns);
  } else if (loop.worker->pending()) {
    schedule(loop, loop.busy_until_ns + kBlockedStepNs);
  } else {
    loop.worker->before_sleep();
    const uint64_t deadline_ns = processes_.when(loop.node, loop.worker->deadline_ns());
    if (deadline_ns != UINT64_MAX) schedule(loop, deadline_ns);
  }
}

void Simulation::start_client(NodeId node, WorkerId worker, bool last, int visit) {
  clients_.push_back(std::make_unique<Client>());
  Client* client = clients_.back().get();
  client->id = clients_.size();
  client->node = node;
  client->worker = worker;
  client->visit = visit;
  client->random = Random(mix64(seed_ + client->id * 0x9e3779b97f4a7c15U));
  const bool taken = loop(node, worker).worker->mailbox().post([this, client, last] {
    const Session session(processes_.node(client->node)->txn_worker(client->worker));
    Task<void> task = last ? workload_->finish(client, session) : workload_->run(client, session);
    client_tasks_.emplace_back(client, OwnedTask::of(await(std::move(task), client)));
    client_tasks_.back().second.start();
  });
  WEFT_CHECK(taken, "a mailbox has room for a simulation's clients");
  schedule(loop(node, worker), events_.now_ns() + random_.below(1000));
}

uint64_t Simulation::faults_begun() const {
  uint64_t begun = processes_.aimed_crashes() + (config_.faults.has(Fault::kSkew) ? 1 : 0);
  for (const FaultWindow& window : faults_.windows()) begun += window.from_ns <= events_.now_ns() ? 1 : 0;
  return begun;
}

// In a run that must have a number of transactions and a fault: until it has, and somewhat longer if crash targets are
// left.
bool Simulation::wants_more() const {
  const uint64_t have = context_.transactions();
  if (have < config_.transactions || (processes_.crash_targets_pending() && have < 2 * config_.transactions))
    return true;
  return faults_begun() == 0 && config_.faults.bits != 0 && have < 200 * config_.transactions;
}

void Simulation::progress() {
  ended_then_ = context_.transactions();
  views_then_ = processes_.membership().changes();
  progress_ns_ = events_.now_ns();
  progress_events_ = events_.ran();
}

// Transactions that keep conflicting make a run slow, not stuck, as long as one ends now and then; but there is a
// limit. While the cluster is made whole none ends: it gets whole by views, one or more for each replica that is
// copied, so that the limit is for one of them, however many the seed has made necessary.
bool Simulation::stuck() {
  constexpr uint64_t kLimits = 10;  // in total, in units of the limits without progress
  const bool another_view = processes_.healing() && processes_.membership().changes() != views_then_;
  if (context_.transactions() != ended_then_ || another_view) progress();
  if (events_.now_ns() > kLimits * config_.limit_ns || events_.ran() > kLimits * kEventsMax) return true;
  return events_.next_ns() > progress_ns_ + config_.limit_ns || events_.ran() > progress_events_ + kEventsMax;
}

// Whether faults have taken more replicas than the cluster can lose.
bool Simulation::stops() {
  if (!stopped_ && recovers()) stopped_ = processes_.lost();
  return stopped_;
}

// All nodes that run transactions may be down at a time, if others hold the data.
bool Simulation::clients_come_back() const {
  if (config_.options.roles.empty() || !config_.workload.until_enough || processes_.healing() || !wants_more()) {
    return false;
  }
  return std::any_of(loops_.begin(), loops_.end(),
                     [this](const Loop& loop) { return has_clients(loop.node) && processes_.down(loop.node); });
}

// Runs until all clients are done; false if they are stuck.
bool Simulation::run_clients() {
  const auto done = [this] {
    return std::all_of(clients_.begin(), clients_.end(), [](const auto& client) { return client->done; }) &&
           !clients_come_back();
  };
  while (!done()) {
    if (stops()) return false;
    if (stuck() || !events_.run_one()) {
      check_peers();
      context_.violation(stuck_text());
      return false;
    }
  }
  return true;
}

SimResult Simulation::run() {
  if (!build()) return result();
  for (const Loop& loop : loops_) {
    if (processes_.down(loop.node) || !has_clients(loop.node)) continue;
    for (int i = 0; i < config_.workload.clients; ++i) start_client(loop.node, loop.id, false);
  }
  for (const FaultWindow& window : faults_.windows()) link_fails(window);
  bool finished = run_clients();
  begun_faults_ = faults_begun();
  finished = finished && heal();
  if (!finished && stopped_) {
    context_.crashing = true;  // transactions in progress end here, unknown
    client_tasks_.clear();
    context_.crashing = false;
  }
  if (finished) {
    for (int n = 0; n < config_.options.nodes; ++n) {
      const NodeId node(static_cast<uint8_t>(n));
      if (has_clients(node)) start_client(node, WorkerId(0), true);
    }
    finished = run_clients();
  }
  if (finished) {
    quiet_down();
    check_end();
  }
  return result();
}

SimResult run_simulation(const SimOptions& options, HistorySink* sink) {
  Simulation simulation(options, sink);
  return simulation.run();
}

}  // namespace weft
