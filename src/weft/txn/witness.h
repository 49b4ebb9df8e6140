// Witness: sees what the engine tells its clients, at the moment it does. Null in production; the simulator's checks of
// the rules K1 and K2 stand behind it (audit.h).
#pragma once

#include "weft/types.h"

namespace weft {

struct TxnSlot;

class Witness {
 public:
  virtual ~Witness() = default;
  // The coordinator is about to let a commit or unlock leave, or to tell a commit, whichever comes first (rule K2).
  virtual void on_commit_point(NodeId coordinator, WorkerId worker, const TxnSlot& slot) = 0;
};

}  // namespace weft
