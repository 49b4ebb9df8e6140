#include "weft/bench/campaign.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <map>
#include <mutex>
#include <ostream>
#include <thread>
#include <tuple>

#include "weft/base/clock.h"
#include "weft/base/marks.h"
#include "weft/bench/simulated.h"
#include "weft/bench/small_pages.h"
#include "weft/check/checker.h"
#include "weft/txn/protocol.h"
#include "weft/txn/row_set.h"

namespace weft::bench {

namespace {

constexpr uint64_t kTwiceEvery = 16;  // one of this many seeds is run twice
constexpr size_t kFailuresShown = 5;
constexpr uint64_t kSeedsDefault = 100;

TxnRecord::Type type_of(SimOutcome outcome) {
  switch (outcome) {
    case SimOutcome::kOk:
      return TxnRecord::Type::kOk;
    case SimOutcome::kFail:
      return TxnRecord::Type::kFail;
    case SimOutcome::kInfo:
      break;
  }
  return TxnRecord::Type::kInfo;
}

std::vector<TokenAt> tokens_of(const std::vector<SimTokenAt>& tokens) {
  std::vector<TokenAt> out;
  for (const SimTokenAt& at : tokens) out.push_back({at.token, at.key});
  return out;
}

class Recorder final : public HistorySink {
 public:
  explicit Recorder(CheckedRun* run) : run_(run) {}

  void txn(const SimTxn& txn) override {
    TxnRecord record;
    record.process = txn.process;
    record.invoke = txn.invoke;
    record.complete = txn.complete;
    record.type = type_of(txn.outcome);
    for (const SimTxn::Op& op : txn.ops) {
      if (op.append) {
        record.ops.push_back(TxnRecord::Op::append(op.key, static_cast<int64_t>(op.element)));
      } else {
        record.ops.push_back(TxnRecord::Op::read(op.key, std::vector<int64_t>(op.list.begin(), op.list.end())));
      }
    }
    run_->history.txns.push_back(std::move(record));
  }
  void token_start(const std::vector<SimTokenAt>& tokens) override { run_->tokens.start = tokens_of(tokens); }
  void token_move(const SimTokenMove& move) override {
    run_->tokens.moves.push_back({move.token, move.from, move.to, move.invoke, move.complete, type_of(move.outcome)});
  }
  void token_read(const SimTokenRead& read) override {
    run_->tokens.reads.push_back({read.invoke, read.complete, tokens_of(read.found)});
  }
  void token_end(const std::vector<SimTokenAt>& tokens) override { run_->tokens.end = tokens_of(tokens); }

 private:
  CheckedRun* const run_;
};

// A failed check ends the process. To debug it one needs the seeds that were running.
constexpr int kThreadsMax = 64;
std::atomic<uint64_t> running_seeds[kThreadsMax];

void on_abort(int) {
  constexpr std::string_view kText = "weft sim: aborted while running seed ";
  for (const std::atomic<uint64_t>& running : running_seeds) {
    uint64_t seed = running.load(std::memory_order_relaxed);
    if (seed == 0) continue;
    char line[64];
    size_t at = sizeof line;
    for (line[--at] = '\n'; seed != 0; seed /= 10) line[--at] = static_cast<char>('0' + seed % 10);
    at -= kText.size();
    std::memcpy(line + at, kText.data(), kText.size());
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line + at, sizeof line - at);
  }
}

// While such an object exists, an abort prints the seeds that were running.
class NameSeedsOnAbort {
 public:
  NameSeedsOnAbort() : before_(std::signal(SIGABRT, on_abort)) {}
  ~NameSeedsOnAbort() { std::signal(SIGABRT, before_); }
  NameSeedsOnAbort(const NameSeedsOnAbort&) = delete;
  NameSeedsOnAbort& operator=(const NameSeedsOnAbort&) = delete;

 private:
  void (*const before_)(int);
};

struct Failure {
  SimOptions options;
  std::string violation;
  std::string config;
};

// Sums over the threads of a campaign, under one lock.
struct Sums {
  std::mutex mutex;
  uint64_t runs = 0, twice = 0, transactions = 0, committed = 0, events = 0, faults = 0, refused_sends = 0;
  uint64_t crashes = 0, views = 0, lost = 0;
  uint64_t fewest = UINT64_MAX,
           without_fault = 0;  // fewest transactions in a run that was not cut short; runs without a fault
  std::map<std::string, uint64_t> by_protocol, by_workload;
  std::map<std::string, CrashCoverage> coverage;  // by protocol
  std::vector<Failure> failures;

  void add(const SimOptions& options, const SimResult& result) {
    const std::scoped_lock lock(mutex);
    ++runs;
    transactions += result.transactions();
    committed += result.committed;
    events += result.events;
    faults += result.faults;
    crashes += result.crashes;
    views += result.views;
    lost += result.lost;
    refused_sends += result.refused_sends;
    if (result.lost == 0) fewest = std::min(fewest, result.transactions());
    if (result.faults == 0) ++without_fault;
    coverage[result.config.options.protocol].add(result.coverage);
    ++by_protocol[result.config.options.protocol];
    ++by_workload[std::string(workload_name(result.config.workload.kind))];
    if (!result.violations.empty()) failures.push_back({options, result.violations.front(), result.config.text()});
  }
};

std::vector<SimOptions> runs_of(uint64_t seed, const CampaignOptions& options, const std::optional<FaultMask>& faults) {
  SimOptions run;
  run.seed = seed;
  run.faults = faults;
  run.transactions = options.transactions;
  run.roles = options.roles;
  run.workload = workload_named(options.workload);
  if (run.workload == SimWorkload::kTpcc) run.workload_of = simulated_tpcc;
  if (options.protocol.empty()) return {run};
  std::vector<SimOptions> runs;
  run.protocol = options.protocol;
  if (options.protocol != "all") return {run};
  for (const Protocol& row : kProtocols) {
    run.protocol = std::string(row.name);
    runs.push_back(run);
  }
  for (const std::string& rows : RowSet::mixes()) {
    run.protocol = rows;
    runs.push_back(run);
  }
  return runs;
}

void run_seed(const SimOptions& run, bool twice, Sums& tally) {
  CheckedRun checked = run_checked(run);
  if (twice) {
    const SimResult again = run_simulation(run);
    if (again.trace_hash != checked.result.trace_hash) {
      checked.result.violations.insert(checked.result.violations.begin(), "two runs of the seed have different traces");
    }
    const std::scoped_lock lock(tally.mutex);
    ++tally.twice;
  }
  tally.add(run, checked.result);
}

void print_marks(std::ostream& out) {
  std::map<std::string, uint64_t> hits;  // several places may have the same name
  for (const Mark& mark : all_marks()) {
    if (mark.in_campaign) hits[mark.name] += mark.hits.load(std::memory_order_relaxed);
  }
  std::string missed;
  size_t hit = 0;
  for (const auto& [name, count] : hits) {
    if (count > 0) {
      ++hit;
    } else {
      missed += " " + name;
    }
  }
  out << "marks hit: " << hit << " of " << hits.size() << '\n';
  if (!missed.empty()) out << "marks not hit:" << missed << '\n';
}

// Prints what the crashes hit, and marks cells that a campaign should have covered better.
void print_coverage(const std::map<std::string, CrashCoverage>& coverage, std::ostream& out) {
  constexpr uint64_t kEnough = 100;
  out << "crashes, by what they hit: a commit in this phase, and of its nodes\n" << std::left << std::setw(20) << "";
  for (int s = 0; s < kVictimRoles; ++s) out << std::setw(13) << victim_role_name(static_cast<VictimRole>(s));
  out << '\n';
  size_t few = 0;
  for (const auto& [name, of_row] : coverage) {
    for (int p = static_cast<int>(Phase::kLock); p < kPhases; ++p) {
      const auto phase = static_cast<Phase>(p);
      const RowSet rows = *RowSet::parse(name, true);
      out << std::setw(9) << name << std::setw(11) << phase_name(phase);
      for (int s = 0; s < kVictimRoles; ++s) {
        const uint64_t hits = of_row.at(phase, static_cast<VictimRole>(s));
        const bool expected = has_cell(rows, phase, static_cast<VictimRole>(s));
        const bool is_few = expected && hits < kEnough;
        few += is_few ? 1 : 0;
        out << std::setw(13) << (hits == 0 && !expected ? "-" : std::to_string(hits) + (is_few ? " <" : ""));
      }
      out << '\n';
    }
  }
  out << "cells below " << kEnough << ": " << few << '\n';
}

void print_failures(std::vector<Failure>& failures, std::ostream& out) {
  std::sort(failures.begin(), failures.end(), [](const Failure& a, const Failure& b) {
    return std::tie(a.options.seed, a.options.protocol) < std::tie(b.options.seed, b.options.protocol);
  });
  for (size_t i = 0; i < std::min(failures.size(), kFailuresShown); ++i) {
    const Failure& failure = failures[i];
    out << "\nFAILED seed " << failure.options.seed << ": " << failure.violation << "\n  " << failure.config
        << "\n  again: " << command_for(with_fewest_faults(failure.options)) << '\n';
  }
  if (failures.size() > kFailuresShown) {
    out << "\nand " << failures.size() - kFailuresShown << " more, with seeds";
    for (size_t i = kFailuresShown; i < failures.size() && i < 50; ++i) out << ' ' << failures[i].options.seed;
    out << '\n';
  }
}

int run_one_seed(const CampaignOptions& options, const std::optional<FaultMask>& faults, std::ostream& out) {
  bool clean = true;
  for (const SimOptions& run : runs_of(*options.seed, options, faults)) {
    const CheckedRun checked = run_checked(run);
    const SimResult& result = checked.result;
    out << "seed " << run.seed << ": " << result.config.text() << "\n  " << result.committed << " committed, "
        << result.aborted << " aborted, " << result.rejected << " rejected, " << result.dropped << " dropped; "
        << result.steps << " steps, " << result.packets << " packets, " << result.refused_sends
        << " refused by a full channel, " << result.faults << " faults, " << result.events << " events in "
        << result.virtual_ns / 1000 << " us\n  trace " << std::hex << result.trace_hash << std::dec << '\n';
    for (const std::string& violation : result.violations) out << "  VIOLATION " << violation << '\n';
    if (!result.violations.empty()) out << "  again: " << command_for(with_fewest_faults(run)) << '\n';
    clean &= result.violations.empty();
    if (options.history.empty()) continue;
    std::string text;
    for (const TxnRecord& record : checked.history.txns) append_json(record, text);
    std::ofstream file(options.history, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (!file) {
      out << "cannot write " << options.history << '\n';
      return 2;
    }
    out << "  " << checked.history.txns.size() << " transactions in " << options.history << '\n';
  }
  return clean ? 0 : 1;
}

void run_seeds(const CampaignOptions& options, const std::optional<FaultMask>& faults, Sums& tally) {
  RealClock clock;
  const uint64_t end_ns =
      options.minutes > 0 ? clock.now_ns() + static_cast<uint64_t>(options.minutes * 60e9) : UINT64_MAX;
  const uint64_t seeds = options.seeds.value_or(options.minutes > 0 ? UINT64_MAX : kSeedsDefault);
  std::atomic<uint64_t> next{0};
  const auto work = [&](int thread) {
    RealClock mine;
    std::atomic<uint64_t>& running = running_seeds[thread];
    for (uint64_t i = next.fetch_add(1); i < seeds && mine.now_ns() < end_ns; i = next.fetch_add(1)) {
      running.store(options.from + i, std::memory_order_relaxed);
      for (const SimOptions& run : runs_of(options.from + i, options, faults)) {
        run_seed(run, run.seed % kTwiceEvery == 0, tally);
      }
    }
    running.store(0, std::memory_order_relaxed);
  };
  std::vector<std::thread> threads;
  for (int t = 1; t < std::min(options.threads, kThreadsMax); ++t) threads.emplace_back(work, t);
  work(0);
  for (std::thread& thread : threads) thread.join();
}

// Prints which seeds find the planted bugs: to choose a pin, and to see how well the campaign finds them.
int run_planted(const CampaignOptions& options, std::ostream& out) {
  bool all = true;
  for (const BugPin& bug : planted_bugs()) {
    const BugFound found = find_bug(bug, options.from, options.seeds.value_or(kSeedsDefault));
    all = all && found.seed && found.false_alarms.empty();
    out << bug.name << ": ";
    if (found.seed) {
      out << "seed " << *found.seed << ", " << found.violation.substr(0, found.violation.find('\n')) << std::endl;
    } else {
      out << "NOT FOUND" << std::endl;
    }
    for (const std::string& alarm : found.false_alarms) out << "  FALSE ALARM " << alarm << '\n';
  }
  return all ? 0 : 1;
}

}  // namespace

CheckedRun run_checked(const SimOptions& options) {
  CheckedRun run;
  Recorder recorder(&run);
  run.result = run_simulation(options, &recorder);
  std::vector<std::string>& violations = run.result.violations;
  // The history of a run that did not complete has no last read. The list-append checker allows that, the token checker
  // does not.
  if (run.result.config.workload.kind == SimWorkload::kAppend) {
    const Verdict verdict = check(run.history);
    if (!verdict.valid()) violations.push_back(describe(verdict, run.history));
  }
  if (run.result.config.workload.kind == SimWorkload::kToken && !run.tokens.end.empty()) {
    const TokenVerdict verdict = check_token(run.tokens);
    if (!verdict.valid()) violations.push_back("token: " + verdict.fault);
  }
  return run;
}

SimOptions with_fewest_faults(const SimOptions& failing) {
  SimOptions fewest = failing;
  fewest.faults = draw_config(failing).faults;
  for (int i = 0; i < kFaults; ++i) {
    const auto fault = static_cast<Fault>(i);
    if (!fewest.faults->has(fault)) continue;
    SimOptions fewer = fewest;
    fewer.faults->bits &= ~(1U << i);
    if (!run_checked(fewer).result.violations.empty()) fewest = fewer;
  }
  // If no fault could be removed, return the original, whose command line is shorter.
  return *fewest.faults == draw_config(failing).faults ? failing : fewest;
}

std::string command_for(const SimOptions& options) {
  std::string command = "weft sim --seed " + std::to_string(options.seed);
  if (options.protocol) command += " --protocol " + *options.protocol;
  if (options.workload) command += " --workload " + std::string(workload_name(*options.workload));
  if (options.faults) command += " --faults " + faults_text(*options.faults);
  if (!options.roles.empty()) {
    const auto of = [&](NodeRoles which) {
      return std::to_string(std::count(options.roles.begin(), options.roles.end(), which));
    };
    command += " --memory " + of(NodeRoles::kData) + " --compute " + of(NodeRoles::kTransactions);
  }
  if (options.transactions != kTransactionsDefault) {
    command += " --transactions " + std::to_string(options.transactions);
  }
  return command;
}

int run_campaign(const CampaignOptions& options, std::ostream& out) {
  if (!options.protocol.empty() && options.protocol != "all") {
    if (const auto rows = RowSet::parse(options.protocol); !rows) {
      out << "--protocol: " << rows.error().detail << '\n';
      return 2;
    }
  }
  if (!options.workload.empty() && !workload_named(options.workload)) {
    out << "--workload " << options.workload << ": there are append, token, smallbank, tatp and tpcc\n";
    return 2;
  }
  std::optional<FaultMask> faults;
  if (!options.faults.empty()) {
    const Result<FaultMask> parsed = parse_faults(options.faults);
    if (!parsed) {
      out << parsed.error().detail << '\n';
      return 2;
    }
    faults = *parsed;
  }
  const SmallPages small_pages;
  const NameSeedsOnAbort name_seeds;
  if (options.planted) return run_planted(options, out);
  if (options.seed) return run_one_seed(options, faults, out);

  Sums tally;
  RealClock clock;
  const uint64_t start_ns = clock.now_ns();
  run_seeds(options, faults, tally);
  const double minutes = std::max(static_cast<double>(clock.now_ns() - start_ns) / 60e9, 1e-9);

  out << tally.runs << " runs from seed " << options.from << ", "
      << static_cast<uint64_t>(static_cast<double>(tally.runs) / minutes) << " a minute; " << tally.twice
      << " of them twice\n"
      << tally.transactions << " transactions, " << tally.committed << " committed; " << tally.events << " events, "
      << tally.faults << " faults, " << tally.refused_sends << " sends refused by a full channel\n"
      << tally.crashes << " crashes, " << tally.views << " view changes, " << tally.lost
      << " runs that stopped because a partition had lost its last replica, or could not spare it\n";
  for (const auto* counts : {&tally.by_protocol, &tally.by_workload}) {
    for (const auto& [name, runs] : *counts) out << name << ' ' << runs << "  ";
    out << '\n';
  }
  if (tally.fewest != UINT64_MAX) {
    out << "fewest transactions in a run: " << tally.fewest << "; runs without a fault: " << tally.without_fault
        << '\n';
  }
  if (tally.crashes != 0) print_coverage(tally.coverage, out);
  print_marks(out);
  print_failures(tally.failures, out);
  out << (tally.failures.empty() ? "clean\n" : "VIOLATIONS in " + std::to_string(tally.failures.size()) + " runs\n");
  return tally.failures.empty() ? 0 : 1;
}

}  // namespace weft::bench
