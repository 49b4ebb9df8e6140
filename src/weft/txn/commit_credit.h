// CommitCredit: the credit that commits hold at their participants, from before their first message until the last
// answer (rule K3), and the FIFO queue of commits that wait for credit.
//
// A commit of few keys and bytes takes none: a fixed share of the credit is set aside for one such commit of every
// slot, and the gate counts what is left.
#pragma once

#include "weft/base/check.h"
#include "weft/txn/context.h"
#include "weft/txn/credit_gate.h"
#include "weft/txn/slot.h"

namespace weft {

class CommitCredit {
 public:
  static constexpr uint32_t kSmallBytes = 2048;  // of a small commit, at each of its participants

  CommitCredit(WorkerContext& ctx, CreditGate& gate)
      : ctx_(ctx), gate_(gate), has_small_(small_bytes(ctx.limits) != 0) {}

  // What is set aside for the small commits of all slots, at each peer; 0 if there is too little credit for that.
  static uint32_t small_bytes(const Limits& limits);

  // Computes slot.need: what a commit needs at each of its participants.
  static void plan(TxnSlot& slot);
  // Takes all that a commit needs, or nothing. If it can never fit, the transaction is rejected.
  [[nodiscard]] bool take(TxnSlot& slot) {
    WEFT_CHECK(slot.outcome.code == Code::kOk && slot.phase == Phase::kExecute,
               "credit is taken before the first phase");
    if (is_small(slot)) return true;
    plan(slot);
    return take_planned(slot);
  }
  // The same for a commit whose need was computed.
  [[nodiscard]] bool take_planned(TxnSlot& slot);
  void give_back(TxnSlot& slot);

  bool queue_empty() const { return first_ == nullptr; }
  TxnSlot* first() const { return first_; }
  void enqueue(TxnSlot& slot);
  void pop();
  void remove(TxnSlot& slot);  // from the queue
  void drop_queue() { first_ = last_ = nullptr; }

 private:
  bool is_small(const TxnSlot& slot) const;

  WorkerContext& ctx_;
  CreditGate& gate_;
  const bool has_small_;
  TxnSlot* first_ = nullptr;
  TxnSlot* last_ = nullptr;
};

}  // namespace weft
