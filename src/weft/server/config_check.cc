#include "weft/server/config_check.h"

#include <algorithm>
#include <set>

#include "weft/redis/address.h"
#include "weft/server/config_checker.h"
#include "weft/server/config_keys.h"
#include "weft/store/table.h"
#include "weft/store/table_space.h"
#include "weft/txn/one_sided.h"
#include "weft/wires/tcp/hello.h"

namespace weft {
namespace {

constexpr std::string_view kName = "1 to 64 letters, digits, '-', '_' or '.'";
constexpr std::string_view kListen = "host:port, port 0 to 65535";
constexpr std::string_view kSocket = "'@' and a name, or a path";
constexpr std::string_view kHosts = "host:port, separated by commas";
constexpr std::string_view kZooKeeperPath = "a path like /weft/orders/view";
constexpr std::string_view kAuth = "user:password";
constexpr std::string_view kVerbCredit = "\"auto\", \"off\" or \"1\" to \"4096\"";
static_assert(kVerbCreditMax == 4096);
constexpr std::string_view kVerbsOnly = "fabric.kind = \"verbs\"";
static_assert(kTcpNameBytesMax == 64);

}  // namespace

bool ConfigChecker::host_port(std::string_view key, std::string_view expected, HostPort& out) {
  const Result<HostPort> parsed = parse_host_port(text_of(key));
  if (!parsed) {
    wrong(key, parsed.error().detail, expected);
  } else if (expected == kPeerAddress && (*parsed).port == 0) {
    wrong(key, "nobody can connect to port 0", expected);
  } else if (expected == kPeerAddress && (*parsed).is_wildcard()) {
    wrong(key, "nobody can connect to a wildcard", expected);
  } else {
    out = *parsed;
    return true;
  }
  return false;
}

void ConfigChecker::socket_address(std::string_view key) {
  std::string& address = text_of(key);
  if (!is_abstract_socket(address)) make_absolute(address);
  if (const auto r = check_socket_address(address); !r) wrong(key, r.error().detail, kSocket);
}

void ConfigChecker::cluster() {
  if (required("cluster.name", kName)) {
    const bool plain = std::all_of(c_.cluster.begin(), c_.cluster.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
             c == '.';
    });
    if (c_.cluster.empty()) {
      wrong("cluster.name", "it is empty", kName);
    } else if (c_.cluster.size() > kTcpNameBytesMax) {
      wrong("cluster.name", "it has " + std::to_string(c_.cluster.size()) + " bytes", kName);
    } else if (!plain || c_.cluster == "." || c_.cluster == "..") {
      wrong("cluster.name", plain ? "a path cannot go through it" : "it has other characters", kName);
    }
  }
  required("node.id", find_key("node.id")->expected());

  Options& o = c_.options;
  if (!given("cluster.initial_members") || !sound("cluster.initial_members")) c_.initial_members = o.nodes;
  if (!given("cluster.replicas")) o.replicas = std::min({o.replicas, o.nodes, c_.initial_members});
  if (o.replicas > o.nodes && sound("cluster.nodes")) {
    fault("cluster.replicas",
          " is " + std::to_string(o.replicas) + ", expected at most " + std::to_string(o.nodes) + " (cluster.nodes)");
  }
  if (c_.initial_members > o.nodes && sound("cluster.nodes")) {
    fault("cluster.initial_members", " is " + std::to_string(c_.initial_members) + ", expected at most " +
                                         std::to_string(o.nodes) + " (cluster.nodes)");
  } else if (c_.initial_members < o.replicas && given("cluster.initial_members") && sound("cluster.replicas")) {
    fault("cluster.initial_members", " is " + std::to_string(c_.initial_members) + ", expected at least " +
                                         std::to_string(o.replicas) + " (cluster.replicas)");
  }
  if (given("node.id") && sound("node.id") && sound("cluster.nodes") && c_.node.value >= o.nodes) {
    fault("node.id",
          " is " + std::to_string(c_.node.value) + ", expected below " + std::to_string(o.nodes) + " (cluster.nodes)");
  }
  if (o.threads > o.workers && sound("cluster.workers")) {
    fault("node.threads", " is " + std::to_string(o.threads) + ", expected at most " + std::to_string(o.workers) +
                              " (cluster.workers)");
  }
}

void ConfigChecker::fabric() {
  if (!sound("fabric.kind")) return;
  const bool shm = c_.fabric.kind == FabricKind::kShm;
  only_for("fabric.advertise", !shm, kOnlyNotShm);
  for (const std::string_view key :
       {"fabric.device", "fabric.device_port", "fabric.gid_index", "fabric.remote_lock_mode", "fabric.verb_credit"}) {
    only_for(key, c_.fabric.kind == FabricKind::kVerbs, kVerbsOnly);
  }
  if (given("fabric.verb_credit") && sound("fabric.verb_credit") &&
      (c_.options.verb_credit.empty() || !verb_credit_of(c_.options))) {
    fault("fabric.verb_credit", " is " + shown(c_.options.verb_credit) + ", expected " + std::string(kVerbCredit));
    c_.options.verb_credit.clear();
  }
  HostPort listen, advertise;
  const bool listens = required("fabric.listen", shm ? kSocket : kListen);
  if (shm) {
    if (listens) socket_address("fabric.listen");
    return;
  }
  const bool sound_listen = listens && host_port("fabric.listen", kListen, listen);
  if (!sound("fabric.advertise")) return;
  if (!c_.fabric.advertise.empty()) {
    host_port("fabric.advertise", kPeerAddress, advertise);
  } else if (sound_listen && listen.is_wildcard()) {
    fault("fabric.advertise", " is missing, expected " + std::string(kPeerAddress) +
                                  ": nobody can connect to fabric.listen, " + toml_string(c_.fabric.listen));
  }
}

void ConfigChecker::membership() {
  if (!sound("membership.kind")) return;
  const bool zookeeper = c_.membership.kind == MembershipKind::kZooKeeper;
  if (!given("cluster.lease_ms")) c_.lease_ms = zookeeper ? kLeaseMs : kSupervisedLeaseMs;
  answer_limit();
  only_for("membership.socket", !zookeeper, "membership.kind = \"supervisor\"");
  for (const std::string_view key : {"membership.hosts", "membership.path", "membership.auth"}) {
    only_for(key, zookeeper, "membership.kind = \"zookeeper\"");
  }
  if (!zookeeper) {
    if (required("membership.socket", kSocket)) socket_address("membership.socket");
    return;
  }
  if (sound("fabric.kind") && c_.fabric.kind == FabricKind::kShm) {
    fault("membership.kind",
          " is \"zookeeper\", expected \"supervisor\" with fabric.kind = \"shm\": who shares memory "
          "is fenced only by the end of its process, and only a supervisor sees that");
  }
  if (required("membership.hosts", kHosts)) hosts();
  std::string& path = c_.membership.path;
  if (path.empty() && sound("membership.path")) path = "/weft/" + c_.cluster + "/view";
  const std::string why = zookeeper_path_fault(path);
  if (given("membership.path") && sound("membership.path") && !why.empty()) {
    wrong("membership.path", why, kZooKeeperPath);
  }
  const std::string& auth = c_.membership.auth;
  if (!given("membership.auth") || !sound("membership.auth")) return;
  const size_t colon = auth.find(':');
  if (auth.empty()) {
    wrong("membership.auth", "it is empty", kAuth);
  } else if (colon == std::string::npos) {
    wrong("membership.auth", "there is no ':'", kAuth);
  } else if (colon == 0 || colon + 1 == auth.size()) {
    wrong("membership.auth", colon == 0 ? "the user is empty" : "the password is empty", kAuth);
  }
}

// It takes a lease to detect a silent node, and some more time to continue without it: no command should fail for
// that.
void ConfigChecker::answer_limit() {
  uint32_t& answer_ms = c_.options.limits.answer_ms;
  if (!given("limits.answer_ms")) {
    answer_ms = std::max(answer_ms, 2 * c_.lease_ms);
  } else if (sound("limits.answer_ms") && sound("cluster.lease_ms") && answer_ms < 2 * c_.lease_ms) {
    fault("limits.answer_ms", " is " + std::to_string(answer_ms) + ", expected at least " +
                                  std::to_string(2 * c_.lease_ms) + ", twice cluster.lease_ms, which is " +
                                  std::to_string(c_.lease_ms));
  }
}

void ConfigChecker::hosts() {
  constexpr std::string_view kKey = "membership.hosts";
  const std::string& all = c_.membership.hosts;
  std::set<std::string, std::less<>> seen;
  for (size_t at = 0; at <= all.size();) {
    const size_t end = std::min(all.find(',', at), all.size());
    const std::string one = all.substr(at, end - at);
    const Result<HostPort> parsed = parse_host_port(one);
    if (!parsed) return wrong(kKey, shown(one) + ": " + parsed.error().detail, kHosts);
    if ((*parsed).port == 0) return wrong(kKey, shown(one) + ": nobody can connect to port 0", kHosts);
    if (!seen.insert(one).second) return wrong(kKey, shown(one) + " is there twice", kHosts);
    at = end + 1;
  }
}

// All addresses of the process must be different.
void ConfigChecker::addresses() {
  HostPort client, http;
  const bool served = sound("client.listen") && host_port("client.listen", kListen, client);
  const bool shown_at = given("http.listen") && sound("http.listen") && host_port("http.listen", kListen, http);
  const auto meets = [](const HostPort& a, const HostPort& b) {
    return a.port != 0 && a.port == b.port && (a.host == b.host || a.is_wildcard() || b.is_wildcard());
  };
  if (served && shown_at && meets(http, client)) {
    wrong("http.listen", "client.listen, " + shown(c_.client.listen) + ", has that port already", kListen);
  }
  if (!sound("fabric.kind") || !sound("fabric.listen")) return;
  if (c_.fabric.kind == FabricKind::kShm) {
    if (!c_.membership.socket.empty() && c_.membership.socket == c_.fabric.listen && sound("membership.socket")) {
      wrong("membership.socket", "fabric.listen has it already", kSocket);
    }
    return;
  }
  const Result<HostPort> fabric = parse_host_port(c_.fabric.listen);
  if (!fabric) return;
  const std::string has_it = "fabric.listen, " + shown(c_.fabric.listen) + ", has that port already";
  if (served && meets(client, *fabric)) wrong("client.listen", has_it, kListen);
  if (shown_at && meets(http, *fabric)) wrong("http.listen", has_it, kListen);
}

// Constraints of the transaction layer. Keys with errors above are reset first, so that nothing is reported twice.
void ConfigChecker::spec() {
  const Limits& limits = c_.options.limits;
  if (!given("store.value_bytes_max")) {
    c_.store.value_bytes_max = std::min(c_.store.value_bytes_max, limits.value_bytes_max);
  } else if (c_.store.value_bytes_max > limits.value_bytes_max) {
    fault("store.value_bytes_max", " is " + size_text(c_.store.value_bytes_max) + ", expected at most " +
                                       size_text(limits.value_bytes_max) + " (limits.value_bytes_max)");
  }
  ClusterSpec spec = spec_of(c_);
  Options& o = spec.options;
  o.replicas = std::min(o.replicas, o.nodes);
  o.threads = std::min(o.threads, o.workers);
  TableSpec& table = spec.tables.front();
  table.value_bytes_max = std::min(table.value_bytes_max, limits.value_bytes_max);
  Result<void> fits = check_spec(spec);
  if (fits) {
    TableOptions options;
    options.spec = table;
    options.partitions = options.partitions_held = o.partition_count();
    if (const auto layout = table_layout(options); !layout) fits = layout.error();
  }
  if (fits) return;

  std::string text = fits.error().detail;
  const std::string prefix = "table " + std::string(kStoreTable) + ": ";
  if (text.starts_with(prefix)) {
    text.erase(0, prefix.size());
    const bool names_key = find_key("store." + text.substr(0, text.find(' '))) != nullptr;
    text.insert(0, names_key ? "store." : "store: ");
  }
  // The first key that it names and the file has.
  std::string about = "store.capacity";
  size_t first = std::string::npos;
  for (const ConfigKey& key : config_keys()) {
    const size_t full = text.find(key.full_name());
    const size_t alone = key.table == "limits" ? full : text.find(" " + std::string(key.name) + " ");
    if (!given(key.full_name()) || std::min(full, alone) >= first) continue;
    about = key.full_name();
    first = std::min(full, alone);
  }
  if (sound(about)) read_.fault(about, text);
}

void check_config(ReadConfig& read, const std::string& folder) { ConfigChecker(read, folder).run(); }

}  // namespace weft
