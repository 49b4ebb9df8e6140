// ExecuteAtOnce: starts the reads of a stored procedure. In rows that execute at once, all of its keys with the same
// remote primary are locked and read by one message; keys of this node are read here, and locked when it commits. In
// other rows each key is read by itself (reads.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/run/service.h"
#include "weft/txn/batch.h"
#include "weft/txn/context.h"
#include "weft/txn/credit_gate.h"
#include "weft/txn/reads.h"
#include "weft/txn/slot_table.h"
#include "weft/txn/txn_keys.h"

namespace weft {

class ExecuteAtOnce final : public Service {
 public:
  ExecuteAtOnce(WorkerContext& ctx, const Planner& planner, SlotTable& slots, TxnKeys& keys, CreditGate& credit,
                Reads& reads)
      : ctx_(ctx), planner_(planner), slots_(slots), keys_(keys), credit_(credit), reads_(reads) {}

  // Starts the reads that were announced and have not begun.
  void start(TxnSlot& slot);
  // Steps of the worker's loop: credit came back. Returns true if it did something.
  bool retry();
  void on_view_ended() override { without_credit_.clear(); }
  bool step(uint64_t) override { return false; }
  uint64_t deadline_ns() const override { return UINT64_MAX; }

  bool parse(const Message& message) const;
  void on_executed(const Batch& batch, std::span<const Message> run);
  // The channel to this peer is closed: what waits for its answer fails.
  void on_peer_lost(TxnSlot& slot, NodeId peer);

 private:
  NodeSet begin_asking(TxnSlot& slot);
  uint32_t bytes_needed(const TxnSlot& slot, NodeId primary) const;
  bool send(TxnSlot& slot, NodeSet primaries);
  void send_to(TxnSlot& slot, NodeId primary);
  void fail(TxnSlot& slot, NodeSet primaries, Code code);
  void give_back(TxnSlot& slot, NodeId node, uint32_t kept);
  void take(TxnSlot& slot, const Message& message);

  WorkerContext& ctx_;
  const Planner& planner_;
  SlotTable& slots_;
  TxnKeys& keys_;
  CreditGate& credit_;
  Reads& reads_;
  struct Waiting {
    TxnSlot* slot;
    uint64_t sequence;
    NodeSet primaries;
  };
  std::vector<Waiting> without_credit_;
};

}  // namespace weft
