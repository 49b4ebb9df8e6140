// RecoveryReporter: what a member reports to the leader of a recovery (recovery_types.h): its records, the transactions
// it has finished, its own transactions, and decisions that were written here before.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/txn/context.h"
#include "weft/txn/decision_log.h"
#include "weft/txn/prepared_table.h"
#include "weft/txn/recovery_types.h"
#include "weft/txn/slot_table.h"

namespace weft {

class RecoveryReporter {
 public:
  RecoveryReporter(const WorkerContext& ctx, const SlotTable& slots, const PreparedTable& records,
                   const DecisionLog& decisions, RecoveryHost* host)
      : ctx_(ctx), slots_(slots), records_(records), decisions_(decisions), host_(host) {}

  // Notes one of the worker's own transactions when it stops. A worker that stops again before it was active keeps what
  // it noted first.
  void note_coordinated(const TxnSlot& slot);
  void forget_coordinated() { coordinated_.clear(); }

  // A recovery begins.
  void begin() { next_ = 0; }
  // Sends as much as the leader's queue has room for: nobody holds credit for this.
  struct Sent {
    bool some = false;
    bool all = false;
  };
  Sent send();

 private:
  void send_coordinated(const CoordinatedTxn& own);
  void send_record(NodeId coordinator, uint8_t slot);
  void send_decision(const Decision& decision);
  enum class Versions : uint8_t { kOfLocks, kOfWrites };
  void send_part(RecoveryHeader header, const PreparedKeys* part, Versions versions);
  NodeId leader() const { return ctx_.view().leader(); }

  const WorkerContext& ctx_;
  const SlotTable& slots_;
  const PreparedTable& records_;
  const DecisionLog& decisions_;
  RecoveryHost* const host_;
  std::vector<CoordinatedTxn> coordinated_;
  size_t next_ = 0;               // the next item to report
  std::vector<std::byte> bytes_;  // of the keys in the message that is being made
};

}  // namespace weft
