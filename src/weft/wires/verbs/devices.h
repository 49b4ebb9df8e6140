// Describes the RDMA devices of this machine for people: what there is, what is wrong, and the fix. `weft doctor`
// prints it, and the errors of the verbs wire use the same words.
//
// Queries the machine each time; any thread may call it.
#pragma once

#include <infiniband/verbs.h>

#include <string>
#include <vector>

#include "weft/status.h"
#include "weft/wires/verbs/library.h"

namespace weft {

struct VerbsGid {
  int index = 0;
  ibv_gid gid{};
  std::string text;  // fe80::1, ::ffff:10.0.0.1
  std::string type;  // "IB/RoCE v1", "RoCE v2", as the kernel reports it; empty if it does not

  bool is_v2() const { return type == "RoCE v2"; }
  bool is_ipv4() const;
};

struct VerbsPort {
  int number = 0;
  ibv_port_attr attributes{};
  std::string state;           // "PORT_ACTIVE"
  std::vector<VerbsGid> gids;  // those that are not empty
  std::string problem;         // why it cannot be used, and what to do; empty if it can

  bool is_ethernet() const { return attributes.link_layer == IBV_LINK_LAYER_ETHERNET; }
  // The default GID: on Ethernet the first of RoCE v2 with an IPv4 address, else the first of RoCE v2, else the first;
  // on InfiniBand the first. nullptr if there is none.
  const VerbsGid* best_gid() const;
  const VerbsGid* find_gid(int index) const;
};

struct VerbsDevice {
  std::string name;  // "mlx5_0"
  ibv_device_attr attributes{};
  std::vector<VerbsPort> ports;
  std::string problem;     // why it cannot be opened, and what to do
  int thread_domains = 0;  // 0: it has them; else the errno with which it refused one

  const VerbsPort* find_port(int number) const;
  bool usable() const;  // some port is
};

struct VerbsDevices {
  std::vector<VerbsDevice> devices;
  std::string problem;  // why there is no device, and what to do

  const VerbsDevice* find(const std::string& name) const;
  std::string names() const;  // "mlx5_0, mlx5_1"; "none"
};

VerbsDevices verbs_devices();  // libibverbs is loaded
VerbsDevices verbs_devices(const VerbsLibrary& library);

// Describes an open device.
VerbsDevice verbs_describe(const VerbsLibrary& library, ibv_context* context, const std::string& name);

// One line per device, port and problem, for people.
std::vector<std::string> verbs_lines(const VerbsDevices& devices);

}  // namespace weft
