// VerbsNic: an open RDMA device, with the port and the GID that this node uses, and its protection domains, which all
// workers share: one for the node's own buffers and queues, and one for each access domain, with the regions of that
// domain and the queue pairs by which peers reach them. So the device itself refuses a verb on a region of another
// domain.
//
// Created once at start-up. Any thread may call its functions, like those of libibverbs.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "weft/fabric/region.h"
#include "weft/status.h"
#include "weft/wires/verbs/device_selector.h"
#include "weft/wires/verbs/devices.h"
#include "weft/wires/verbs/library.h"

namespace weft {

class VerbsNic {
 public:
  // An error names device, port and GID, what is wrong with them, the alternatives and what to do.
  // `library` outlives it.
  static Result<std::unique_ptr<VerbsNic>> open(const VerbsLibrary& library, const VerbsDeviceSelector& choice);
  ~VerbsNic();
  VerbsNic(const VerbsNic&) = delete;
  VerbsNic& operator=(const VerbsNic&) = delete;

  const VerbsLibrary& library() const { return library_; }
  ibv_context* context() const { return context_; }
  ibv_pd* protection() const { return own_; }
  ibv_pd* protection(Domain domain) const { return served_[index_of(domain)]; }
  const VerbsDevice& device() const { return device_; }
  const VerbsPort& port() const { return *port_; }
  const VerbsGid& gid() const { return *gid_; }
  const std::string& name() const { return name_; }  // "device rxe0 port 1 GID 1 (::ffff:10.9.0.1)"
  bool atomic_with_cpu() const { return device_.attributes.atomic_cap == IBV_ATOMIC_GLOB; }

  // nullptr if the device refuses; `why` says what to do.
  ibv_mr* register_memory(ibv_pd* protection, void* base, size_t bytes, int access, std::string* why) const;

 private:
  VerbsNic(const VerbsLibrary& library, ibv_context* context) : library_(library), context_(context) {}

  const VerbsLibrary& library_;
  ibv_context* const context_;
  ibv_pd* own_ = nullptr;
  std::array<ibv_pd*, kDomains> served_{};
  VerbsDevice device_;
  const VerbsPort* port_ = nullptr;
  const VerbsGid* gid_ = nullptr;
  std::string name_;
};

// Memory of this process that the NIC may access and peers may not: buffers of the wire.
class VerbsMemory {
 public:
  VerbsMemory() = default;
  static Result<VerbsMemory> create(const VerbsNic& nic, size_t bytes);
  VerbsMemory(VerbsMemory&& other) noexcept { *this = std::move(other); }
  VerbsMemory& operator=(VerbsMemory&& other) noexcept;
  ~VerbsMemory();

  std::byte* base() const { return mapping_.base(); }
  uint32_t key() const { return registration_->lkey; }
  explicit operator bool() const { return registration_ != nullptr; }

 private:
  const VerbsLibrary* library_ = nullptr;
  Mapping mapping_;
  ibv_mr* registration_ = nullptr;
};

// The registrations of a node's regions, one each, made when the first peer is granted access, because registering pins
// all of a region's memory.
class VerbsRegions {
 public:
  VerbsRegions(const VerbsNic& nic, Regions* regions) : nic_(nic), regions_(regions) {}  // regions may be nullptr
  ~VerbsRegions();
  VerbsRegions(const VerbsRegions&) = delete;
  VerbsRegions& operator=(const VerbsRegions&) = delete;

  // Registers the regions added since the last call; returns how many there are, or an error that names the region and
  // the fix.
  Result<size_t> refresh();
  size_t added() const { return regions_ == nullptr ? 0 : regions_->count(); }
  // How many are registered, as of the last refresh().
  size_t registered() const { return registered_.load(std::memory_order_acquire); }
  // For indexes below what refresh() returned.
  struct Entry {
    uint64_t base;
    uint64_t bytes;
    uint32_t key;
  };
  Entry at(size_t region) const;

 private:
  const VerbsNic& nic_;
  Regions* const regions_;
  mutable std::mutex mutex_;
  std::vector<ibv_mr*> registrations_;
  std::atomic<size_t> registered_{0};
};

}  // namespace weft
