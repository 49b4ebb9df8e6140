// Which RDMA device, port and GID a node uses. Plain data.
#pragma once

#include <string>

namespace weft {

struct VerbsDeviceSelector {
  std::string device;  // empty: the first with a working port
  int port = 1;
  int gid_index = -1;  // -1: VerbsPort::best_gid
};

}  // namespace weft
