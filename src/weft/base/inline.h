// WEFT_INLINE marks the definition of a function that is apart from its one hot caller only for the reader's sake. A
// transaction takes some hundred such steps, and as calls they would be a good part of what it costs. It is a wish:
// clang, which builds what is measured, grants it; g++ follows its own judgement, for it would want `inline` as well,
// and then no mark (marks.h) could be in the function.
#pragma once

#ifdef __clang__
#define WEFT_INLINE [[gnu::always_inline]]
#else
#define WEFT_INLINE
#endif
