// StateTransfer: a replica that is becoming whole asks the primary for the records of its partition, a little at a
// time, while every transaction that writes to the partition replicates to it as well. It keeps whatever version is the
// newer one, so the two may come in any order:
// - what the primary has committed before it is asked, is in its answer;
// - what is committed later is in a record here before anybody was told or could see it: the partition was filling here
//   when that transaction began, and its commit point waits for this replica too. It is installed when it is finished;
// - a delete that comes before the older copy leaves a tombstone that stays until the replica is whole.
// So when all is copied, this replica has everything that anybody has seen, and a view may make it whole even if it is
// the only one that survives into that view. Absence words are copied first: they must never be below the primary's
// when the replica serves.
//
// A view change ends no copying for good: what is here stays, and it begins again. What was open then is decided, and
// carried out here as everywhere.
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

  // Whether what this worker fills in that view is all copied. From any thread.
  bool filled_in(Epoch epoch) const { return filled_epoch_.load(std::memory_order_acquire) == epoch.value; }

 private:
  struct Cursor {
    PartitionId partition;
    TableId table;
    uint64_t cursor = 0;
    uint64_t ask_again_ns = 0;
    uint64_t patience_ns = 0;
    uint32_t question = 0;        // the one in flight; 0: none
    uint32_t first_question = 0;  // from the same place
  };
  void serve_chunk(const Message& message);
  void apply_chunk(const Message& message);
  void note_filled();

  WorkerContext& ctx_;
  std::vector<Cursor> cursors_;  // the last one is copied now
  uint32_t questions_ = 0;
  std::atomic<uint32_t> filled_epoch_{0};
};

}  // namespace weft
