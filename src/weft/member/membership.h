// Membership: who holds the view. Three things are asked of it: the newest view, to change it if it still is what one
// thinks, and to be told of changes. Providers: embedded (the supervisor of a one-host cluster), ZooKeeper, and the
// simulator's. It is never on the path of a transaction or a lease: while it is away, the cluster goes on and only
// cannot change its view.
//
// latest, propose and fenced are called by the agent on a worker's thread and never block.
#pragma once

#include <memory>
#include <string>

#include "weft/member/view.h"

namespace weft {

class Membership {
 public:
  virtual ~Membership() = default;

  // The newest view that has reached this node; nullptr if there is none yet.
  virtual std::shared_ptr<const View> latest() = 0;
  // Asks for `next` to become the view if the view's epoch is next.epoch - 1. The answer is a change of latest(), or
  // none: somebody else was faster, or the provider is away. Ask again.
  virtual void propose(const View& next) = 0;
  // The node's process has ended, or cannot do anything any more: no lease has to run out for it. Providers that see
  // processes end know; others say no.
  virtual bool fenced(NodeId node, uint32_t incarnation) = 0;

  // Before the rest: this process is to be a member of the first view, if there is none yet. When all nodes of the
  // first view are known, there is one.
  virtual void announce(const Member& self) { (void)self; }

  // For the node's control thread: control_fd() is readable when control_step() has something to do; -1: the provider
  // has threads of its own.
  virtual int control_fd() const { return -1; }
  virtual void control_step() {}
  // What the node says of its last second (redis/node_stats.h), for a provider that wants to know. By the control
  // thread.
  virtual void take_sample(const std::string& sample) { (void)sample; }
  // The provider has ended, and the cluster ends with it: the text says how.
  virtual std::string termination_reason() { return {}; }
  virtual std::string state() { return "ok"; }  // for people
  // What keeps it from having a view or changing it, beside being away; empty if nothing does.
  virtual std::string status_error() { return {}; }
};

}  // namespace weft
