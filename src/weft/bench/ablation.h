// The figures of docs/performance.md, from one command, as Markdown: throughput and latency of each protocol; what
// network batching, table batching and local reads are each worth (an ablation); the latency of a transaction without
// any other load; and the share of the machine's own limit that the throughput reaches.
//
// Each workload is loaded once and all its runs use that load; its check covers all of them.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "weft/bench/bench.h"
#include "weft/bench/progress.h"

namespace weft::bench {

struct AblationOptions {
  BenchOptions bench;  // its workload is ignored
  std::vector<std::string> workloads = {"smallbank", "tatp"};
  std::vector<std::string> protocols = {"dnl4", "dnl2", "dnl1", "fasst"};
  // Measured after them, only by protocol, and by these protocols. tpcc has its own number of warehouses whatever
  // `bench` says.
  std::vector<std::string> more_workloads = {"retwis", "tpce-cp", "tpcc"};
  std::vector<std::string> more_protocols = {"dnl4", "dnl2", "dnl1", "fasst", "hop"};
  double seconds = 8;  // of each run
  std::string label;   // in the heading: the commit
};

// Writes to `out` as figures come in. Returns what a check found wrong, or nothing; an error if a cluster could not be
// made.
Result<std::string> run_ablation(const AblationOptions& options, std::ostream& out, Progress& progress);

}  // namespace weft::bench
