// Report: the results of one run of a benchmark, as data, as one JSON object, and as text for a person.
#pragma once

#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "weft/bench/driver.h"
#include "weft/options.h"

namespace weft::bench {

struct Report {
  std::string workload, protocol, fabric;
  int nodes = 0, replicas = 0, threads = 0;
  uint32_t inflight = 0;
  double seconds = 0;
  uint64_t committed = 0, refused = 0, aborted = 0;
  double tps = 0, tps_per_thread = 0;
  double tps_min = 0, tps_median = 0, tps_max = 0;  // over the slices of the measured time
  double p50_us = 0, p90_us = 0, p99_us = 0, p999_us = 0;
  double nw_batch = 0, ht_batch = 0;  // messages per packet, keys per table batch
  double packets_per_txn = 0, messages_per_txn = 0, bytes_per_txn = 0;
  double reads_per_txn = 0, writes_per_txn = 0, swaps_per_txn = 0;  // one-sided verbs
  double doorbells_per_txn = 0;
  double verb_limit = 0;  // verbs that a worker might have in flight, over the doorbells; 0: any number
  double verb_credit_waits_per_txn = 0;
  std::map<std::string, double> messages_by_phase, verbs_by_phase;  // per transaction; without zeros
  double touches_per_txn = 0, attempts_per_txn = 0;
  double commit_round_trips = 0;
  double local_share = 0;                         // share of the reads that stayed on their node
  std::map<std::string, uint64_t> abort_reasons;  // attempts, by the name of the code; without zeros
  std::string ended;                              // why it ended before its time; else empty
};

Report make_report(const std::string& workload, const Options& options, const DriveResult& result);

// One line of JSON: {"workload": ..., "abort_reasons": {}, ...}.
std::string to_json(const Report& report);
void print_text(std::ostream& out, const Report& report);

std::string with_commas(uint64_t n);      // 1234567 -> "1,234,567"
std::string millions(double per_second);  // 1234567 -> "1.23 M"
std::string micros(double us);            // three digits: "1.23", "12.3", "123"

}  // namespace weft::bench
