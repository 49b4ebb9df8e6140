// The limits of the machine, measured in the same run as the store: the cost of the three things a transaction consists
// of.
//
//   ring message    64 bytes into a packet of 16, through a ring and out again, both ends on one thread (workers of one
//                   index share a thread)
//   record touch    a random index line and then the random record line it names, prefetched in batches of 24, over as
//                   much memory as the tables have
//   bare client     a transaction of the workload without an engine: it is drawn, its coroutines get their frames, it
//                   takes a slot, waits once for its reads and once for its commit, and its outcome is counted; 64
//                   clients take turns
//
// Their cost times how often a transaction needs them is a lower bound of what a core spends on a transaction. It
// leaves out copying keys and values, locks, checksums, and the loop itself.
//
// How many messages and touches a transaction needs is fixed for the workloads of the performance page (needs_of): what
// Dandelion's protocol does. An engine that gets by with fewer then comes nearer to the limit, and does not move it.
#pragma once

#include <cstdint>

#include "weft/base/clock.h"
#include "weft/bench/report.h"
#include "weft/bench/workload.h"

namespace weft::bench {

struct MachineLimits {
  int threads = 0;
  uint64_t memory_bytes = 0;                           // that the record touches are spread over
  double message_ns = 0, touch_ns = 0, client_ns = 0;  // median of the repeats, all threads at work at the same time
};

// Takes about three seconds and `memory_bytes` of memory.
MachineLimits measure_limits(const Workload& workload, uint64_t memory_bytes, int threads, Clock& clock);

struct Needs {
  double messages = 0, touches = 0;  // per committed transaction
  bool fixed = false;                // else as the report counted them
};
Needs needs_of(const Report& report);

struct Attainable {
  Needs needs;
  double ns = 0;  // their total cost
  double tps_per_core = 0;
  double reached = 0;  // the report's median rate per thread, as a share of it
};
Attainable attainable(const MachineLimits& limits, const Report& report);

}  // namespace weft::bench
