// Recovery: brings one worker from one view into the next (recovery_types.h has the steps and the messages). It stops
// the worker's transactions, reports what is known of them, writes the leader's decisions, has them applied, and lets
// the worker go on. Where this node leads, it also runs the leader's side.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "weft/run/service.h"
#include "weft/txn/batch.h"
#include "weft/txn/context.h"
#include "weft/txn/coordinator.h"
#include "weft/txn/decision_applier.h"
#include "weft/txn/decision_log.h"
#include "weft/txn/interrupted_commits.h"
#include "weft/txn/one_sided.h"
#include "weft/txn/participant.h"
#include "weft/txn/partition_gc.h"
#include "weft/txn/reads.h"
#include "weft/txn/recovery_leader.h"
#include "weft/txn/recovery_reporter.h"
#include "weft/txn/slot_table.h"

namespace weft {

// The parts of a worker that stop with a view and go on with the next.
struct RecoveredParts {
  SlotTable& slots;
  Reads& reads;
  Coordinator& coordinator;
  InterruptedCommits& interrupted;
  ClientAcks& acks;
  CreditGate& credit;
  Participant& participant;
  PreparedTable& records;
  OneSided* verbs;  // nullptr: the row uses none
  PartitionGc& gc;
  WorkerBarrier& barrier;
  VerbMemory* verb_memory;  // nullptr: the row uses none
};

class Recovery final : public Service, private RecoveryHost {
 public:
  Recovery(WorkerContext& ctx, const RecoveredParts& parts, bool verb_locks);

  // Notified of every view that ends and of every one that becomes active.
  void add_service(Service* service) { services_.push_back(service); }
  // The worker starts with its cluster, in a view that is active already.
  void start_active();

  bool step(uint64_t now_ns) override;
  uint64_t deadline_ns() const override;

  bool parse(const Message& message) const;
  void on_message(const Batch& batch, std::span<const Message> run);

  // Whether a recovery is in progress that decides something.
  bool deciding() const {
    return ctx_.views.recovering() && ((leader_ != nullptr && leader_->decides()) || !decisions_.empty());
  }

 private:
  // What the leader has told this member to do, and what it has done.
  struct Progress {
    bool asked = false;
    bool reported = false;
    bool wrote = false;     // all decisions are written
    bool applying = false;  // told to apply; waits for leases of removed members to expire
    bool applied = false;
    bool all_applied = false;  // the leader says that the view is active
  };

  // Stops, and recovers into the newest view together with the others, once no verb lands here any more.
  void adopt_newest();
  void adopt(std::shared_ptr<const View> view);
  void stop_verbs();
  void stop_transactions();
  void meet_peers(const View& next);
  void retire();
  bool services_left_view() const;
  const char* on_leader(RecoveryStep step, const RecoveryHeader& header, ByteView keys);
  bool all_decided() const;
  void activate();
  void finish_records();
  uint32_t oldest_epoch_in_use() const;

  void send(NodeId to, const RecoveryHeader& header, ByteView keys) override;
  size_t queued_bytes(NodeId to) const override { return ctx_.port.queued_bytes(to, Flow::kRecovery); }
  void arrive() override;
  bool all_arrived() const override;
  void on_leader_step(TxnObserver::Recovered step, NodeSet members) override;
  void send(NodeId to, RecoveryStep step) { send(to, recovery_header(step, ctx_.view().epoch), {}); }

  WorkerContext& ctx_;
  const RecoveredParts parts_;
  DecisionLog decisions_;
  DecisionApplier applier_;
  RecoveryReporter reporter_;
  Progress progress_;
  std::unique_ptr<RecoveryLeader> leader_;
  std::vector<Service*> services_;
};

}  // namespace weft
