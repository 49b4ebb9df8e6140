#include "weft/wires/shm/link.h"

#include <unistd.h>

#include <utility>

namespace weft {

size_t ShmOutbox::bytes(size_t workers, size_t ring_bytes) {
  return align_up(align_up(workers * sizeof(ShmChannel), 4096) + workers * channel_buffer_bytes(ring_bytes),
                  kHugePageBytes);
}

ShmOutbox::ShmOutbox(Mapping memory, size_t workers, size_t ring_bytes)
    : memory_(std::move(memory)), workers_(workers), ring_bytes_(ring_bytes) {}

std::byte* ShmOutbox::buffer(size_t worker) const {
  return memory_.base() + align_up(workers_ * sizeof(ShmChannel), 4096) + worker * channel_buffer_bytes(ring_bytes_);
}

bool ShmOutbox::anyone_inside(Domain domain) const {
  for (size_t worker = 0; worker < workers_; ++worker) {
    if (channel(worker).inside.load(std::memory_order_seq_cst) == shm_inside(domain)) return true;
  }
  return false;
}

void ShmLink::set_base(ShmOutbox in, Mapping control, std::vector<Fd> eventfds) {
  in_ = std::move(in);
  control_ = std::move(control);
  eventfds_ = std::move(eventfds);
}

bool ShmLink::add_region(RegionId id, Domain domain, Mapping memory) {
  if (id.value >= windows_.size()) return false;
  Window& window = windows_[id.value];
  if (window.base.load(std::memory_order_relaxed) != nullptr) return false;
  window.memory = std::move(memory);
  window.bytes = window.memory.bytes();
  window.domain = domain;
  window.base.store(window.memory.base(), std::memory_order_release);
  return true;
}

std::byte* ShmLink::resolve(Domain domain, RegionId id, uint64_t offset, uint64_t bytes) const {
  if (id.value >= windows_.size()) return nullptr;
  const Window& window = windows_[id.value];
  std::byte* const base = window.base.load(std::memory_order_acquire);
  if (base == nullptr || window.domain != domain || offset > window.bytes || bytes > window.bytes - offset)
    return nullptr;
  return base + offset;
}

void ShmLink::wake(size_t worker) const {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then it is readable anyway.
  (void)!write(eventfds_[worker].get(), &one, sizeof one);
}

void ShmLink::report_broken(WorkerId worker, size_t flow, uint64_t position) {
  uint8_t none = kNone;
  if (!report_.compare_exchange_strong(none, kWriting)) return;
  broken_worker_ = worker;
  broken_flow_ = flow;
  broken_position_ = position;
  report_.store(kMade, std::memory_order_release);
}

std::optional<std::string> ShmLink::broken() const {
  if (report_.load(std::memory_order_acquire) != kMade) return std::nullopt;
  return "bad length in the ring of worker " + std::to_string(broken_worker_.value) + ", flow " +
         std::to_string(broken_flow_) + ", at position " + std::to_string(broken_position_);
}

void ShmLinks::set(NodeId peer, std::shared_ptr<ShmLink> link) {
  const std::lock_guard lock(mutex_);
  table_[peer.value] = std::move(link);
  version_.fetch_add(1, std::memory_order_seq_cst);
}

}  // namespace weft
