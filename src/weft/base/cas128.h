// cas128: compares and swaps two adjacent words, 16 bytes, in one hardware instruction.
//
// ThreadSanitizer's runtime would do that under its own lock, which accesses to one of the words do not take: what they
// write between its comparison and its store would be lost. So the swap is not instrumented; atomic additions of zero
// to both words, before and after, show ThreadSanitizer the ordering of the swap.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT_CLANG_TSAN
#define WEFT_NOT_INSTRUMENTED [[clang::disable_sanitizer_instrumentation, gnu::noinline]]
#endif
#elif defined(__SANITIZE_THREAD__)
#error "the thread sanitizer is used with clang: see cas128"
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

WEFT_NOT_INSTRUMENTED inline bool cas128_uninstrumented(void* at, TwoWords expected, TwoWords desired) {
  return __sync_bool_compare_and_swap(static_cast<TwoWords::Bits*>(at), expected.bits(), desired.bits());
}

// `at` is 16-byte aligned, the low word first.
inline bool cas128(void* at, TwoWords expected, TwoWords desired) {
#ifdef WEFT_CLANG_TSAN
  auto* const words = static_cast<uint64_t*>(at);
  const auto tell = [words] {
    __atomic_fetch_add(&words[0], 0, __ATOMIC_ACQ_REL);
    __atomic_fetch_add(&words[1], 0, __ATOMIC_ACQ_REL);
  };
  tell();
  const bool swapped = cas128_uninstrumented(at, expected, desired);
  tell();
  return swapped;
#else
  return cas128_uninstrumented(at, expected, desired);
#endif
}

}  // namespace weft
