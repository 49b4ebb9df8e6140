// The second step of reading a configuration: constraints between keys, with the worker's limits (check_spec) and with
// the named files. Adds defaults that depend on other keys, and makes relative paths absolute.
#pragma once

#include <string>

#include "weft/server/config_read.h"

namespace weft {

// `folder` is where relative paths start.
void check_config(ReadConfig& read, const std::string& folder);

}  // namespace weft
