#include "weft/bench/phases.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <span>

#include "weft/bench/interleaved_runs.h"
#include "weft/bench/machine.h"
#include "weft/txn/protocol.h"

namespace weft::bench {
namespace {

// Two rows that differ in one phase.
struct Comparison {
  const char* phase;
  const char* by_messages;
  const char* by_verbs;
  const char* paper;  // of DrTM+H
  bool piggyback_acks = true;
};
constexpr Comparison kComparisons[] = {
    {"execute, place remembered", "dnl4", "dnl4-e", "verbs, 1.26 – 1.45 × (TPC-C/no), up to 1.36 × (SmallBank)"},
    {"execute, two READs", "dnl4", "dnl4-e-nc",
     "messages, up to 1.28 × and 1.13 – 2.01 ×; verbs by 13 % where the servers are busy"},
    {"validate", "dnl4-e", "dnl4-ev", "verbs"},
    {"log", "dnl4-ev", "farm", "verbs, 1.24 – 1.29 × and 1.10 – 1.12 ×"},
    {"lock and commit", "drtmr-m", "drtmr", "lock: verbs; commit: messages"},
    {"the same, acknowledged at once", "drtmr-m", "drtmr", "verbs", false},
};

// The rows that the paper compares, as they are; fasst is first, since the others are given as multiples of it.
constexpr const char* kDesigns[] = {"fasst", "farm", "drtmr", "drtmh-nc", "drtmh"};

// DrTM+H's optimisations one by one: each rung adds one to those before it.
struct PhaseRung {
  const char* name;
  bool coroutines, pipelined_verbs, doorbell_batching, piggyback_acks;
};
constexpr PhaseRung kPhaseRungs[] = {{"none", false, false, false, false},
                                     {"+ coroutines", true, false, false, false},
                                     {"+ outstanding requests", true, true, false, false},
                                     {"+ doorbell batching", true, true, true, false},
                                     {"+ passive acknowledgement", true, true, true, true}};

double sum(const std::map<std::string, double>& by_phase) {
  return std::accumulate(by_phase.begin(), by_phase.end(), 0.0,
                         [](double all, const auto& p) { return all + p.second; });
}

// Which of two medians is higher, and whether their spreads overlap.
std::string verdict(const Report& messages, const Report& verbs) {
  const bool by_verbs = verbs.tps_median >= messages.tps_median;
  const Report& better = by_verbs ? verbs : messages;
  const Report& other = by_verbs ? messages : verbs;
  const double times = other.tps_median > 0 ? better.tps_median / other.tps_median : 0;
  const bool apart = better.tps_min > other.tps_max;
  return fmt::format("{}, {:.2f} ×{}", by_verbs ? "verbs" : "messages", times, apart ? "" : " (spreads overlap)");
}

std::string setup_name(const char* row, bool piggyback_acks) {
  return std::string(row) + (piggyback_acks ? "" : ", acks at once");
}

class Phases {
 public:
  Phases(const PhasesOptions& options, std::ostream& out, Progress& progress)
      : options_(options), out_(out), progress_(progress) {}

  void heading() {
    const Options& cluster = options_.bench.cluster;
    print_heading(out_, "Verbs or messages, phase by phase", "weft bench phases", options_.label);
    fmt::print(out_,
               "- Cluster: {} nodes with {} replicas in one process over {}, {} workers a node on {} threads. Reads go "
               "to the primary in every row.\n",
               cluster.nodes, cluster.replicas, cluster.fabric, cluster.workers, cluster.threads);
    fmt::print(out_,
               "- All setups of a workload take turns, three rounds of {:.1f} seconds each after half a second of "
               "warm-up; the figures are those of the round with the median rate.\n\n",
               options_.seconds / InterleavedRuns::kRounds);
  }

  Result<std::string> load(const PhasesOptions::Load& load) {
    BenchOptions bench_options = options_.bench;
    bench_options.workload = load.workload;
    bench_options.cluster.protocol = kDesigns[std::size(kDesigns) - 1];  // memory is shared for rows with verbs
    bench_options.cluster.local_reads = false;
    bench_options.cluster.limits.transactions_in_flight_max = load.inflight;
    progress_.say("loading " + load.workload);
    auto bench = Bench::open(bench_options, nullptr);
    if (!bench) return bench.error();
    InterleavedRuns turns((*bench).get(), &progress_, options_.bench.seed);
    auto reports = turns.measure(setups(bench_options.cluster), options_.seconds);
    if (!reports) return reports.error();
    progress_.say("checking " + load.workload);
    std::string wrong = (*bench)->check();
    progress_.clear();
    if (!wrong.empty()) return wrong;  // print no figures of runs that went wrong
    fmt::print(out_, "## {}, {} transactions in flight a worker\n\n", load.workload, load.inflight);
    rows(*reports);
    comparisons();
    rungs(std::span(*reports).last(std::size(kPhaseRungs) - 1));
    fmt::print(out_, "After these runs the workload's check and the audit of all replicas held.\n\n");
    out_.flush();
    return std::string();
  }

 private:
  // Every row once, then all rungs but the last, which is the last design as it is.
  std::vector<Setup> setups(const Options& cluster) {
    std::vector<Setup> all;
    const auto add = [&](const char* row, bool piggyback_acks) {
      const std::string name = setup_name(row, piggyback_acks);
      if (std::any_of(all.begin(), all.end(), [&](const Setup& setup) { return setup.name == name; })) return;
      all.push_back({name, cluster});
      all.back().cluster.protocol = row;
      all.back().cluster.piggyback_acks = piggyback_acks;
    };
    for (const Comparison& c : kComparisons) {
      add(c.by_messages, c.piggyback_acks);
      add(c.by_verbs, c.piggyback_acks);
    }
    for (const char* row : kDesigns) add(row, true);
    rows_.clear();
    for (const Setup& setup : all) rows_.push_back(setup.name);
    for (const PhaseRung& rung : std::span(kPhaseRungs).first(std::size(kPhaseRungs) - 1)) {
      all.push_back({rung.name, cluster});
      Options& with = all.back().cluster;
      if (!rung.coroutines) with.limits.transactions_in_flight_max = 1;
      with.pipelined_verbs = rung.pipelined_verbs;
      with.doorbell_batching = rung.doorbell_batching;
      with.piggyback_acks = rung.piggyback_acks;
    }
    return all;
  }

  void rows(const std::vector<Report>& reports) {
    by_row_.clear();
    for (size_t i = 0; i < rows_.size(); ++i) by_row_[rows_[i]] = reports[i];
    fmt::print(out_,
               "### Rows\n\n"
               "| row | txn/s | spread | × {} | p50 µs | p99 µs | aborts % | messages | verbs | doorbells |\n"
               "|---|---|---|---|---|---|---|---|---|---|\n",
               kDesigns[0]);
    for (const std::string& name : rows_) {
      const Report& r = by_row_[name];
      const double attempts = static_cast<double>(r.aborted + r.committed);
      fmt::print(out_, "| {} | {} | {} – {} | {:.2f} | {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} |\n", name,
                 millions(r.tps_median), millions(r.tps_min), millions(r.tps_max),
                 r.tps_median / by_row_[kDesigns[0]].tps_median, micros(r.p50_us), micros(r.p99_us),
                 attempts > 0 ? 100 * static_cast<double>(r.aborted) / attempts : 0, r.messages_per_txn,
                 sum(r.verbs_by_phase), r.doorbells_per_txn);
    }
    fmt::print(out_, "\nThe last three columns are of a committed transaction.\n\n");
  }

  void comparisons() {
    fmt::print(out_,
               "### Which primitive wins where\n\n"
               "| phase | messages | txn/s | verbs | txn/s | here | the paper |\n|---|---|---|---|---|---|---|\n");
    for (const Comparison& c : kComparisons) {
      const Report& messages = by_row_[setup_name(c.by_messages, c.piggyback_acks)];
      const Report& verbs = by_row_[setup_name(c.by_verbs, c.piggyback_acks)];
      fmt::print(out_, "| {} | {} | {} | {} | {} | {} | {} |\n", c.phase, c.by_messages, millions(messages.tps_median),
                 c.by_verbs, millions(verbs.tps_median), verdict(messages, verbs), c.paper);
    }
    fmt::print(out_, "\n");
  }

  void rungs(std::span<const Report> below) {
    const char* const row = kDesigns[std::size(kDesigns) - 1];
    fmt::print(out_,
               "### What each optimisation is worth ({})\n\n"
               "| switched on | txn/s | spread | × the one above | p50 µs | p99 µs | verbs a doorbell |\n"
               "|---|---|---|---|---|---|---|\n",
               row);
    double above = 0;
    for (size_t i = 0; i < std::size(kPhaseRungs); ++i) {
      const Report& r = i < below.size() ? below[i] : by_row_[row];
      fmt::print(out_, "| {} | {} | {} – {} | {} | {} | {} | {:.2f} |\n", kPhaseRungs[i].name, millions(r.tps_median),
                 millions(r.tps_min), millions(r.tps_max), above > 0 ? fmt::format("{:.2f}", r.tps_median / above) : "",
                 micros(r.p50_us), micros(r.p99_us),
                 r.doorbells_per_txn > 0 ? sum(r.verbs_by_phase) / r.doorbells_per_txn : 0);
      above = r.tps_median;
    }
    fmt::print(out_, "\n");
  }

  const PhasesOptions& options_;
  std::ostream& out_;
  Progress& progress_;
  std::vector<std::string> rows_;
  std::map<std::string, Report> by_row_;
};

}  // namespace

Result<std::string> run_phases(const PhasesOptions& options, std::ostream& out, Progress& progress) {
  Phases phases(options, out, progress);
  phases.heading();
  for (const PhasesOptions::Load& load : options.loads) {
    auto wrong = phases.load(load);
    if (!wrong || !wrong->empty()) return wrong;
  }
  return std::string();
}

}  // namespace weft::bench
