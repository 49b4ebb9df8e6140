// How long a crash stops a cluster that has as many transactions open as its limits allow (`weft bench crash`).
//
// Nodes over the local fabric, all in this process. Clients keep every slot of every worker busy with transfers between
// two accounts. The last node dies: its workers are not stepped any more, in the middle of whatever they did. The
// others do not notice it for a time that stands for detection (`detection_ms`: it is measured elsewhere, with
// processes), in which all that needs the dead node comes to wait for it; then the view without it is published, and
// the clock runs. No lease is waited for: a process that has ended is fenced.
//
// At the end the sum of all accounts is checked, and all replicas are audited.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "weft/bench/progress.h"
#include "weft/options.h"
#include "weft/status.h"

namespace weft::bench {

struct CrashOptions {
  Options cluster;  // threads 0: one per core
  std::vector<std::string> protocols = {"dnl4", "dnl2", "dnl1", "fasst"};
  uint64_t accounts = 400'000;  // in the cluster
  int rounds = 5;               // of each protocol, each with a fresh cluster
  uint32_t warmup_ms = 300;
  uint32_t detection_ms = 5;
  uint64_t seed = 1;
  std::string label;  // in the heading: the commit
};

// One crash. Times count from the moment the new view is published, in milliseconds.
struct Crash {
  uint64_t open = 0;         // transactions in flight in the cluster when the view came, with those of the dead node
  uint64_t interrupted = 0;  // of clients that live: began before the view and told after it
  uint64_t committed = 0;    // of these
  double stopped_ms = 0;     // the last worker of the last node has stopped
  double decided_ms = 0;     // the leader's last worker has decided everything
  double written_ms = 0;     // all members have written down what was decided
  double active_ms = 0;      // the last worker of the last node is active: all that was open is decided and applied
  double cpu_ms = 0;         // processor time of the thread that took most, from the view until its workers are active
  double answered_ms = 0;    // the last client whose transaction was interrupted has its outcome
  double first_ms = 0;       // the first commit of a transaction that began in the new view
  double last_first_ms = 0;  // the same of the node that was last with it
};
// An error if the cluster could not be made; `*wrong` says what a check found, or stays empty.
Result<Crash> crash_once(const CrashOptions& options, const std::string& protocol, uint64_t seed, std::string* wrong);

// All protocols, as Markdown: medians and longest. Returns what a check found wrong, or nothing.
Result<std::string> run_crashes(const CrashOptions& options, std::ostream& out, Progress& progress);

}  // namespace weft::bench
