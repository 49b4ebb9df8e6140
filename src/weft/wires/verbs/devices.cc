#include "weft/wires/verbs/devices.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace weft {
namespace {

constexpr int kGidsMax = 256;  // queried per port

std::string gid_type(const std::string& device, int port, int index) {
  std::ifstream file("/sys/class/infiniband/" + device + "/ports/" + std::to_string(port) + "/gid_attrs/types/" +
                     std::to_string(index));
  std::string type;
  std::getline(file, type);
  return type;
}

std::string gid_text(const ibv_gid& gid) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(AF_INET6, gid.raw, text, sizeof text);
  return text;
}

bool is_empty(const ibv_gid& gid) { return gid.global.subnet_prefix == 0 && gid.global.interface_id == 0; }

std::string port_problem(const VerbsPort& port) {
  if (port.attributes.state != IBV_PORT_ACTIVE) {
    return port.is_ethernet() ? "it is " + port.state + ": bring its network interface up (ip link set NAME up)"
                              : "it is " + port.state + ": check the cable, and that a subnet manager runs";
  }
  if (port.gids.empty()) return "it has no GID: give its network interface an address (ip addr add ADDRESS dev NAME)";
  return {};
}

VerbsPort describe_port(const VerbsLibrary& library, ibv_context* context, const std::string& device, int number) {
  VerbsPort port;
  port.number = number;
  const auto id = static_cast<uint8_t>(number);
  if (library.query_port(context, id, reinterpret_cast<_compat_ibv_port_attr*>(&port.attributes)) != 0) {
    port.problem = std::string("it cannot be queried: ") + strerrordesc_np(errno);
    return port;
  }
  port.state = library.port_state_str(port.attributes.state);
  for (int index = 0; index < std::min(port.attributes.gid_tbl_len, kGidsMax); ++index) {
    VerbsGid found;
    if (library.query_gid(context, id, index, &found.gid) != 0 || is_empty(found.gid)) continue;
    found.index = index;
    found.text = gid_text(found.gid);
    found.type = gid_type(device, number, index);
    port.gids.push_back(std::move(found));
  }
  port.problem = port_problem(port);
  return port;
}

int refused_thread_domain(ibv_context* context) {
  ibv_td_init_attr attributes{};
  ibv_td* const made = ibv_alloc_td(context, &attributes);
  if (made == nullptr) return errno;
  ibv_dealloc_td(made);
  return 0;
}

// What SMART calls implicit contention: workers that share nothing else wait at a register's lock.
std::string doorbells_text(const VerbsDevice& device) {
  if (device.thread_domains == 0) return "thread domains: a worker rings a doorbell register of its own";
  return std::string("no thread domains (") + strerrordesc_np(device.thread_domains) +
         "): workers share the driver's doorbell registers";
}

const char* atomics_text(const VerbsDevice& device) {
  switch (device.attributes.atomic_cap) {
    case IBV_ATOMIC_NONE:
      return "no atomics";
    case IBV_ATOMIC_HCA:
      return "atomics among its own only (protocols that lock by verbs do it by messages, or see "
             "fabric.remote_lock_mode)";
    case IBV_ATOMIC_GLOB:
      return "atomics that go with the CPU's";
  }
  return "atomics of an unknown kind";
}

}  // namespace

bool VerbsGid::is_ipv4() const {
  constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(kMapped.begin(), kMapped.end(), gid.raw);
}

const VerbsGid* VerbsPort::find_gid(int index) const {
  const auto it = std::find_if(gids.begin(), gids.end(), [&](const VerbsGid& g) { return g.index == index; });
  return it == gids.end() ? nullptr : &*it;
}

const VerbsGid* VerbsPort::best_gid() const {
  if (gids.empty()) return nullptr;
  const auto rank = [&](const VerbsGid& g) { return is_ethernet() && g.is_v2() ? 1 + (g.is_ipv4() ? 1 : 0) : 0; };
  return &*std::max_element(gids.begin(), gids.end(),
                            [&](const VerbsGid& a, const VerbsGid& b) { return rank(a) < rank(b); });
}

const VerbsPort* VerbsDevice::find_port(int number) const {
  const auto it = std::find_if(ports.begin(), ports.end(), [&](const VerbsPort& p) { return p.number == number; });
  return it == ports.end() ? nullptr : &*it;
}

bool VerbsDevice::usable() const {
  return problem.empty() && std::any_of(ports.begin(), ports.end(), [](const auto& p) { return p.problem.empty(); });
}

const VerbsDevice* VerbsDevices::find(const std::string& name) const {
  const auto it = std::find_if(devices.begin(), devices.end(), [&](const VerbsDevice& d) { return d.name == name; });
  return it == devices.end() ? nullptr : &*it;
}

std::string VerbsDevices::names() const {
  std::string all;
  for (const VerbsDevice& device : devices) all += (all.empty() ? "" : ", ") + device.name;
  return all.empty() ? "none" : all;
}

VerbsDevice verbs_describe(const VerbsLibrary& library, ibv_context* context, const std::string& name) {
  VerbsDevice device;
  device.name = name;
  if (library.query_device(context, &device.attributes) != 0) {
    device.problem = std::string("it cannot be queried: ") + strerrordesc_np(errno);
    return device;
  }
  for (int number = 1; number <= device.attributes.phys_port_cnt; ++number) {
    device.ports.push_back(describe_port(library, context, name, number));
  }
  device.thread_domains = refused_thread_domain(context);
  return device;
}

VerbsDevices verbs_devices() {
  const auto library = VerbsLibrary::load();
  if (!library) return {{}, library.error().detail};
  return verbs_devices(**library);
}

VerbsDevices verbs_devices(const VerbsLibrary& verbs) {
  VerbsDevices found;
  int count = 0;
  ibv_device** const list = verbs.get_device_list(&count);
  for (int i = 0; list != nullptr && i < count; ++i) {
    const std::string name = verbs.get_device_name(list[i]);
    ibv_context* const context = verbs.open_device(list[i]);
    if (context == nullptr) {
      found.devices.emplace_back();
      found.devices.back().name = name;
      found.devices.back().problem = std::string("it cannot be opened: ") + strerrordesc_np(errno) +
                                     ": this user needs access to /dev/infiniband/uverbs*";
      continue;
    }
    found.devices.push_back(verbs_describe(verbs, context, name));
    verbs.close_device(context);
  }
  if (list != nullptr) verbs.free_device_list(list);
  if (found.devices.empty()) {
    found.problem =
        "this machine has no RDMA device: load the driver of the card, or make a software device on a network "
        "interface (modprobe rdma_rxe; rdma link add rxe0 type rxe netdev NAME)";
  }
  return found;
}

std::vector<std::string> verbs_lines(const VerbsDevices& found) {
  std::vector<std::string> lines;
  if (!found.problem.empty()) lines.push_back(found.problem);
  for (const VerbsDevice& device : found.devices) {
    lines.push_back("device " + device.name + ": " + (device.problem.empty() ? atomics_text(device) : device.problem));
    if (device.problem.empty()) lines.push_back("device " + device.name + ": " + doorbells_text(device));
    for (const VerbsPort& port : device.ports) {
      const std::string where = "device " + device.name + " port " + std::to_string(port.number) + ": ";
      lines.push_back(where + (port.is_ethernet() ? "Ethernet, " : "InfiniBand, ") + port.state +
                      (port.problem.empty() ? "" : ": " + port.problem));
      for (const VerbsGid& gid : port.gids) {
        lines.push_back(where + "GID " + std::to_string(gid.index) + " is " + gid.text + " (" + gid.type + ")" +
                        (&gid == port.best_gid() ? ", used unless fabric.gid_index says another" : ""));
      }
    }
  }
  return lines;
}

}  // namespace weft
