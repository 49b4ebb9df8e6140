// TxnWorker: the transactions of one worker: it makes the parts, gives each its messages, and runs them in the order of
// the worker's loop. Nothing else is decided here.
//
//   a transaction's way         reads.h, txn_keys.h, slot_table.h -> coordinator.h, plan.h -> message_transport.h,
//                               verb_transport.h, local_commits.h -> client_acks.h
//   at the other side           dispatcher.h, commit_parser.h -> participant.h, read_server.h, log_receiver.h
//   beside transactions         state_transfer.h, partition_gc.h, outcome_queries.h, key_scans.h, control_channel.h
//   from view to view           recovery.h, recovery_leader.h, decide.h
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/random.h"
#include "weft/cluster.h"
#include "weft/fabric/port.h"
#include "weft/run/worker.h"
#include "weft/txn/client_acks.h"
#include "weft/txn/commit_parser.h"
#include "weft/txn/context.h"
#include "weft/txn/control_channel.h"
#include "weft/txn/coordinator.h"
#include "weft/txn/dispatcher.h"
#include "weft/txn/key_scans.h"
#include "weft/txn/log.h"
#include "weft/txn/message_transport.h"
#include "weft/txn/node.h"
#include "weft/txn/one_sided.h"
#include "weft/txn/outcome_queries.h"
#include "weft/txn/outcomes.h"
#include "weft/txn/participant.h"
#include "weft/txn/partition_gc.h"
#include "weft/txn/plan.h"
#include "weft/txn/pool.h"
#include "weft/txn/read_server.h"
#include "weft/txn/reads.h"
#include "weft/txn/recovery.h"
#include "weft/txn/slot_table.h"
#include "weft/txn/state_transfer.h"
#include "weft/txn/txn_keys.h"
#include "weft/txn/worker_stats.h"

namespace weft {

class TxnWorker final : public WorkerTasks {
 public:
  static Result<std::unique_ptr<TxnWorker>> create(Node* node, WorkerId id, Worker* worker, Environment* env);
  ~TxnWorker() override;

  // The worker's loop.
  void begin_step() override { acks_.begin_step(); }
  bool table_batch() override { return reads_.run_batch(); }
  bool commit_steps() override;
  bool flush() override;
  bool poll() override;
  void between_steps() override;
  void before_sleep() override;
  void after_sleep() override { quiesce(); }
  bool pending() const override;
  uint64_t deadline_ns() const override;
  bool waits() const override { return !slots_.all_free(); }

  Node* node() const { return node_; }
  // The parts that sessions, agents and tests use.
  WorkerContext& context() { return ctx_; }
  const WorkerContext& context() const { return ctx_; }
  SlotTable& slots() { return slots_; }
  const SlotTable& slots() const { return slots_; }
  Reads& reads() { return reads_; }
  Coordinator& coordinator() { return coordinator_; }
  ClientAcks& acks() { return acks_; }
  const ClientAcks& acks() const { return acks_; }
  const PreparedTable& records() const { return records_; }
  const OutcomeLog& outcomes() const { return outcomes_; }
  OutcomeQueries& queries() { return queries_; }
  KeyScans& scans() { return scans_; }
  const StateTransfer& transfer() const { return transfer_; }
  ControlChannel& control() { return control_; }
  const ControlChannel& control() const { return control_; }
  Recovery& recovery() { return recovery_; }
  const Recovery& recovery() const { return recovery_; }
  Random& random() { return random_; }

  const View& view() const { return ctx_.view(); }
  bool active() const { return ctx_.views.active(); }
  Counters counters() const;                             // by the worker's thread, or while it does not run
  WorkerStats figures() const { return board_.read(); }  // from any thread
  // What keeps this worker from answering, human-readable; empty: nothing that it knows of.
  std::string trouble() const;
  // Takes what peers have logged into this worker's rings. Also for who wants to see the records as they are.
  void drain_rings();
  bool idle() const;  // no slot in use, no record kept, nothing in flight; what a lost peer left open does not count

 private:
  TxnWorker(Node* node, WorkerId id, Worker* worker, Environment* env, std::unique_ptr<Pool> pool,
            LocationCache locations);

  void register_handlers();
  void handle_peer_faults();
  void lose_peer(NodeId peer, const Error& error);
  void quiesce();
  void publish_stats() { board_.put({counters(), slots_.in_use()}, ctx_.now_ns()); }

  Random random_;
  const std::unique_ptr<Pool> pool_;
  Port port_;
  Node* const node_;
  WorkerContext ctx_;
  SlotTable slots_;
  TxnKeys keys_;
  OutcomeLog outcomes_;
  ClientAcks acks_;
  CreditGate credit_;
  const Planner planner_;
  MessageTransport messages_;
  const std::unique_ptr<OneSided> verbs_;  // nullptr: the row uses none
  Coordinator coordinator_;
  Reads reads_;
  PreparedTable records_;
  CommitParser parser_;
  Participant participant_;
  ReadServer read_server_;
  Dispatcher dispatcher_;
  StateTransfer transfer_;
  PartitionGc gc_;
  OutcomeQueries queries_;
  KeyScans scans_;
  ControlChannel control_;
  Recovery recovery_;
  std::vector<Service*> services_;  // what is done beside transactions, in this order
  WorkerStatsSnapshot board_;
};

}  // namespace weft
