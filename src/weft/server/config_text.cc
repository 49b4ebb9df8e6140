#include <string>
#include <string_view>

#include "weft/server/config.h"
#include "weft/server/config_keys.h"

namespace weft {
namespace {

// Whether a key applies to the kinds of fabric and membership.
bool applies(const ConfigKey& key, const NodeConfig& config) {
  if (key.secret && value_text(key, config) == toml_string("")) return false;
  const bool shm = config.fabric.kind == FabricKind::kShm;
  const bool zookeeper = config.membership.kind == MembershipKind::kZooKeeper;
  if (key.table == "fabric.tls") return !shm && config.fabric.has_tls();
  if (key.table == "fabric" && key.name == "advertise") return !shm;
  if (key.table == "fabric" && key.name == "gid_index" && config.fabric.device.gid_index < 0) return false;
  if (key.table == "fabric" && key.name == "verb_credit" && config.options.verb_credit.empty()) return false;
  if (key.table == "fabric" && (key.name.starts_with("device") || key.name == "gid_index" ||
                                key.name == "remote_lock_mode" || key.name == "verb_credit")) {
    return config.fabric.kind == FabricKind::kVerbs;
  }
  if (key.name == "password_file" && value_text(key, config) == toml_string("")) return false;
  if (key.table.starts_with("http") && config.http.listen.empty()) return false;
  if (key.table == "http.tls") return config.http.has_tls() && (key.name != "ca" || !config.http.tls.ca.empty());
  if (key.table == "client.tls") return config.client.has_tls() && (key.name != "ca" || !config.client.tls.ca.empty());
  if (key.table == "cluster" && key.name == "initial_members") return config.initial_members != 0;
  if (key.table != "membership" || key.name == "kind") return true;
  return (key.name == "socket") != zookeeper;
}

// For the reference page: "integer, 1 to 63".
std::string type_text(const ConfigKey& key) {
  std::string out;
  switch (key.type) {
    case KeyType::kInteger:
      return "integer, " + std::to_string(key.low) + " to " + std::to_string(key.high);
    case KeyType::kSize:
      return "size, " + size_text(key.low) + " to " + size_text(key.high);
    case KeyType::kBoolean:
      return "boolean";
    case KeyType::kChoice:
      for (const std::string_view choice : key.choices) out += (out.empty() ? "`" : ", `") + toml_string(choice) + "`";
      return out;
    case KeyType::kText:
      return "string";
  }
  return out;
}

}  // namespace

std::string to_toml(const NodeConfig& config) {
  std::string out = "# Written by weft; docs/configuration.md says what each key means.\n";
  std::string_view table;
  for (const ConfigKey& key : config_keys()) {
    if (!applies(key, config)) continue;
    if (key.table != table) out += "\n[" + std::string(key.table) + "]\n";
    table = key.table;
    out += std::string(key.name) + " = " + value_text(key, config) + "\n";
  }
  return out;
}

std::string config_reference() {
  const NodeConfig defaults;
  std::string out;
  std::string_view table;
  for (const ConfigKey& key : config_keys()) {
    if (key.table != table) {
      out += (out.empty() ? "### [" : "\n### [") + std::string(key.table) + "]\n\n";
      out += "| key | type | default | meaning |\n|---|---|---|---|\n";
      table = key.table;
    }
    const std::string fallback =
        key.fallback.empty() ? "`" + value_text(key, defaults) + "`" : std::string(key.fallback);
    out += "| `" + std::string(key.name) + "` | " + type_text(key) + " | " + fallback + " | " + std::string(key.about) +
           " |\n";
  }
  return out;
}

}  // namespace weft
