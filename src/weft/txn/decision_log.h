// DecisionLog: the decisions of recovery that were written at this worker, until the view is active. A written decision
// survives its leader: if recovery is interrupted by another view, it is reported and wins.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/base/bytes.h"
#include "weft/txn/context.h"
#include "weft/txn/prepared_table.h"
#include "weft/txn/recovery_types.h"

namespace weft {

class DecisionLog {
 public:
  DecisionLog(WorkerContext& ctx, PreparedTable& records)
      : ctx_(ctx), records_(records), last_(static_cast<size_t>(ctx.nodes) * static_cast<size_t>(records.slots())) {}

  // Writes a decision that came with these keys, unless it is here or was applied already. Returns what is wrong with
  // it, or nullptr.
  const char* write(const RecoveryHeader& header, ByteView keys);
  const Decision* find(NodeId coordinator, uint32_t incarnation, uint8_t slot, uint64_t sequence) const;
  const Decision* find(NodeId coordinator, uint8_t slot, const PreparedTxn& record) const {
    return find(coordinator, record.incarnation, slot, record.sequence);
  }
  // Whether every record here is decided.
  bool covers_records() const;

  // The view is active: its records and decisions are finished.
  void finish();
  // Test only (PlantedBug::kForgetsDecisions).
  void forget();

  bool empty() const { return decisions_.empty(); }
  std::vector<Decision>& all() { return decisions_; }
  const std::vector<Decision>& all() const { return decisions_; }
  // More than can be open in the cluster at workers of one index: for each slot of each coordinator there is room for
  // one record, and a decision may be kept in addition to it; twice that, to be on the safe side.
  size_t open_max() const {
    return size_t{4} * static_cast<size_t>(ctx_.nodes) * static_cast<size_t>(records_.slots());
  }

 private:
  PreparedKeys* copy_keys(ByteView keys, uint16_t count);
  size_t slot_index(NodeId coordinator, uint8_t slot) const {
    return size_t{coordinator.value} * static_cast<size_t>(records_.slots()) + slot;
  }
  void clear();

  WorkerContext& ctx_;
  PreparedTable& records_;
  std::vector<Decision> decisions_;
  // By coordinator and slot: the place after that of the last decision on a transaction of it; 0: there is none. Few
  // slots have more than one, and each decision names the one before it (Decision::before).
  std::vector<uint32_t> last_;
};

}  // namespace weft
