// The driver: client coroutines run a workload's transactions on every worker of a cluster for some time, and count.
//
// Closed loop: transactions_in_flight_max clients per worker, each with one transaction at a time. Open loop (`rate`):
// transactions arrive by a Poisson process whatever the store does. Latency counts from the intended start, so that it
// shows when the store falls behind.
//
// When an insert finds a table full, the run ends there: that is the size of the request, no fault.
//
// Clients of a worker share that worker's State and nothing else; the calling thread reads the states while they run.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/histogram.h"
#include "weft/bench/workload.h"
#include "weft/cluster.h"

namespace weft::bench {

// What a progress line shows.
struct LiveStats {
  double seconds = 0;  // measured so far
  double tps = 0;      // of the last interval
  double p50_us = 0, p99_us = 0;
  double abort_share = 0;  // share of the attempts
  double nw_batch = 0, ht_batch = 0;
};

struct DriveOptions {
  double rate = 0;  // transactions a second over the whole cluster; 0: closed loop
  double warmup_seconds = 0.5;
  double seconds = 5;
  uint64_t transactions = 0;  // run this many (or a few more: the same number for each client); 0: by time
  bool alone = false;         // one client in the whole cluster: the latency of a transaction without conflicts or load
  int slices = 5;             // the measured time is divided into this many, for the spread
  uint64_t seed = 1;
  const std::atomic<bool>* interrupted = nullptr;     // when set: end the run now, cleanly
  std::function<void(const LiveStats&)> on_progress;  // a few times a second, on the calling thread
};

struct DriveResult {
  // Of the measured time.
  double seconds = 0;
  uint64_t committed = 0, refused = 0,
           aborted = 0;  // refused ones are also counted as committed; aborted counts attempts
  std::array<uint64_t, kCodes> aborts_by_code{};
  Histogram latency_ns;
  std::vector<double> slice_tps;
  Counters counters;
  // Of the whole run.
  Tally tally;
  std::optional<uint16_t> full;  // the table that was full, which ended the run
  std::string failure;           // outcome of a transaction that ended without commit and without an answer
};

// The cluster must be started. All clients have ended when this returns.
DriveResult drive(Cluster& cluster, const Workload& workload, const DriveOptions& options, Clock& clock);

// The difference of two readings of the counters.
Counters counters_between(const Counters& before, const Counters& after);

}  // namespace weft::bench
