#include "weft/wires/verbs/nic.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace weft {
namespace {

Error bad(std::string what) { return {Code::kBadOption, std::move(what)}; }

std::string os_text() { return strerrordesc_np(errno); }

// The usual cause is the limit on locked memory.
std::string memory_problem(size_t bytes, int error) {
  std::string text = std::string("cannot register ") + std::to_string(bytes) + " bytes: " + strerrordesc_np(error);
  rlimit locked{};
  if (getrlimit(RLIMIT_MEMLOCK, &locked) != 0 || locked.rlim_cur == RLIM_INFINITY) return text;
  return text + "; the limit of locked memory (RLIMIT_MEMLOCK) is " + std::to_string(locked.rlim_cur) +
         " bytes: raise it (ulimit -l unlimited; LimitMEMLOCK=infinity for systemd)";
}

const VerbsDevice* first_usable(const VerbsDevices& found) {
  const auto it =
      std::find_if(found.devices.begin(), found.devices.end(), [](const VerbsDevice& d) { return d.usable(); });
  return it == found.devices.end() ? nullptr : &*it;
}

Result<std::string> choose_device(const VerbsLibrary& library, const VerbsDeviceSelector& choice) {
  const VerbsDevices found = verbs_devices(library);
  if (!found.problem.empty()) return bad(found.problem);
  if (choice.device.empty()) {
    if (const VerbsDevice* const device = first_usable(found)) return device->name;
    std::string all = "no RDMA device has a port that works";
    for (const std::string& line : verbs_lines(found)) all += "; " + line;
    return bad(all);
  }
  const VerbsDevice* const device = found.find(choice.device);
  if (device == nullptr) return bad("there is no RDMA device \"" + choice.device + "\": there are " + found.names());
  if (!device->problem.empty()) return bad("device " + device->name + ": " + device->problem);
  return device->name;
}

ibv_context* open_device(const VerbsLibrary& library, const std::string& name) {
  int count = 0;
  ibv_device** const list = library.get_device_list(&count);
  ibv_context* context = nullptr;
  for (int i = 0; list != nullptr && i < count; ++i) {
    if (name == library.get_device_name(list[i])) context = library.open_device(list[i]);
  }
  if (list != nullptr) library.free_device_list(list);
  return context;
}

}  // namespace

Result<std::unique_ptr<VerbsNic>> VerbsNic::open(const VerbsLibrary& library, const VerbsDeviceSelector& choice) {
  const auto name = choose_device(library, choice);
  if (!name) return name.error();
  ibv_context* const context = open_device(library, *name);
  if (context == nullptr) return Error{Code::kOs, "device " + *name + ": it cannot be opened: " + os_text()};
  std::unique_ptr<VerbsNic> nic(new VerbsNic(library, context));
  nic->device_ = verbs_describe(library, context, *name);

  std::string where = "device " + *name;
  if (!nic->device_.problem.empty()) return bad(where + ": " + nic->device_.problem);
  nic->port_ = nic->device_.find_port(choice.port);
  if (nic->port_ == nullptr) {
    return bad(where + ": port " + std::to_string(choice.port) + ", and it has the ports 1 to " +
               std::to_string(nic->device_.attributes.phys_port_cnt));
  }
  where += " port " + std::to_string(choice.port);
  if (!nic->port_->problem.empty()) return bad(where + ": " + nic->port_->problem);
  nic->gid_ = choice.gid_index < 0 ? nic->port_->best_gid() : nic->port_->find_gid(choice.gid_index);
  if (nic->gid_ == nullptr) {
    std::string there;
    for (const VerbsGid& gid : nic->port_->gids) {
      there += (there.empty() ? "" : ", ") + std::to_string(gid.index) + " (" + gid.text + ", " + gid.type + ")";
    }
    return bad(where + ": there is no GID " + std::to_string(choice.gid_index) + ": there are " + there);
  }
  nic->name_ = where + " GID " + std::to_string(nic->gid_->index) + " (" + nic->gid_->text + ")";
  nic->own_ = library.alloc_pd(context);
  bool all = nic->own_ != nullptr;
  for (ibv_pd*& protection : nic->served_) {
    protection = library.alloc_pd(context);
    all &= protection != nullptr;
  }
  if (!all) {
    return Error{Code::kOs, nic->name_ + ": " + std::to_string(kDomains + 1) +
                                " protection domains are needed: " + os_text() + " (the device's limit is " +
                                std::to_string(nic->device_.attributes.max_pd) + ")"};
  }
  return nic;
}

VerbsNic::~VerbsNic() {
  for (ibv_pd* const protection : served_) {
    if (protection != nullptr) library_.dealloc_pd(protection);
  }
  if (own_ != nullptr) library_.dealloc_pd(own_);
  library_.close_device(context_);
}

ibv_mr* VerbsNic::register_memory(ibv_pd* protection, void* base, size_t bytes, int access, std::string* why) const {
  ibv_mr* const made = library_.reg_mr(protection, base, bytes, access);
  if (made == nullptr) *why = name_ + ": " + memory_problem(bytes, errno);
  return made;
}

Result<VerbsMemory> VerbsMemory::create(const VerbsNic& nic, size_t bytes) {
  VerbsMemory memory;
  memory.library_ = &nic.library();
  memory.mapping_ = Mapping(bytes);
  if (memory.mapping_.base() == nullptr) {
    return Error{Code::kNoMemory, "no " + std::to_string(bytes) + " bytes for the buffers of a connection"};
  }
  std::string why;
  memory.registration_ =
      nic.register_memory(nic.protection(), memory.mapping_.base(), bytes, IBV_ACCESS_LOCAL_WRITE, &why);
  if (memory.registration_ == nullptr) return Error{Code::kOs, why};
  return memory;
}

VerbsMemory& VerbsMemory::operator=(VerbsMemory&& other) noexcept {
  std::swap(library_, other.library_);
  std::swap(mapping_, other.mapping_);
  std::swap(registration_, other.registration_);
  return *this;
}

VerbsMemory::~VerbsMemory() {
  if (registration_ != nullptr) library_->dereg_mr(registration_);
}

VerbsRegions::~VerbsRegions() {
  for (ibv_mr* const registration : registrations_) nic_.library().dereg_mr(registration);
}

Result<size_t> VerbsRegions::refresh() {
  const std::scoped_lock lock(mutex_);
  while (registrations_.size() < added()) {
    const RegionId id(static_cast<uint16_t>(registrations_.size()));
    Region* const region = regions_->find(id);
    region->pin();
    std::string why;
    ibv_mr* const made = nic_.register_memory(
        nic_.protection(regions_->domain_of(id)), region->base(), region->bytes(),
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC, &why);
    if (made == nullptr) return Error{Code::kOs, "region " + std::to_string(registrations_.size()) + ": " + why};
    registrations_.push_back(made);
    registered_.store(registrations_.size(), std::memory_order_release);
  }
  return registrations_.size();
}

VerbsRegions::Entry VerbsRegions::at(size_t region) const {
  const std::scoped_lock lock(mutex_);
  const ibv_mr* const made = registrations_[region];
  return {reinterpret_cast<uint64_t>(made->addr), made->length, made->rkey};
}

}  // namespace weft
