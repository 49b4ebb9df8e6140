// What a configuration leaves open: it works, but whoever reaches an address can do more than its owner may think.
// What must not be open is a configuration error; the rest is logged when a node starts (event `exposed`), so that
// nobody is open without knowing. docs/operations.md, Security, has a row for each.
#pragma once

#include <string>
#include <vector>

#include "weft/server/config.h"

namespace weft {

struct Exposure {
  std::string key;  // the key that would close it
  std::string why;
};

// Of a valid configuration.
std::vector<Exposure> exposures(const NodeConfig& config);

// The CA key, of clients or of HTTP, whose authority fabric.tls.ca trusts as well; empty: there is none.
std::string shared_authority(const NodeConfig& config);

// Why HTTP must not be served at the configured address; empty: it may. Loopback needs neither a password nor TLS, any
// other address does, unless http.open is set.
std::string http_fault(const HttpConfig& http);

}  // namespace weft
