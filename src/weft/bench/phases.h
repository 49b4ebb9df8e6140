// Compares verbs with messages, phase by phase, as Markdown (`weft bench phases`): rows that differ in one phase, in
// interleaved runs, beside what DrTM+H's paper found; DrTM+H's optimisations, turned on one by one; and the rows of its
// comparison as they are. Over shared memory, where a verb is an access to another node's memory.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "weft/bench/bench.h"
#include "weft/bench/progress.h"

namespace weft::bench {

struct PhasesOptions {
  struct Load {
    std::string workload;
    uint32_t inflight;  // per worker
  };
  BenchOptions bench;  // its workload and limits.transactions_in_flight_max are ignored
  // Not tpcc-no: it only inserts, and its tables are full after a few setups.
  std::vector<Load> loads = {{"smallbank", 64}, {"micro-10-5", 32}};
  double seconds = 3;  // per setup
  std::string label;   // in the heading: the commit
};

// Writes to `out` as figures come in. Returns what a check found wrong, or nothing; an error if a cluster could not be
// made.
Result<std::string> run_phases(const PhasesOptions& options, std::ostream& out, Progress& progress);

}  // namespace weft::bench
