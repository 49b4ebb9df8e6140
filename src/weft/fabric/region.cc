#include "weft/fabric/region.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <string>

#include "weft/base/bytes.h"
#include "weft/base/check.h"
#include "weft/base/memory_file.h"

namespace weft {
namespace {

constexpr size_t kPageBytes = 4096;

void zero_shared(std::byte* from, const std::byte* to) {
  for (; from < to; from += 8) store_shared(from, 0);
}

}  // namespace

Result<std::unique_ptr<Region>> Region::create(size_t bytes, RegionKind kind, RegionSharing sharing) {
  if (bytes == 0) return Error{Code::kBadOption, "a region of 0 bytes"};
  Fd file;
  Mapping mapping;
  if (sharing == RegionSharing::kPrivate) {
    mapping = Mapping(bytes, Mapping::Pages::kHuge);
  } else {
    bytes = align_up(bytes, kHugePageBytes);
    Result<Fd> made = make_memory_file("weft region", bytes);
    if (!made) return made.error();
    file = std::move(*made);
    mapping = Mapping::of_file(file.get(), bytes, Mapping::Pages::kHuge);
  }
  if (mapping.base() == nullptr) {
    return Error{Code::kNoMemory, "the kernel reserves no region of " + std::to_string(bytes) + " bytes"};
  }
  return std::unique_ptr<Region>(new Region(std::move(mapping), std::move(file), kind));
}

void Region::prefault(size_t offset, size_t bytes) {
  WEFT_CHECK(offset <= this->bytes() && bytes <= this->bytes() - offset, "prefault inside the region");
  if (bytes == 0) return;
  std::byte* const first = base() + offset / kPageBytes * kPageBytes;
  std::byte* const end = base() + align_up(offset + bytes, kPageBytes);
#ifdef MADV_POPULATE_WRITE
  if (madvise(first, static_cast<size_t>(end - first), MADV_POPULATE_WRITE) == 0) return;
#endif
  // An atomic OR with zero writes without losing what another thread stores at the same time.
  for (std::byte* page = first; page < end; page += kPageBytes) {
    __atomic_fetch_or(reinterpret_cast<uint64_t*>(page), 0, __ATOMIC_RELAXED);
  }
}

void Region::discard(size_t offset, size_t bytes) {
  WEFT_CHECK(offset <= this->bytes() && bytes <= this->bytes() - offset, "discard inside the region");
  WEFT_CHECK(offset % 8 == 0 && bytes % 8 == 0, "discard whole words");
  std::byte* const from = base() + offset;
  std::byte* const to = from + bytes;
  std::byte* const first = base() + align_up(offset, kPageBytes);
  std::byte* const last = base() + (offset + bytes) / kPageBytes * kPageBytes;
  if (first >= last) {
    zero_shared(from, to);
    return;
  }
  zero_shared(from, first);
  zero_shared(last, to);
  const std::scoped_lock lock(pages_);
  if (pinned_) {
    zero_shared(first, last);
    return;
  }
  // For shared memory MADV_DONTNEED would only drop this process's view; punching a hole in the file frees the pages.
  const int advice = file_ ? MADV_REMOVE : MADV_DONTNEED;
  if (madvise(first, static_cast<size_t>(last - first), advice) != 0) zero_shared(first, last);
}

void Region::pin() {
  const std::scoped_lock lock(pages_);
  pinned_ = true;
}

RegionId Regions::add(Region* region, Domain domain) {
  const uint16_t id = count_.load(std::memory_order_relaxed);
  WEFT_CHECK(region != nullptr && id < kRegionsMax, "at most kRegionsMax regions per node");
  domains_[id] = domain;
  regions_[id].store(region, std::memory_order_release);
  count_.store(static_cast<uint16_t>(id + 1), std::memory_order_release);
  return RegionId(id);
}

void Regions::replace(RegionId id, Region* region) {
  WEFT_CHECK(region != nullptr && id.value < count(), "there is a region to replace");
  regions_[id.value].store(region, std::memory_order_release);
}

Region* Regions::find(RegionId id) const {
  return id.value < kRegionsMax ? regions_[id.value].load(std::memory_order_acquire) : nullptr;
}

void Regions::grant(NodeId peer, Domain domain) { set_granted(peer, domain, true); }

void Regions::close(NodeId peer, Domain domain) { set_granted(peer, domain, false); }

void Regions::set_granted(NodeId peer, Domain domain, bool granted) {
  WEFT_CHECK(peer.value <= kNodesMax, "a node of this cluster");
  std::atomic<uint32_t>& grants = gate(peer, domain).grants;
  if ((grants.load(std::memory_order_relaxed) % 2 == 1) != granted) {
    grants.fetch_add(1, std::memory_order_seq_cst);
    changes_.fetch_add(1, std::memory_order_seq_cst);
  }
  if (initiators_ != nullptr) initiators_->publish(peer, domain, grants.load(std::memory_order_relaxed));
}

// A Section increments the count and then reads the grant; close() ends the grant, and closed() reads the count after
// it. All four accesses are sequentially consistent, so either the Section sees the gate closed or closed() sees the
// Section.
bool Regions::closed(NodeId peer, Domain domain) const {
  WEFT_CHECK(peer.value <= kNodesMax, "a node of this cluster");
  if (gate(peer, domain).inside.load(std::memory_order_seq_cst) != 0) return false;
  return initiators_ == nullptr || !initiators_->inside(peer, domain);
}

void Regions::revoke(NodeId peer, Domain domain) {
  close(peer, domain);
  while (!closed(peer, domain)) sched_yield();
}

void Regions::set_remote_initiators(RemoteInitiators* initiators) {
  initiators_ = initiators;
  if (initiators == nullptr) return;
  for (size_t peer = 0; peer < gates_.size(); ++peer) {
    const NodeId id(static_cast<uint8_t>(peer));
    for (const Domain domain : kAllDomains) {
      initiators->publish(id, domain, gate(id, domain).grants.load(std::memory_order_relaxed));
    }
  }
}

uint32_t Regions::grant_of(NodeId peer, Domain domain) const {
  if (peer.value > kNodesMax) return 0;
  const uint32_t grants = gate(peer, domain).grants.load(std::memory_order_seq_cst);
  return grants % 2 == 1 ? grants : 0;
}

DomainGrants Regions::grants_of(NodeId peer) const {
  DomainGrants grants{};
  for (const Domain domain : kAllDomains) grants[index_of(domain)] = grant_of(peer, domain);
  return grants;
}

Regions::Section::Section(Regions& regions, NodeId peer, Domain domain)
    : regions_(regions), peer_(peer), domain_(domain) {
  // A closed gate is not entered at all, so that a peer that keeps trying cannot delay who waits for closed().
  if (!regions.granted(peer, domain)) return;
  Gate& gate = regions.gate(peer, domain);
  gate.inside.fetch_add(1, std::memory_order_seq_cst);
  grant_ = regions.grant_of(peer, domain);
  if (grant_ == 0) gate.inside.fetch_sub(1, std::memory_order_release);
}

Regions::Section::~Section() {
  if (grant_ != 0) regions_.gate(peer_, domain_).inside.fetch_sub(1, std::memory_order_release);
}

std::byte* Regions::Section::resolve(RegionId id, uint64_t offset, uint64_t bytes) const {
  if (grant_ == 0) return nullptr;
  const Region* region = regions_.find(id);
  if (region == nullptr || regions_.domain_of(id) != domain_) return nullptr;
  if (offset > region->bytes() || bytes > region->bytes() - offset) return nullptr;
  return region->base() + offset;
}

}  // namespace weft
