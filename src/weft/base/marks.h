// Coverage marks on rare branches. A mark in a function body registers itself at link time, so that a campaign can
// report which marks no seed has reached. Only in .cc files, outside inline functions and templates. Any thread may hit
// one.
//
//   WEFT_MARK(name)          the simulator's campaign must reach it
//   WEFT_MARK_OUTSIDE(name)  it cannot: the branch needs workers on several threads, or a table at its limits; the
//                            tests beside the code reach it
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

namespace weft {

// As large as its alignment, so that the linker leaves no gaps between them.
struct alignas(32) Mark {
  const char* name;
  std::atomic<uint64_t> hits;
  bool in_campaign;
};

static_assert(sizeof(Mark) == 32);

std::span<Mark> all_marks();

}  // namespace weft

#define WEFT_MARK_AS(mark_name, in_campaign)                                                                      \
  do {                                                                                                            \
    [[gnu::section("weft_marks"), gnu::used]] static constinit ::weft::Mark weft_mark{mark_name, 0, in_campaign}; \
    weft_mark.hits.fetch_add(1, std::memory_order_relaxed);                                                       \
  } while (0)
#define WEFT_MARK(mark_name) WEFT_MARK_AS(mark_name, true)
#define WEFT_MARK_OUTSIDE(mark_name) WEFT_MARK_AS(mark_name, false)
