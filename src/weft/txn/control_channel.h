// ControlChannel: the messages of a node's agent (leases and membership). They have a flow of their own and belong to
// no epoch. The agent runs on the thread of the node's worker 0.
#pragma once

#include <cstring>
#include <span>

#include "weft/base/bytes.h"
#include "weft/member/agent_host.h"
#include "weft/txn/batch.h"
#include "weft/txn/context.h"
#include "weft/txn/messages.h"

namespace weft {

class ControlChannel {
 public:
  explicit ControlChannel(WorkerContext& ctx) : ctx_(ctx) {}

  void set_agent(NodeAgentHook* agent) { agent_ = agent; }
  NodeAgentHook* agent() const { return agent_; }

  // Sends to the agent of another node, or of this node.
  void send(NodeId to, ByteView message) {
    if (queued_bytes(to) > ctx_.limits.credit_bytes / 2) return;  // it does not receive: it will be removed
    std::byte* at = ctx_.port.reserve(to, Flow::kControl, static_cast<uint8_t>(Kind::kControl), message.size());
    std::memcpy(at, message.data(), message.size());
  }
  // Bytes that were sent there and have not left yet.
  size_t queued_bytes(NodeId to) const { return ctx_.port.queued_bytes(to, Flow::kControl); }

  bool parse(const Message&) const { return true; }  // the agent parses them
  void on_message(const Batch&, std::span<const Message> run) {
    for (const Message& m : run) {
      if (agent_ != nullptr) agent_->on_message(m.source, m.body);
    }
  }

 private:
  WorkerContext& ctx_;
  NodeAgentHook* agent_ = nullptr;
};

}  // namespace weft
