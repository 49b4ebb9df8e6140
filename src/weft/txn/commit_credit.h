// CommitCredit: the credit that commits hold at their participants, from before their first message until the last
// answer (rule K3), and the FIFO queue of commits that wait for credit.
#pragma once

#include "weft/txn/context.h"
#include "weft/txn/credit_gate.h"
#include "weft/txn/slot.h"

namespace weft {

class CommitCredit {
 public:
  CommitCredit(WorkerContext& ctx, CreditGate& gate) : ctx_(ctx), gate_(gate) {}

  // Computes slot.need: what a commit needs at each of its participants.
  static void plan(TxnSlot& slot);
  // Takes all of it or nothing. If it can never fit, the transaction is rejected.
  [[nodiscard]] bool take(TxnSlot& slot);
  void give_back(TxnSlot& slot);

  bool queue_empty() const { return first_ == nullptr; }
  TxnSlot* first() const { return first_; }
  void enqueue(TxnSlot& slot);
  void pop();
  void remove(TxnSlot& slot);  // from the queue
  void drop_queue() { first_ = last_ = nullptr; }

 private:
  WorkerContext& ctx_;
  CreditGate& gate_;
  TxnSlot* first_ = nullptr;
  TxnSlot* last_ = nullptr;
};

}  // namespace weft
