// Shared by the tests of the verbs wire. They run on the RDMA devices of the machine, or where it has none on those of
// StubVerbs; tests/verbs_vm_test.sh makes two software devices in a virtual machine. Nodes use the devices alternately.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

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
  // As Soft-RoCE: its atomics are atomic with each other only. Made before those of tests.
  static inline const StubVerbs stub{StubOptions{.atomics = IBV_ATOMIC_HCA}};
  static constexpr uint32_t kLoad = 1;
  static constexpr size_t kVerbsMax = VerbsInitiatorQueue::kVerbsMax;
  static constexpr size_t kVerbBytesMax = VerbsInitiatorQueue::kVerbBytesMax;

  static Options options(size_t node, int workers, uint32_t incarnation) {
    Options options;
    options.tcp = tcp_test_options(node, workers, incarnation);
    options.library = &library();
    const std::vector<VerbsDevice> found = verbs_devices(library()).devices;
    options.device.device = found[node % found.size()].name;
    options.nodes = 4;
    return options;
  }
  static const VerbsLibrary& library() {
    static const VerbsLibrary& kLibrary =
        verbs_devices().devices.empty() ? StubVerbs::library() : **VerbsLibrary::load();
    return kLibrary;
  }
  static TcpOptions& tcp(Options& options) { return options.tcp; }
  static int workers(const Options& options) { return options.tcp.workers; }
  static bool is_up(const Wire& wire, NodeId peer) { return wire.up(peer); }
};
using VerbsTestNet = InterconnectTestNet<VerbsFabric>;

// For tests that are the same for all wires between hosts.
using HostFabrics = ::testing::Types<TcpFabric, VerbsFabric>;
struct HostFabricNames {
  template <class Fabric>
  static std::string GetName(int) {  // NOLINT(readability-identifier-naming): GoogleTest calls it so
    return std::is_same_v<Fabric, TcpFabric> ? "Tcp" : "Verbs";
  }
};

}  // namespace weft
