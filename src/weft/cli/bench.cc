// `weft bench`: a workload on an embedded cluster, measured and checked; `weft bench all` makes the performance page.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/bench/ablation.h"
#include "weft/bench/bench.h"
#include "weft/bench/crash.h"
#include "weft/bench/phases.h"
#include "weft/bench/progress.h"
#include "weft/bench/queue_pairs.h"
#include "weft/cli/bench_verbs.h"
#include "weft/cli/cluster_flags.h"
#include "weft/cli/commands.h"
#include "weft/cli/interrupt.h"

namespace weft::cli {
namespace {

constexpr int kAllNodes = 5;
constexpr double kAllSeconds = 8;

struct BenchFlags {
  std::string workload;
  ClusterFlags cluster;
  VerbFlags verbs;
  std::string fabric = "local", protocol = "dnl4", skew = "hot", remote = "always", verb_credit, off, label;
  Tls tls;
  double seconds = 5, warmup = 0.5, rate = 0;
  uint32_t transactions_in_flight = 64;
  double zipf = 0;
  bool conflict_avoidance = false;
  uint64_t backoff_unit_ns = 0;
  int64_t keys = 0, value_bytes = 0;
  uint64_t transactions = 0;
  uint64_t clock_step_ns = 0;
  uint64_t seed = 1;
  bool json = false, markdown = false;
};

// Options of some workloads only.
struct OwnFlag {
  const char* flag;
  std::vector<std::string_view> workloads;
};
const std::vector<OwnFlag>& own_flags() {
  // All and phases run smallbank.
  static const std::vector<OwnFlag> kFlags = {{"--value-bytes", {"smallbank"}},
                                              {"--remote", {"tpcc-no"}},
                                              {"--zipf", {"micro-G-P"}},
                                              {"--skew", {"smallbank", "retwis", "all", "phases"}},
                                              {"--kind", {"verbs"}},
                                              {"--bytes", {"verbs"}},
                                              {"--depth", {"verbs"}}};
  return kFlags;
}

Result<bench::BenchOptions> options_of(const BenchFlags& flags, const CLI::App& command) {
  const auto bad = [](std::string detail) { return Error{Code::kBadOption, std::move(detail)}; };
  bench::BenchOptions out;
  out.workload = flags.workload;
  out.seed = flags.seed;
  auto cluster = flags.cluster.options(command);
  if (!cluster) return cluster.error();
  out.cluster = *cluster;
  out.cluster.fabric = flags.fabric;
  out.cluster.tls = flags.tls;
  out.cluster.protocol = flags.protocol;
  out.cluster.verb_credit = flags.verb_credit;
  out.cluster.clock_step_ns = flags.clock_step_ns;
  out.cluster.limits.transactions_in_flight_max = flags.transactions_in_flight;
  out.cluster.conflict_avoidance = flags.conflict_avoidance;
  out.cluster.backoff_unit_ns = flags.backoff_unit_ns;
  if (command.count("--backoff-unit-ns") > 0 && !flags.conflict_avoidance) {
    return bad("--backoff-unit-ns goes with --conflict-avoidance");
  }
  if (auto off = bench::switch_off(flags.off, &out.cluster); !off) return off.error();
  if (command.count("--keys") > 0 && flags.keys < 1)
    return bad("--keys " + std::to_string(flags.keys) + ": at least 1 a node");
  out.keys_per_node = static_cast<uint64_t>(flags.keys);
  for (const OwnFlag& own : own_flags()) {
    const auto end = own.workloads.end();
    const bool micro = flags.workload.starts_with("micro-");
    const std::string_view workload = micro ? std::string_view("micro-G-P") : std::string_view(flags.workload);
    if (command.count(own.flag) == 0 || std::find(own.workloads.begin(), end, workload) != end) continue;
    std::string with;
    for (const std::string_view name : own.workloads) {
      with.append(with.empty() ? "" : name == own.workloads.back() ? " and " : ", ").append(name);
    }
    return bad(std::string(own.flag) + " goes with " + with + ", not with " + flags.workload);
  }
  if (command.count("--value-bytes") > 0 && flags.value_bytes < 1) {
    return bad("--value-bytes " + std::to_string(flags.value_bytes) + ": smallbank has balances of 8 or 4 bytes");
  }
  out.value_bytes = static_cast<uint64_t>(flags.value_bytes);
  if (flags.fabric != "tcp" && flags.fabric != "verbs" &&
      !(flags.tls.ca.empty() && flags.tls.certificate.empty() && flags.tls.key.empty())) {
    return bad("--tls-ca, --tls-certificate and --tls-key go with --fabric tcp or verbs, not " + flags.fabric);
  }
  if (flags.skew != "hot" && flags.skew != "none") return bad("--skew " + flags.skew + ": there are hot and none");
  out.zipf = flags.zipf;
  out.skew = flags.skew == "hot" ? bench::Skew::kHot : bench::Skew::kNone;
  if (flags.remote != "always" && flags.remote != "uniform") {
    return bad("--remote " + flags.remote + ": there are always and uniform");
  }
  out.suppliers = flags.remote == "always" ? bench::Suppliers::kOthers : bench::Suppliers::kAll;
  if (!(flags.seconds > 0)) return bad("--seconds must be more than 0");
  if (!(flags.warmup >= 0)) return bad("--warmup must not be negative");
  if (!(flags.rate >= 0) || !std::isfinite(flags.rate)) return bad("--rate must be a number of at least 0");
  return out;
}

int fail(const Error& error) {
  std::cerr << "weft: " << error.text() << "\n";
  return bench::exit_status(error);
}

int wrong_result(const std::string& wrong) {
  std::cerr << "weft: CHECK FAILED: " << wrong << "\n";
  return bench::kExitFailed;
}

// What was checked meanwhile, and the end of the line.
std::string audited(const bench::Bench& bench) {
  if (!bench.workload().audits()) return "\n";
  return "; so did " + std::to_string(bench.tally().audits) + " checks while it ran\n";
}

int run_one(const BenchFlags& flags, bench::BenchOptions options) {
  options.seconds = flags.warmup + flags.seconds;
  options.transactions = flags.transactions;
  bench::Progress progress(stderr);
  progress.say("loading");
  auto opened = bench::Bench::open(options, nullptr);
  progress.clear();
  if (!opened) return fail(opened.error());
  bench::DriveOptions drive;
  drive.seconds = flags.seconds;
  drive.transactions = flags.transactions;
  drive.warmup_seconds = flags.warmup;
  drive.rate = flags.rate;
  drive.seed = flags.seed;
  drive.interrupted = &watch_interrupts();
  if (progress.shown()) drive.on_progress = [&](const bench::LiveStats& live) { progress.show(flags.workload, live); };
  auto report = (*opened)->run(drive);
  if (!report) return fail(report.error());
  progress.say("checking");
  const std::string wrong = (*opened)->check();
  progress.clear();
  if (flags.json) {
    std::cout << to_json(*report) << "\n";
  } else {
    print_text(std::cout, *report);
    if (wrong.empty())
      std::cout << "  check        the workload's check and the audit of all replicas hold" << audited(**opened);
  }
  if (!wrong.empty()) return wrong_result(wrong);
  if (!report->ended.empty()) std::cerr << "weft: " << report->ended << "\n";
  return bench::exit_status(*report);
}

int run_all(const BenchFlags& flags, const bench::BenchOptions& options, bool seconds_given) {
  bench::AblationOptions ablation;
  ablation.bench = options;
  ablation.seconds = seconds_given ? flags.seconds : kAllSeconds;
  ablation.label = flags.label;
  bench::Progress progress(stderr);
  auto wrong = run_ablation(ablation, std::cout, progress);
  progress.clear();
  if (!wrong) return fail(wrong.error());
  return wrong->empty() ? bench::kExitDone : wrong_result(*wrong);
}

int run_phases(const BenchFlags& flags, const bench::BenchOptions& options, bool seconds_given) {
  bench::PhasesOptions phases;
  phases.bench = options;
  if (seconds_given) phases.seconds = flags.seconds;
  phases.label = flags.label;
  bench::Progress progress(stderr);
  auto wrong = bench::run_phases(phases, std::cout, progress);
  progress.clear();
  if (!wrong) return fail(wrong.error());
  return wrong->empty() ? bench::kExitDone : wrong_result(*wrong);
}

// The most that the limits allow in 5 nodes of 10 workers: 10,000.
constexpr int kCrashWorkers = 10;
constexpr uint32_t kCrashInFlight = 200;
constexpr uint32_t kReadsMax = 64;  // of 128 threads, fewer than a shared queue pair can hold on most devices

int run_crash(const BenchFlags& flags, const bench::BenchOptions& options, const CLI::App& command) {
  bench::CrashOptions crash;
  crash.cluster = options.cluster;
  crash.cluster.threads = 0;
  if (command.count("--threads") == 0) crash.cluster.workers = kCrashWorkers;
  if (command.count("--transactions-in-flight") == 0) {
    crash.cluster.limits.transactions_in_flight_max = kCrashInFlight;
  }
  if (command.count("--protocol") > 0) crash.protocols = {flags.protocol};
  if (options.keys_per_node != 0) {
    crash.accounts = options.keys_per_node * static_cast<uint64_t>(crash.cluster.nodes);
  }
  crash.seed = flags.seed;
  crash.label = flags.label;
  bench::Progress progress(stderr);
  auto wrong = bench::run_crashes(crash, std::cout, progress);
  progress.clear();
  if (!wrong) return fail(wrong.error());
  return wrong->empty() ? bench::kExitDone : wrong_result(*wrong);
}

int run_queue_pairs(const BenchFlags& flags, const bench::BenchOptions& options, const CLI::App& command) {
  bench::QueuePairOptions queue_pairs;
  queue_pairs.threads = static_cast<uint32_t>(options.cluster.workers);
  if (command.count("--transactions-in-flight") > 0) queue_pairs.depth = flags.transactions_in_flight;
  if (command.count("--seconds") > 0) queue_pairs.seconds = flags.seconds;
  queue_pairs.label = flags.label;
  bench::Progress progress(stderr);
  const auto done = bench::run_queue_pairs(queue_pairs, std::cout, progress);
  progress.clear();
  return done ? bench::kExitDone : fail(done.error());
}

// Empty if the workload goes with what was given.
std::string wrong_for_queue_pairs(const BenchFlags& flags, const CLI::App& command) {
  for (const char* flag : {"--json", "--rate", "--off", "--warmup", "--transactions", "--clock-step-ns", "--fabric",
                           "--protocol", "--keys", "--nodes", "--replicas"}) {
    if (command.count(flag) > 0)
      return std::string(flag) + " does not go with `bench queue-pairs`, which has no cluster";
  }
  if (flags.transactions_in_flight < 1 || flags.transactions_in_flight > kReadsMax) {
    return "--transactions-in-flight " + std::to_string(flags.transactions_in_flight) + ": a thread has 1 to " +
           std::to_string(kReadsMax) + " READs in flight";
  }
  return {};
}

int run_verbs(const BenchFlags& flags, const bench::BenchOptions& options, const CLI::App& command) {
  bench::VerbRatesOptions others;
  others.cluster = options.cluster;
  others.warmup_seconds = flags.warmup;
  others.seconds = flags.seconds;
  const auto verbs = verb_options_of(flags.verbs, others, command);
  return verbs ? run_bench_verbs(*verbs, flags.json) : refuse(verbs.error().text());
}

int run_bench(BenchFlags flags, const CLI::App& command) {
  const bool all = flags.workload == "all", phases = flags.workload == "phases", crash = flags.workload == "crash";
  const bool queue_pairs = flags.workload == "queue-pairs";
  if (queue_pairs) {
    if (const std::string wrong = wrong_for_queue_pairs(flags, command); !wrong.empty()) return refuse(wrong);
  } else if (crash) {
    for (const char* flag : {"--json", "--rate", "--off", "--warmup", "--seconds", "--transactions", "--clock-step-ns",
                             "--fabric", "--skew"}) {
      if (command.count(flag) > 0) return refuse(std::string(flag) + " does not go with `bench crash`");
    }
    if (command.count("--nodes") == 0) flags.cluster.nodes = kAllNodes;
  } else if (all || phases) {
    for (const char* flag :
         {"--json", "--rate", "--off", "--protocol", "--warmup", "--transactions-in-flight", "--transactions"}) {
      if (command.count(flag) == 0 || (all && std::string_view(flag) == "--transactions-in-flight")) continue;
      return refuse(std::string(flag) + " does not go with `bench " + flags.workload + "`, which sets it");
    }
    if (phases && command.count("--keys") > 0) {
      return refuse("--keys does not go with `bench phases`, whose workloads count different things");
    }
    if (command.count("--nodes") == 0) flags.cluster.nodes = kAllNodes;
    if (phases && command.count("--fabric") == 0) flags.fabric = "shm";
  } else if (command.count("--transactions") > 0 && command.count("--warmup") + command.count("--seconds") > 0) {
    return refuse("--transactions runs for as long as they take, without --warmup and --seconds");
  } else if (flags.clock_step_ns != 0 && command.count("--transactions") == 0) {
    return refuse("--clock-step-ns counts, and does not measure: it goes with --transactions");
  } else if (flags.markdown || !flags.label.empty()) {
    return refuse("--markdown and --label go with `bench all`, `phases`, `crash` and `queue-pairs` only");
  }
  const auto options = options_of(flags, command);
  if (!options) return refuse(options.error().text());
  const bool seconds_given = command.count("--seconds") > 0;
  if (flags.workload == "verbs") return run_verbs(flags, *options, command);
  if (crash) return run_crash(flags, *options, command);
  if (queue_pairs) return run_queue_pairs(flags, *options, command);
  if (phases) return run_phases(flags, *options, seconds_given);
  return all ? run_all(flags, *options, seconds_given) : run_one(flags, *options);
}

void add_flags(CLI::App& command, BenchFlags& flags) {
  command
      .add_option(
          "workload", flags.workload,
          "smallbank, tatp, tpcc, tpcc-no, tpce-cp, retwis, micro-G-P (G gets and P puts, for example micro-4-2), or "
          "all: "
          "every "
          "figure of "
          "the performance page; or phases: each phase by verbs and by messages; or crash: how long the loss of a node "
          "stops the others when 10,000 transactions are open; all three as Markdown, on 5 nodes unless --nodes is "
          "given; or queue-pairs: what READs cost on an RDMA device when --threads share queue pairs or doorbell "
          "registers, with --transactions-in-flight (default there: 8) READs each; or verbs: the rate and latency of "
          "one-sided verbs alone, between two nodes, without "
          "transactions")
      ->required();
  flags.cluster.add_to(command);
  flags.verbs.add_to(command);
  command.add_option("--fabric", flags.fabric, "What joins the nodes: local, shm, tcp or verbs")->capture_default_str();
  command.add_option("--tls-ca", flags.tls.ca, "With --fabric tcp: encrypted, the authority's certificate");
  command.add_option("--tls-certificate", flags.tls.certificate, "and the nodes' certificate");
  command.add_option("--tls-key", flags.tls.key, "and their key");
  command.add_option("--protocol", flags.protocol, "A row of `weft protocols` that writes")->capture_default_str();
  command
      .add_option("--seconds", flags.seconds,
                  "How long to measure; of each run with all (default there: 8), phases (3) and queue-pairs (1)")
      ->capture_default_str();
  command.add_option(
      "--transactions", flags.transactions,
      "Of one workload: run so many, in place of --warmup and --seconds; the same number by each client");
  command.add_option(
      "--clock-step-ns", flags.clock_step_ns,
      "With --transactions: the nodes' clock advances by this when it is read, so that what they do does "
      "not depend on the machine's speed (make profile); rates and latencies then mean nothing");
  command.add_option("--warmup", flags.warmup, "Seconds before that")->capture_default_str();
  command
      .add_option("--transactions-in-flight", flags.transactions_in_flight,
                  "Transactions a worker runs at a time, 1 to 200")
      ->capture_default_str();
  command.add_option("--rate", flags.rate,
                     "Open loop: this many transactions a second arrive in the cluster, whatever it does; latency "
                     "counts from the arrival (default: closed loop)");
  command.add_option("--keys", flags.keys,
                     "Accounts, subscribers, warehouses, customers or records a node (default: 1000000 accounts or "
                     "records, 200000 subscribers, 2 warehouses, 5000 customers)");
  command
      .add_option("--skew", flags.skew,
                  "hot (smallbank: 90 % of transactions on 4 % of the accounts; retwis: Zipf, exponent 0.5) or none")
      ->capture_default_str();
  command.add_option("--zipf", flags.zipf,
                     "micro-G-P: keys by Zipf's distribution with this exponent, 0 (default: uniform) to 2");
  command
      .add_option("--remote", flags.remote,
                  "tpcc-no: always (an item comes from another warehouse than the customer's, as in DrTM+H) or uniform "
                  "(from any of all warehouses, as in Xenic)")
      ->capture_default_str();
  command.add_option("--value-bytes", flags.value_bytes,
                     "smallbank: of a balance, 8 (default) or 4; --keys 2400000 --value-bytes 4 are Xenic's sizes");
  command.add_flag("--conflict-avoidance", flags.conflict_avoidance,
                   "Each worker learns from its retry rate how long transactions back off after a conflict, and how "
                   "many run at a time; else each retries after 1 to 256 us by itself");
  command.add_option("--backoff-unit-ns", flags.backoff_unit_ns,
                     "With --conflict-avoidance: the unit of the backoff (default: the fabric's round trip, measured)");
  command.add_option(
      "--off", flags.off,
      "Switch off, comma-separated: network-batching, table-batching, local-reads, coroutines (one transaction at a "
      "time); in rows with verbs pipelined-verbs (several of one transaction), doorbell-batching, piggyback-acks, "
      "verb-credit; over verbs worker-doorbells (workers then share the driver's doorbell registers); of "
      "--conflict-avoidance backoff, backoff-limit (it stays at 32 units), coro-credit (how many run at a time)");
  command.add_option("--verb-credit", flags.verb_credit,
                     "In rows with verbs, how many a worker may have in flight: auto (what it measures to be best; the "
                     "default with --fabric verbs), a number, or off (any; the default elsewhere)");
  command.add_option("--seed", flags.seed, "Of the contents and of what the clients draw")->capture_default_str();
  command.add_flag("--json", flags.json, "Print one JSON object");
  command.add_flag("--markdown", flags.markdown, "With all, phases and crash: print Markdown, which they do anyway");
  command.add_option("--label", flags.label, "With all, phases and crash: the commit, for the heading");
  add_renamed_option(command, "--inflight", "--transactions-in-flight");
}

}  // namespace

void add_bench(CLI::App& app, int* status) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command = app.add_subcommand("bench", "Measure a workload on a cluster in this process, and check it");
  add_flags(*command, *flags);
  command->footer(
      "Every run ends with the workload's own consistency check and an audit of all replicas; if one does not hold, "
      "the exit status is 1. A run that fills a table ends there with a message and status 1, too; its figures until "
      "then are valid. A wrong request is 2.");
  command->callback([flags, status, command] { *status = run_bench(*flags, *command); });
}

}  // namespace weft::cli
