#include "weft/base/mapping.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

#include "weft/base/bytes.h"

namespace weft {

Mapping::Mapping(size_t bytes, Pages pages) : Mapping(-1, bytes, pages) {}

Mapping Mapping::of_file(int fd, size_t bytes, Pages pages) { return {fd, bytes, pages}; }

Mapping::Mapping(int fd, size_t bytes, Pages pages) {
  const size_t align = pages == Pages::kHuge ? kHugePageBytes : 4096;
  if (bytes == 0 || bytes > SIZE_MAX / 2) return;
  bytes = align_up(bytes, align);
  // mmap aligns to 4 KiB only: map one huge page more and unmap the excess on both sides.
  const size_t slack = pages == Pages::kHuge ? align : 0;
  const int access = PROT_READ | PROT_WRITE;
  const bool reserve_only = fd >= 0;
  void* got = mmap(nullptr, bytes + slack, reserve_only ? PROT_NONE : access,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return;
  auto* start = static_cast<std::byte*>(got);
  const size_t before = align_up(reinterpret_cast<uintptr_t>(start), align) - reinterpret_cast<uintptr_t>(start);
  if (slack != 0) {
    if (before != 0) munmap(start, before);
    if (slack - before != 0) munmap(start + before + bytes, slack - before);
  }
  if (reserve_only && mmap(start + before, bytes, access, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
    munmap(start + before, bytes);
    return;
  }
  if (pages == Pages::kHuge) madvise(start + before, bytes, MADV_HUGEPAGE);
  base_ = start + before;
  bytes_ = bytes;
}

Mapping::~Mapping() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

Mapping::Mapping(Mapping&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping Mapping::or_throw(size_t bytes, Pages pages) {
  Mapping mapping(bytes, pages);
  if (mapping.base() == nullptr) throw std::bad_alloc();
  return mapping;
}

}  // namespace weft
