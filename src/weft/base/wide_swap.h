// swap_wide: compares and swaps two neighbouring words, 16 bytes, in one step of the hardware.
//
// ThreadSanitizer's runtime would do that under a lock of its own, which accesses to one of the words do not take: what
// they write between its comparison and its store is lost. So it is kept out of the swap, and told the order that the
// swap makes (a swap that fails releases nothing, but a release cannot be told afterwards).
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT_CLANG_TSAN
#define WEFT_NOT_INSTRUMENTED [[clang::disable_sanitizer_instrumentation, gnu::noinline]]
#include <sanitizer/tsan_interface.h>
#endif
#endif
#ifndef WEFT_NOT_INSTRUMENTED
#define WEFT_NOT_INSTRUMENTED
#endif

namespace weft {

struct TwoWords {
  __extension__ using Bits = unsigned __int128;
  uint64_t low = 0, high = 0;
  constexpr Bits bits() const { return static_cast<Bits>(high) << 64 | low; }
};

WEFT_NOT_INSTRUMENTED inline bool swap_wide_untold(void* at, TwoWords expected, TwoWords desired) {
  return __sync_bool_compare_and_swap(static_cast<TwoWords::Bits*>(at), expected.bits(), desired.bits());
}

// At 16 aligned bytes, the low word first.
inline bool swap_wide(void* at, TwoWords expected, TwoWords desired) {
#ifdef WEFT_CLANG_TSAN
  std::byte* const high = static_cast<std::byte*>(at) + sizeof(uint64_t);
  __tsan_release(at);
  __tsan_release(high);
  const bool swapped = swap_wide_untold(at, expected, desired);
  __tsan_acquire(at);
  __tsan_acquire(high);
  return swapped;
#else
  return swap_wide_untold(at, expected, desired);
#endif
}

}  // namespace weft
