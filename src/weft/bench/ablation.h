// The figures of docs/performance.md, from one command, as Markdown. The questions: how many transactions a second does
// each protocol run, and how long do they take; what are network batching, table batching and local reads worth; what
// is the latency of a transaction that is alone; and what part of the machine's own limit is that?
//
// Each workload is loaded once and all its runs use that load; its check covers them together.
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
  double seconds = 8;  // a run
  std::string label;   // in the heading: the commit
};

// Writes to `out` as figures come in. What a check found wrong, or nothing; an error if a cluster could not be made.
Result<std::string> run_ablation(const AblationOptions& options, std::ostream& out, Progress& progress);

}  // namespace weft::bench
