// Coordinator: commits the transactions of one worker. The next step of a commit follows from its slot, its plan and
// the answer that came. A phase with nothing to do is skipped, so fewer keys or local keys cost fewer round trips.
//
// Invariants:
// - A slot goes from stage to stage (TxnStage) by an event: a call of the application, an answer, credit that came
//   back. It does so here, in client_waits.h and in interrupted_commits.h, on the worker's own thread.
// - Before its first commit message a transaction holds credit at every participant for all its messages and their
//   answers (rule K3). A transaction that waits for credit holds no locks, or aborts.
// - Nothing is acknowledged before the plan says so (ack_phase in protocol.h).
#pragma once

#include <cstdint>
#include <span>

#include "weft/txn/batch.h"
#include "weft/txn/client_acks.h"
#include "weft/txn/commit_credit.h"
#include "weft/txn/context.h"
#include "weft/txn/local_commits.h"
#include "weft/txn/message_transport.h"
#include "weft/txn/plan.h"
#include "weft/txn/slot_table.h"
#include "weft/txn/truncation.h"

namespace weft {

class OwnTransport;
class PieceSender;
class ScanChecks;
class VerbTransport;

class Coordinator {
 public:
  // How commits reach their participants.
  struct Transports {
    MessageTransport& messages;
    OwnTransport* own;              // nullptr if a row uses verbs: then this node is sent messages too
    VerbTransport* verbs;           // nullptr if no row uses any
    PieceSender* pieces = nullptr;  // of large commits; nullptr: there are none
    ScanChecks* scans = nullptr;    // nullptr: nobody scans
  };
  // `truncates_by_next_use`: RowSet::truncates_by_next_use.
  Coordinator(WorkerContext& ctx, bool truncates_by_next_use, SlotTable& slots, ClientAcks& acks, CreditGate& credit,
              const Planner& planner, const Transports& transports);

  // Called by the application's handle.
  void start_commit(TxnSlot& slot);
  void abort_by_client(TxnSlot& slot, Code why);  // while executing
  void detach(TxnSlot& slot);                     // the application dropped its handle

  // Called when all reads of a transaction have been answered: its commit was requested, or it was given up.
  void begin_commit(TxnSlot& slot);
  void abort(TxnSlot& slot);

  // Answers. on_answered is called for verbs, when slot.phase_over().
  void on_ack(const Batch& batch, std::span<const Message> run);
  void on_reply(const Batch& batch, std::span<const Message> run);
  void on_unlocked(const Batch& batch, std::span<const Message> run);
  void on_answered(TxnSlot& slot) { advance(slot); }

  // Steps of the worker's loop. Each returns true if it did something.
  bool run_local_commits();
  bool retry_commits();
  bool truncate() { return truncation_.step(); }

  // Ends of commits that come from outside (client_waits.h, interrupted_commits.h). abort_expired: the client has
  // waited too long, and nobody can commit the transaction any more. finish: it is acknowledged, and nothing more is
  // sent.
  void abort_expired(TxnSlot& slot);
  void finish(TxnSlot& slot);
  // The view ends.
  void drop_queues();

  bool pending() const { return !local_.empty(); }
  uint64_t deadline_ns() const { return truncation_.deadline_ns(); }
  bool has_notices() const { return truncation_.pending(); }

 private:
  bool retry_commits(CommitCredit::Line line);
  bool is_local(const TxnSlot& slot, NodeSet nodes) const;
  Phase next_phase(const TxnSlot& slot) const;
  bool holds_here(const TxnSlot& slot) const;
  bool run_own(TxnSlot& slot, Phase phase, PlanStep* step);
  bool plan(TxnSlot& slot);
  bool reserve(TxnSlot& slot);
  void enter(TxnSlot& slot, Phase phase);
  void enter_with_scans(TxnSlot& slot, PlanStep step);
  void enter_in_pieces(TxnSlot& slot, Phase phase, const PlanStep& step);
  void count_round_trip(TxnSlot& slot, Phase phase);
  void advance(TxnSlot& slot);

  WorkerContext& ctx_;
  SlotTable& slots_;
  ClientAcks& acks_;
  const Planner& planner_;
  MessageTransport& messages_;
  OwnTransport* const own_;
  VerbTransport* const verbs_;
  PieceSender* const pieces_;
  ScanChecks* const scans_;
  CommitCredit credit_;
  LocalCommits local_;
  Truncation truncation_;
};

}  // namespace weft
