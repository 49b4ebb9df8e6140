#include "weft/bench/crash.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <type_traits>

#include "weft/bench/crash_cluster.h"
#include "weft/bench/machine.h"

namespace weft::bench {

Result<Crash> crash_once(const CrashOptions& options, const std::string& protocol, uint64_t seed, std::string* wrong) {
  CrashCluster cluster(options, protocol, seed);
  if (auto loaded = cluster.load(); !loaded) return loaded.error();
  if (!cluster.start()) {
    *wrong = "the clients did not start";
    return Crash();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(options.warmup_ms));
  cluster.kill();
  std::this_thread::sleep_for(std::chrono::milliseconds(options.detection_ms));
  if (auto published = cluster.publish(); !published) return published.error();
  if (!cluster.wait_until_gone_on()) {
    *wrong = "the others did not go on";
    return Crash();
  }
  if (!cluster.stop()) {
    *wrong = "clients or workers did not end";
    return Crash();
  }
  *wrong = cluster.check();
  return cluster.result();
}

Result<std::string> run_crashes(const CrashOptions& options, std::ostream& out, Progress& progress) {
  const Options& o = options.cluster;
  print_heading(out, "A crash with many transactions open", "weft bench crash", options.label);
  fmt::print(out,
             "- Cluster: {} nodes with {} replicas in one process over the local fabric, {} workers a node, {} "
             "transactions in flight a worker. {} accounts.\n",
             o.nodes, o.replicas, o.workers, o.limits.transactions_in_flight_max, options.accounts);
  fmt::print(out,
             "- Milliseconds from the view without the dead node, {} ms after it died; median and longest of {}.\n\n",
             options.detection_ms, options.rounds);
  fmt::print(
      out,
      "| row | open | interrupted | of these committed | stopped | decided | written | active | CPU | interrupted "
      "answered | first commit | last node's |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const std::string& protocol : options.protocols) {
    std::vector<Crash> crashes;
    for (int round = 0; round < options.rounds; ++round) {
      progress.say(fmt::format("{}, crash {} of {}", protocol, round + 1, options.rounds));
      std::string wrong;
      auto crash = crash_once(options, protocol, options.seed + static_cast<uint64_t>(round), &wrong);
      progress.clear();
      if (!crash) return crash.error();
      if (!wrong.empty()) return fmt::format("{}: {}", protocol, wrong);
      crashes.push_back(*crash);
    }
    const auto sorted = [&](auto field) {
      std::vector<std::decay_t<decltype(crashes.front().*field)>> values;
      for (const Crash& crash : crashes) values.push_back(crash.*field);
      std::sort(values.begin(), values.end());
      return values;
    };
    const auto two = [&](double Crash::*field) {
      const auto values = sorted(field);
      return fmt::format("{:.1f} / {:.1f}", values[values.size() / 2], values.back());
    };
    const auto middle = [&](uint64_t Crash::*field) {
      const auto values = sorted(field);
      return values[values.size() / 2];
    };
    fmt::print(out, "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", protocol, middle(&Crash::open),
               middle(&Crash::interrupted), middle(&Crash::committed), two(&Crash::stopped_ms), two(&Crash::decided_ms),
               two(&Crash::written_ms), two(&Crash::active_ms), two(&Crash::cpu_ms), two(&Crash::answered_ms),
               two(&Crash::first_ms), two(&Crash::last_first_ms));
    out.flush();
  }
  return std::string();
}

}  // namespace weft::bench
