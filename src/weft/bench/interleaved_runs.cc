#include "weft/bench/interleaved_runs.h"

#include <algorithm>

namespace weft::bench {

Result<std::vector<Report>> InterleavedRuns::measure(const std::vector<Setup>& setups, double seconds) {
  std::vector<std::vector<Report>> rounds(setups.size());
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < setups.size(); ++i) {
      auto report = run(setups[i], seconds / kRounds);
      if (!report) return report.error();
      rounds[i].push_back(*report);
    }
  }
  std::vector<Report> out;
  for (std::vector<Report>& all : rounds) {
    std::sort(all.begin(), all.end(), [](const Report& a, const Report& b) { return a.tps_median < b.tps_median; });
    Report report = all[all.size() / 2];
    report.tps_min = all.front().tps_median;
    report.tps_max = all.back().tps_median;
    out.push_back(report);
  }
  return out;
}

Result<Report> InterleavedRuns::run(const Setup& setup, double seconds, bool alone) {
  if (auto changed = bench_->change(setup.cluster); !changed) return changed.error();
  DriveOptions drive;
  drive.seconds = std::max(0.02, seconds);
  drive.warmup_seconds = std::min(drive.warmup_seconds, drive.seconds / 2);
  drive.alone = alone;
  drive.seed = ++seed_;
  if (progress_->shown()) {
    drive.on_progress = [&](const LiveStats& live) {
      progress_->show(bench_->workload().name() + " " + setup.name + (alone ? " alone" : ""), live);
    };
  }
  auto report = bench_->run(drive);
  progress_->clear();
  if (report && !report->ended.empty()) return Error{Code::kTableFull, setup.name + ": " + report->ended};
  return report;
}

}  // namespace weft::bench
