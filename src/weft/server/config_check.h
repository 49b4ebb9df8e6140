// The second step of reading a configuration: what must hold between keys, with the worker's limits (check_spec) and
// with the files that are named. Adds the defaults that depend on other keys, and makes relative paths absolute.
#pragma once

#include <string>

#include "weft/server/config_read.h"

namespace weft {

// `folder` is where relative paths begin.
void check_config(ReadConfig& read, const std::string& folder);

}  // namespace weft
