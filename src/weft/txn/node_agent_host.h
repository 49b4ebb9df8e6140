// NodeAgentHost: a node as its agent sees it (member/agent_host.h). The agent runs on the thread of worker 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/member/agent_host.h"

namespace weft {

class Node;

class NodeAgentHost final : public AgentHost {
 public:
  explicit NodeAgentHost(Node& node) : node_(node) {}

  NodeState& state() override;
  const Options& cluster_options() const override;
  PlantedBugs planted_bugs() const override;
  bool shares_memory() const override;
  EventLog* events() const override;
  uint64_t clock_ns() const override;
  bool caught_up(Epoch epoch) const override;
  void set_agent(NodeAgentHook* agent) override;
  void send_control(NodeId to, ByteView message) override;
  size_t control_queued_bytes(NodeId to) const override;

 private:
  Node& node_;
};

}  // namespace weft
