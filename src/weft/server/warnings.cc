#include "weft/server/warnings.h"

#include "weft/server/address.h"

namespace weft {

std::vector<StartWarning> start_warnings(const LoadedConfig& loaded, bool root) {
  std::vector<StartWarning> out;
  for (const std::string& warning : loaded.warnings) out.push_back({"config_warning", warning});
  if (root) out.push_back({"running_as_root", kRootWarning});
  const FabricConfig& fabric = loaded.config.fabric;
  const Result<HostPort> at = parse_host_port(fabric.listen);
  if (fabric.kind != FabricKind::kShm && !fabric.has_tls() && at && !is_loopback(*at)) {
    out.push_back({"fabric_without_tls", "fabric.listen is " + fabric.listen +
                                             ", and there is no [fabric.tls]: who reaches it can pass for a node, and "
                                             "read and change all data"});
  }
  return out;
}

}  // namespace weft
