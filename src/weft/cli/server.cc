// `weft server`: one node of a cluster, as its file says.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "weft/base/clock.h"
#include "weft/bench/bench.h"
#include "weft/cli/commands.h"
#include "weft/cli/interrupt.h"
#include "weft/cluster/supervised.h"
#include "weft/cluster/zookeeper.h"
#include "weft/server/config.h"
#include "weft/server/server.h"

namespace weft::cli {
namespace {

Result<std::unique_ptr<Membership>> make_membership(const NodeConfig& config, Clock* clock) {
  if (config.membership.kind == MembershipKind::kZooKeeper) {
    ZookeeperOptions options;
    options.hosts = config.membership.hosts;
    options.path = config.membership.path;
    options.auth = config.membership.auth;
    const Options& o = config.options;
    options.founding = {config.founders, o.replicas, o.partitions > 0 ? o.partitions : o.nodes};
    auto kept = ZookeeperMembership::open(options, clock);
    if (!kept) return kept.error();
    return std::unique_ptr<Membership>(std::move(*kept));
  }
  auto supervised = SupervisedMembership::connect(config.membership.socket);
  if (!supervised) return supervised.error();
  return std::unique_ptr<Membership>(std::move(*supervised));
}

ServerOptions options_of(const NodeConfig& config) {
  ServerOptions options;
  options.cluster = config.cluster;
  options.node = config.node;
  options.spec = spec_of(config);
  options.founders = config.founders;
  options.fabric = config.fabric.kind == FabricKind::kShm ? "shm" : "tcp";
  options.listen = config.fabric.listen;
  options.advertise = config.fabric.advertise;
  options.tls = config.fabric.tls;
  options.lease_ns = config.lease_ms * uint64_t{1'000'000};
  options.clients = config.client.listen;
  options.front.debug = config.client.debug;
  return options;
}

// As many open files as this process may have, and no more clients than those are enough for: who is one too many is
// told so.
void fit_files(ServerOptions* options) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  const Options& o = options->spec.options;
  const auto workers = static_cast<rlim_t>(o.workers);
  const rlim_t own = 64 + 4 * workers * static_cast<rlim_t>(o.nodes);  // for the fabric and all the rest
  const rlim_t fit = std::max<rlim_t>(files.rlim_cur > own ? (files.rlim_cur - own) / workers : 0, 1);
  if (fit >= options->front.clients_max) return;
  std::fprintf(stderr,
               "weft: node %d: clients_max is %u for each worker, not %u: the limit of open files (RLIMIT_NOFILE) is "
               "%llu\n",
               options->node.value, static_cast<uint32_t>(fit), options->front.clients_max,
               static_cast<unsigned long long>(files.rlim_cur));
  options->front.clients_max = static_cast<uint32_t>(fit);
}

int run_server(const std::string& path) {
  const LoadedConfig loaded = load_config(path);
  if (!loaded) {
    for (const std::string& error : loaded.errors) std::fprintf(stderr, "%s\n", error.c_str());
    return bench::kExitBadRequest;
  }
  const Fd stop = stop_signals();
  const NodeConfig& config = loaded.config;
  RealClock clock;
  const auto membership = make_membership(config, &clock);
  if (!membership) return refuse(membership.error().text());
  ServerOptions options = options_of(config);
  fit_files(&options);
  // A node that was removed starts over, with nothing of what it had.
  for (;;) {
    const auto server = Server::create(options, membership->get(), &clock);
    if (!server) return refuse(server.error().text());
    const auto end = (*server)->run(stop.get());
    if (!end) return refuse(end.error().text());
    if (*end == Server::End::kStopped) return bench::kExitDone;
    std::fprintf(stderr, "weft: node %d: %s\n", config.node.value, (*server)->why().c_str());
    if (*end == Server::End::kMembershipEnded) return bench::kExitDone;
  }
}

}  // namespace

void add_server(CLI::App& app, int* status) {
  auto path = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("server", "Run one node of a cluster, as its file says");
  command->add_option("--config", *path, "The node's file (docs/configuration.md)")->required();
  command->callback([path, status] { *status = run_server(*path); });
}

}  // namespace weft::cli
