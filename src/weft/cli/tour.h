// What `weft up` prints when the cluster is up: where it is, and commands to try.
#pragma once

#include <string>

#include "weft/server/config.h"

namespace weft::cli {

struct Tour {
  int port = 0;
  int http_port = 0;        // 0: no HTTP
  int answering = 0;        // nodes that answer clients: the first ones
  const NodeConfig& first;  // node 0's; the others' are alike
  // holds the password in its first line; empty: it was given another way, or there is none
  std::string password_file = {};
  std::string warning = {};  // for the user; empty: none
};

// Every command works as printed, one after the other; a test pastes them. What the program cannot know, or must not
// print (a password), is asked for in lines that begin with "# Before:".
std::string text_of(const Tour& tour);

}  // namespace weft::cli
