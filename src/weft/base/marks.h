// Coverage marks on rare branches. WEFT_MARK(name) in a function body registers itself at link time, so that a
// campaign can say which marks no seed has reached. Only in .cc files, outside inline functions and templates.
// Any thread may hit a mark.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

namespace weft {

struct Mark {
  const char* name;
  std::atomic<uint64_t> hits;
};

std::span<Mark> all_marks();

}  // namespace weft

#define WEFT_MARK(mark_name)                                                                         \
  do {                                                                                               \
    [[gnu::section("weft_marks"), gnu::used]] static constinit ::weft::Mark weft_mark{mark_name, 0}; \
    weft_mark.hits.fetch_add(1, std::memory_order_relaxed);                                          \
  } while (0)
