// TxnObserver: is notified of the progress of commits and recoveries, at the moment it is made. Null in production; the
// simulator uses it to check rule K2 (audit.h) and for its aimed crashes (sim/crash_injector.h).
#pragma once

#include "weft/fabric/nodes.h"
#include "weft/types.h"

namespace weft {

struct TxnSlot;

class TxnObserver {
 public:
  virtual ~TxnObserver() = default;
  // The coordinator is about to send a commit or unlock, or to acknowledge a commit, whichever comes first (rule K2).
  virtual void on_commit_point(NodeId coordinator, WorkerId worker, const TxnSlot& slot) = 0;
  // A phase's messages are in flight.
  virtual void on_phase(NodeId coordinator, WorkerId worker, const TxnSlot& slot) {
    (void)coordinator, (void)worker, (void)slot;
  }
  // A worker that leads a recovery has come to its next step.
  enum class Recovered : uint8_t { kDecided, kWritten, kActivated };  // kActivated: the leader has just said active
  virtual void on_recovery(Recovered step, WorkerId worker, NodeId leader, NodeSet members) {
    (void)step, (void)worker, (void)leader, (void)members;
  }
};

}  // namespace weft
