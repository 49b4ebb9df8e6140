// A mapping: address space from the kernel whose pages are committed, as zeroes, when first touched. Pools that are
// sized for the worst case at start-up live in one, so that what is never used costs nothing. Private to the process,
// or of a memory file that other processes map too.
//
// Thread-safety: the address and size never change; what is in the memory is its user's business.
#pragma once

#include <cstddef>

namespace weft {

inline constexpr size_t kHugePageBytes = 2 << 20;

class Mapping {
 public:
  enum class Pages { kSmall, kHuge };  // huge: aligned to 2 MiB, and asked for by madvise; the kernel may decline

  Mapping() = default;
  // base() is nullptr if the kernel refuses.
  explicit Mapping(size_t bytes, Pages pages = Pages::kSmall);
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;

  // Maps a memory file (memory_file.h), shared with whoever else maps it. The descriptor may be closed afterwards.
  static Mapping of_file(int fd, size_t bytes, Pages pages = Pages::kSmall);

  // The same as the constructor, for constructors that have no way to report: throws std::bad_alloc. Start-up only.
  static Mapping or_throw(size_t bytes);

  std::byte* base() const { return base_; }
  size_t bytes() const { return bytes_; }

 private:
  // fd < 0: private and anonymous.
  Mapping(int fd, size_t bytes, Pages pages);

  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace weft
