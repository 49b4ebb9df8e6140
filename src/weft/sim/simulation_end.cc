// What must hold when the clients of a run are done, and the description of clients that are stuck.
#include <algorithm>
#include <string>

#include "weft/sim/simulation_run.h"
#include "weft/txn/replicas.h"
#include "weft/txn/txn_worker.h"

namespace weft {

namespace {

// Describes the load if some node that holds data has two replicas more than another; else empty.
std::string uneven(const View& view) {
  std::string text;
  size_t least = SIZE_MAX;
  size_t most = 0;
  for (const Member& member : view.members) {
    if (!holds_data(member.roles)) continue;
    const auto held = static_cast<size_t>(
        std::count_if(view.partitions.begin(), view.partitions.end(),
                      [&](const Placement& placement) { return placement.is_in_sync(member.node); }));
    least = std::min(least, held);
    most = std::max(most, held);
    text += " " + std::to_string(held);
  }
  return most > least + 1 ? "the load is not even, replicas by node:" + text : std::string();
}

}  // namespace

bool Simulation::idle() const {
  for (const Node* node : processes_.nodes()) {
    for (int w = 0; w < node->workers(); ++w) {
      if (!node->txn_worker(WorkerId(static_cast<uint8_t>(w)))->idle()) return false;
    }
  }
  return true;
}

// No node of a simulation sends malformed packets, so no channel may be closed.
void Simulation::check_peers() {
  for (const Loop& loop : loops_) {
    if (processes_.down(loop.node)) continue;
    for (int n = 0; n < config_.options.nodes; ++n) {
      const NodeId peer(static_cast<uint8_t>(n));
      if (!processes_.node(loop.node)->txn_worker(loop.id)->context().port.closed(peer)) continue;
      context_.violation("n" + std::to_string(loop.node.value) + "w" + std::to_string(loop.id.value) +
                         " has closed its channel to n" + std::to_string(n));
    }
  }
}

// What is piggybacked on later messages is sent alone after a while: waits for that.
void Simulation::quiet_down() {
  const uint64_t until_ns = events_.now_ns() + kQuietNs;
  const uint64_t events_max = events_.ran() + kEventsMax;
  while (events_.next_ns() <= until_ns && events_.ran() <= events_max) events_.run_one();
  if (idle()) return;
  context_.violation("not idle long after the last transaction:" + stuck_text());
}

void Simulation::check_end() {
  check_peers();
  const View& view = processes_.node(NodeId(0))->txn_worker(WorkerId(0))->view();
  if (const std::string wrong = audit_replicas(processes_.nodes(), view); !wrong.empty()) {
    context_.violation("replicas: " + wrong);
  }
  workload_->check(processes_.nodes(), view);
  if (const std::string wrong = uneven(view); !wrong.empty()) context_.violation(wrong);
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
    if (processes_.down(loop.node)) {
      text += " n" + std::to_string(loop.node.value) + " is down;";
      continue;
    }
    const TxnWorker* txn_worker = processes_.node(loop.node)->txn_worker(loop.id);
    if (txn_worker->idle() && !loop.worker->pending() && txn_worker->active()) continue;
    if (!txn_worker->active()) {
      text += " n" + std::to_string(loop.node.value) + "w" + std::to_string(loop.id.value) + " recovers into " +
              std::to_string(txn_worker->view().epoch.value) +
              (txn_worker->context().views.removed() ? ", retired;" : ";");
      continue;
    }
    text += " n" + std::to_string(loop.node.value) + "w" + std::to_string(loop.id.value) +
            (loop.worker->pending() ? " is pending" : " is not idle") +
            (loop.due_ns == UINT64_MAX ? ", no step due;" : ", a step due;");
  }
  return text + " network:" + network_.text();
}

SimResult Simulation::result() {
  workload_->end();
  for (const std::string& wrong : processes_.contradictions()) context_.violation(wrong);
  SimResult result;
  result.config = config_;
  result.violations = context_.violations;
  for (const std::string& violation : processes_.commit_point_violations())
    result.violations.push_back("commit point: " + violation);
  result.trace_hash = events_.trace().hash();
  result.events = events_.ran();
  result.virtual_ns = events_.now_ns();
  result.steps = steps_;
  result.packets = network_.packets();
  result.refused_sends = network_.refused_sends();
  result.faults = begun_faults_;
  result.crashes = processes_.crashes();
  result.removals = processes_.removals();
  result.coverage = processes_.coverage();
  result.views = processes_.membership().changes();
  result.lost = stopped_ ? 1 : 0;
  result.committed = context_.committed;
  result.aborted = context_.aborted;
  result.rejected = context_.rejected;
  result.unknown = context_.unknown;
  result.dropped = context_.dropped;
  return result;
}

}  // namespace weft
