// PartitionGc: what a change of the view leaves to do in a node's tables, a few bins at a time, so that leases and
// transactions go on.
//
// Before the first of its workers goes on in the new view, when all of them have carried everything out (settle):
// - what this node begins to fill, and has replicated before, is discarded. Its copies are of an older view: a key that
//   was deleted since would come back. Nobody has locked, applied or read anything of it since this node was stopped;
// - tombstones of partitions that were filling and are whole now go.
// And beside transactions (step): what this node replicates no more is discarded. No message and no reader asks for it.
// If another view lets this node fill it again meanwhile, that is for the first of these.
//
// Which partitions these are is noted when the node hears of a view (PartitionSweep), since a worker may miss some.
#pragma once

#include <cstdint>

#include "weft/run/service.h"
#include "weft/txn/context.h"
#include "weft/txn/partition_sweep.h"

namespace weft {

class PartitionGc final : public Service {
 public:
  PartitionGc(WorkerContext& ctx, PartitionSweep& sweep) : ctx_(ctx), sweep_(sweep) {}

  // Before the view is active. True when all is done.
  bool settle();

  bool step(uint64_t now_ns) override;
  uint64_t deadline_ns() const override { return UINT64_MAX; }
  void on_view_active() override;

 private:
  bool discard_slice(int bins);

  WorkerContext& ctx_;
  PartitionSweep& sweep_;  // of the node
  bool discards_ = false;  // this worker has partitions to discard, beside transactions
};

}  // namespace weft
