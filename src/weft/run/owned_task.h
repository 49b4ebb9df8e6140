// OwnedTask: an outermost coroutine that has an owner. It awaits a task; destroying it, finished or not, destroys the
// task and all that it awaits.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <utility>

#include "weft/task.h"

namespace weft {

class OwnedTask {
 public:
  struct promise_type {
    static void* operator new(size_t bytes) { return detail::allocate_frame(bytes); }
    static void operator delete(void* frame) noexcept { detail::free_frame(frame); }
    OwnedTask get_return_object() { return OwnedTask(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
  // The task runs when start() is called.
  static OwnedTask of(Task<void> task) { co_await task; }

  OwnedTask() = default;
  OwnedTask(OwnedTask&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  OwnedTask& operator=(OwnedTask&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  ~OwnedTask() { reset(); }

  void start() { handle_.resume(); }
  bool running() const { return handle_ && !handle_.done(); }
  void reset() {
    if (handle_) std::exchange(handle_, {}).destroy();
  }

 private:
  explicit OwnedTask(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

}  // namespace weft
