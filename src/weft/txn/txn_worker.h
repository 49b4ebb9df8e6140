// TxnWorker: the transactions of one worker: it runs their parts (txn_parts.h) in the order of the worker's loop.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "weft/cluster.h"
#include "weft/run/worker.h"
#include "weft/txn/txn_parts.h"
#include "weft/txn/worker_stats.h"

namespace weft {

class TxnWorker final : public WorkerTasks, public TxnParts {
 public:
  static Result<std::unique_ptr<TxnWorker>> create(Node* node, WorkerId id, Worker* worker, Environment* env);
  ~TxnWorker() override;

  // The worker's loop.
  void begin_step() override {
    acks_.begin_step();
    if (ctx_.conflicts.step(ctx_.now_ns())) slots_.serve_waiters();
  }
  bool table_batch() override {
    const bool some = reads_.run_batch();
    return range_scans_.run_batch() || some;
  }
  bool commit_steps() override;
  bool flush() override;
  bool poll() override;
  void between_steps() override;
  void before_sleep() override;
  void after_sleep() override { quiesce(); }
  bool pending() const override;
  uint64_t deadline_ns() const override;
  bool waits() const override { return !slots_.all_free(); }

  const View& view() const { return ctx_.view(); }
  bool active() const { return ctx_.views.active(); }
  Counters counters() const;                           // by the worker's thread, or while it does not run
  WorkerStats stats() const { return board_.read(); }  // from any thread
  // What keeps this worker from answering, human-readable; empty: nothing that it knows of.
  std::string unavailable_reason() const;
  // Takes the entries that peers have logged out of this worker's rings. Also for callers that want to see the records
  // up to date.
  void drain_rings();
  bool idle() const;  // no slot in use, no record kept, nothing in flight; what a lost peer left open does not count

 private:
  TxnWorker(Node* node, WorkerId id, Worker* worker, Environment* env, TxnMemory memory);

  void handle_peer_faults();
  void lose_peer(NodeId peer, const Error& error);
  void quiesce();
  uint64_t verb_limit() const {
    return verbs_ != nullptr && verbs_->credit() != nullptr ? verbs_->credit()->limit() : 0;
  }
  void publish_stats() { board_.put({counters(), slots_.in_use(), verb_limit()}, ctx_.now_ns()); }

  WorkerStatsSnapshot board_;
};

}  // namespace weft
