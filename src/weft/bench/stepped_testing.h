// Runs a workload's clients on a cluster that is stepped in the test's own thread: the same run every time, so that a
// test may say that this run finds a planted bug.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "weft/bench/workload.h"
#include "weft/txn/stepped_cluster_testing.h"

namespace weft::bench {

struct SteppedOptions {
  Options cluster;
  weft::PlantedBugs bugs;
  int clients = 8;                     // a node
  int transactions = 40;               // a client
  uint64_t capacity_max = UINT64_MAX;  // of a table
  uint64_t seed = 1;
};

struct SteppedRun {
  Tally tally;
  std::string failure;  // of the first transaction that ended without a commit and without an answer
  std::string wrong;    // what was wrong while it ran, or what the workload's check found
  uint64_t shipped = 0;
};

inline Task<void> stepped_client(Session& session, const Workload* workload, int transactions, uint64_t seed,
                                 SteppedRun* run) {
  constexpr RetryPolicy kPolicy{.attempts = 10'000, .backoff_us = 1, .backoff_us_max = 128};
  Random random(seed);
  for (int i = 0; i < transactions; ++i) {
    const Call call = workload->draw(random);
    for (uint32_t attempt = 1;; ++attempt) {
      const uint64_t began_ns = session.now_ns();
      Effect effect;
      Task<Outcome> work = workload->attempt(session, call, effect);
      const Outcome outcome = co_await work;
      const bool no = outcome.kind == OutcomeKind::kAborted && effect.refused && !code_retryable(outcome.code);
      if (outcome.committed() || no) {
        run->tally.committed[call.kind] += no ? 0 : 1;
        run->tally.refused[call.kind] += effect.refused ? 1 : 0;
        run->tally.net += no ? 0 : effect.net;
        if (run->tally.wrong.empty()) run->tally.wrong = effect.wrong;
        break;
      }
      uint64_t wait_ns = 1'000;
      const bool busy = outcome.kind == OutcomeKind::kRejected && code_retryable(outcome.code);
      if (!busy && !session.should_retry(outcome, kPolicy, attempt, began_ns, &wait_ns)) {
        if (++run->tally.failed == 1) run->failure = outcome.text();
        break;
      }
      co_await session.sleep_ns(wait_ns + 1);
    }
  }
}

// Audits until all clients are done.
inline Task<void> stepped_auditor(Session& session, const Workload* workload, const int* running, SteppedRun* run) {
  constexpr uint64_t kPauseNs = 20'000;
  Random random(1);
  while (*running > 0) {
    Effect effect;
    Task<Outcome> work = workload->audit(session, random.next(), effect);
    const Outcome outcome = co_await work;
    run->tally.audits += outcome.committed() ? 1 : 0;
    if (run->tally.wrong.empty()) run->tally.wrong = effect.wrong;
    co_await session.sleep_ns(kPauseNs);
  }
}

inline SteppedRun run_stepped(Workload& workload, const SteppedOptions& options) {
  std::vector<TableSpec> tables = workload.tables();
  for (TableSpec& spec : tables) spec.capacity = std::min(spec.capacity, options.capacity_max);
  SteppedRun run;
  SteppedCluster cluster(options.cluster, tables, workload.procedures(), options.bugs);
  Random random(options.seed);
  const auto put = [&](TableId t, Key k, std::string_view v) { return cluster.load(t, k, v); };
  if (const auto loaded = workload.load(put, random); !loaded) ADD_FAILURE() << loaded.error().text();
  std::vector<SteppedCluster::Handle> handles;
  int running = options.cluster.nodes * options.clients;
  for (int n = 0; n < options.cluster.nodes; ++n) {
    for (int i = 0; i < options.clients; ++i) {
      const uint64_t seed = random.next();
      handles.push_back(
          cluster.spawn(NodeId(static_cast<uint8_t>(n)), WorkerId(0), [&, seed](Session& session) -> Task<void> {
            Task<void> client = stepped_client(session, &workload, options.transactions, seed, &run);
            co_await client;
            --running;
          }));
    }
  }
  if (workload.audits()) {
    handles.push_back(cluster.spawn(
        NodeId(0), WorkerId(0), [&](Session& session) { return stepped_auditor(session, &workload, &running, &run); }));
  }
  for (const SteppedCluster::Handle& handle : handles) cluster.wait(handle);
  cluster.stop();
  run.shipped = cluster.counters().shipped;
  run.wrong = run.tally.wrong;
  const auto visit_table = [&](TableId t, const Cluster::Visit& visit) { cluster.visit(t, visit); };
  if (run.wrong.empty()) run.wrong = workload.check(visit_table, run.tally);
  return run;
}

}  // namespace weft::bench
