// Shared by the tests of the tcp wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "weft/wires/interconnect_testing.h"
#include "weft/wires/tcp/tcp.h"

namespace weft {

inline TcpOptions tcp_test_options(size_t node, int workers = 1, uint32_t incarnation = 1) {
  TcpOptions options;
  options.self = node_id(node);
  options.incarnation = incarnation;
  options.workers = workers;
  options.params = {"test", {{"workers", static_cast<uint64_t>(workers)}, {"hash_seed", 7}}};
  return options;
}

struct TcpFabric {
  using Options = TcpOptions;
  using Interconnect = TcpInterconnect;
  using Wire = TcpWire;
  static constexpr uint32_t kLoad = 30;  // load factor relative to the slowest fabric
  static constexpr size_t kVerbsMax = kTcpVerbsMax;
  static constexpr size_t kVerbBytesMax = kTcpVerbBytesMax;

  static Options options(size_t node, int workers, uint32_t incarnation) {
    return tcp_test_options(node, workers, incarnation);
  }
  static TcpOptions& tcp(Options& options) { return options; }
  static int workers(const Options& options) { return options.workers; }
  static bool is_up(const Wire&, NodeId) { return true; }
};
using TcpTestNet = InterconnectTestNet<TcpFabric>;

}  // namespace weft
