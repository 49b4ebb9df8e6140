// INFO: a node as monitoring sees it, in Redis's fields, as far as they mean something here; fields of Weft only begin
// with weft_. Statistics are those of the entire node, whichever worker answers.
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/clock.h"
#include "weft/redis/frontend.h"
#include "weft/redis/node_stats.h"
#include "weft/redis/redis_version.h"
#include "weft/redis/replicas_here.h"
#include "weft/txn/node.h"

namespace weft {
namespace {

std::string line(std::string_view name, const std::string& value) { return std::string(name) + ":" + value + "\r\n"; }
std::string line(std::string_view name, uint64_t value) { return line(name, std::to_string(value)); }

// As Redis writes bytes for people.
std::string human(uint64_t bytes) {
  constexpr double kStep = 1024;
  constexpr std::string_view kUnits = "BKMGTP";
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= kStep && unit + 1 < kUnits.size(); ++unit) value /= kStep;
  char text[32];
  const int length = unit == 0 ? std::snprintf(text, sizeof text, "%.0fB", value)
                               : std::snprintf(text, sizeof text, "%.2f%c", value, kUnits[unit]);
  return {text, static_cast<size_t>(length)};
}

std::string seconds(const timeval& time) {
  char text[32];
  const int length = std::snprintf(text, sizeof text, "%lld.%06lld", static_cast<long long>(time.tv_sec),
                                   static_cast<long long>(time.tv_usec));
  return {text, static_cast<size_t>(length)};
}

std::string port_of(const std::string& address) { return address.substr(address.rfind(':') + 1); }

std::string server_section(RedisFrontend& front, const Client& client) {
  utsname system{};
  uname(&system);
  const uint64_t up_s = (front.session().now_ns() - front.shared().started_ns) / kSecondNs;
  return line("redis_version", kRedisVersion) + line("redis_mode", "cluster") +
         line("os", std::string(system.sysname) + " " + system.release + " " + system.machine) + line("arch_bits", 64) +
         line("multiplexing_api", "epoll") + line("process_id", static_cast<uint64_t>(getpid())) +
         line("run_id", front.shared().run_id) + line("tcp_port", port_of(client.local_address)) +
         line("server_time_usec", static_cast<uint64_t>(front.wall_us())) + line("uptime_in_seconds", up_s) +
         line("uptime_in_days", up_s / 86400) + line("weft_node", front.txn_worker()->context().self.value) +
         line("weft_worker", front.txn_worker()->context().id.value);
}

std::string clients_section(RedisFrontend& front, const Client&) {
  return line("connected_clients", front.shared().clients.load()) + line("maxclients", front.options().clients_max) +
         line("blocked_clients", 0);
}

// Used memory is that of records and their index. The limit holds for each partition: one can be full earlier.
std::string memory_section(RedisFrontend& front, const Client&) {
  const uint64_t used = front.table().memory_bytes();
  const uint64_t resident = resident_bytes();
  return line("used_memory", used) + line("used_memory_human", human(used)) + line("used_memory_rss", resident) +
         line("used_memory_rss_human", human(resident)) + line("used_memory_dataset", used) +
         line("maxmemory", front.memory_bytes_max()) + line("maxmemory_human", human(front.memory_bytes_max())) +
         line("maxmemory_policy", "noeviction") +
         line("mem_clients_normal", front.shared().output_bytes() + front.shared().input_bytes()) +
         line("mem_allocator", "libc") + line("weft_records", front.table().records()) +
         line("weft_partition_records_max", front.table().records_max());
}

std::string persistence_section(RedisFrontend& front, const Client&) {
  return line("loading", front.txn_worker()->active() ? 0 : 1) + line("async_loading", 0) +
         line("rdb_bgsave_in_progress", 0) + line("aof_enabled", 0) + line("aof_rewrite_in_progress", 0);
}

std::string stats_section(RedisFrontend& front, const Client&) {
  FrontendShared& shared = front.shared();
  const uint64_t commands = shared.commands();
  const CommandTotals totals = shared.stats.totals(commands);
  Counters counters;
  const Node& node = *front.txn_worker()->node();
  for (int w = 0; w < node.workers(); ++w) {
    counters.add(node.txn_worker(WorkerId(static_cast<uint8_t>(w)))->stats().counters);
  }
  return line("total_connections_received", totals.connections) + line("total_commands_processed", totals.commands) +
         line("instantaneous_ops_per_sec", shared.stats.rate(commands, front.session().now_ns())) +
         line("total_net_input_bytes", totals.read_bytes) + line("total_net_output_bytes", totals.written_bytes) +
         line("rejected_connections", totals.connections_refused) + line("expired_keys", totals.expired_keys) +
         line("evicted_keys", 0) + line("keyspace_hits", totals.hits) + line("keyspace_misses", totals.misses) +
         line("acl_access_denied_auth", shared.sum(&FrontendShared::Counted::wrong_passwords)) +
         line("total_error_replies", totals.all_errors()) + line("weft_committed", counters.committed) +
         line("weft_aborted", counters.aborted) + line("weft_rejected", counters.rejected) +
         line("weft_unknown", counters.unknown) + line("weft_turns_too_long", shared.turns_too_long());
}

std::string replication_section(RedisFrontend& front, const Client&) {
  const std::vector<ClientAddress> replicas = replicas_here(*front.txn_worker());
  std::string text = line("role", "master") + line("connected_slaves", replicas.size());
  for (size_t i = 0; i < replicas.size(); ++i) {
    text += line("slave" + std::to_string(i), "ip=" + replicas[i].host + ",port=" + std::to_string(replicas[i].port) +
                                                  ",state=online,offset=0,lag=0");
  }
  return text + line("weft_replicas", front.txn_worker()->view().replicas);
}

std::string cpu_section(RedisFrontend&, const Client&) {
  rusage own{};
  rusage children{};
  rusage thread{};
  getrusage(RUSAGE_SELF, &own);
  getrusage(RUSAGE_CHILDREN, &children);
  getrusage(RUSAGE_THREAD, &thread);  // of the worker that answers
  return line("used_cpu_sys", seconds(own.ru_stime)) + line("used_cpu_user", seconds(own.ru_utime)) +
         line("used_cpu_sys_children", seconds(children.ru_stime)) +
         line("used_cpu_user_children", seconds(children.ru_utime)) +
         line("used_cpu_sys_main_thread", seconds(thread.ru_stime)) +
         line("used_cpu_user_main_thread", seconds(thread.ru_utime));
}

std::string nothing(RedisFrontend&, const Client&) { return {}; }

std::string commandstats_section(RedisFrontend& front, const Client&) {
  return commandstats_text(front.shared().stats.totals(0));
}

std::string errorstats_section(RedisFrontend& front, const Client&) {
  return errorstats_text(front.shared().stats.totals(0));
}

std::string cluster_section(RedisFrontend& front, const Client&) {
  return line("cluster_enabled", 1) + line("weft_epoch", front.txn_worker()->view().epoch.value) +
         line("weft_members", front.txn_worker()->view().members.size()) +
         line("weft_protocol", front.txn_worker()->node()->spec().options.protocol);
}

// Of this node: everything, if each node has a replica of everything. Deadlines are those of the sweeper's last round.
std::string keyspace_section(RedisFrontend& front, const Client&) {
  const uint64_t records = front.table().records();
  if (records == 0) return {};
  const FrontendShared& shared = front.shared();
  return line("db0", "keys=" + std::to_string(records) +
                         ",expires=" + std::to_string(std::min(shared.keys_with_deadline.load(), records)) +
                         ",avg_ttl=" + std::to_string(shared.deadline_mean_ms.load()));
}

struct Section {
  const char* name;
  bool by_default;
  std::string (*text)(RedisFrontend& front, const Client& client);
};
constexpr Section kSections[] = {
    {"Server", true, server_section},
    {"Clients", true, clients_section},
    {"Memory", true, memory_section},
    {"Persistence", true, persistence_section},
    {"Stats", true, stats_section},
    {"Replication", true, replication_section},
    {"CPU", true, cpu_section},
    {"Modules", true, nothing},
    {"Commandstats", false, commandstats_section},
    {"Errorstats", true, errorstats_section},
    {"Cluster", true, cluster_section},
    {"Keyspace", true, keyspace_section},
};

bool asked(Arguments words, const Section& section) {
  if (words.empty()) return section.by_default;
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return same_word(word, section.name) || same_word(word, "all") || same_word(word, "everything") ||
           (same_word(word, "default") && section.by_default);
  });
}

void info(RedisFrontend& front, Client& client, Arguments arguments, RespWriter& reply) {
  std::string text;
  for (const Section& section : kSections) {
    if (!asked(arguments.subspan(1), section)) continue;
    text += (text.empty() ? "# " : "\r\n# ") + std::string(section.name) + "\r\n" + section.text(front, client);
  }
  reply.verbatim(text);
}

constexpr Command kInfoCommands[] = {
    {"info", -1, 0, {}, "server", "the node, its clients, memory and commands, by sections", nullptr, info},
};

}  // namespace

std::span<const Command> info_commands() { return kInfoCommands; }

}  // namespace weft
