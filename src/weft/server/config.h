// The configuration of one node's process, `weft server --config FILE`: plain data with defaults, read from TOML and
// checked completely before anything starts.
//
//   config.h         this: the data, reading, writing
//   config_keys.h    every key as a row: type, range, meaning
//   config_read.h    from the text to the data, key by key
//   config_check.h   what must hold between keys, and with the machine
//   config_text.cc   from the data to a text
//
// docs/configuration.md is for those who write a file, examples/node.toml is one. No thread-safety is needed: a
// process reads its configuration before it has threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/options.h"
#include "weft/status.h"
#include "weft/txn/node.h"
#include "weft/types.h"
#include "weft/wires/tcp/tls.h"
#include "weft/wires/verbs/device_selector.h"

namespace weft {

inline constexpr size_t kConfigBytesMax = 1 << 20;        // of a file
inline constexpr size_t kConfigLineBytesMax = 4096;       // bounds how deep a dotted key can nest
inline constexpr size_t kConfigErrorsMax = 100;           // that are reported; the rest is counted
inline constexpr size_t kPasswordBytesMax = 4096;         // of the first line of a file
inline constexpr std::string_view kStoreTable = "store";  // the name of the frontend's table

enum class FabricKind : uint8_t { kTcp, kShm, kVerbs };
enum class MembershipKind : uint8_t { kSupervisor, kZooKeeper };

std::string_view fabric_name(FabricKind kind);  // "tcp": as in a file, and as make_interconnect knows it

struct FabricConfig {
  FabricKind kind = FabricKind::kTcp;
  std::string listen;     // tcp, verbs: host:port, port 0: the kernel chooses; shm: '@' and a name, or a socket's path
  std::string advertise;  // tcp, verbs: what the others connect to; empty: what it listens on
  VerbsDeviceSelector device;  // verbs
  TcpTlsFiles tls;             // tcp, verbs: all three, or none
  bool has_tls() const { return !tls.ca.empty(); }
};

struct MembershipConfig {
  MembershipKind kind = MembershipKind::kSupervisor;
  std::string socket;  // supervisor: '@' and a name, or a path
  std::string hosts;   // zookeeper: host:port,host:port
  std::string path;    // zookeeper: of the view's node
  std::string auth;    // zookeeper: user:password; empty: none
};

struct ClientConfig {
  std::string listen = "127.0.0.1:7379";
  std::string advertise;      // the address announced to clients; empty: where it listens
  std::string password;       // required of clients; empty: none
  std::string password_file;  // holds it in its first line. Empty once the file is checked: then `password` has it
  TcpTlsFiles tls;            // certificate and key, or none; with `ca` clients must present a certificate, too
  uint32_t clients_max = 10'000;
  uint32_t handshake_ms = 10'000;
  uint32_t idle_seconds = 0;
  uint32_t keepalive_seconds = 300;
  uint64_t query_bytes_max = 64 << 20;
  uint32_t pipeline_max = 100'000;
  uint64_t output_held_bytes = 1 << 20;
  uint64_t output_total_bytes = 256 << 20;
  uint64_t input_total_bytes = 256 << 20;
  uint32_t turn_us = 500;
  uint32_t command_us_max = 10'000;
  uint32_t exec_us_max = 100'000;
  uint32_t slowlog_us = 10'000;
  uint32_t slowlog_length = 128;
  bool debug = false;
  bool has_tls() const { return !tls.certificate.empty() || !tls.key.empty() || !tls.ca.empty(); }
};

struct HttpConfig {
  std::string listen;         // host:port; empty: no HTTP
  std::string password;       // required of HTTP clients; empty: none
  std::string password_file;  // as that of clients
  bool open = false;          // allows addresses other than loopback without a password or TLS
  TcpTlsFiles tls;            // as those of clients
  bool has_tls() const { return !tls.certificate.empty() || !tls.key.empty() || !tls.ca.empty(); }
};

struct StoreConfig {
  uint64_t memory_bytes_max = 1 << 30;  // of this node; 0: derived from the other two
  uint64_t capacity = 1'000'000;        // records in the cluster, replicas not counted
  uint32_t value_bytes_max = 16 << 20;
  bool ordered = false;
};

// A supervisor sees at once when a process ends: the lease is only for a process that hangs, and may be longer than a
// busy machine delays a process.
inline constexpr uint32_t kLeaseMs = 500;
inline constexpr uint32_t kSupervisedLeaseMs = 2000;

inline constexpr std::string_view kProtocolAuto = "auto";

struct NodeConfig {
  std::string cluster;  // its id: both ends of a connection must agree
  NodeId node;
  NodeRoles roles = NodeRoles::kBoth;
  Options options = [] {
    Options defaults;
    defaults.protocol = kProtocolAuto;
    return defaults;
  }();
  int initial_members = 0;  // nodes that the first view waits for: those with the lowest ids. Not given: all
  uint32_t lease_ms = kLeaseMs;
  FabricConfig fabric;
  MembershipConfig membership;
  ClientConfig client;
  HttpConfig http;
  StoreConfig store;
};

// Without errors the configuration is valid. Each error is `path:line:column: text`, in the order of the file; errors
// about the entire file are `path: text`.
struct LoadedConfig {
  NodeConfig config;
  std::vector<std::string> errors;
  std::vector<std::string> warnings{};  // `path: text`: valid, but somebody should know
  explicit operator bool() const { return errors.empty(); }
};

// The password in the first line of a file, which must be a valid one, and a warning about who else may read the file.
struct PasswordFile {
  std::string password;
  std::string warning;  // empty: nothing
};
Result<PasswordFile> read_password_file(const std::string& path);

// Relative paths in the file start at the file's folder, and are made absolute.
LoadedConfig load_config(const std::string& path);
// The same for a text from elsewhere; `path` names it in errors and determines the folder.
LoadedConfig parse_config(std::string_view text, const std::string& path);

// Changes only the keys that the text gives; returns its errors, as in LoadedConfig. Keys are checked alone: two may
// still contradict each other. Relative paths become absolute as above; for a single key they start at the working
// directory.
std::vector<std::string> change_config(NodeConfig& config, std::string_view text, const std::string& path);
std::vector<std::string> change_config_by_file(NodeConfig& config, const std::string& path);
// The same for one key as a person types it: `cluster.lease_ms=500`, `client.password=secret`,
// `limits.transfer_chunk_bytes=64KiB`.
std::vector<std::string> set_key(NodeConfig& config, const std::string& assignment);

// With every key that applies to its kinds of fabric and membership. Reading it again gives the same configuration,
// from any folder if its paths are absolute. Strings are UTF-8.
std::string to_toml(const NodeConfig& config);

// What the nodes must agree on: the options and the one table that clients use.
ClusterSpec spec_of(const NodeConfig& config);
// The row with which the node's cluster is founded, if it is not there yet: what the configuration says, or with "auto"
// the fastest for Redis's commands (docs/decisions.md).
std::string founding_protocol(const NodeConfig& config);

// The tables of docs/configuration.md: every key with its type, default and meaning.
std::string config_reference();

}  // namespace weft
