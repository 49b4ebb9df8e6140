// `weft bench verbs`: the rate and latency of one-sided verbs alone. Two nodes in this process over a fabric; each
// worker of the first keeps some requests in flight to a region of the second. Latency counts from the doorbell until
// the completion is polled. A node's worker i and the other's share a thread, as in an embedded cluster.
//
// Every run ends with a check: every READ brought the bytes that are there; the last WRITE of every place is there; the
// words that were added to have the sum of all FETCH-ADDs, and those that were swapped that of all successful swaps.
#pragma once

#include <atomic>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "weft/base/clock.h"
#include "weft/fabric/wire.h"
#include "weft/options.h"
#include "weft/status.h"

namespace weft::bench {

inline constexpr uint32_t kVerbDepthMax = 1024;

struct VerbRatesOptions {
  Options cluster;  // its fabric, TLS, workers and verb_credit
  VerbKind kind = VerbKind::kRead;
  int64_t bytes = 8;
  int64_t depth = 16;  // requests that a worker has in flight
  double warmup_seconds = 0.5, seconds = 5;
  const std::atomic<bool>* interrupted = nullptr;  // when set: end the run now, cleanly
};

struct VerbRates {
  std::string kind, fabric;
  uint32_t bytes = 0, depth = 0;
  int threads = 0;
  double seconds = 0;
  uint64_t operations = 0;
  double ops_per_second = 0, gb_per_second = 0;  // GB: 10^9 bytes
  double p50_us = 0, p99_us = 0, p999_us = 0;
  double doorbells_per_op = 0;
  double verb_limit = 0;  // as in Report
  // Of the whole run, warm-up included.
  uint64_t swaps = 0, swaps_failed = 0;
  uint64_t refused = 0;  // before the region was granted; they were posted again
  std::string wrong;     // what the check found
};

// read, write, cas or faa; kBadOption names what there is.
Result<VerbKind> verb_kind_of(std::string_view name);
// Returns kBadOption for an error of the user, another code if the machine lacks something.
Result<VerbRates> measure_verbs(const VerbRatesOptions& options, Clock& clock);

std::string to_json(const VerbRates& rates);
void print_text(std::ostream& out, const VerbRates& rates);

}  // namespace weft::bench
