// Root: the outermost coroutine of a line of work that somebody owns. It awaits a task; destroying it, finished or not,
// destroys all that the task awaits.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <utility>

#include "weft/task.h"

namespace weft {

class Root {
 public:
  struct promise_type {
    static void* operator new(size_t bytes) { return detail::allocate_frame(bytes); }
    static void operator delete(void* frame) noexcept { detail::free_frame(frame); }
    Root get_return_object() { return Root(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
  // The task runs when start() is called.
  static Root of(Task<void> task) { co_await task; }

  Root() = default;
  Root(Root&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Root& operator=(Root&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  ~Root() { reset(); }

  void start() { handle_.resume(); }
  bool running() const { return handle_ && !handle_.done(); }
  void reset() {
    if (handle_) std::exchange(handle_, {}).destroy();
  }

 private:
  explicit Root(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

}  // namespace weft
