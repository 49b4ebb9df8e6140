// Shared by the tests of the verbs wire. They run where there is an RDMA device; tests/verbs_vm_test.sh makes two
// software devices in a virtual machine. Nodes use the devices alternately.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "weft/wires/interconnect_testing.h"
#include "weft/wires/tcp/tcp_testing.h"
#include "weft/wires/verbs/devices.h"
#include "weft/wires/verbs/stub_device_testing.h"
#include "weft/wires/verbs/verbs.h"

namespace weft {

struct VerbsFabric {
  using Options = VerbsOptions;
  using Interconnect = VerbsInterconnect;
  using Wire = VerbsWire;
  static constexpr uint32_t kLoad = 1;
  static constexpr size_t kVerbsMax = VerbsInitiatorQueue::kVerbsMax;
  static constexpr size_t kVerbBytesMax = VerbsInitiatorQueue::kVerbBytesMax;

  static Options options(size_t node, int workers, uint32_t incarnation) {
    const VerbsDevices found = verbs_devices();
    VerbsOptions options;
    options.tcp = tcp_test_options(node, workers, incarnation);
    if (!found.devices.empty()) options.device.device = found.devices[node % found.devices.size()].name;
    options.nodes = 4;
    return options;
  }
  static TcpOptions& tcp(Options& options) { return options.tcp; }
  static int workers(const Options& options) { return options.tcp.workers; }
  static std::string missing() { return verbs_devices().problem; }
  static bool is_up(const Wire& wire, NodeId peer) { return wire.up(peer); }
};
using VerbsTestNet = InterconnectTestNet<VerbsFabric>;

// The same wire over devices that are functions of this process.
struct StubFabric : VerbsFabric {
  static inline StubVerbs stub;

  static Options options(size_t node, int workers, uint32_t incarnation) {
    VerbsOptions options;
    options.tcp = tcp_test_options(node, workers, incarnation);
    options.library = &StubVerbs::library();
    options.device.device = "stub" + std::to_string(node % 2);
    options.nodes = 4;
    return options;
  }
  static std::string missing() { return {}; }
};
using StubTestNet = InterconnectTestNet<StubFabric>;

// For tests that are the same for all wires between hosts.
using HostFabrics = ::testing::Types<TcpFabric, VerbsFabric, StubFabric>;
struct HostFabricNames {
  template <class Fabric>
  static std::string GetName(int) {  // NOLINT(readability-identifier-naming): GoogleTest calls it so
    return std::is_same_v<Fabric, TcpFabric> ? "Tcp" : std::is_same_v<Fabric, VerbsFabric> ? "Verbs" : "Stub";
  }
};

}  // namespace weft
