// CLIENT LIST and CLIENT KILL over all workers of the node: a query is posted to a worker's frontend (by its mailbox)
// and answered there a page at a time, within the budget of its turns; then the requester reads the answer.
//
// The requester owns a query until it is posted, then the frontend that answers it does, and after `done` the
// requester again.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

struct Client;

// Matches clients that satisfy every given field.
struct ClientFilter {
  std::optional<std::vector<uint64_t>> ids;  // sorted
  std::string address, local_address;
  bool nobody = false;  // a type that no client here has
  uint64_t without = 0;
  bool fits(const Client& client) const;
};

struct ClientQuery {
  ClientFilter filter;
  bool kills = false;
  uint64_t asker = 0;  // its own connection is closed after its reply

  uint64_t after = 0;  // connections up to this id are done
  bool over = false;   // all connections are done
  uint64_t found = 0;
  std::string lines;  // of this page, unless it kills
  std::atomic<bool> done{false};
};

// A connection as a line of CLIENT LIST, with the fields of Redis 7.0.
std::string client_line(const Client& client, uint64_t now_ns);

}  // namespace weft
