// InterruptedCommits: ends commits that no answer ends, because a peer is lost or the view changes.
//
// Where views change, a commit that waits for a peer whose channel is closed stays as it is: the peer may have applied
// it, so recovery decides it in the next view. Where views do not change, it gets an outcome at once: one that has
// replicated nothing aborts, any other is unknown.
#pragma once

#include "weft/txn/client_acks.h"
#include "weft/txn/context.h"
#include "weft/txn/coordinator.h"
#include "weft/txn/slot_table.h"

namespace weft {

class InterruptedCommits {
 public:
  InterruptedCommits(WorkerContext& ctx, SlotTable& slots, ClientAcks& acks, Coordinator& coordinator)
      : ctx_(ctx), slots_(slots), acks_(acks), coordinator_(coordinator) {}

  // The channel to this peer is closed.
  void on_peer_lost(TxnSlot& slot, NodeId peer);

  // The view ends: a transaction that is executing is aborted (E3), one that has sent a phase waits for recovery.
  void freeze(TxnSlot& slot);
  // Recovery has decided a frozen commit.
  void resolve(TxnSlot& slot, bool commits);
  // This node is no longer a member: it will not learn the outcome of a frozen commit that others can finish.
  void abandon(TxnSlot& slot);

 private:
  WorkerContext& ctx_;
  SlotTable& slots_;
  ClientAcks& acks_;
  Coordinator& coordinator_;
};

}  // namespace weft
