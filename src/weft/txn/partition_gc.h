// PartitionGc: cleans up a node's tables after a view change, a few bins at a time, so that leases and transactions go
// on.
//
// Before the first of the node's workers goes on in the new view, when all of them have applied all decisions (settle):
// - A partition that this node begins to catch up on, and has replicated before, is discarded. Its copies are of an
//   older view: a key that was deleted since would come back. Nobody has locked, applied or read anything of it since
//   this node was stopped.
// - Tombstones of partitions that were catching up and are in sync now are removed.
// In the background, beside transactions (step): partitions that this node no longer replicates are discarded. No
// message and no reader asks for them. If another view lets this node catch up on one meanwhile, the first rule
// applies.
//
// The node notes which partitions these are when it hears of a view (PartitionSweep), since a worker may miss some
// views.
#pragma once

#include <cstdint>

#include "weft/run/service.h"
#include "weft/txn/context.h"
#include "weft/txn/partition_sweep.h"

namespace weft {

class PartitionGc final : public Service {
 public:
  PartitionGc(WorkerContext& ctx, PartitionSweep& sweep) : ctx_(ctx), sweep_(sweep) {}

  // Runs before the view is active. True when all is done.
  bool settle();

  bool step(uint64_t now_ns) override;
  uint64_t deadline_ns() const override { return UINT64_MAX; }
  void on_view_active() override;

 private:
  bool discard_slice(int bins);

  WorkerContext& ctx_;
  PartitionSweep& sweep_;  // of the node
  bool discards_ = false;  // this worker has partitions to discard in the background
};

}  // namespace weft
