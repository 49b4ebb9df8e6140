// Which RDMA device, port and GID a node speaks from. Plain data.
#pragma once

#include <string>

namespace weft {

struct VerbsDeviceSelector {
  std::string device;  // empty: the first that has a port that works
  int port = 1;
  int gid_index = -1;  // -1: VerbsPort::best_gid
};

}  // namespace weft
