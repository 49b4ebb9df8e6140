// Workloads of the bench in the simulator: in virtual time, with crashes, and with their own checks at the end.
#pragma once

#include <memory>

#include "weft/sim/workload.h"

namespace weft::bench {

// TPC-C with two warehouses of 20 items and three customers a district, so that everybody meets everybody.
std::unique_ptr<sim::Workload> simulated_tpcc(sim::WorkloadContext* context);

}  // namespace weft::bench
