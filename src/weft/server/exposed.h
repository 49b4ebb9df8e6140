// What a configuration leaves open: it works, and whoever reaches an address can do more than its owner may think. What
// must not be is an error of the configuration; the rest a node says when it starts (event `exposed`), so that nobody
// is open without knowing. docs/operations.md, Security, has a row for each.
#pragma once

#include <string>
#include <vector>

#include "weft/server/config.h"

namespace weft {

struct Exposure {
  std::string key;  // that would close it
  std::string why;
};

// Of a configuration that holds.
std::vector<Exposure> exposures(const NodeConfig& config);

// The key of an authority, of clients or of visitors, that fabric.tls.ca trusts too; empty: there is none.
std::string shared_authority(const NodeConfig& config);

// What keeps HTTP from being shown where it is to be; empty: nothing. Loopback may do without a password and TLS, any
// other address may not, unless http.open says so.
std::string http_fault(const HttpConfig& http);

}  // namespace weft
