// OutcomeQueries: finds the outcome of a transaction, given only its id. Every worker records the outcomes it learns
// for certain (outcomes.h): as a participant when it is told, or when recovery has decided; as a coordinator when it
// decides. So:
//
// - A recorded outcome is final: it is recorded only when no crash that the cluster survives can lead to the other
//   outcome.
// - While the coordinator is a member it knows: it runs the transaction, or has recorded its outcome. When it is not,
//   the recovery into the view without it has decided everything of it that was open, at every member.
//
// The asker queries every member, in one view: any recorded outcome is the answer. If a member says that it is open, or
// the view changes meanwhile, it asks again. If no member has a trace, the transaction is forgotten.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "weft/run/service.h"
#include "weft/txn.h"
#include "weft/txn/batch.h"
#include "weft/txn/context.h"
#include "weft/txn/messages.h"
#include "weft/txn/outcomes.h"
#include "weft/txn/prepared_table.h"
#include "weft/txn/slot_table.h"

namespace weft {

// Where the answer to a query is put: it belongs to the worker that asked.
struct OutcomeAnswer {
  TxnStatus status = TxnStatus::kUnknownTxn;
  bool done = false;
};

class OutcomeQueries final : public Service {
 public:
  OutcomeQueries(WorkerContext& ctx, const OutcomeLog& outcomes, const SlotTable& slots, const PreparedTable& records)
      : ctx_(ctx), outcomes_(outcomes), slots_(slots), records_(records) {}

  // Asks about a transaction of this worker's index. The answer is posted to the asker's mailbox.
  void ask(TxnId id, Worker* asker, std::shared_ptr<OutcomeAnswer> reply);

  bool step(uint64_t now_ns) override;
  uint64_t deadline_ns() const override;

  bool parse_ask(const Message& message) const { return message.body.size() == sizeof(OutcomeQuery); }
  bool parse_answer(const Message& message) const;
  void on_ask(const Batch& batch, std::span<const Message> run);
  void on_answer(const Batch& batch, std::span<const Message> run);

 private:
  struct Query {
    TxnId id;
    Worker* asker;
    std::shared_ptr<OutcomeAnswer> reply;
    uint32_t number = 0;    // of the round in progress
    uint32_t epoch = 0;     // in which it was asked; 0: no round is in progress
    NodeSet waiting;        // nodes that have not answered
    bool open = false;      // a member says so
    uint64_t due_ns = 0;    // when to ask next
    uint64_t until_ns = 0;  // when to give up: nobody knows
    std::optional<TxnStatus> status;
  };
  KnownOutcome known_outcome(uint32_t incarnation, uint64_t sequence) const;
  void look_at(Query& query);
  void begin_round(Query& query);
  static void hear(Query& query, KnownOutcome standing);
  void end_round(Query& query);

  WorkerContext& ctx_;
  const OutcomeLog& outcomes_;
  const SlotTable& slots_;
  const PreparedTable& records_;
  std::vector<Query> queries_;
  uint32_t rounds_ = 0;
};

}  // namespace weft
