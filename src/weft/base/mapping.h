// Mapping: address space from the kernel whose pages are committed, as zeroes, when first touched. Pools that are sized
// for the worst case at start-up use one, so that unused memory costs nothing. It is private to the process, or maps a
// memory file that other processes map too.
//
// Thread-safety: the address and size never change; the user synchronizes accesses to the memory.
#pragma once

#include <cstddef>

namespace weft {

inline constexpr size_t kHugePageBytes = 2 << 20;

class Mapping {
 public:
  enum class Pages { kSmall, kHuge };  // huge: aligned to 2 MiB and requested by madvise; the kernel may decline

  Mapping() = default;
  // base() is nullptr if the kernel refuses.
  explicit Mapping(size_t bytes, Pages pages = Pages::kSmall);
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;

  // Maps a memory file (memory_file.h), shared with other processes that map it. The descriptor may be closed
  // afterwards.
  static Mapping of_file(int fd, size_t bytes, Pages pages = Pages::kSmall);

  // Like the constructor, for constructors that cannot return an error: throws std::bad_alloc. Start-up only.
  static Mapping or_throw(size_t bytes, Pages pages = Pages::kSmall);

  std::byte* base() const { return base_; }
  size_t bytes() const { return bytes_; }

 private:
  // fd < 0: private and anonymous.
  Mapping(int fd, size_t bytes, Pages pages);

  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace weft
