// Node: one server's tables and its workers' transactions. Whoever assembles a cluster (cluster/embedded.h in real
// time, sim/ in virtual time) makes one per server and gives it time, randomness and a network through an Environment.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "weft/base/bugs.h"
#include "weft/base/clock.h"
#include "weft/base/event_log.h"
#include "weft/fabric/local_atomics.h"
#include "weft/fabric/region.h"
#include "weft/fabric/wire.h"
#include "weft/member/node_state.h"
#include "weft/member/view.h"
#include "weft/options.h"
#include "weft/run/worker.h"
#include "weft/txn.h"
#include "weft/txn/node_agent_host.h"
#include "weft/txn/node_tables.h"
#include "weft/txn/partition_sweep.h"
#include "weft/txn/row_set.h"
#include "weft/txn/txn_observer.h"
#include "weft/txn/verb_memory.h"
#include "weft/txn/view_change_timing.h"
#include "weft/txn/worker_barrier.h"

namespace weft {

class TxnWorker;

// What all nodes of a cluster agree on.
struct ClusterSpec {
  Options options;
  std::vector<TableSpec> tables;
  std::vector<StoredProcedure> procedures;
  PlantedBugs bugs;                    // test only
  bool recovers = false;               // views change, so a node may come to hold any partition
  bool shares_memory = false;          // with other processes of the host, so that their verbs reach it
  uint64_t answer_ns = 0;              // test only: overrides limits.answer_ms
  bool rotates_rows = false;           // test only: transactions take the cluster's rows in turn
  uint64_t sequence_gap = 0;           // test only: transaction ids jump by this now and then
  uint32_t piece_bytes = 0;            // test only: commits of more bytes are large, and travel in pieces of so many
  uint64_t verb_credit_period_ns = 0;  // test only: how long workers measure each limit of verbs in flight
};

// Returns what is wrong with the spec, naming the option and its value.
Result<void> check_spec(const ClusterSpec& spec);

// Where a node's time, randomness and network come from. Outlives the node.
class Environment {
 public:
  virtual ~Environment() = default;
  virtual Clock* clock(NodeId node) = 0;
  virtual CostModel* cost_model(NodeId node, WorkerId worker) = 0;  // may be nullptr
  virtual Wire* wire(NodeId node, WorkerId worker) = 0;
  // nullptr: the node's processor swaps (Interconnect::local_atomics).
  virtual LocalAtomics* local_atomics(NodeId node) {
    (void)node;
    return nullptr;
  }
  virtual Regions* regions(NodeId node) = 0;  // the node adds its tables' regions
  virtual uint64_t seed(NodeId node, WorkerId worker) = 0;
  virtual TxnObserver* observer() { return nullptr; }
  virtual EventLog* events() { return nullptr; }  // receives the node's events; nullptr: nobody
};

class Node {
 public:
  // A node's tables, empty. Creating them takes long if they are large, and needs no view. `held`: number of partitions
  // of which the node may have a replica; 0: none, and the tables know their keys and limits and have room for nothing.
  static Result<NodeTables> make_tables(const ClusterSpec& spec, int partitions, int held);

  // A joining node starts stopped, with a view that it is not in, and waits for one that it is in (Recovery::adopt).
  static Result<std::unique_ptr<Node>> create(NodeId id, const ClusterSpec& spec, const View& view, Environment* env,
                                              bool joins = false);
  // The same with tables that were made before, for all partitions.
  static Result<std::unique_ptr<Node>> create(NodeId id, const ClusterSpec& spec, const View& view, Environment* env,
                                              bool joins, NodeTables tables);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  NodeId id() const { return id_; }
  const ClusterSpec& spec() const { return spec_; }
  const RowSet& rows() const { return *rows_; }
  const NodeTables& tables() const { return tables_; }
  Table* table(TableId id) const { return tables_.at(id); }
  Worker* worker(WorkerId id) const { return workers_[id.value].get(); }
  TxnWorker* txn_worker(WorkerId id) const { return txn_workers_[id.value].get(); }
  int workers() const { return static_cast<int>(workers_.size()); }

  const View& first_view() const { return *state_.views.first(); }  // each worker has its own newest

  // What its workers share.
  NodeState& state() { return state_; }
  const NodeState& state() const { return state_; }
  WorkerBarrier& barrier() { return barrier_; }
  PartitionSweep& sweep() { return sweep_; }
  VerbMemory* verb_memory() { return verb_memory_.get(); }  // nullptr: no row used verbs
  // What records are locked with, here and by peers; nullptr: the processor.
  const LocalAtomics* local_atomics() const { return local_atomics_; }

  AgentHost* agent_host() { return &agent_host_; }  // for the node's agent
  EventLog* events() const { return events_; }      // nullptr: nobody wants to be told

  ViewChange last_change() const;  // of all workers together

  // drop_workers, then make_workers: while they do not run, remakes them with other switches, over the same tables.
  void drop_workers();
  // The last sequence that a worker of this node has given out: remade workers go on from there, so that no id is used
  // twice.
  uint64_t last_sequence() const { return last_sequence_; }
  Result<void> make_workers(const Options& options, Environment* env);

  // Puts a record into this node's copy without a transaction, readable, at version 1. Used to load before the start.
  Result<void> load(TableId table, ByteView key, ByteView value);

 private:
  Node(NodeId id, const ClusterSpec& spec, const View& view, bool joins);

  const NodeId id_;
  ClusterSpec spec_;
  NodeState state_;
  WorkerBarrier barrier_;
  PartitionSweep sweep_;
  Regions* regions_ = nullptr;
  EventLog* events_ = nullptr;
  LocalAtomics* local_atomics_ = nullptr;
  std::optional<RowSet> rows_;
  NodeTables tables_;
  std::unique_ptr<VerbMemory> verb_memory_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<TxnWorker>> txn_workers_;
  uint64_t last_sequence_ = 0;
  NodeAgentHost agent_host_{*this};
};

}  // namespace weft
