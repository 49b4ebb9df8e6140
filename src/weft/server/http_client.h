// Fetches a page of a node, for interactive commands: it blocks, for some seconds at most.
#pragma once

#include <string>

#include "weft/status.h"

namespace weft {

struct HttpTarget {
  std::string node;  // host:port, or http:// or https:// and that
  // https: PEM file of the authority of the node's certificate; empty: those that the machine trusts
  std::string ca;
  std::string password;  // empty: none is given
};

// An error's detail says what is wrong, and what to do.
Result<std::string> http_get(const HttpTarget& target, const std::string& path);

}  // namespace weft
