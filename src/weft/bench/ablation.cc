#include "weft/bench/ablation.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <iterator>
#include <vector>

#include "weft/bench/interleaved_runs.h"
#include "weft/bench/limits.h"
#include "weft/bench/machine.h"

namespace weft::bench {
namespace {

struct Rung {
  const char* name;
  bool network_batching, table_batching, local_reads;
};
constexpr Rung kRungs[] = {{"none", false, false, false},
                           {"+ network batching", true, false, false},
                           {"+ table batching", true, true, false},
                           {"+ local reads", true, true, true}};

void heading(std::ostream& out, const AblationOptions& options) {
  const Options& cluster = options.bench.cluster;
  print_heading(out, "Performance", "weft bench all", options.label);
  fmt::print(out,
             "- Cluster: {} nodes with {} replicas in one process over the {} fabric, {} workers a node on {} "
             "threads, {} transactions in flight a worker.\n",
             cluster.nodes, cluster.replicas, cluster.fabric, cluster.workers, cluster.threads,
             cluster.limits.transactions_in_flight_max);
  fmt::print(
      out,
      "- All setups of a workload take turns, three rounds of {:.1f} seconds each after half a second of warm-up; the "
      "figures are those of the round with the median rate, the spread is that of the rounds. Transactions that answer "
      "no (no such row, no money) commit what "
      "they read and count.\n\n",
      options.seconds / InterleavedRuns::kRounds);
}

std::string spread(const Report& r) { return millions(r.tps_min) + " – " + millions(r.tps_max); }

double abort_percent(const Report& r) {
  const uint64_t attempts = r.aborted + r.committed;
  return attempts == 0 ? 0 : 100 * static_cast<double>(r.aborted) / static_cast<double>(attempts);
}

class Ablation {
 public:
  Ablation(const AblationOptions& options, std::ostream& out, Progress& progress)
      : options_(options), out_(out), progress_(progress) {}

  Result<std::string> workload(const std::string& name) {
    if (auto opened = open(name); !opened) return opened.error();
    InterleavedRuns turns(bench_.get(), &progress_, options_.bench.seed);
    auto reports = turns.measure(setups(), options_.seconds);
    if (!reports) return reports.error();
    const Report& best = reports->front();
    protocols(options_.protocols, *reports);
    rungs(*reports);
    if (auto done = alone(turns); !done) return done.error();
    limit(best);
    return check(name);
  }

  // Only what each protocol does.
  Result<std::string> workload_by_protocol(const std::string& name) {
    if (auto opened = open(name); !opened) return opened.error();
    InterleavedRuns turns(bench_.get(), &progress_, options_.bench.seed);
    auto reports = turns.measure(setups_of(options_.more_protocols), options_.seconds);
    if (!reports) return reports.error();
    protocols(options_.more_protocols, *reports);
    return check(name);
  }

 private:
  Result<void> open(const std::string& name) {
    BenchOptions bench_options = options_.bench;
    bench_options.workload = name;
    bench_options.keys_per_node = keys_per_node(name);
    bench_options.seconds = static_cast<double>(options_.more_protocols.size()) *
                            (options_.seconds + InterleavedRuns::kRounds * DriveOptions().warmup_seconds);
    progress_.say("loading " + name);
    auto opened = Bench::open(bench_options, nullptr);
    if (!opened) return opened.error();
    bench_ = std::move(*opened);
    fmt::print(out_, "## {}\n\n", name);
    fmt::print(out_, "{} in the cluster, {:.2f} GiB of tables over all nodes.\n\n", population(name),
               static_cast<double>(bench_->table_bytes()) / static_cast<double>(uint64_t{1} << 30));
    return {};
  }

  std::string check(const std::string& name) {
    progress_.say("checking " + name);
    std::string wrong = bench_->check();
    progress_.clear();
    if (!wrong.empty()) return wrong;
    fmt::print(out_, "After these runs the workload's check and the audit of all replicas held.\n\n");
    out_.flush();
    bench_.reset();
    return {};
  }

  uint64_t keys_per_node(const std::string& name) const {
    if (options_.bench.keys_per_node == 0 || name == "tpcc") return default_keys(name);
    return options_.bench.keys_per_node;
  }

  std::string population(const std::string& name) const {
    const uint64_t all = keys_per_node(name) * static_cast<uint64_t>(options_.bench.cluster.nodes);
    const char* const what = name == "tatp"        ? " subscribers"
                             : name == "smallbank" ? " accounts"
                             : name == "tpce-cp"   ? " customers"
                             : name == "tpcc"      ? " warehouses"
                                                   : " records";
    return with_commas(all) + what;
  }

  std::vector<Setup> setups_of(const std::vector<std::string>& names) const {
    std::vector<Setup> all;
    for (const std::string& name : names) {
      all.push_back({name, options_.bench.cluster});
      all.back().cluster.protocol = name;
    }
    return all;
  }

  // Every protocol with everything on, then the first protocol with fewer and fewer switches on.
  std::vector<Setup> setups() const {
    std::vector<Setup> all = setups_of(options_.protocols);
    for (const Rung& rung : kRungs) {
      if (rung.local_reads) continue;
      all.push_back({rung.name, all.front().cluster});
      all.back().cluster.network_batching = rung.network_batching;
      all.back().cluster.table_batching = rung.table_batching;
      all.back().cluster.local_reads = rung.local_reads;
    }
    return all;
  }

  void protocols(const std::vector<std::string>& names, const std::vector<Report>& reports) {
    fmt::print(
        out_,
        "### Protocols\n\n"
        "| protocol | txn/s | a thread | spread | p50 µs | p90 µs | p99 µs | p99.9 µs | aborts % | round trips | "
        "packets | messages | bytes |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < names.size(); ++i) {
      const Report& r = reports[i];
      fmt::print(out_, "| {} | {} | {} | {} | {} | {} | {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.0f} |\n",
                 names[i], millions(r.tps_median), millions(r.tps_median / r.threads), spread(r), micros(r.p50_us),
                 micros(r.p90_us), micros(r.p99_us), micros(r.p999_us), abort_percent(r), r.commit_round_trips,
                 r.packets_per_txn, r.messages_per_txn, r.bytes_per_txn);
    }
    fmt::print(out_, "\nRound trips are of commits, the last three columns of a committed transaction.\n\n");
  }

  void rungs(const std::vector<Report>& reports) {
    fmt::print(out_,
               "### What each step is worth ({})\n\n"
               "| switched on | txn/s | spread | × none | p50 µs | p99 µs | messages a packet | keys a table batch | "
               "reads on own node % |\n|---|---|---|---|---|---|---|---|---|\n",
               options_.protocols.front());
    const double none_tps = reports[options_.protocols.size()].tps_median;
    for (size_t i = 0; i < std::size(kRungs); ++i) {
      const Report& r = kRungs[i].local_reads ? reports.front() : reports[options_.protocols.size() + i];
      fmt::print(out_, "| {} | {} | {} | {:.2f} | {} | {} | {:.1f} | {:.1f} | {:.0f} |\n", kRungs[i].name,
                 millions(r.tps_median), spread(r), none_tps > 0 ? r.tps_median / none_tps : 0, micros(r.p50_us),
                 micros(r.p99_us), r.nw_batch, r.ht_batch, 100 * r.local_share);
    }
    fmt::print(out_, "\n");
    out_.flush();
  }

  Result<void> alone(InterleavedRuns& turns) {
    fmt::print(out_,
               "### One transaction in flight\n\n"
               "| protocol | p50 µs | p90 µs | p99 µs | p99.9 µs | txn/s |\n|---|---|---|---|---|---|\n");
    for (const std::string& name : options_.protocols) {
      Setup setup{name, options_.bench.cluster};
      setup.cluster.protocol = name;
      auto report = turns.run(setup, options_.seconds / 2, true);
      if (!report) return report.error();
      fmt::print(out_, "| {} | {} | {} | {} | {} | {} |\n", name, micros(report->p50_us), micros(report->p90_us),
                 micros(report->p99_us), micros(report->p999_us), millions(report->tps_median));
      out_.flush();
    }
    fmt::print(out_, "\nOne client in the whole cluster; its transactions meet no other.\n\n");
    return {};
  }

  void limit(const Report& best) {
    progress_.say("measuring the machine's limits");
    const MachineLimits limits = measure_limits(bench_->workload(), bench_->table_bytes(), best.threads, clock_);
    progress_.clear();
    const Attainable p = attainable(limits, best);
    fmt::print(out_,
               "### The machine's limit ({})\n\n"
               "| | a thread can | ns each | a transaction needs | ns |\n|---|---|---|---|---|\n",
               best.protocol);
    const auto row = [&](const char* what, double ns, double needs) {
      fmt::print(out_, "| {} | {}/s | {:.1f} | {:.2f} | {:.0f} |\n", what, millions(ns > 0 ? 1e9 / ns : 0), ns, needs,
                 ns * needs);
    };
    row("ring messages", limits.message_ns, p.needs.messages);
    row("record touches", limits.touch_ns, p.needs.touches);
    row("bare client", limits.client_ns, 1);
    fmt::print(out_,
               "\nMessages and touches {}. Touches over {:.2f} GiB, all {} threads at once. Together {:.0f} ns: {} "
               "transactions a second and core "
               "would be possible; {} is reached, {:.0f} % of it.\n\n",
               p.needs.fixed ? "as the protocol needs them, whatever the engine saves" : "as counted",
               static_cast<double>(limits.memory_bytes) / static_cast<double>(uint64_t{1} << 30), limits.threads, p.ns,
               millions(p.tps_per_core), millions(best.tps_median / best.threads), 100 * p.reached);
    out_.flush();
  }

  const AblationOptions& options_;
  std::ostream& out_;
  Progress& progress_;
  RealClock clock_;
  std::unique_ptr<Bench> bench_;
};

}  // namespace

Result<std::string> run_ablation(const AblationOptions& options, std::ostream& out, Progress& progress) {
  heading(out, options);
  Ablation ablation(options, out, progress);
  for (const std::string& name : options.workloads) {
    auto wrong = ablation.workload(name);
    if (!wrong || !wrong->empty()) return wrong;
  }
  for (const std::string& name : options.more_workloads) {
    auto wrong = ablation.workload_by_protocol(name);
    if (!wrong || !wrong->empty()) return wrong;
  }
  return std::string();
}

}  // namespace weft::bench
