#include "weft/txn/node_agent_host.h"

#include "weft/txn/node.h"
#include "weft/txn/txn_worker.h"

namespace weft {

namespace {

constexpr WorkerId kAgentsWorker(0);

}  // namespace

NodeState& NodeAgentHost::state() { return node_.state(); }
const Options& NodeAgentHost::cluster_options() const { return node_.spec().options; }
PlantedBugs NodeAgentHost::planted_bugs() const { return node_.spec().bugs; }
bool NodeAgentHost::shares_memory() const { return node_.spec().shares_memory; }
EventLog* NodeAgentHost::events() const { return node_.events(); }
uint64_t NodeAgentHost::clock_ns() const { return node_.worker(kAgentsWorker)->clock_ns(); }

bool NodeAgentHost::caught_up(Epoch epoch) const {
  for (int w = 0; w < node_.workers(); ++w) {
    if (!node_.txn_worker(WorkerId(static_cast<uint8_t>(w)))->transfer().caught_up_in(epoch)) return false;
  }
  return true;
}

void NodeAgentHost::set_agent(NodeAgentHook* agent) { node_.txn_worker(kAgentsWorker)->control().set_agent(agent); }

void NodeAgentHost::send_control(NodeId to, ByteView message) {
  node_.txn_worker(kAgentsWorker)->control().send(to, message);
}

size_t NodeAgentHost::control_queued_bytes(NodeId to) const {
  return node_.txn_worker(kAgentsWorker)->control().queued_bytes(to);
}

}  // namespace weft
