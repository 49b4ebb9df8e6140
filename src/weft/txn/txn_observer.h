// TxnObserver: sees how far commits and recoveries are, at the moment they get there. Null in production; the
// simulator's check of rule K2 stands behind it (audit.h), and so do its aimed crashes (sim/crash_injector.h).
#pragma once

#include "weft/types.h"

namespace weft {

struct TxnSlot;

class TxnObserver {
 public:
  virtual ~TxnObserver() = default;
  // The coordinator is about to let a commit or unlock leave, or to tell a commit, whichever comes first (rule K2).
  virtual void on_commit_point(NodeId coordinator, WorkerId worker, const TxnSlot& slot) = 0;
  // A phase's messages are on their way.
  virtual void on_phase(NodeId coordinator, WorkerId worker, const TxnSlot& slot) {
    (void)coordinator, (void)worker, (void)slot;
  }
  // A worker that leads a recovery goes on by a step.
  enum class Recovered : uint8_t { kDecided, kWritten, kCarriedOut };  // the last: it has just said active
  virtual void on_recovery(Recovered step, WorkerId worker, NodeId leader, uint64_t members) {
    (void)step, (void)worker, (void)leader, (void)members;
  }
};

}  // namespace weft
