// Bytes: views, alignment, and copying memory that other threads or NICs may be writing.
//
// Shared bytes (records, rings that cross threads) are copied only by copy_from_shared and copy_to_shared: atomic
// 8-byte accesses, so that a race is a torn copy that the checksum detects, never undefined behaviour. Copies out of
// shared memory go in address order. The shared end must be 8-byte aligned, and lengths are rounded up to 8 there:
// shared objects are padded to 8 bytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace weft {

// The heap memory of a string: none for a short one, which is stored inside.
inline size_t heap_bytes(const std::string& text) {
  return text.capacity() > std::string().capacity() ? text.capacity() : 0;
}

inline constexpr uint64_t kKiB = 1 << 10, kMiB = 1 << 20, kGiB = 1 << 30, kTiB = uint64_t{1} << 40;

using ByteView = std::span<const std::byte>;

inline ByteView as_bytes(std::string_view s) { return {reinterpret_cast<const std::byte*>(s.data()), s.size()}; }
inline std::string_view as_text(ByteView b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

constexpr size_t align_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

template <class T>
T load(const std::byte* from) {
  T out;
  std::memcpy(&out, from, sizeof out);
  return out;
}

template <class T>
void store(std::byte* to, const T& value) {
  std::memcpy(to, &value, sizeof value);
}

// Copies private memory in whole words: both ends are padded to 8 bytes. For the short keys and values of messages this
// is a few moves where memcpy is a call.
inline void copy_words(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes == 8) [[likely]] {
    store(to, load<uint64_t>(from));
    return;
  }
  if (bytes > 64) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (size_t i = 0; i < bytes; i += 8) store(to + i, load<uint64_t>(from + i));
}

// memcpy for what is usually one word.
inline void copy_bytes(std::byte* to, const void* from, size_t bytes) {
  if (bytes == 8) [[likely]] {
    std::memcpy(to, from, 8);
  } else if (bytes != 0) {
    std::memcpy(to, from, bytes);
  }
}

inline uint64_t load_shared(const std::byte* from) {
  return __atomic_load_n(reinterpret_cast<const uint64_t*>(from), __ATOMIC_ACQUIRE);
}

inline void store_shared(std::byte* to, uint64_t value) {
  __atomic_store_n(reinterpret_cast<uint64_t*>(to), value, __ATOMIC_RELAXED);
}

// Copies `bytes` out of shared memory. `from` is 8-aligned; up to 7 bytes after the end are read, none are written.
inline void copy_from_shared(std::byte* to, const std::byte* from, size_t bytes) {
  size_t i = 0;
  for (; i + 8 <= bytes; i += 8) store(to + i, load_shared(from + i));
  if (i < bytes) {
    const uint64_t tail = load_shared(from + i);
    std::memcpy(to + i, &tail, bytes - i);
  }
}

// Copies `bytes` into shared memory, zero-padding the last word. `to` is 8-aligned.
inline void copy_to_shared(std::byte* to, const std::byte* from, size_t bytes) {
  size_t i = 0;
  for (; i + 8 <= bytes; i += 8) store_shared(to + i, load<uint64_t>(from + i));
  if (i < bytes) {
    uint64_t tail = 0;
    std::memcpy(&tail, from + i, bytes - i);
    store_shared(to + i, tail);
  }
}

}  // namespace weft
