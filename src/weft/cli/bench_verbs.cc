#include "weft/cli/bench_verbs.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

#include "weft/bench/bench.h"
#include "weft/bench/progress.h"
#include "weft/cli/interrupt.h"

namespace weft::cli {

void VerbFlags::add_to(CLI::App& command) {
  command.add_option("--kind", kind, "verbs: read, write, cas or faa (fetch and add)")->capture_default_str();
  command.add_option("--bytes", bytes, "verbs: of each, 8 to 65536; cas and faa are of 8")->capture_default_str();
  command.add_option("--depth", depth, "verbs: how many a thread has in flight, 1 to 1024")->capture_default_str();
}

Result<bench::VerbRatesOptions> verb_options_of(const VerbFlags& flags, const bench::VerbRatesOptions& others,
                                                const CLI::App& command) {
  for (const char* flag : {"--nodes", "--replicas", "--protocol", "--transactions", "--transactions-in-flight",
                           "--clock-step-ns", "--rate", "--keys", "--off", "--seed", "--markdown", "--label"}) {
    if (command.count(flag) == 0) continue;
    return Error{Code::kBadOption, std::string(flag) + " does not go with `bench verbs`, which runs no transactions"};
  }
  bench::VerbRatesOptions out = others;
  auto kind = bench::verb_kind_of(flags.kind);
  if (!kind) return kind.error();
  out.kind = *kind;
  out.bytes = flags.bytes;
  out.depth = flags.depth;
  // What the run is to have in flight is --depth.
  if (command.count("--verb-credit") == 0) out.cluster.verb_credit = "off";
  return out;
}

int run_bench_verbs(bench::VerbRatesOptions options, bool json) {
  RealClock clock;
  options.interrupted = &watch_interrupts();
  bench::Progress progress(stderr);
  progress.say("measuring verbs");
  const auto rates = bench::measure_verbs(options, clock);
  progress.clear();
  if (!rates) {
    std::cerr << "weft: " << rates.error().text() << "\n";
    return bench::exit_status(rates.error());
  }
  if (json) {
    std::cout << bench::to_json(*rates) << "\n";
  } else {
    print_text(std::cout, *rates);
  }
  if (rates->wrong.empty()) return bench::kExitDone;
  std::cerr << "weft: CHECK FAILED: " << rates->wrong << "\n";
  return bench::kExitFailed;
}

}  // namespace weft::cli
