#include "weft/base/marks.h"

// Set by the linker around the section that WEFT_MARK fills; null in a program that has none.
extern weft::Mark start_of_marks asm("__start_weft_marks") __attribute__((weak));
extern weft::Mark end_of_marks asm("__stop_weft_marks") __attribute__((weak));

namespace weft {

std::span<Mark> all_marks() { return {&start_of_marks, static_cast<size_t>(&end_of_marks - &start_of_marks)}; }

}  // namespace weft
