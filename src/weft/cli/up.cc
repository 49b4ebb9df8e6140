// `weft up`: a cluster of processes on this machine, and what a person needs to know to use it.
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "weft/base/clock.h"
#include "weft/base/entropy.h"
#include "weft/bench/bench.h"
#include "weft/cli/commands.h"
#include "weft/cli/interrupt.h"
#include "weft/server/config.h"
#include "weft/server/supervisor.h"

namespace weft::cli {
namespace {

constexpr int kReplicasDefault = 3;

struct UpFlags {
  int nodes = 3;
  int founders = 0;
  int replicas = 0;  // 0: kReplicasDefault, or nodes if that is less
  int port = 7379;
  int workers = 1;
  std::string fabric = "shm";
  std::string protocol = "dnl4";
  bool debug = false;
};

NodeConfig config_of(const UpFlags& flags, const std::string& name, int node) {
  NodeConfig config;
  config.cluster = name;
  config.node = NodeId(static_cast<uint8_t>(node));
  config.options.nodes = flags.nodes;
  config.founders = flags.founders > 0 ? flags.founders : flags.nodes;
  config.options.replicas = flags.replicas;
  config.options.workers = flags.workers;
  config.options.protocol = flags.protocol;
  config.fabric.kind = flags.fabric == "shm" ? FabricKind::kShm : FabricKind::kTcp;
  config.fabric.listen = flags.fabric == "shm" ? "@" + name + "-" + std::to_string(node) : "127.0.0.1:0";
  config.membership.socket = "@" + name;
  config.client.listen = "127.0.0.1:" + std::to_string(flags.port + node);
  config.client.debug = flags.debug;
  return config;
}

void say_what_there_is(const UpFlags& flags) {
  std::cout << "A cluster of " << flags.nodes << " nodes with " << flags.replicas << " replicas of every key is up.\n\n"
            << "Any client of Redis can talk to any node, on ports " << flags.port << " to "
            << flags.port + flags.nodes - 1 << " of 127.0.0.1:\n"
            << "  redis-cli -p " << flags.port << " set greeting hello\n"
            << "  redis-cli -p " << flags.port + flags.nodes - 1 << " get greeting\n"
            << "  printf 'MULTI\\nINCR a\\nINCR b\\nEXEC\\n' | redis-cli -p " << flags.port
            << "     one transaction, whatever nodes the keys are at\n"
            << "  redis-cli -p " << flags.port << " weft status          who is there\n"
            << "Kill one of its processes: it is replaced, and nothing that was answered is lost.\n"
            << "Ctrl-C ends the cluster, and with it the data.\n"
            << std::flush;
}

int run_up(UpFlags flags) {
  if (flags.replicas == 0) flags.replicas = std::min(kReplicasDefault, flags.nodes);
  if (flags.port < 1 || flags.port + flags.nodes - 1 > 65535) {
    return refuse("--port " + std::to_string(flags.port) + ": " + std::to_string(flags.nodes) +
                  " nodes need as many ports from there, up to 65535");
  }
  const std::string name = "weft-" + std::to_string(getpid()) + "-" + std::to_string(entropy() % 1'000'000);
  SupervisorOptions options;
  options.executable = std::filesystem::read_symlink("/proc/self/exe").string();
  options.socket = "@" + name;
  options.founders = flags.founders;
  options.replicas = flags.replicas;
  options.partitions = flags.nodes;
  for (int n = 0; n < flags.nodes; ++n) {
    const std::string text = to_toml(config_of(flags, name, n));
    const LoadedConfig sound = parse_config(text, "the configuration of node " + std::to_string(n));
    if (!sound) return refuse(sound.errors.front());
    options.configs.push_back(text);
  }
  const Fd stop = stop_signals();
  RealClock clock;
  auto supervisor =
      Supervisor::create(options, &clock, [](const std::string& text) { std::cerr << text << std::endl; });
  if (!supervisor) return refuse(supervisor.error().text());
  bool said = false;
  pollfd stopped{stop.get(), POLLIN, 0};
  while (poll(&stopped, 1, 0) == 0) {
    if (!(*supervisor)->step(stop.get(), 1000)) {
      std::cerr << "weft: the cluster stops: " << (*supervisor)->why() << "\n";
      (*supervisor)->stop();
      return bench::kExitFailed;
    }
    if (said || (*supervisor)->view() == nullptr) continue;
    said = true;
    say_what_there_is(flags);
  }
  (*supervisor)->stop();
  std::cout << "The cluster has ended.\n";
  return bench::kExitDone;
}

}  // namespace

void add_up(CLI::App& app, int* status) {
  auto flags = std::make_shared<UpFlags>();
  CLI::App* command = app.add_subcommand("up", "Start a cluster of processes on this machine and look after it");
  command->add_option("--nodes", flags->nodes, "Processes")->capture_default_str()->check(CLI::Range(1, kNodesMax));
  command
      ->add_option("--founders", flags->founders,
                   "Of these, how many the cluster begins with; the others join (default: all)")
      ->check(CLI::Range(1, kNodesMax));
  command->add_option("--replicas", flags->replicas, "Copies of every key (default: 3, or --nodes if that is less)")
      ->check(CLI::Range(1, kReplicasMax));
  command->add_option("--port", flags->port, "Where clients talk to node 0; the others have the next ones")
      ->capture_default_str();
  command->add_option("--workers", flags->workers, "Event loops of each node")->capture_default_str();
  command->add_option("--fabric", flags->fabric, "shm or tcp")
      ->capture_default_str()
      ->check(CLI::IsMember({"shm", "tcp"}));
  command->add_option("--protocol", flags->protocol, "A row of `weft protocols`")->capture_default_str();
  command->add_flag("--debug", flags->debug, "Allow commands that break things on purpose (WEFT CUT): for tests");
  command->callback([flags, status] { *status = run_up(*flags); });
}

}  // namespace weft::cli
