// VerbsTargetQueue: the target's end of one peer's queue for verbs on one access domain, for one worker.
//
// The worker opens it when the peer asks and has a grant; the control thread closes it when the grant ends. Both take a
// lock: either the worker sees that the grant has ended, or the control thread sees the queue pair and destroys it. So
// when Regions::close returns, nothing that the peer posted earlier lands. No other queue pair gives a peer access to
// memory.
//
// Nobody posts to it and nothing completes there: it belongs to no worker's domain (I1 of worker_domain.h), and `cq` is
// one that any thread may use.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "weft/fabric/region.h"
#include "weft/status.h"
#include "weft/types.h"
#include "weft/wires/verbs/qp.h"

namespace weft {

class VerbsTargetQueue {
 public:
  // Opens a new queue for the end at `asker`, under this grant, and closes the previous one. Empty if the peer's grant
  // is a different one by now.
  Result<std::optional<QpAddress>> open(const VerbsNic& nic, const VerbsCq& cq, const Regions& regions, NodeId peer,
                                        Domain domain, uint32_t grant, const QpAddress& asker, uint32_t sequence);
  void close();

 private:
  std::mutex mutex_;
  std::unique_ptr<VerbsQp> qp_;
};

}  // namespace weft
