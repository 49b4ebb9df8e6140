// An embedded cluster: several nodes in this process, over rings, each with its workers.
//
//   weft::Options options;
//   auto cluster = weft::Cluster::open(options);
//   weft::TableId accounts = *(*cluster)->create_table({.name = "accounts"});
//   (*cluster)->start();
//   auto body = [&](weft::Txn& txn) -> weft::Task<weft::Code> { ... };
//   weft::Outcome outcome = (*cluster)->run(weft::NodeId(0), {}, body);
//
// One thread calls open, create_table, declare, start, stop and the destructor. Any thread that is not a worker may
// call run, call and spawn.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "weft/options.h"
#include "weft/status.h"
#include "weft/txn.h"

namespace weft {

// Counted by the workers; the sum over the cluster (or over one worker).
struct Counters {
  uint64_t committed = 0, aborted = 0, rejected = 0;
  uint64_t unknown = 0;  // reported to the client as unknown; if they end here later, their outcome is counted too
  uint64_t aborts_by_code[kCodes] = {};
  uint64_t commit_round_trips = 0;  // of committed transactions that had a commit phase
  uint64_t commits_counted = 0;
  uint64_t abort_round_trips = 0;  // of aborts in the commit phase, until they were acknowledged
  uint64_t aborts_counted = 0;
  uint64_t phase_messages[5] = {};     // network messages of the coordinator per phase: execute, lock, validate,
                                       // replicate, unlock; answers count with their phase
  uint64_t phase_round_trips[5] = {};  // by phase: those that a client waited for, of commits and of aborts in them
  uint64_t phase_reads[5] = {}, phase_writes[5] = {}, phase_swaps[5] = {};  // one-sided verbs, by phase
  uint64_t places_known = 0;     // gets that found the record's place in the location cache
  uint64_t places_stale = 0;     // of these, where the record was no longer there
  uint64_t reads_torn = 0;       // READs that found a half-written record and were retried
  uint64_t logs_by_message = 0;  // although the node has a ring: no room, too large, or an insert or delete
  uint64_t own_swaps = 0;        // CAS verbs of a node on its own memory (RemoteLockMode::kNicLoopback)
  uint64_t doorbells = 0;
  uint64_t verb_limits = 0;        // sum over the doorbells: how many verbs the worker might have in flight
  uint64_t verb_credit_waits = 0;  // requests of verbs that waited for others to be complete (Options::verb_credit)
  uint64_t packets_sent = 0, messages_sent = 0, bytes_sent = 0;
  uint64_t packets_received = 0, messages_received = 0;
  uint64_t table_batches = 0, table_batched = 0;  // batches that were not empty, and the keys in them
  uint64_t records_touched = 0;
  uint64_t local_gets = 0, remote_gets = 0, backup_gets = 0;
  uint64_t shipped = 0;  // stored procedures that were sent to the primary of their keys
  uint64_t steps = 0;
  void add(const Counters& other);
};

struct TableUse {
  uint64_t records = 0;  // of all nodes, each replica counted
  uint64_t memory_bytes = 0;
};

class Cluster {
 public:
  // Checks the options; kBadOption names what is wrong.
  static Result<std::unique_ptr<Cluster>> open(const Options& options);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  Result<TableId> create_table(const TableSpec& spec);            // before start
  Result<ProcedureId> declare(const StoredProcedure& procedure);  // before start
  Result<void> start();
  void stop();  // waits until everything that runs on the workers has ended; idempotent

  const Options& options() const;
  // While stopped: changes the protocol, limits and switches for the next start. Nodes, replicas, workers, partitions,
  // the hash seed and the data stay.
  Result<void> reconfigure(const Options& options);

  // Runs a coroutine on a worker of a node. `make` is called there, and its task is awaited there; other threads may
  // wait for the handle. If the cluster does not run, or has no such node or worker, nothing is called and the handle
  // is done at once; the calls below return kRejected with kPeerUnreachable then. They run on worker 0 of the node. A
  // body that throws ends the process.
  class Handle {
   public:
    Handle() = default;
    void wait() const;
    bool done() const;

   private:
    friend class Cluster;
    struct State;
    std::shared_ptr<State> state_;
  };
  Handle spawn(NodeId node, WorkerId worker, std::function<Task<void>(Session&)> make);

  // Blocks the calling thread until the transaction has an outcome. `body(Txn&) -> Task<Code>`.
  template <class Body>
  Outcome run(NodeId node, RetryPolicy policy, Body& body) {
    Outcome outcome = closed();
    run_on(node, [&](Session& session) { return store(session.run(policy, body), outcome); });
    return outcome;
  }
  Outcome call(NodeId node, ProcedureId procedure, std::string_view arguments, std::string* reply = nullptr);
  struct OneValue {
    Outcome outcome;
    bool found = false;
    std::string value;
  };
  OneValue get_one(NodeId node, TableId table, Key key);
  Outcome put_one(NodeId node, TableId table, Key key, std::string_view value);
  Outcome insert_one(NodeId node, TableId table, Key key, std::string_view value);
  Outcome erase_one(NodeId node, TableId table, Key key);

  // The outcome of a transaction, queried at that node (Session::query_outcome). kUnknownTxn while the cluster does not
  // run.
  TxnStatus query_outcome(NodeId node, TxnId id);

  // Loads a record before start(), without a transaction: stores it at every replica of its partition.
  Result<void> load(TableId table, Key key, std::string_view value);

  // After stop(), or while nothing runs: visits every record of a table at every replica.
  using Visit =
      std::function<void(NodeId node, bool primary, std::string_view key, std::string_view value, uint64_t version)>;
  void visit(TableId table, const Visit& visit) const;
  // Checks that replicas are equal, no lock is left and everything is readable. Returns the first thing that is wrong,
  // or an empty string.
  std::string audit() const;

  Counters counters() const;
  Counters counters(NodeId node) const;  // of one node's workers
  TableUse table_use(TableId table) const;

  struct Impl;

 private:
  explicit Cluster(std::unique_ptr<Impl> impl);
  static Task<void> store(Task<Outcome> task, Outcome& out) { out = co_await task; }
  static Outcome closed();
  void run_on(NodeId node, std::function<Task<void>(Session&)> make);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
