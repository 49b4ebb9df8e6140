// InterleavedRuns measures several setups of one loaded workload in turn, so that a machine that slows down for a while
// slows all of them. Each setup reports its round with the median rate; the spread is that of its rounds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/bench/bench.h"
#include "weft/bench/progress.h"

namespace weft::bench {

struct Setup {
  std::string name;
  Options cluster;
};

class InterleavedRuns {
 public:
  static constexpr int kRounds = 3;

  InterleavedRuns(Bench* bench, Progress* progress, uint64_t seed) : bench_(bench), progress_(progress), seed_(seed) {}

  // Runs the setups one after the other, kRounds times; `seconds` is the time of each setup over all rounds.
  Result<std::vector<Report>> measure(const std::vector<Setup>& setups, double seconds);
  // `alone`: one client in the whole cluster.
  Result<Report> run(const Setup& setup, double seconds, bool alone = false);

 private:
  Bench* const bench_;
  Progress* const progress_;
  uint64_t seed_;  // differs for every run
};

}  // namespace weft::bench
