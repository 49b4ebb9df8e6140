// `weft up`: a cluster of processes on this machine, and what a person needs to know to use it.
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/event_log.h"
#include "weft/base/os_random.h"
#include "weft/bench/bench.h"
#include "weft/cli/cluster_flags.h"
#include "weft/cli/commands.h"
#include "weft/cli/interrupt.h"
#include "weft/cli/live_line.h"
#include "weft/cli/tour.h"
#include "weft/server/config.h"
#include "weft/server/config_keys.h"
#include "weft/server/supervisor.h"
#include "weft/server/warnings.h"

namespace weft::cli {
namespace {

constexpr int kHttpBeside = 1000;
constexpr uint64_t kLineNs = 1'000'000'000;
constexpr size_t kLineColumns = 79;  // of a terminal of unknown width

struct UpFlags {
  RoleFlags roles;
  int nodes = 3;
  int initial_members = 0;
  int replicas = 0;  // 0: kReplicasDefault, or the nodes that hold data if that is less
  int port = 7379;
  int http_port = -1;  // -1: kHttpBeside above port; 0: no HTTP
  int workers = 1;
  std::string fabric = "shm";
  std::string device, remote_lock_mode = "messages";
  std::string memory_bytes = "1GiB";
  uint64_t capacity = StoreConfig().capacity;
  std::string protocol = std::string(kProtocolAuto);
  std::string password, password_file, tls_certificate, tls_key;  // for clients
  bool password_given = false;
  bool debug = false;
  std::string config;             // a file with keys for all nodes
  std::vector<std::string> sets;  // key=value

  NodeRoles roles_of(int node) const {
    return roles.given() && node >= *roles.compute ? NodeRoles::kData
           : roles.given()                         ? NodeRoles::kTransactions
                                                   : NodeRoles::kBoth;
  }
  int data_nodes() const { return roles.given() ? *roles.memory : nodes; }
};

// Keys that differ between the nodes, or have a flag because more than a node's file depends on them.
constexpr std::string_view kOwn[] = {"cluster.name",     "cluster.nodes",      "cluster.initial_members",
                                     "cluster.replicas", "cluster.partitions", "node.id",
                                     "node.roles",       "fabric.kind",        "fabric.listen",
                                     "fabric.advertise", "membership.kind",    "membership.socket",
                                     "membership.hosts", "membership.path",    "membership.auth",
                                     "client.listen",    "client.advertise",   "http.listen"};

NodeConfig config_of(const UpFlags& flags, const std::string& name, int node) {
  NodeConfig config;
  config.cluster = name;
  config.node = NodeId(static_cast<uint8_t>(node));
  config.options.nodes = flags.nodes;
  config.initial_members = flags.initial_members > 0 ? flags.initial_members : flags.nodes;
  config.options.replicas = flags.replicas;
  config.options.partitions = flags.data_nodes();
  config.roles = flags.roles_of(node);
  config.options.workers = flags.workers;
  config.options.protocol = flags.protocol;
  config.lease_ms = kSupervisedLeaseMs;
  for (const FabricKind kind : {FabricKind::kTcp, FabricKind::kShm, FabricKind::kVerbs}) {
    if (fabric_name(kind) == flags.fabric) config.fabric.kind = kind;
  }
  config.fabric.device.device = flags.device;
  if (flags.remote_lock_mode == "loopback") config.options.remote_lock_mode = RemoteLockMode::kNicLoopback;
  config.fabric.listen = flags.fabric == "shm" ? "@" + name + "-" + std::to_string(node) : "127.0.0.1:0";
  config.membership.socket = "@" + name;
  parse_size(flags.memory_bytes, config.store.memory_bytes_max);
  config.store.capacity = flags.capacity;
  config.client.listen = "127.0.0.1:" + std::to_string(flags.port + node);
  config.client.password = flags.password;
  config.client.password_file = flags.password_file;
  config.client.tls.certificate = flags.tls_certificate;
  config.client.tls.key = flags.tls_key;
  config.client.debug = flags.debug;
  if (flags.http_port > 0) config.http.listen = "127.0.0.1:" + std::to_string(flags.http_port + node);
  return config;
}

// Applies the file and the settings on top of the flags; returns an error, or nothing.
std::string change(NodeConfig& config, const UpFlags& flags) {
  const NodeConfig before = config;
  std::vector<std::string> errors;
  if (!flags.config.empty()) errors = change_config_by_file(config, flags.config);
  for (const std::string& set : flags.sets) {
    if (errors.empty()) errors = set_key(config, set);
    if (!errors.empty()) errors.front() = "--set " + errors.front();
  }
  if (!errors.empty()) return errors.front();
  for (const std::string_view own : kOwn) {
    const ConfigKey& key = *find_key(own);
    if (value_text(key, config) == value_text(key, before)) continue;
    return std::string(own) + " is " + value_text(key, config) +
           ": `weft up` decides it (--nodes, --memory, --compute, --initial-members, "
           "--replicas, --fabric, --port, --http-port)";
  }
  return {};
}

void warn(const std::string& text) { std::fprintf(stderr, "weft: warning: %s\n", text.c_str()); }

// In one write: the nodes write to the same terminal, and their lines must not split a command.
void say(const std::string& text) {
  std::cout << std::flush;
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (n <= 0 && errno != EINTR) return;
    done += static_cast<size_t>(std::max<ssize_t>(n, 0));
  }
}

void show_line(const Supervisor& supervisor, int nodes) {
  std::vector<nlohmann::json> samples;
  for (int n = 0; n < nodes; ++n) samples.push_back(supervisor.sample(NodeId(static_cast<uint8_t>(n))));
  winsize window{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 1;
  const size_t width = known ? window.ws_col - 1U : kLineColumns;
  std::cout << "\r\x1b[K" << live_line(*supervisor.view(), samples, width) << std::flush;
}

// What the flags say of the nodes. Returns what is wrong, or nothing.
std::string check_nodes(UpFlags& flags, const CLI::App& command) {
  if (const auto good = flags.roles.check(command); !good) return good.error().detail;
  if (flags.roles.given()) flags.nodes = flags.roles.nodes();
  if (flags.replicas == 0) flags.replicas = std::min(kReplicasDefault, flags.data_nodes());
  if (flags.replicas > flags.data_nodes()) {
    return "--replicas " + std::to_string(flags.replicas) + ": there are " + std::to_string(flags.data_nodes()) +
           " nodes that hold data";
  }
  const int least = flags.roles.given() ? *flags.roles.compute + flags.replicas : flags.replicas;
  if (flags.initial_members != 0 && flags.initial_members < least) {
    return "--initial-members " + std::to_string(flags.initial_members) + ": expected at least " +
           std::to_string(least) + (flags.roles.given() ? " (--compute and --replicas)" : " (--replicas)");
  }
  return {};
}

int run_up(UpFlags flags, const CLI::App& command) {
  if (const std::string wrong = check_nodes(flags, command); !wrong.empty()) return refuse(wrong);
  if (flags.port < 1 || flags.port + flags.nodes - 1 > 65535) {
    return refuse("--port " + std::to_string(flags.port) + ": " + std::to_string(flags.nodes) +
                  " nodes need as many ports from there, up to 65535");
  }
  if (flags.fabric != "verbs" && (!flags.device.empty() || flags.remote_lock_mode != "messages")) {
    return refuse("--device and --remote-lock-mode go with --fabric verbs, not " + flags.fabric);
  }
  if (flags.password_given && flags.password.empty()) return refuse("--password: it is empty");
  if (flags.password_given)
    warn("--password stands where every user of this machine sees it: --password-file does not");
  if (flags.password_given && !flags.password_file.empty()) return refuse("--password and --password-file are given");
  if (uint64_t bytes = 0; !parse_size(flags.memory_bytes, bytes)) {
    return refuse("--memory-bytes " + flags.memory_bytes + ": " + find_key("store.memory_bytes_max")->expected());
  }
  if (flags.http_port < 0) flags.http_port = flags.port + kHttpBeside;
  if (flags.http_port + flags.nodes - 1 > 65535) {
    return refuse("--http-port " + std::to_string(flags.http_port) + ": " + std::to_string(flags.nodes) +
                  " nodes need as many ports from there, up to 65535 (0: no HTTP)");
  }
  const std::string name = "weft-" + std::to_string(getpid()) + "-" + std::to_string(os_random() % 1'000'000);
  SupervisorOptions options;
  options.executable = std::filesystem::read_symlink("/proc/self/exe").string();
  options.socket = "@" + name;
  options.initial_members = flags.initial_members;
  options.replicas = flags.replicas;
  options.partitions = flags.data_nodes();
  NodeConfig first;
  for (int n = 0; n < flags.nodes; ++n) {
    NodeConfig config = config_of(flags, name, n);
    if (const std::string why = change(config, flags); !why.empty()) return refuse(why);
    const std::string text = to_toml(config);
    const LoadedConfig sound = parse_config(text, "the configuration of node " + std::to_string(n));
    if (!sound) return refuse(sound.errors.front());
    for (size_t i = 0; i < sound.warnings.size() && n == 0; ++i) warn(sound.warnings[i]);
    // With absolute paths, since the nodes read it elsewhere, and with the password from its file.
    options.configs.push_back(to_toml(sound.config));
    if (n == 0) first = sound.config;
  }
  options.protocol = founding_protocol(first);
  const Fd stop = stop_signals();
  RealClock clock;
  WallClock wall;
  EventLog events(STDERR_FILENO, EventLog::form_for(STDERR_FILENO), &wall);
  auto supervisor = Supervisor::create(options, &clock, &events);
  if (!supervisor) return refuse(supervisor.error().text());
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  uint64_t line_due_ns = 0;
  bool said = false;
  pollfd stopped{stop.get(), POLLIN, 0};
  while (poll(&stopped, 1, 0) == 0) {
    if (!(*supervisor)->step(stop.get(), 1000)) {
      events.emit(Level::kError, "cluster_stops", {{"why", (*supervisor)->why()}});
      (*supervisor)->stop();
      return bench::kExitFailed;
    }
    if ((*supervisor)->view() == nullptr) continue;
    if (!std::exchange(said, true)) {
      say(text_of({flags.port, flags.http_port, flags.roles.given() ? *flags.roles.compute : flags.nodes, first,
                   flags.password_file, geteuid() == 0 ? kRootWarning : ""}));
    }
    if (terminal && clock.now_ns() >= line_due_ns) {
      line_due_ns = clock.now_ns() + kLineNs;
      show_line(**supervisor, flags.nodes);
    }
  }
  if (terminal) std::cout << "\r\x1b[K" << std::flush;
  (*supervisor)->stop();
  std::cout << "The cluster has ended.\n";
  return bench::kExitDone;
}

}  // namespace

void add_up(CLI::App& app, int* status) {
  const auto absolute = [](const std::string& path) { return std::filesystem::absolute(path).string(); };
  auto flags = std::make_shared<UpFlags>();
  CLI::App* command = app.add_subcommand("up", "Start a cluster of processes on this machine and look after it");
  command->add_option("--nodes", flags->nodes, "Processes")->capture_default_str()->check(CLI::Range(1, kNodesMax));
  flags->roles.add_to(*command);
  command
      ->add_option("--initial-members", flags->initial_members,
                   "Of these, how many the cluster begins with; the others join (default: all)")
      ->check(CLI::Range(1, kNodesMax));
  command
      ->add_option("--replicas", flags->replicas,
                   "Copies of every key (default: 3, or as many as there are nodes that hold data, if that is less)")
      ->check(CLI::Range(1, kReplicasMax));
  command->add_option("--port", flags->port, "Where clients talk to node 0; the others have the next ones")
      ->capture_default_str();
  command
      ->add_option(
          "--http-port", flags->http_port,
          "Where node 0 shows its status page, /status and /metrics; the others have the next ones; 0: nowhere "
          "(default: 1000 above --port)")
      ->check(CLI::Range(0, 65535));
  command->add_option("--workers", flags->workers, "Event loops of each node")->capture_default_str();
  command->add_option("--fabric", flags->fabric, "shm, tcp or verbs (RDMA)")
      ->capture_default_str()
      ->check(CLI::IsMember({"shm", "tcp", "verbs"}));
  command->add_option("--device", flags->device,
                      "With --fabric verbs: the RDMA device (default: the first that works)");
  command
      ->add_option("--remote-lock-mode", flags->remote_lock_mode,
                   "With --fabric verbs: messages or loopback, if the device's atomics do not go with the processor's")
      ->capture_default_str()
      ->check(CLI::IsMember({"messages", "loopback"}));
  command
      ->add_option("--protocol", flags->protocol,
                   "A row of `weft protocols`; auto: dnl1 where every node has every key, else hop (dnl4 of one node)")
      ->capture_default_str();
  command
      ->add_option("--memory-bytes", flags->memory_bytes, "Of each node that holds data, for records and their index")
      ->capture_default_str();
  command->add_option("--capacity", flags->capacity, "Records in the cluster")->capture_default_str();
  command
      ->add_option("--password-file", flags->password_file,
                   "File whose first line clients give first, with AUTH (default: no password)")
      ->transform(absolute);
  command->add_option("--password", flags->password,
                      "The same on the command line, where every user of this machine sees it: for a test");
  command->add_option("--tls-certificate", flags->tls_certificate, "PEM file: clients talk TLS (default: they do not)")
      ->transform(absolute);
  command->add_option("--tls-key", flags->tls_key, "PEM file with the certificate's key")->transform(absolute);
  command->add_flag("--debug", flags->debug, "Allow commands that break things on purpose (WEFT CUT): for tests");
  command
      ->add_option("--config", flags->config,
                   "TOML file with keys of docs/configuration.md for all nodes; it counts more than the flags")
      ->check(CLI::ExistingFile);
  command->add_option("--set", flags->sets, "One such key, as in --set cluster.lease_ms=500; may be given again")
      ->take_all();
  add_renamed_option(*command, "--founders", "--initial-members");
  add_renamed_option(*command, "--locks", "--remote-lock-mode");
  command->callback([flags, status, command] {
    flags->password_given = command->count("--password") > 0;
    *status = run_up(*flags, *command);
  });
}

}  // namespace weft::cli
