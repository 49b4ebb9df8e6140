// Membership: keeps the view. It offers three things: the newest view, a compare-and-set of the view, and notification
// of changes. Providers: embedded (the supervisor of a one-host cluster), ZooKeeper, and the simulator's. It is never
// on the path of a transaction or a lease: while it is unavailable the cluster continues and only cannot change its
// view.
//
// The agent calls latest, propose and fenced on a worker's thread; they never block.
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
  // Asks for `next` to become the view if the current epoch is next.epoch - 1. The result shows as a change of
  // latest(), or not at all if another proposal won or the provider is unavailable. Callers retry.
  virtual void propose(const View& next) = 0;
  // Whether the node's process has ended or can do nothing any more, so that no lease of it has to expire. Providers
  // that do not see processes end return false.
  virtual bool fenced(NodeId node, uint32_t incarnation) = 0;

  // Called before the others: this process is to be a member of the first view, if there is none yet. The first view
  // is made when all of its nodes are known.
  virtual void announce(const Member& self) { (void)self; }

  // For the node's control thread: control_fd() is readable when control_step() has work to do; -1: the provider has
  // its own threads.
  virtual int control_fd() const { return -1; }
  virtual void control_step() {}
  // The node's statistics of the last second (redis/node_stats.h), for a provider that wants them. Called by the
  // control thread.
  virtual void take_sample(const std::string& sample) { (void)sample; }
  // Not empty: the provider has ended, and the cluster ends with it; the text says how.
  virtual std::string termination_reason() { return {}; }
  virtual std::string state() { return "ok"; }  // for people
  // What keeps it from having or changing a view, other than being unavailable; empty if nothing does.
  virtual std::string status_error() { return {}; }
};

}  // namespace weft
