#include "weft/server/config_keys.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "weft/base/bytes.h"
#include "weft/member/view.h"
#include "weft/redis/slowlog.h"
#include "weft/redis/value.h"
#include "weft/run/conflict_avoidance.h"
#include "weft/store/blocks.h"
#include "weft/store/record.h"
#include "weft/txn/protocol.h"
#include "weft/wires/tcp/hello.h"

namespace weft {
namespace {

constexpr uint64_t kIntegerMax = INT64_MAX;  // of TOML

std::vector<std::string_view> protocol_names() {
  std::vector<std::string_view> names = {kProtocolAuto};
  for (const Protocol& row : kProtocols) names.push_back(row.name);
  return names;
}

struct Keys {
  using Text = std::string_view;
  std::vector<ConfigKey> rows;
  Text table;

  void integer(Text name, AnyField field, uint64_t low, uint64_t high, Text about, Text fallback = {}) {
    rows.push_back({table, name, KeyType::kInteger, field, low, high, {}, false, fallback, about});
  }
  void size(Text name, AnyField field, uint64_t low, uint64_t high, Text about, Text fallback = {}) {
    rows.push_back({table, name, KeyType::kSize, field, low, high, {}, false, fallback, about});
  }
  void boolean(Text name, AnyField field, Text about) {
    rows.push_back({table, name, KeyType::kBoolean, field, 0, 0, {}, false, {}, about});
  }
  void choice(Text name, AnyField field, std::vector<Text> choices, Text about) {
    rows.push_back({table, name, KeyType::kChoice, field, 0, 0, std::move(choices), false, {}, about});
  }
  void text(Text name, AnyField field, Text about, Text fallback = {}) {
    rows.push_back({table, name, KeyType::kText, field, 0, 0, {}, false, fallback, about});
  }
  void path(Text name, AnyField field, Text about, Text fallback) {
    text(name, field, about, fallback);
    rows.back().path = true;
  }
};

// NOLINTNEXTLINE(bugprone-macro-parentheses): a member's name
#define WEFT_FIELD(member) [](NodeConfig& c) -> decltype(auto) { return (c.member); }

// The ranges of [cluster] and [limits] are those of check_spec (txn/node.cc); config_test.cc keeps them in step.
std::vector<ConfigKey> make_keys() {
  Keys keys;
  keys.table = "cluster";
  keys.text("name", WEFT_FIELD(cluster),
            "the cluster's id, 1 to 64 letters, digits, `-`, `_` or `.`; both ends of a connection must agree",
            "required");
  keys.integer("nodes", WEFT_FIELD(options.nodes), 1, kNodesMax,
               "the most nodes that there may be, with the ids 0 to `nodes` - 1; everything is dimensioned for them");
  keys.integer("initial_members", WEFT_FIELD(initial_members), 1, kNodesMax,
               "nodes of the first view: those with the ids 0 to `initial_members` - 1; the others join when they come",
               "`nodes`");
  keys.integer("replicas", WEFT_FIELD(options.replicas), 1, kReplicasMax,
               "copies of every record, at most one per node", "3, or `initial_members` if that is less");
  keys.integer("workers", WEFT_FIELD(options.workers), 1, kWorkersMax,
               "event loops of each node; the same for all nodes");
  keys.integer("partitions", WEFT_FIELD(options.partitions), 0, 4096,
               "what the keys are divided into; 0: as many as `nodes`");
  keys.choice("protocol", WEFT_FIELD(options.protocol), protocol_names(),
              "how transactions commit, a row of `weft protocols`; `auto`: as the cluster was founded, and a new one "
              "with `dnl1` if `replicas` is `nodes`, else with `hop` (of one node, `dnl4`); those that found a cluster "
              "must mean the same row");
  keys.integer("hash_seed", WEFT_FIELD(options.hash_seed), 0, kIntegerMax,
               "seed of the tables' hash; the same for all nodes");
  keys.integer("lease_ms", WEFT_FIELD(lease_ms), 1, 60'000,
               "a node that was silent for this long is removed; the same for all nodes",
               "`2000` with `membership.kind = \"supervisor\"`, which sees a process end at once; else `500`");

  keys.table = "node";
  keys.integer("id", WEFT_FIELD(node), 0, kNodesMax - 1,
               "which node this is, below `cluster.nodes`; one below `cluster.initial_members` is of the first view",
               "required");
  keys.choice("roles", WEFT_FIELD(roles), {"both", "data", "transactions"},
              "what the node does. `data`: it holds replicas and runs no transactions (a memory node), and answers "
              "clients only what concerns itself; `transactions`: it runs clients' transactions and holds no replica "
              "(a compute node), and `store` is not used; at least `cluster.replicas` initial members hold data, and "
              "one runs transactions");
  keys.integer("threads", WEFT_FIELD(options.threads), 0, kWorkersMax,
               "threads that run the workers, at most one each; 0: one per worker, at most the cores");
  keys.boolean("pin_threads", WEFT_FIELD(options.pin_threads), "each thread stays on one core");
  keys.boolean(
      "conflict_avoidance", WEFT_FIELD(options.conflict_avoidance),
      "each worker learns from its retry rate how long transactions back off after a conflict, and how many run "
      "at a time");
  keys.integer("backoff_unit_ns", WEFT_FIELD(options.backoff_unit_ns), 0, ConflictAvoidance::kUnitNsMax,
               "with `conflict_avoidance`: the first backoff, in nanoseconds; 0: the fabric's round trip, as measured");

  keys.table = "fabric";
  keys.choice("kind", WEFT_FIELD(fabric.kind), {"tcp", "shm", "verbs"},
              "what carries messages: TCP, shared memory between processes of one host and one user, or RDMA");
  keys.text("listen", WEFT_FIELD(fabric.listen),
            "tcp and verbs: `host:port`, port 0 lets the kernel choose; shm: `@` and a name, or the path of a socket",
            "required");
  keys.text("advertise", WEFT_FIELD(fabric.advertise),
            "not shm: the `host:port` that the others connect to; required if `listen` is a wildcard",
            "what it listens on");
  keys.text("device", WEFT_FIELD(fabric.device.device), "verbs only: the RDMA device, as `weft doctor` lists them",
            "the first with a port that works");
  keys.integer("device_port", WEFT_FIELD(fabric.device.port), 1, 255, "verbs only: the device's port");
  keys.integer("gid_index", WEFT_FIELD(fabric.device.gid_index), 0, 255, "verbs only: which of the port's GIDs",
               "the first of RoCE v2 with an IPv4 address, else the first");
  keys.choice("remote_lock_mode", WEFT_FIELD(options.remote_lock_mode), {"messages", "loopback"},
              "verbs only: how protocols that lock by verbs do it if the device's atomics do not go with the "
              "processor's; the same for all nodes");

  keys.text(
      "verb_credit", WEFT_FIELD(options.verb_credit),
      "verbs only: how many one-sided verbs a worker may have in flight, for protocols that use them: `\"auto\"`, "
      "what it measures to be best; a number, `\"1\"` to `\"4096\"`; or `\"off\"`, any",
      "`\"auto\"`");

  keys.table = "fabric.tls";
  keys.path("ca", WEFT_FIELD(fabric.tls.ca),
            "not shm: PEM file with the certificates of the cluster's authority. With verbs only set-up is encrypted",
            "no TLS");
  keys.path("certificate", WEFT_FIELD(fabric.tls.certificate),
            "PEM file with this node's certificate and what is between it and the authority", "no TLS");
  keys.path("key", WEFT_FIELD(fabric.tls.key), "PEM file with the certificate's private key, without a passphrase",
            "no TLS");
  keys.boolean(
      "any_node", WEFT_FIELD(fabric.tls.any_node),
      "a certificate need not name its node (`URI:weft://NAME/node/ID`): who has any of the authority may be any "
      "node");

  keys.table = "membership";
  keys.choice("kind", WEFT_FIELD(membership.kind), {"supervisor", "zookeeper"},
              "who holds the view: the supervisor of a cluster on one host, or ZooKeeper");
  keys.text("socket", WEFT_FIELD(membership.socket), "supervisor only: its socket, `@` and a name or a path",
            "required for supervisor");
  keys.text("hosts", WEFT_FIELD(membership.hosts), "zookeeper only: its servers, `host:port,host:port`",
            "required for zookeeper");
  keys.text("path", WEFT_FIELD(membership.path), "zookeeper only: the node that holds the view",
            "`/weft/NAME/view` with the cluster's name");
  keys.text("auth", WEFT_FIELD(membership.auth), "zookeeper only: `user:password` of its digest scheme", "none");
  keys.rows.back().secret = true;

  keys.table = "client";
  keys.text("listen", WEFT_FIELD(client.listen),
            "`host:port` where clients are answered (Redis protocol); port 0 lets the kernel choose");
  keys.text("advertise", WEFT_FIELD(client.advertise),
            "the `host:port` of this node that clients of the cluster are told (`CLUSTER SLOTS`)", "`listen`");
  keys.text("password", WEFT_FIELD(client.password), "what clients give first, with `AUTH`", "none");
  keys.rows.back().secret = true;
  keys.path("password_file", WEFT_FIELD(client.password_file),
            "instead of `password`: a file whose first line it is; only its owner should be able to read it", "none");
  keys.integer("clients_max", WEFT_FIELD(client.clients_max), 1, 1'000'000,
               "connections of clients to this node; one more takes the place of one that has not given the password, "
               "or whose TLS handshake is not over, or is refused");
  keys.integer("handshake_ms", WEFT_FIELD(client.handshake_ms), 100, 3'600'000,
               "from connecting until the TLS handshake is over and the password given, where there are any; then the "
               "connection is closed");
  keys.integer("idle_seconds", WEFT_FIELD(client.idle_seconds), 0, 31'536'000,
               "a connection that asks nothing for so long is closed; 0: never");
  keys.integer("keepalive_seconds", WEFT_FIELD(client.keepalive_seconds), 0, 32'767,
               "after so long without a word the kernel asks whether the other end is still there (TCP keepalive); 0: "
               "never");
  keys.size("query_bytes_max", WEFT_FIELD(client.query_bytes_max), 64 * kKiB, 1024 * kMiB, "the longest command");
  keys.integer("pipeline_max", WEFT_FIELD(client.pipeline_max), 1024, 1'000'000'000,
               "commands of a client whose answers it has not taken; then its connection is closed");
  keys.size("output_held_bytes", WEFT_FIELD(client.output_held_bytes), 4 * kKiB, 1024 * kMiB,
            "answers that a client has not read; then it is not served until it has");
  keys.size("output_total_bytes", WEFT_FIELD(client.output_total_bytes), kMiB, kTiB,
            "the same of all clients, with the room in buffers; above it those that read nothing are closed, the "
            "largest first, and above twice as much whoever holds most");
  keys.size("input_total_bytes", WEFT_FIELD(client.input_total_bytes), kMiB, kTiB,
            "commands of all clients that are not complete, and between `MULTI` and `EXEC`; above it those that send "
            "nothing are closed, the largest first, and above twice as much whoever holds most");
  keys.integer("turn_us", WEFT_FIELD(client.turn_us), 10, 100'000,
               "work for clients that a worker does in one turn, as estimated; the rest goes on next turn");
  keys.integer("command_us_max", WEFT_FIELD(client.command_us_max), 1000, 1'000'000,
               "work of one command, as estimated before it runs; more is refused");
  keys.integer("exec_us_max", WEFT_FIELD(client.exec_us_max), 1000, 10'000'000,
               "the same of one `EXEC`, which is done over several turns");
  keys.integer("slowlog_us", WEFT_FIELD(client.slowlog_us), 0, 1'000'000'000,
               "microseconds until its answer that put a command into `SLOWLOG`");
  keys.integer("slowlog_length", WEFT_FIELD(client.slowlog_length), 0, SlowLog::kEntriesMax,
               "commands that `SLOWLOG` keeps, the newest ones");
  keys.boolean("debug", WEFT_FIELD(client.debug), "commands that break things on purpose are allowed: for tests");

  keys.table = "client.tls";
  keys.path("certificate", WEFT_FIELD(client.tls.certificate), "PEM file with the certificate that clients are shown",
            "no TLS");
  keys.path("key", WEFT_FIELD(client.tls.key), "PEM file with its private key, without a passphrase", "no TLS");
  keys.path("ca", WEFT_FIELD(client.tls.ca), "PEM file with an authority: clients show a certificate that it signed",
            "clients show none");

  keys.table = "http";
  keys.text(
      "listen", WEFT_FIELD(http.listen),
      "`host:port` of the status page, `/status` and `/metrics`; port 0 lets the kernel choose. Not loopback: with "
      "`password` and `[http.tls]`, or with `open`",
      "no HTTP");
  keys.text("password", WEFT_FIELD(http.password), "what visitors give: HTTP Basic with any name, or Bearer", "none");
  keys.rows.back().secret = true;
  keys.path("password_file", WEFT_FIELD(http.password_file), "instead of `password`: a file whose first line it is",
            "none");
  keys.boolean("open", WEFT_FIELD(http.open),
               "an address that is not loopback may be without a password or TLS: who reaches it may look");

  keys.table = "http.tls";
  keys.path("certificate", WEFT_FIELD(http.tls.certificate), "PEM file with the certificate that visitors are shown",
            "no TLS");
  keys.path("key", WEFT_FIELD(http.tls.key), "PEM file with its private key, without a passphrase", "no TLS");
  keys.path("ca", WEFT_FIELD(http.tls.ca),
            "PEM file with an authority: visitors show a certificate that it signed, and need no password",
            "visitors show none");

  keys.table = "store";
  keys.size("memory_bytes_max", WEFT_FIELD(store.memory_bytes_max), 0, 16 * kTiB,
            "memory of this node for records and their index; 0: enough for `capacity` of the longest values");
  keys.integer("capacity", WEFT_FIELD(store.capacity), 1, 10'000'000'000,
               "records in the cluster, replicas not counted; the index is sized for it");
  keys.size("value_bytes_max", WEFT_FIELD(store.value_bytes_max), 1, kTableValueBytesMax - kValueHeaderBytesMax,
            "the longest value; at most `limits.value_bytes_max`",
            "\"16MiB\", or `limits.value_bytes_max` if that is less");
  keys.boolean("ordered", WEFT_FIELD(store.ordered),
               "keys are kept in order, too, for `WEFT SCAN`: that takes memory, and time for every key that is made; "
               "the same for all nodes");

  keys.table = "limits";
  keys.integer("transactions_in_flight_max", WEFT_FIELD(options.limits.transactions_in_flight_max), 1, 200,
               "transactions that a worker runs at a time");
  keys.size("key_bytes_max", WEFT_FIELD(options.limits.key_bytes_max), 8, kKeyBytesMax, "the longest key");
  keys.size("value_bytes_max", WEFT_FIELD(options.limits.value_bytes_max), 1, kTableValueBytesMax,
            "the longest value of any table");
  keys.integer("txn_keys_max", WEFT_FIELD(options.limits.txn_keys_max), 1, 4096,
               "keys that one transaction reads or writes");
  keys.size("txn_bytes_max", WEFT_FIELD(options.limits.txn_bytes_max), kKiB, 64 * kMiB,
            "values that one transaction reads, and keys and values that it writes");
  keys.size("credit_bytes", WEFT_FIELD(options.limits.credit_bytes), 4 * kKiB, 64 * kMiB,
            "messages and answers under way, per worker and peer");
  keys.size("transfer_chunk_bytes", WEFT_FIELD(options.limits.transfer_chunk_bytes), 256, kMiB,
            "copies that a primary sends in one piece to a replica that is catching up");
  keys.integer("mailbox", WEFT_FIELD(options.limits.mailbox), 1, kMiB,
               "calls from other threads that wait for a worker");
  keys.size("outcome_bytes", WEFT_FIELD(options.limits.outcome_bytes), 64 * kKiB, 1024 * kMiB,
            "outcomes of decided transactions that a worker keeps for a minute, four a byte");
  keys.integer("outcome_timeout_ms", WEFT_FIELD(options.limits.outcome_timeout_ms), 1, 600'000,
               "how long `WEFT OUTCOME` waits before it says that the outcome is not known yet");
  keys.integer("answer_ms", WEFT_FIELD(options.limits.answer_ms), 1, 600'000,
               "how long a command waits for the other nodes before it ends with an error; at least twice "
               "`cluster.lease_ms`",
               "`10000`, or twice `cluster.lease_ms` if that is more");
  keys.size("ring_bytes", WEFT_FIELD(options.limits.ring_bytes), 4 * kKiB, 64 * kMiB,
            "rows that log by verbs: the ring of a worker at each other node");
  keys.size("location_bytes", WEFT_FIELD(options.limits.location_bytes), 0, 1024 * kMiB,
            "rows that read by verbs: what a worker remembers of where records are; 0: nothing");
  return std::move(keys.rows);
}

#undef WEFT_FIELD

const std::vector<ConfigKey>& all_keys() {
  static const std::vector<ConfigKey> kKeys = make_keys();
  return kKeys;
}

struct Unit {
  std::string_view name;
  uint64_t bytes;
};
constexpr std::array kUnits = {Unit{"TiB", kTiB}, Unit{"GiB", uint64_t{1} << 30}, Unit{"MiB", kMiB}, Unit{"KiB", kKiB}};

void append_escaped(std::string& out, char c) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  if (c == '"' || c == '\\') {
    out += '\\';
    out += c;
  } else if (c == '\n') {
    out += "\\n";
  } else if (c == '\t') {
    out += "\\t";
  } else if (byte < 0x20 || byte == 0x7f) {
    out += "\\u00";
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  } else {
    out += c;
  }
}

}  // namespace

std::span<const ConfigKey> config_keys() { return all_keys(); }

const ConfigKey* find_key(std::string_view full_name) {
  const size_t dot = full_name.rfind('.');
  if (dot == std::string_view::npos) return nullptr;
  for (const ConfigKey& key : config_keys()) {
    if (key.table == full_name.substr(0, dot) && key.name == full_name.substr(dot + 1)) return &key;
  }
  return nullptr;
}

std::string ConfigKey::expected() const {
  std::string out;
  switch (type) {
    case KeyType::kInteger:
      return "an integer, " + std::to_string(low) + " to " + std::to_string(high);
    case KeyType::kSize:
      return "a size, " + size_text(low) + " to " + size_text(high) +
             " (an integer, or a string with KiB, MiB, GiB or TiB)";
    case KeyType::kBoolean:
      return "true or false";
    case KeyType::kChoice:
      for (const std::string_view choice : choices) out += (out.empty() ? "" : ", ") + toml_string(choice);
      return "one of " + out;
    case KeyType::kText:
      return "a string";
  }
  return out;
}

std::string value_text(const ConfigKey& key, const NodeConfig& config) {
  // The accessors are written once, for reading and writing; this one only reads.
  auto& from = const_cast<NodeConfig&>(config);
  return std::visit(
      [&](auto field) -> std::string {
        const auto& value = field(from);
        using T = std::remove_cvref_t<decltype(value)>;
        if constexpr (std::is_same_v<T, bool>) {
          return value ? "true" : "false";
        } else if constexpr (std::is_same_v<T, std::string>) {
          return toml_string(value);
        } else if constexpr (std::is_same_v<T, NodeId>) {
          return std::to_string(value.value);
        } else if constexpr (std::is_enum_v<T>) {
          return toml_string(key.choices[static_cast<size_t>(value)]);
        } else if (key.type == KeyType::kSize && size_text(value) != std::to_string(value)) {
          return toml_string(size_text(value));
        } else {
          return std::to_string(value);
        }
      },
      key.field);
}

std::string size_text(uint64_t bytes) {
  for (const Unit& unit : kUnits) {
    if (bytes != 0 && bytes % unit.bytes == 0) return std::to_string(bytes / unit.bytes).append(unit.name);
  }
  return std::to_string(bytes);
}

bool parse_size(std::string_view text, uint64_t& bytes) {
  const char* const end = text.data() + text.size();
  uint64_t count = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, count);
  if (error != std::errc() || rest == text.data()) return false;
  const std::string_view name(rest, static_cast<size_t>(end - rest));
  uint64_t scale = name.empty() ? 1 : 0;
  for (const Unit& unit : kUnits) {
    if (unit.name == name) scale = unit.bytes;
  }
  return scale != 0 && !__builtin_mul_overflow(count, scale, &bytes);
}

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) append_escaped(out, c);
  return out + '"';
}

std::string shown(std::string_view text) {
  constexpr size_t kShown = 80;
  if (text.size() <= kShown) return toml_string(text);
  size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not inside a character
  return toml_string(text.substr(0, end)) + "... (" + std::to_string(text.size()) + " bytes)";
}

std::string_view renamed_key(std::string_view full_name) {
  struct Renamed {
    std::string_view was, is;
  };
  static constexpr Renamed kRenamed[] = {
      {"cluster.founders", "cluster.initial_members"},          {"fabric.locks", "fabric.remote_lock_mode"},
      {"limits.inflight", "limits.transactions_in_flight_max"}, {"limits.fill_bytes", "limits.transfer_chunk_bytes"},
      {"limits.outcome_wait_ms", "limits.outcome_timeout_ms"},
  };
  for (const Renamed& key : kRenamed) {
    if (key.was == full_name) return key.is;
  }
  return {};
}

}  // namespace weft
