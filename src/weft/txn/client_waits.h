// ClientWaits: bounds how long clients wait for reads and commits (Limits::answer_ms, or the transaction's deadline). A
// node that is cut off from the others still answers its clients. Its answers must stay true, whoever decides the
// transaction later, with this node or without it:
//
// - A1: "It did not happen" is answered only for what no recovery can commit (docs/recovery.md): a transaction that is
//   executing, one that only reads, and one that has begun to lock or validate in a row where a commit needs
//   REPLICATED. This worker sends no further phase of it: it is aborting from here on, and is reported to a recovery as
//   aborting.
// - A2: For every other transaction the outcome is unknown: from the first lock on where locks alone can commit (dnl1),
//   from the first log entry on elsewhere. The commit goes on, and its outcome is recorded when it ends.
// - A3: The client stops waiting, but the slot is not freed before all answers have come, or a new view says that they
//   will not: no late answer finds another transaction in it. While all slots are in this state, begin() waits, and its
//   wait expires in turn.
#pragma once

#include <coroutine>
#include <cstdint>

#include "weft/txn/client_acks.h"
#include "weft/txn/context.h"
#include "weft/txn/coordinator.h"
#include "weft/txn/slot_table.h"

namespace weft {

class ClientWaits {
 public:
  ClientWaits(WorkerContext& ctx, SlotTable& slots, ClientAcks& acks, Coordinator& coordinator)
      : ctx_(ctx), slots_(slots), acks_(acks), coordinator_(coordinator) {}

  // The client waits for the slot from now on.
  void begin(TxnSlot& slot, std::coroutine_handle<> waiter);
  // Ends the waits that have taken too long. True if there were any.
  bool expire();

  // The answer to a client whose commit goes on without it.
  static OutcomeKind abandoned_kind(PlantedBugs bugs) {
    return bugs.has(PlantedBug::kNothingTooLate) ? OutcomeKind::kAborted : OutcomeKind::kUnknown;
  }

 private:
  void expire(TxnSlot& slot);
  NodeSet silent_nodes(const TxnSlot& slot) const;

  WorkerContext& ctx_;
  SlotTable& slots_;
  ClientAcks& acks_;
  Coordinator& coordinator_;
};

}  // namespace weft
