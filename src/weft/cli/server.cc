// `weft server`: one node of a cluster, as configured by its file.
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "weft/base/clock.h"
#include "weft/base/event_log.h"
#include "weft/bench/bench.h"
#include "weft/cli/commands.h"
#include "weft/cli/interrupt.h"
#include "weft/member/supervised.h"
#include "weft/member/zookeeper.h"
#include "weft/server/config.h"
#include "weft/server/exposed.h"
#include "weft/server/http.h"
#include "weft/server/server.h"
#include "weft/server/warnings.h"

namespace weft::cli {
namespace {

Result<std::unique_ptr<Membership>> make_membership(const NodeConfig& config, Clock* clock) {
  if (config.membership.kind == MembershipKind::kZooKeeper) {
    ZookeeperOptions options;
    options.hosts = config.membership.hosts;
    options.path = config.membership.path;
    options.auth = config.membership.auth;
    const Options& o = config.options;
    options.bootstrap = {config.initial_members, o.replicas, o.partition_count(), founding_protocol(config)};
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
  options.roles = config.roles;
  options.spec = spec_of(config);
  options.takes_protocol = config.options.protocol == kProtocolAuto;
  options.initial_members = config.initial_members;
  options.fabric = fabric_name(config.fabric.kind);
  options.listen = config.fabric.listen;
  options.advertise = config.fabric.advertise;
  options.tls = config.fabric.tls;
  options.device = config.fabric.device;
  options.lease_ns = config.lease_ms * uint64_t{1'000'000};
  options.clients = config.client.listen;
  options.clients_advertise = config.client.advertise;
  options.clients_tls = config.client.tls;
  options.front.procedure = ProcedureId(0);  // of spec_of()
  options.front.debug = config.client.debug;
  options.front.password = config.client.password;
  options.front.clients_max = config.client.clients_max;
  options.front.resp.buffer_bytes_max = config.client.query_bytes_max;
  options.front.handshake_ms = config.client.handshake_ms;
  options.front.idle_seconds = config.client.idle_seconds;
  options.front.keepalive_seconds = config.client.keepalive_seconds;
  options.front.pipeline_max = config.client.pipeline_max;
  options.front.output_held_bytes = config.client.output_held_bytes;
  options.front.output_total_bytes = config.client.output_total_bytes;
  options.front.input_total_bytes = config.client.input_total_bytes;
  options.front.turn_us = config.client.turn_us;
  options.front.command_us_max = config.client.command_us_max;
  options.front.exec_us_max = config.client.exec_us_max;
  options.front.slowlog_us = config.client.slowlog_us;
  options.front.slowlog_length = config.client.slowlog_length;
  return options;
}

// As many open files as this process may have, and no more clients than those suffice for: further clients are
// refused.
void fit_files(ServerOptions* options) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  const Options& o = options->spec.options;
  const auto workers = static_cast<rlim_t>(o.workers);
  const rlim_t own = 64 + 4 * workers * static_cast<rlim_t>(o.nodes);  // for the fabric and everything else
  const rlim_t fit = std::max<rlim_t>(files.rlim_cur > own ? files.rlim_cur - own : 0, 1);
  if (fit >= options->front.clients_max) return;
  options->events->emit(Level::kWarn, "clients_limited",
                        {{"clients_max", fit},
                         {"instead_of", options->front.clients_max},
                         {"why", "RLIMIT_NOFILE, the limit of open files"},
                         {"open_files_max", files.rlim_cur}});
  options->front.clients_max = static_cast<uint32_t>(fit);
}

// The request cannot be satisfied: an address in use, not enough memory.
int cannot_start(EventLog& events, const Error& error) {
  events.emit(Level::kError, "cannot_start", {{"why", error.text()}});
  return bench::kExitBadRequest;
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
  WallClock wall;
  EventLog events(STDERR_FILENO, EventLog::form_for(STDERR_FILENO), &wall, config.node.value);
  for (const StartWarning& warning : start_warnings(loaded, geteuid() == 0)) {
    events.emit(Level::kWarn, warning.event, {{"why", warning.why}});
  }
  for (const Exposure& open : exposures(config)) {
    events.emit(Level::kWarn, "exposed", {{"key", open.key}, {"why", open.why}});
  }
  const auto membership = make_membership(config, &clock);
  if (!membership) return cannot_start(events, membership.error());
  std::unique_ptr<Http> http;
  if (!config.http.listen.empty()) {
    auto made =
        Http::create({.listen = config.http.listen, .password = config.http.password, .tls = config.http.tls}, &clock);
    if (!made) return cannot_start(events, made.error());
    http = std::move(*made);
  }
  ServerOptions options = options_of(config);
  options.events = &events;
  options.http_routes = http.get();
  fit_files(&options);
  events.emit(Level::kInfo, "started",
              {{"pid", getpid()},
               {"cluster", config.cluster},
               {"clients", config.client.listen},
               {"http", http == nullptr ? "off" : config.http.listen}});
  JoinBackoff join_backoff(NodeAgentOptions::kPaceNs);
  options.join_backoff = &join_backoff;
  // A node that was removed starts over, without its data.
  for (;;) {
    const auto server = Server::create(options, membership->get(), &clock);
    if (!server) return cannot_start(events, server.error());
    const auto end = (*server)->run(stop.get());
    if (!end) return cannot_start(events, end.error());
    if (*end == Server::End::kStopped) {
      events.emit(Level::kInfo, "ended");
      return bench::kExitDone;
    }
    if (*end == Server::End::kDeviceFailed) {
      events.emit(Level::kError, "device_failed", {{"why", (*server)->why()}});
      continue;
    }
    if (*end == Server::End::kOtherProtocol) {
      options.spec.options.protocol = (*server)->protocol_of_view();
      events.emit(Level::kInfo, "protocol_taken", {{"protocol", options.spec.options.protocol}});
      continue;
    }
    const bool removed = *end == Server::End::kRemoved;
    if (!removed) {
      events.emit(Level::kWarn, "membership_ended", {{"why", (*server)->why()}});
      return bench::kExitDone;
    }
    events.emit(Level::kWarn, "removed",
                {{"why", (*server)->why()},
                 {"removals", join_backoff.removals()},
                 {"asks_again_ms", join_backoff.wait_ns() / 1'000'000}});
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
