// AgentHost: what a node's agent needs from the node that it runs on. It knows nothing of transactions, so a node that
// runs none can be a host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/base/bugs.h"
#include "weft/base/bytes.h"
#include "weft/base/event_log.h"
#include "weft/member/node_state.h"
#include "weft/options.h"
#include "weft/run/service.h"
#include "weft/types.h"

namespace weft {

// The agent, as seen by the worker that runs it.
class NodeAgentHook : public Service {
 public:
  virtual void on_message(NodeId from, ByteView message) = 0;
};

class AgentHost {
 public:
  virtual ~AgentHost() = default;
  virtual NodeState& state() = 0;
  virtual const Options& cluster_options() const = 0;
  virtual PlantedBugs planted_bugs() const = 0;   // test only
  virtual bool shares_memory() const = 0;         // with other processes of the host
  virtual EventLog* events() const = 0;           // nullptr: events are discarded
  virtual uint64_t clock_ns() const = 0;          // the current time; a step may have begun long ago
  virtual bool caught_up(Epoch epoch) const = 0;  // this node has caught up on all its partitions in that view
  // The agent runs on the thread of worker 0; nullptr detaches it. Its messages go to the agents of other nodes.
  virtual void set_agent(NodeAgentHook* agent) = 0;
  virtual void send_control(NodeId to, ByteView message) = 0;
  virtual size_t control_queued_bytes(NodeId to) const = 0;
};

}  // namespace weft
