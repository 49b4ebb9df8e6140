// `weft up`: a local cluster with a bank on it, live figures, and the bank's books at the end.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <memory>

#include "weft/bench/bench.h"
#include "weft/bench/progress.h"
#include "weft/cli/cluster_flags.h"
#include "weft/cli/commands.h"
#include "weft/cli/interrupt.h"

namespace weft::cli {
namespace {

constexpr uint64_t kAccountsPerNode = 100'000;

struct UpFlags {
  ClusterFlags cluster;
  double seconds = 5;
};

constexpr const char* kNext =
    "Try next:\n"
    "  weft bench smallbank --protocol dnl1     the same bank, one round trip to commit\n"
    "  weft bench tatp --off local-reads        another workload, with a switch off\n"
    "  weft protocols                           what the protocols do\n"
    "  weft sim --seeds 20                      the same code in virtual time, with faults, checked\n";

int run_up(const UpFlags& flags) {
  if (!(flags.seconds > 0)) return refuse("--seconds must be more than 0");
  bench::BenchOptions options;
  options.keys_per_node = kAccountsPerNode;
  const auto cluster = flags.cluster.options();
  if (!cluster) return refuse(cluster.error().text());
  options.cluster = *cluster;

  auto opened = bench::Bench::open(options, nullptr);
  if (!opened) {
    std::cerr << "weft: " << opened.error().text() << "\n";
    return bench::exit_status(opened.error());
  }
  bench::Bench& bank = **opened;
  std::cout << "A cluster of " << options.cluster.nodes << " nodes with " << options.cluster.replicas
            << " replicas is up in this process, with "
            << bench::with_commas(kAccountsPerNode * static_cast<uint64_t>(options.cluster.nodes))
            << " bank accounts on it.\nClients at every node deposit, withdraw, pay and read balances for "
            << flags.seconds << " s (Ctrl-C ends it sooner).\n"
            << std::flush;

  bench::Progress progress(stderr);
  bench::DriveOptions drive;
  drive.seconds = flags.seconds;
  drive.interrupted = &watch_interrupts();
  if (progress.shown()) drive.on_progress = [&](const bench::Live& live) { progress.show("", live); };
  auto report = bank.run(drive);
  progress.clear();
  if (!report) {
    std::cerr << "weft: " << report.error().text() << "\n";
    return bench::exit_status(report.error());
  }
  print_text(std::cout, *report);
  const std::string wrong = bank.check();
  if (!wrong.empty()) {
    std::cerr << "weft: the books do not balance: " << wrong << "\n";
    return bench::kExitFailed;
  }
  std::cout << "The books balance: all accounts together hold what was loaded, paid in and paid out, and every copy of "
               "every account is the same.\n\n"
            << kNext;
  return bench::kExitDone;
}

}  // namespace

void add_up(CLI::App& app, int* status) {
  auto flags = std::make_shared<UpFlags>();
  CLI::App* command = app.add_subcommand(
      "up", "Start a cluster in this process, run SmallBank on it with live figures, and check its books");
  flags->cluster.add_to(*command);
  command->add_option("--seconds", flags->seconds, "How long the bank is open")->capture_default_str();
  command->callback([flags, status] { *status = run_up(*flags); });
}

}  // namespace weft::cli
