// What `weft up` says when the cluster is up: where it is, and commands to try.
#pragma once

#include <string>

#include "weft/server/config.h"

namespace weft::cli {

struct Tour {
  int port = 0;
  int http_port = 0;               // 0: no HTTP
  const NodeConfig& first;         // node 0's; the others' are alike
  std::string password_file = {};  // has the password in its first line; empty: it came another way, or there is none
  std::string warning = {};        // for the person; empty: none
};

// Every command works as it is printed, one after the other; a test pastes them. What the program cannot know, or must
// not say (a password), is asked for in lines that begin with "# Before:".
std::string text_of(const Tour& tour);

}  // namespace weft::cli
