#include "weft/server/warnings.h"

namespace weft {

std::vector<StartWarning> start_warnings(const LoadedConfig& loaded, bool root) {
  std::vector<StartWarning> out;
  for (const std::string& warning : loaded.warnings) out.push_back({"config_warning", warning});
  if (root) out.push_back({"running_as_root", kRootWarning});
  return out;
}

}  // namespace weft
