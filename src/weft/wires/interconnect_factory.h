// Creates an interconnect by name: tcp (with or without TLS), shm or verbs.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "weft/base/clock.h"
#include "weft/fabric/region.h"
#include "weft/options.h"
#include "weft/status.h"
#include "weft/wires/interconnect.h"
#include "weft/wires/tcp/tls.h"
#include "weft/wires/verbs/device_selector.h"

namespace weft {

struct InterconnectOptions {
  std::string kind = "shm";  // tcp, verbs
  NodeId node;
  uint32_t incarnation = 0;  // 0: set_incarnation() sets it later
  int workers = 1;
  int nodes = kNodesMax;  // at most
  std::string listen;     // tcp, verbs: host:port, port 0: the kernel chooses; shm: '@' and a name, or a socket's path
  TcpTlsFiles tls;        // tcp, verbs: all three files, or none
  VerbsDeviceSelector device;                      // verbs
  std::optional<RemoteLockMode> remote_lock_mode;  // of a row that locks by verbs
  bool worker_doorbells = true;                    // verbs
  HandshakeParams params;
};

// An error names the wrong option and its value. `regions` and `clock` must outlive the interconnect.
Result<std::unique_ptr<Interconnect>> make_interconnect(const InterconnectOptions& options, Regions* regions,
                                                        Clock* clock);

}  // namespace weft
