// The other nodes that have replicas of what this one is primary of, as clients reach them: ROLE and INFO say it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

class TxnWorker;

struct ClientAddress {
  std::string host;  // empty: where the client has asked
  int64_t port = 0;
};

std::vector<ClientAddress> replicas_here(const TxnWorker& txn_worker);  // cluster_commands.cc

}  // namespace weft
