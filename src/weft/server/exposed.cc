#include "weft/server/exposed.h"

#include "weft/redis/address.h"
#include "weft/wires/tcp/certificates.h"

namespace weft {
namespace {

// An invalid address is reported elsewhere.
bool on_loopback(const std::string& address) {
  const Result<HostPort> at = parse_host_port(address);
  return !at || at->is_loopback();
}

bool fabric_is_open(const FabricConfig& fabric) {
  return fabric.kind != FabricKind::kShm && !fabric.has_tls() && !on_loopback(fabric.listen);
}

bool clients_are_open(const ClientConfig& client) {
  return client.password.empty() && client.tls.ca.empty() && !on_loopback(client.listen);
}

// What HTTP lacks for a public address.
std::string missing_of(const HttpConfig& http) {
  const bool nobody_asked = http.password.empty() && http.tls.ca.empty();
  if (nobody_asked && !http.has_tls()) return "http.password and [http.tls] are";
  if (nobody_asked) return "http.password is";
  return http.has_tls() ? "" : "[http.tls] is";
}

}  // namespace

std::string http_fault(const HttpConfig& http) {
  const std::string missing = missing_of(http);
  if (http.open || missing.empty() || on_loopback(http.listen)) return {};
  return "it is not a loopback address, and " + missing + " missing";
}

std::string shared_authority(const NodeConfig& config) {
  const std::string& nodes = config.fabric.tls.ca;
  if (nodes.empty()) return {};
  const std::string &clients = config.client.tls.ca, &visitors = config.http.tls.ca;
  if (!clients.empty() && trusts_authority(nodes, clients)) return "client.tls.ca";
  if (!visitors.empty() && trusts_authority(nodes, visitors)) return "http.tls.ca";
  return {};
}

std::vector<Exposure> exposures(const NodeConfig& config) {
  std::vector<Exposure> out;
  const MembershipConfig& membership = config.membership;
  if (membership.kind == MembershipKind::kZooKeeper && membership.auth.empty()) {
    out.push_back({"membership.auth", "it is not given: whoever reaches ZooKeeper at " + membership.hosts +
                                          " can change the view, and so remove nodes and name others in their place"});
  }
  if (fabric_is_open(config.fabric)) {
    out.push_back({"fabric.tls", "it is not given: whoever reaches " + config.fabric.listen +
                                     " may say that it is a node, and who is on the way reads all data"});
  }
  if (config.fabric.has_tls() && config.fabric.tls.any_node) {
    out.push_back({"fabric.tls.any_node", "it is true: whoever has a certificate of the authority in " +
                                              config.fabric.tls.ca + " may be any node"});
  }
  if (const std::string key = shared_authority(config); !key.empty()) {
    out.push_back({key,
                   "its authority is one that fabric.tls.ca trusts: nothing but the name in a certificate keeps "
                   "apart whom it signed for this from a node"});
  }
  if (clients_are_open(config.client)) {
    out.push_back(
        {"client.password", "it is not given: whoever reaches " + config.client.listen + " reads and writes all data"});
  }
  const std::string missing = missing_of(config.http);
  if (!config.http.listen.empty() && !missing.empty() && !on_loopback(config.http.listen)) {
    out.push_back({"http.open", "it is true, and " + missing + " missing: whoever reaches " + config.http.listen +
                                    " sees figures, names and addresses of the cluster"});
  }
  return out;
}

}  // namespace weft
