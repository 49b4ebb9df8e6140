// CommitCredit: the credit that commits hold at their participants, from before their first message until the last
// answer (rule K3), and the FIFO queue of commits that wait for credit.
//
// A commit of few keys and bytes takes none: a fixed share of the credit is set aside for one such commit of every
// slot, and the gate counts what is left.
//
// Nor does a large one, which needs more than half of what the gate has at a peer: it takes the worker's turn, which
// one commit has at a time, from before its first message until its last answer. The port's queues have room for that
// one beside the credit, so whoever has the turn waits for nobody's credit, and nobody waits for the turn with locks
// held.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "weft/base/check.h"
#include "weft/txn/context.h"
#include "weft/txn/credit_gate.h"
#include "weft/txn/messages.h"
#include "weft/txn/slot.h"

namespace weft {

class CommitCredit {
 public:
  static constexpr uint32_t kSmallBytes = 2048;       // of a small commit, at each of its participants
  static constexpr uint32_t kSmallCommitBytes = 256;  // of its keys and values; a key goes in three messages

  // `large_bytes`: commits with more bytes travel in pieces (TxnSlot::in_pieces).
  CommitCredit(const Limits& limits, CreditGate& gate, uint32_t large_bytes = UINT32_MAX)
      : gate_(gate),
        has_small_(small_bytes(limits) != 0),
        small_bytes_max_(std::min(kSmallCommitBytes, large_bytes)),
        large_bytes_(large_bytes) {}

  // What is set aside for the small commits of all slots, at each peer; 0 if there is too little credit for that.
  static uint32_t small_bytes(const Limits& limits);

  // Computes slot.need: what a commit needs at each of its participants.
  static void plan(TxnSlot& slot);
  // Takes all that a commit needs, or nothing.
  [[nodiscard]] bool take(TxnSlot& slot) {
    WEFT_CHECK(slot.outcome.code == Code::kOk && slot.phase == Phase::kExecute,
               "credit is taken before the first phase");
    if (is_small(slot)) return true;
    if (slot.bytes_used > large_bytes_) [[unlikely]] {
      slot.in_pieces = true;
      // Releasing its locks takes several steps: a client that was told before would meet them.
      slot.ack_after = Phase::kUnlock;
    }
    plan(slot);
    return take_planned(slot);
  }
  // The same for a commit whose need was computed.
  [[nodiscard]] bool take_planned(TxnSlot& slot);
  void give_back(TxnSlot& slot);

  // Two queues: of those that wait for credit, and of those that wait for the turn.
  enum class Line : uint8_t { kCredit, kTurn };
  // Whether this commit would be the first to wait where it would wait.
  bool nobody_waits(TxnSlot& slot) {
    return (at(Line::kCredit).first == nullptr && at(Line::kTurn).first == nullptr) ||
           at(line_of(slot)).first == nullptr;
  }
  bool has_turn(const TxnSlot& slot) const { return turn_ == &slot; }
  TxnSlot* first(Line line) const { return lines_[static_cast<size_t>(line)].first; }
  void enqueue(TxnSlot& slot);
  void pop(Line line);
  void remove(TxnSlot& slot);  // from its queue
  void drop_queues() {
    lines_ = {};
    turn_ = nullptr;
  }

 private:
  struct Queue {
    TxnSlot* first = nullptr;
    TxnSlot* last = nullptr;
  };
  Queue& at(Line line) { return lines_[static_cast<size_t>(line)]; }
  bool is_small(const TxnSlot& slot) const;
  void put_back(TxnSlot& slot, NodeSet taken);
  bool is_large(const TxnSlot& slot) const;  // once its need is computed
  Line line_of(TxnSlot& slot) const;

  CreditGate& gate_;
  const bool has_small_;
  const uint32_t small_bytes_max_;
  const uint32_t large_bytes_;
  std::array<Queue, 2> lines_;
  TxnSlot* turn_ = nullptr;  // who has it
};

}  // namespace weft
