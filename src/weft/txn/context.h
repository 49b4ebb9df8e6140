// WorkerContext: what all parts of one worker's transactions share: their identity, limits, the port they send through,
// and the counters. It has no behaviour of its own. The worker owns it (txn_worker.h); a test makes one with a port of
// its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "weft/base/bugs.h"
#include "weft/base/clock.h"
#include "weft/base/event_log.h"
#include "weft/cluster.h"
#include "weft/fabric/port.h"
#include "weft/member/node_state.h"
#include "weft/options.h"
#include "weft/run/conflict_avoidance.h"
#include "weft/run/worker.h"
#include "weft/store/record.h"
#include "weft/txn/node_tables.h"
#include "weft/txn/peer_faults.h"
#include "weft/txn/txn_observer.h"
#include "weft/txn/view_state.h"

namespace weft {

// A buffer whose pages are touched as they are used.
class ScratchBuffer {
 public:
  explicit ScratchBuffer(size_t bytes) : bytes_(std::make_unique_for_overwrite<std::byte[]>(bytes)), size_(bytes) {}
  std::byte* data() { return bytes_.get(); }
  size_t size() const { return size_; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  size_t size_;
};

struct WorkerContext {
  const NodeId self;
  const WorkerId id;
  Worker* const worker;
  Port& port;
  Wire* const wire;
  CostModel* const cost_model;  // may be nullptr, and so may the next two
  TxnObserver* const observer;
  EventLog* const events;
  const Limits limits;
  const PlantedBugs bugs;
  const int nodes;
  const int workers;  // at this node
  const OwnerFormat owners;
  const bool table_batching;
  const bool recovers;  // views change
  const NodeTables& tables;
  NodeState& state;  // shared by the node's workers
  ViewState views;   // this worker's
  PeerFaults faults;
  Counters counters;
  ConflictAvoidance conflicts{};
  ScratchBuffer scratch;  // room for one value of any table
  // Commits with more bytes of keys and values travel in pieces (piece.h).
  const uint32_t large_commit_bytes = UINT32_MAX;

  uint64_t now_ns() const { return worker->now_ns(); }
  const View& view() const { return views.current(); }
  void charge(CostStep step, uint64_t n) const {
    if (cost_model != nullptr) cost_model->charge(step, n);
  }
  // Who holds a lock of the transaction in this slot of that node.
  Owner owner(NodeId node, uint8_t slot) const { return owners.make(node, id, slot); }
  // With a lease, the data at this node is current.
  bool has_lease() const { return worker->clock_ns() < state.lease.until_ns(); }
  // One record of a table was read, locked or written.
  void touch_record() {
    ++counters.records_touched;
    charge(CostStep::kLookup, 1);
  }
};

}  // namespace weft
