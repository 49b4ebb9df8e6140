// Commands about the server: INFO, CONFIG GET, TIME, DEBUG SLEEP.
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "weft/server/command_help.h"
#include "weft/server/command_text.h"
#include "weft/server/front.h"
#include "weft/server/front_text.h"
#include "weft/server/glob.h"
#include "weft/server/redis_version.h"

namespace weft {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;

void time_of_day(Front& front, Client&, Arguments, RespWriter& reply) {
  const int64_t now_us = front.wall_us();
  reply.array(2);
  reply.bulk(std::to_string(now_us / 1'000'000));
  reply.bulk(std::to_string(now_us % 1'000'000));
}

std::string line(std::string_view name, const std::string& value) { return std::string(name) + ":" + value + "\r\n"; }
std::string line(std::string_view name, uint64_t value) { return line(name, std::to_string(value)); }

std::string port_of(const std::string& address) { return address.substr(address.rfind(':') + 1); }

std::string server_section(Front& front, const Client& client) {
  utsname system{};
  uname(&system);
  const uint64_t up_s = (front.session().now_ns() - front.shared().started_ns) / kSecondNs;
  return line("redis_version", kRedisVersion) + line("redis_mode", "cluster") +
         line("os", std::string(system.sysname) + " " + system.release + " " + system.machine) + line("arch_bits", 64) +
         line("process_id", static_cast<uint64_t>(getpid())) + line("run_id", front.shared().run_id) +
         line("tcp_port", port_of(client.local_address)) +
         line("server_time_usec", static_cast<uint64_t>(front.wall_us())) + line("uptime_in_seconds", up_s) +
         line("uptime_in_days", up_s / 86400) + line("weft_node", front.engine()->node_id().value) +
         line("weft_worker", front.engine()->worker_id().value);
}

std::string clients_section(Front& front, const Client&) {
  return line("connected_clients", front.shared().clients.load()) + line("maxclients", front.options().clients_max) +
         line("blocked_clients", 0);
}

std::string memory_section(Front& front, const Client&) {
  return line("used_memory", front.table().memory_bytes()) + line("maxmemory", front.table().spec().memory_bytes_max) +
         line("maxmemory_policy", "noeviction") + line("mem_clients_normal", front.buffer_bytes());
}

std::string persistence_section(Front& front, const Client&) {
  return line("loading", front.engine()->active() ? 0 : 1) + line("rdb_bgsave_in_progress", 0) + line("aof_enabled", 0);
}

std::string stats_section(Front& front, const Client&) {
  const Counters counters = front.engine()->counters();
  return line("total_commands_processed", front.shared().commands()) + line("expired_keys", front.keys_expired()) +
         line("rejected_connections", front.shared().sum(&FrontShared::Counted::refused)) +
         line("acl_access_denied_auth", front.shared().sum(&FrontShared::Counted::wrong_passwords)) +
         line("weft_committed", counters.committed) + line("weft_aborted", counters.aborted) +
         line("weft_rejected", counters.rejected);
}

std::string replication_section(Front& front, const Client&) {
  return line("role", "master") + line("connected_slaves", 0) + line("weft_replicas", front.engine()->view().replicas);
}

std::string cluster_section(Front& front, const Client&) {
  return line("cluster_enabled", 1) + line("weft_epoch", front.engine()->view().epoch.value) +
         line("weft_members", front.engine()->view().members.size());
}

// Of this node: where each node has a replica of everything, that is all.
std::string keyspace_section(Front& front, const Client&) {
  const uint64_t records = front.table().records();
  return records == 0 ? std::string() : line("db0", "keys=" + std::to_string(records) + ",expires=0,avg_ttl=0");
}

struct Section {
  const char* name;
  std::string (*text)(Front& front, const Client& client);
};
constexpr Section kSections[] = {
    {"Server", server_section},           {"Clients", clients_section},   {"Memory", memory_section},
    {"Persistence", persistence_section}, {"Stats", stats_section},       {"Replication", replication_section},
    {"Cluster", cluster_section},         {"Keyspace", keyspace_section},
};

void info(Front& front, Client& client, Arguments arguments, RespWriter& reply) {
  const auto asked = [&](std::string_view name) {
    if (arguments.size() == 1) return true;
    return std::any_of(arguments.begin() + 1, arguments.end(), [&](std::string_view word) {
      return same_word(word, name) || same_word(word, "all") || same_word(word, "default") ||
             same_word(word, "everything");
    });
  };
  std::string text;
  for (const Section& section : kSections) {
    if (!asked(section.name)) continue;
    text += (text.empty() ? "# " : "\r\n# ") + std::string(section.name) + "\r\n" + section.text(front, client);
  }
  reply.verbatim(text);
}

using Setting = std::pair<std::string_view, std::string>;

// What clients ask for when they connect, or measure. Nothing can be set: the node's file does that.
std::vector<Setting> settings(const Front& front) {
  const FrontOptions& options = front.options();
  return {
      {"appendonly", "no"},
      {"client-output-buffer-limit", "normal " + std::to_string(options.output_held_bytes) + " 0 0"},
      {"client-query-buffer-limit", std::to_string(options.resp.buffer_bytes_max)},
      {"cluster-enabled", "yes"},
      {"databases", "1"},
      {"maxclients", std::to_string(options.clients_max)},
      {"maxmemory", std::to_string(front.table().spec().memory_bytes_max)},
      {"maxmemory-policy", "noeviction"},
      {"proto-max-bulk-len", std::to_string(front.string_bytes_max())},
      {"save", ""},
      {"tcp-keepalive", std::to_string(options.keepalive_seconds)},
      {"timeout", std::to_string(options.idle_seconds)},
  };
}

void config_get(Front& front, Client&, Arguments arguments, RespWriter& reply) {
  std::vector<Setting> found;
  size_t bytes = 0;
  for (const std::string_view pattern : arguments.subspan(2)) bytes += pattern.size();
  if (bytes > kPatternBytesMax) {
    return reply.error("ERR the patterns are too long: " + limit_text("the limit", kPatternBytesMax, bytes));
  }
  for (const Setting& setting : settings(front)) {
    const auto matches = [&](std::string_view pattern) { return glob_matches(lower_case(pattern), setting.first); };
    if (std::any_of(arguments.begin() + 2, arguments.end(), matches)) found.push_back(setting);
  }
  reply.map(found.size());
  for (const auto& [name, value] : found) {
    reply.bulk(name);
    reply.bulk(value);
  }
}

// This connection waits; nobody else does.
Task<void> debug_sleep(Front& front, Client& client, Arguments arguments) {
  constexpr long double kSecondsMax = 3600;
  const auto seconds = parse_real(arguments[2]);
  if (!seconds || *seconds < 0 || *seconds > kSecondsMax) {
    front.out(client).error("ERR DEBUG SLEEP takes 0 to 3600 seconds");
    co_return;
  }
  co_await front.session().sleep_ns(static_cast<uint64_t>(*seconds * static_cast<long double>(kSecondNs)));
  front.out(client).simple("OK");
}

constexpr const char* kGroup = "server";

constexpr Command kCommands[] = {
    {"config", -2, kHasSubcommands, {}, kGroup, "the node's settings"},
    {"config|get", -3, kAdmin, {}, kGroup, "settings that match a pattern", nullptr, config_get},
    {"config|help", 2, kAdmin, {}, kGroup, "what there is", nullptr, reply_help},
    {"debug", -2, kHasSubcommands, {}, kGroup, "for tests"},
    {"debug|sleep",
     3,
     kAdmin | kNoMulti,
     {},
     kGroup,
     "this connection waits for so many seconds",
     nullptr,
     nullptr,
     debug_sleep},
    {"info", -1, 0, {}, kGroup, "the node, its clients and its memory", nullptr, info},
    {"time", 1, kFast, {}, kGroup, "seconds since 1970, and microseconds", nullptr, time_of_day},
};

}  // namespace

std::span<const Command> server_commands() { return kCommands; }

}  // namespace weft
