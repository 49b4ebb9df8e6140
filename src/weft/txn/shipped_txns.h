// ShippedTxns: stored procedures whose keys have one primary other than this node. The procedure is sent there, with
// the values of the keys that this node holds; that node, the executor, locks its keys, runs it, logs the writes at
// all replicas, and their answers come here (rules H1 to H9 in docs/rules.md; the other side is ship_server.h):
//
//   coordinator    lock own keys -> kShip
//   executor                        lock, execute, log -> kShipped to the coordinator, kReplicateFor to the others
//   others                                                log -> kAck to the coordinator
//   coordinator                                                  acknowledge the client -> kUnlock to the executor
//
// To the coordinator this is one phase, kReplicate: it ends when the executor has answered, and all nodes that its
// answer names. From then on it is a commit as any other.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "weft/txn/batch.h"
#include "weft/txn/client_acks.h"
#include "weft/txn/context.h"
#include "weft/txn/coordinator.h"
#include "weft/txn/credit_gate.h"
#include "weft/txn/participant.h"
#include "weft/txn/plan.h"
#include "weft/txn/slot_table.h"
#include "weft/txn/txn_keys.h"

namespace weft {

class ShippedTxns {
 public:
  ShippedTxns(WorkerContext& ctx, const Planner& planner, SlotTable& slots, TxnKeys& keys, CreditGate& credit,
              Participant& participant, ClientAcks& acks, Coordinator& coordinator)
      : ctx_(ctx),
        planner_(planner),
        slots_(slots),
        keys_(keys),
        credit_(credit),
        participant_(participant),
        acks_(acks),
        coordinator_(coordinator) {}

  // Who can execute the procedure, whose keys were announced; nullopt: it is executed here. That is also so for a while
  // if too many calls of it could not lock what this node only reads: such locks are exclusive, and calls that read the
  // same key here refuse each other.
  static constexpr uint32_t kWatched = 32;         // calls that are looked at together
  static constexpr uint32_t kRefusedMax = 8;       // of these
  static constexpr uint32_t kExecutedHere = 1024;  // calls, if there are more
  std::optional<NodeId> executor_for(const TxnSlot& slot, ProcedureId id, const StoredProcedure& procedure);
  // Ships it, and wakes the client when it has an outcome. If it turns out that it cannot be shipped, the client is
  // woken at once: either nothing has happened, and the transaction still executes (TxnStage::kExecuting), or it has
  // locked keys of this node and is aborted with kAskInstead, as if the executor had refused it.
  struct Call {
    ProcedureId procedure;
    std::string_view arguments;
    uint64_t keys_digest;  // of those that it names here
    bool waits;            // it may wait for locks of its executor
  };
  void start(TxnSlot& slot, NodeId executor, const Call& call);

  void on_shipped(const Batch& batch, std::span<const Message> run);

 private:
  // Calls of a procedure that read a key of this node only.
  struct OwnReads {
    uint32_t calls = 0, refused = 0;
    uint32_t here = 0;  // so many of the next are executed here
  };
  OwnReads& own_reads(ProcedureId procedure);
  bool take_credit(TxnSlot& slot, NodeId executor);
  bool lock_own(TxnSlot& slot, ProcedureId procedure);
  bool read_own(TxnSlot& slot);
  bool send(TxnSlot& slot, NodeId executor, const Call& call);
  bool may_log(const TxnSlot& slot, NodeId executor, std::span<const KeyRef> keys) const;
  void take(TxnSlot& slot, const Batch& batch, const Message& message);
  void log_own(const TxnSlot& slot, std::span<const KeyRef> keys);

  WorkerContext& ctx_;
  const Planner& planner_;
  SlotTable& slots_;
  TxnKeys& keys_;
  CreditGate& credit_;
  Participant& participant_;
  ClientAcks& acks_;
  Coordinator& coordinator_;
  KeyBuffer refs_;
  std::vector<OwnReads> own_reads_;  // by procedure
};

}  // namespace weft
