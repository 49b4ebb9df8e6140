// Choosing a mesh at run time: tcp (with or without TLS) or shm, by name.
#pragma once

#include <memory>
#include <string>

#include "weft/base/clock.h"
#include "weft/fabric/mesh.h"
#include "weft/fabric/region.h"
#include "weft/fabric/tcp_tls.h"
#include "weft/status.h"

namespace weft {

struct MeshOptions {
  std::string kind = "shm";  // or tcp
  NodeId node;
  uint32_t incarnation = 0;  // 0: set_incarnation() says it later
  int workers = 1;
  std::string listen;  // tcp: host:port, port 0: the kernel chooses; shm: '@' and a name, or the path of a socket
  TcpTlsFiles tls;     // tcp: all three files, or none
  Agreement agreement;
};

// An error names what is wrong with its value. Both outlive the mesh.
Result<std::unique_ptr<Mesh>> make_mesh(const MeshOptions& options, Regions* regions, Clock* clock);

}  // namespace weft
