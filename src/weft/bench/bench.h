// Bench: a workload loaded into an embedded cluster, and runs on it. It is loaded once; several runs may follow with
// another protocol, other switches or more transactions in flight. The check at the end covers all of them.
//
// Belongs to one thread, which is not a worker.
#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>

#include "weft/base/clock.h"
#include "weft/bench/driver.h"
#include "weft/bench/report.h"
#include "weft/bench/workload.h"
#include "weft/cluster.h"
#include "weft/options.h"
#include "weft/status.h"

namespace weft::bench {

struct BenchOptions {
  std::string workload = "smallbank";
  uint64_t keys_per_node = 0;  // 0: default_keys(workload)
  Skew skew = Skew::kHot;
  uint64_t value_bytes = 0;  // 0: the workload's own
  Suppliers suppliers = Suppliers::kOthers;
  double zipf = 0;  // of micro-G-P's keys
  Options cluster;
  uint64_t seed = 1;
  // What all runs will last or run, warm-up included, so that tables which grow have room for it. 0: not known.
  double seconds = 0;
  uint64_t transactions = 0;
};

class Bench {
 public:
  // Returns kBadOption for an error of the user, another code if the machine lacks something. Progress of the load is
  // written to `out`, which may be nullptr.
  static Result<std::unique_ptr<Bench>> open(const BenchOptions& options, std::ostream* out);

  // Uses the protocol, limits and switches of `cluster` for the runs that follow.
  Result<void> change(const Options& cluster);
  Result<Report> run(const DriveOptions& options);

  // Runs the workload's check and the cluster's audit, and checks that no transaction failed. Returns what is wrong, or
  // nothing.
  std::string check() const;

  const Workload& workload() const { return *workload_; }
  const Cluster& cluster() const { return *cluster_; }
  const Tally& tally() const { return tally_; }
  uint64_t table_bytes() const;  // over all nodes

 private:
  Bench() = default;
  void make_room(const BenchOptions& options);
  Result<void> load(const BenchOptions& options, std::ostream* out);
  std::string ended(const DriveResult& result) const;

  RealClock clock_;
  std::unique_ptr<Workload> workload_;
  std::unique_ptr<Cluster> cluster_;
  Tally tally_;
  std::string failure_;
};

// Exit status of a command: 0 done, 1 something is wrong with what ran, 2 the request was wrong.
inline constexpr int kExitDone = 0, kExitFailed = 1, kExitBadRequest = 2;
int exit_status(const Error& error);
// Of a run without a fault: failed if it ended before its time, so that nobody takes it for what was asked for.
int exit_status(const Report& report);

// Turns the listed switches of `options` off: "network-batching,table-batching,local-reads,coroutines,pipelined-verbs,
// doorbell-batching,piggyback-acks,worker-doorbells,verb-credit", and of conflict avoidance, if that is on,
// "backoff,backoff-limit,coro-credit". kBadOption names what is not one of them, and what it is called now if it was.
Result<void> switch_off(std::string_view list, Options* options);

}  // namespace weft::bench
