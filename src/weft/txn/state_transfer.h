// StateTransfer: a replica that is catching up requests the records of its partition from the primary, a little at a
// time, while every transaction that writes to the partition replicates to it as well. It keeps whichever version is
// newer, so the two may come in any order:
// - What the primary has committed before a request is in its answer.
// - What is committed later is in a record here before anybody was acknowledged or could see it: the partition was
//   catching up here when that transaction began, and its commit point waits for this replica too. It is installed when
//   the transaction is finished.
// - A delete that comes before the older copy leaves a tombstone that stays until the replica is in sync.
// So when everything is copied, this replica has all that anybody has seen, and a view may declare it in sync even if
// it is the only one that survives into that view. Absence words are copied first: they must never be below the
// primary's when the replica serves.
//
// A view change only interrupts the copying: what is here stays, and the copying begins again. Transactions that were
// open then are decided, and the decisions applied here as everywhere.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/run/service.h"
#include "weft/txn/batch.h"
#include "weft/txn/context.h"

namespace weft {

class StateTransfer final : public Service {
 public:
  explicit StateTransfer(WorkerContext& ctx) : ctx_(ctx) {}

  bool step(uint64_t now_ns) override;
  uint64_t deadline_ns() const override;
  void on_view_active() override;

  bool parse(const Message& message) const;
  void on_message(const Batch& batch, std::span<const Message> run);

  // Whether everything that this worker has to catch up on in that view is copied. From any thread.
  bool caught_up_in(Epoch epoch) const { return caught_up_epoch_.load(std::memory_order_acquire) == epoch.value; }

 private:
  struct Cursor {
    PartitionId partition;
    TableId table;
    uint64_t cursor = 0;
    uint64_t ask_again_ns = 0;
    uint64_t asked_ns = 0;        // the question in flight
    uint64_t first_asked_ns = 0;  // and the first one from the same position
    uint32_t question = 0;        // the one in flight; 0: none
    uint32_t first_question = 0;  // the first one from the same position
  };
  void serve_chunk(const Message& message);
  void apply_chunk(const Message& message);
  void note_caught_up();

  WorkerContext& ctx_;
  std::vector<Cursor> cursors_;  // the last one is in progress
  uint32_t questions_ = 0;
  uint64_t answered_ask_ns_ = 0;  // when the question that was answered last had been asked; 0: none in this view
  uint64_t patience_ns_ = 0;      // until a question is asked again
  std::atomic<uint32_t> caught_up_epoch_{0};
};

}  // namespace weft
