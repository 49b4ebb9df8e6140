// A simulation runs a whole cluster in one thread and in virtual time. One seed decides everything.
//
// A worker is stepped when it has something to do: after a delivery, when a timer is due, or because its last step left
// work. A step takes as much virtual time as its costs add up to (times the node's slowness, plus jitter); what it sent
// leaves when it ends. Idle workers do not run.
//
// When the clients are done, a last client at each node reads everything. Then the cluster becomes idle and is audited:
// replicas equal, no lock left, everything readable, no slot in use, no participant's record left. A run in which no
// transaction ends for a long time is stuck, which is a violation like any other.
//
// Several simulations may run in one process, each in its own thread; they share nothing but coverage marks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/sim/config.h"
#include "weft/sim/crash_injector.h"
#include "weft/sim/history.h"

namespace weft {

struct SimResult {
  SimConfig config;
  std::vector<std::string> violations;
  uint64_t trace_hash = 0;
  uint64_t events = 0;
  uint64_t virtual_ns = 0;
  uint64_t steps = 0;
  uint64_t packets = 0;
  uint64_t refused_sends = 0;  // back pressure: the wire had no room
  uint64_t faults = 0;         // fault windows that began before the clients were done, clock skew, and aimed crashes
  uint64_t crashes = 0, views = 0;
  uint64_t removals = 0;   // of running processes
  CrashCoverage coverage;  // what the crashes hit
  uint64_t lost = 0;       // 1: a partition lost its last replica; the run ended there, without the checks at the end
  uint64_t committed = 0, aborted = 0, rejected = 0, unknown = 0, dropped = 0;
  uint64_t transactions() const { return committed + aborted + rejected + unknown + dropped; }
};

// `sink` receives the history during the run; it may be nullptr.
SimResult run_simulation(const SimOptions& options, HistorySink* sink = nullptr);

}  // namespace weft
