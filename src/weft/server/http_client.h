// A page of a node, for commands of a person: it blocks, for some seconds at most.
#pragma once

#include <string>

#include "weft/status.h"

namespace weft {

struct HttpTarget {
  std::string node;      // host:port, or http:// or https:// and that
  std::string ca;        // https: PEM file of who signed the node's certificate; empty: whom the machine trusts
  std::string password;  // empty: none is given
};

// An error's detail says what is in the way, and what to do.
Result<std::string> http_get(const HttpTarget& target, const std::string& path);

}  // namespace weft
