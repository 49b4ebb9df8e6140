// DetachedTask: an independent coroutine. It starts at once, nobody awaits it, and it destroys itself at its end.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>

#include "weft/task.h"

namespace weft {

struct DetachedTask {
  struct promise_type {
    static void* operator new(size_t bytes) { return detail::allocate_frame(bytes); }
    static void operator delete(void* frame) noexcept { detail::free_frame(frame); }
    DetachedTask get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

}  // namespace weft
