// Warnings to log when a node starts, though its configuration is valid. What it leaves open: exposed.h.
#pragma once

#include <string>
#include <vector>

#include "weft/server/config.h"

namespace weft {

struct StartWarning {
  const char* event;
  std::string why;
};

inline constexpr const char* kRootWarning = "it runs as root and needs no right of root's: give it a user of its own";

// `root`: the process has all privileges.
std::vector<StartWarning> start_warnings(const LoadedConfig& loaded, bool root);

}  // namespace weft
