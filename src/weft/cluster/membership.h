// Membership: who holds the view. Three things are asked of it: the newest view, to change it if it still is what one
// thinks, and to be told of changes. Providers: embedded (the supervisor of a one-host cluster), ZooKeeper, and the
// simulator's. It is never on the path of a transaction or a lease: while it is away, the cluster goes on and only
// cannot change its view.
#pragma once

#include <functional>
#include <memory>

#include "weft/fabric/view.h"

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
};

}  // namespace weft
