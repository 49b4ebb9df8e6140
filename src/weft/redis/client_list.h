// What CLIENT LIST and CLIENT KILL ask of every worker of the node: a question goes to a worker's front (by its
// mailbox), is answered there a page at a time, within the budget of its turns, and whoever asked reads the answer.
//
// A question belongs to who asks until it is posted, then to the front that answers, and from `done` on to who asked.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

struct Client;

// Those that have all of it. What is not said fits everybody.
struct ClientFilter {
  std::optional<std::vector<uint64_t>> ids;  // in order
  std::string address, local_address;
  bool nobody = false;  // a type that no client here has
  uint64_t without = 0;
  bool fits(const Client& client) const;
};

struct ClientQuery {
  ClientFilter filter;
  bool kills = false;
  uint64_t asker = 0;  // its own connection ends when it has its answer

  uint64_t after = 0;  // connections up to this number are done
  bool over = false;   // all are
  uint64_t found = 0;
  std::string lines;  // of this page, unless it kills
  std::atomic<bool> done{false};
};

// A connection as a line of CLIENT LIST, with the fields of Redis 7.0.
std::string client_line(const Client& client, uint64_t now_ns);

}  // namespace weft
