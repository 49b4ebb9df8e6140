// Workloads of the bench in the simulator: in virtual time, with crashes, and with their own checks at the end.
#pragma once

#include <memory>

#include "weft/base/histogram.h"
#include "weft/bench/workload.h"
#include "weft/sim/workload.h"

namespace weft::bench {

// What became of the transactions of a run that began at `from_ns` of virtual time or later. Latency counts from the
// first attempt.
struct SimulatedFigures {
  uint64_t from_ns = 0;
  uint64_t committed = 0, aborted = 0;  // aborted counts attempts
  Histogram latency_ns;
};

// Any workload. With figures, transactions are retried as by `weft bench`, until they commit. The figures outlive the
// run.
std::unique_ptr<sim::Workload> simulated(sim::WorkloadContext* context, std::unique_ptr<Workload> workload,
                                         SimulatedFigures* figures = nullptr);

// TPC-C with two warehouses of 20 items and three customers a district, so that everybody meets everybody.
std::unique_ptr<sim::Workload> simulated_tpcc(sim::WorkloadContext* context);

}  // namespace weft::bench
