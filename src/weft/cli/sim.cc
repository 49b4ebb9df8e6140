// `weft sim`: simulations in virtual time, one seed after another, each checked.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "weft/bench/campaign.h"
#include "weft/cli/cluster_flags.h"
#include "weft/cli/commands.h"
#include "weft/sim/faults.h"
#include "weft/txn/protocol.h"
#include "weft/txn/row_set.h"

namespace weft::cli {
namespace {

constexpr int kThreadsMax = 64;

std::string protocol_names() {
  std::string names = "all";
  for (const Protocol& row : kProtocols) names.append(", ").append(row.name);
  return names;
}

int run_sim(bench::CampaignOptions options, const RoleFlags& roles, const CLI::App& command) {
  if (const auto good = roles.check(command); !good) return refuse(good.error().detail);
  if (roles.given()) options.roles = roles.roles();
  if (!options.protocol.empty() && options.protocol != "all") {
    if (const auto rows = RowSet::parse(options.protocol); !rows) return refuse(rows.error().detail);
  }
  if (!options.faults.empty()) {
    if (const auto parsed = parse_faults(options.faults); !parsed) return refuse(parsed.error().detail);
  }
  if (command.count("--minutes") > 0 && !(options.minutes > 0)) return refuse("--minutes must be more than 0");
  if (options.seeds && *options.seeds == 0) return refuse("--seeds 0: at least 1");
  if (options.threads < 1 || options.threads > kThreadsMax) {
    return refuse("--threads " + std::to_string(options.threads) + ": there can be 1 to " +
                  std::to_string(kThreadsMax));
  }
  return bench::run_campaign(options, std::cout);
}

}  // namespace

void add_sim(CLI::App& app, int* status) {
  auto options = std::make_shared<bench::CampaignOptions>();
  auto roles = std::make_shared<RoleFlags>();
  options->threads = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kThreadsMax);
  CLI::App* command = app.add_subcommand(
      "sim", "Run the same code in virtual time, with delays and faults that a seed decides, and check what happened");
  CLI::Option* seed = command->add_option("--seed", options->seed, "Run this one seed, and tell about it in detail");
  CLI::Option* seeds = command->add_option("--seeds", options->seeds,
                                           "Run this many seeds (default: 100, or as many "
                                           "as --minutes allows)");
  CLI::Option* from = command->add_option("--from", options->from, "The first of them")->capture_default_str();
  command->add_option(
      "--protocol", options->protocol,
      "One of " + protocol_names() +
          ", or several that fit, joined by +; all runs every seed with each, and with the largest sets that fit "
          "(default: the seed chooses)");
  command->add_option("--workload", options->workload,
                      "append, token, smallbank, tatp, or tpcc, which no seed chooses (default: the seed chooses)");
  command->add_option(
      "--faults", options->faults,
      "A list of pause, slow-node, slow-link, burst, crash, cut (a link), away (membership), skew (clocks), break (a "
      "connection), one-way (a link), unseen (membership, by a node), alone (a node, by its peers), down (a link, "
      "for long or again and again); or all, or none "
      "(default: the seed chooses)");
  command
      ->add_option(
          "--transactions", options->transactions,
          "Of each run, at least, with a fault or more and crashes aimed at them; 0: as the seed draws, without")
      ->capture_default_str();
  roles->add_to(*command);
  CLI::Option* minutes = command->add_option("--minutes", options->minutes, "Stop after this long");
  CLI::Option* history = command->add_option("--history", options->history,
                                             "With --seed: write its history to this file, for `weft check`");
  command->add_flag(
      "--planted", options->planted,
      "Look for each bug of the list of planted ones instead, in --seeds seeds from --from on: which seed "
      "finds it");
  command->add_option("--threads", options->threads, "Simulations at a time")->capture_default_str();
  for (CLI::Option* other : {seeds, from, minutes}) seed->excludes(other);
  history->needs(seed);
  command->footer(
      "The same seed gives the same run. Exit status: 0 all clean, 1 a violation (with the command that shows it "
      "again), 2 a wrong request.");
  command->callback([options, roles, status, command] { *status = run_sim(*options, *roles, *command); });
}

}  // namespace weft::cli
