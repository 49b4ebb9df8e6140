// OwnTransport: the phases of a commit at the coordinator's own node. It calls the participant in place of a message,
// and has the answer at once.
//
// Only where no row uses verbs: a participant handles what was logged by verbs before any message about it, and a call
// would overtake it.
#pragma once

#include <cstdint>

#include "weft/txn/batch.h"
#include "weft/txn/context.h"
#include "weft/txn/participant.h"
#include "weft/txn/slot.h"

namespace weft {

class OwnTransport {
 public:
  OwnTransport(WorkerContext& ctx, Participant& participant) : ctx_(ctx), participant_(participant) {}

  // Runs the phase for the keys that the plan has at this node. If it is refused, the transaction has failed.
  void run(TxnSlot& slot, Phase phase);
  // Logs what the plan has at this node of a transaction that this node executes for its coordinator.
  void replicate_for(const CommitRequest& request, const TxnSlot& slot);

 private:
  void take_keys(const TxnSlot& slot, Phase phase);
  void prefetch() const;
  void lock(TxnSlot& slot, const CommitRequest& request);
  void validate(TxnSlot& slot, const CommitRequest& request);

  WorkerContext& ctx_;
  Participant& participant_;
  KeyBuffer keys_;       // of the phase that runs
  bool unread_ = false;  // the transaction has not read one of them
};

}  // namespace weft
