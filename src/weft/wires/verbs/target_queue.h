// VerbsTargetQueue: the end of one peer's queue for verbs at the node whose memory they reach, for one worker.
//
// The worker opens it when the peer asks and has a grant; the control thread closes it when the grant ends. Both hold a
// lock: either the worker sees that there is no grant any more, or the control thread sees the queue pair and destroys
// it. So when Regions::revoke returns, nothing that the peer posted earlier lands. No other queue pair lets a peer
// touch memory.
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
  // A new queue for the end at `asker`, under this grant; the one before is closed. Nothing if that is not the peer's
  // grant any more.
  Result<std::optional<QpAddress>> open(const VerbsNic& nic, const VerbsCq& cq, const Regions& regions, NodeId peer,
                                        uint32_t grant, const QpAddress& asker, uint32_t sequence);
  void close();

 private:
  std::mutex mutex_;
  std::unique_ptr<VerbsQp> qp_;
};

}  // namespace weft
