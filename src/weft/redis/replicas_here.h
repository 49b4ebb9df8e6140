// The other nodes that have replicas of partitions whose primary is this node, at the addresses for clients: for ROLE
// and INFO.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

class TxnWorker;

struct ClientAddress {
  std::string host;  // empty: the address that the client used
  int64_t port = 0;
};

std::vector<ClientAddress> replicas_here(const TxnWorker& txn_worker);  // cluster_commands.cc

}  // namespace weft
