// TxnParts: the parts of one worker's transactions, made and connected. Nothing is decided here; TxnWorker runs them.
//
//   path of a transaction       reads.h, txn_keys.h, slot_table.h -> coordinator.h, plan.h -> message_transport.h,
//                               verb_transport.h, local_commits.h -> client_acks.h
//   stored procedures           procedure.h, execute_at_once.h -> execute_server.h; shipped_txns.h -> ship_server.h
//   ranges of ordered tables    scans.h -> scan_server.h, scan_page.h; when they commit: scan_checks.h
//   when no answer ends it      client_waits.h, interrupted_commits.h
//   at the other node           dispatcher.h, commit_parser.h -> participant.h, backup_writes.h, read_server.h,
//                               log_receiver.h
//   in the background           state_transfer.h, partition_gc.h, outcome_queries.h, key_scans.h, control_channel.h
//   from view to view           recovery.h, recovery_leader.h, decide.h
#pragma once

#include <memory>
#include <vector>

#include "weft/base/random.h"
#include "weft/cluster.h"
#include "weft/fabric/port.h"
#include "weft/run/service.h"
#include "weft/run/worker.h"
#include "weft/txn/client_acks.h"
#include "weft/txn/client_waits.h"
#include "weft/txn/commit_parser.h"
#include "weft/txn/context.h"
#include "weft/txn/control_channel.h"
#include "weft/txn/coordinator.h"
#include "weft/txn/dispatcher.h"
#include "weft/txn/execute_at_once.h"
#include "weft/txn/execute_server.h"
#include "weft/txn/interrupted_commits.h"
#include "weft/txn/key_scans.h"
#include "weft/txn/message_transport.h"
#include "weft/txn/node.h"
#include "weft/txn/one_sided.h"
#include "weft/txn/outcome_queries.h"
#include "weft/txn/outcomes.h"
#include "weft/txn/own_transport.h"
#include "weft/txn/participant.h"
#include "weft/txn/partition_gc.h"
#include "weft/txn/piece_receiver.h"
#include "weft/txn/piece_sender.h"
#include "weft/txn/plan.h"
#include "weft/txn/pool.h"
#include "weft/txn/prepared_table.h"
#include "weft/txn/procedure.h"
#include "weft/txn/read_server.h"
#include "weft/txn/reads.h"
#include "weft/txn/recovery.h"
#include "weft/txn/scan_checks.h"
#include "weft/txn/scan_page.h"
#include "weft/txn/scan_server.h"
#include "weft/txn/scans.h"
#include "weft/txn/ship_server.h"
#include "weft/txn/shipped_txns.h"
#include "weft/txn/slot_table.h"
#include "weft/txn/state_transfer.h"
#include "weft/txn/txn_keys.h"

namespace weft {

class TxnWorker;

// The memory of the parts, allocated before them because that may fail.
struct TxnMemory {
  static Result<TxnMemory> create(const Node& node);
  std::unique_ptr<Pool> pool;
  LocationCache locations;
};

class TxnParts {
 public:
  Node* node() const { return node_; }
  WorkerContext& context() { return ctx_; }
  const WorkerContext& context() const { return ctx_; }
  SlotTable& slots() { return slots_; }
  const SlotTable& slots() const { return slots_; }
  Reads& reads() { return reads_; }
  TxnKeys& keys() { return keys_; }
  ExecuteAtOnce& execute() { return execute_; }
  Scans& range_scans() { return range_scans_; }
  ShippedTxns& shipped() { return shipped_; }
  ShipServer* ship_server() { return ship_server_.get(); }  // nullptr if no row ships procedures
  StepOutput& step_output() { return step_output_; }
  Coordinator& coordinator() { return coordinator_; }
  ClientWaits& client_waits() { return client_waits_; }
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

 protected:
  TxnParts(TxnWorker* self, Node* node, WorkerId id, Worker* worker, Environment* env, TxnMemory memory);
  ~TxnParts();

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
  PreparedTable records_;
  Participant participant_;
  MessageTransport messages_;
  OwnTransport own_;
  PieceSender piece_sender_;
  TableScans table_scans_;
  ScanChecks scan_checks_;
  const std::unique_ptr<OneSided> verbs_;  // nullptr: the row uses none
  Coordinator coordinator_;
  ClientWaits client_waits_;
  InterruptedCommits interrupted_;
  Reads reads_;
  ExecuteAtOnce execute_;
  Scans range_scans_;
  ShippedTxns shipped_;
  StepOutput step_output_;  // of the last step that ran
  CommitParser parser_;
  PieceReceiver piece_receiver_;
  ReadServer read_server_;
  ExecuteServer execute_server_;
  ScanServer scan_server_;
  const std::unique_ptr<ShipServer> ship_server_;  // nullptr: no row ships
  Dispatcher dispatcher_;
  StateTransfer transfer_;
  PartitionGc gc_;
  OutcomeQueries queries_;
  KeyScans scans_;
  ControlChannel control_;
  Recovery recovery_;
  std::vector<Service*> services_;  // run in the background, in this order

 private:
  std::unique_ptr<ShipServer> make_ship_server();
  void register_handlers();
};

}  // namespace weft
