// WEFT_INLINE marks the definition of a function that is separate from its one hot caller only for readability. A
// transaction takes some hundred such steps, and as calls they would be a good part of its cost. It is a hint: clang,
// which builds what is measured, always inlines; g++ decides itself, because it would need `inline` as well, and then
// no mark (marks.h) could be in the function.
#pragma once

#ifdef __clang__
#define WEFT_INLINE [[gnu::always_inline]]
#else
#define WEFT_INLINE
#endif
