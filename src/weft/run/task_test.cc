// Task: values, nesting, moves, laziness, destruction before, during and after the run. Everything here runs on the
// test's thread, so frames come from the heap unless a test opens a pool.
#include "weft/task.h"

#include <gtest/gtest.h>

#include <coroutine>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/run/coroutine_frames.h"

namespace weft {
namespace {

// Starts a task from plain code; what it suspends on must be resumed by the test.
struct OwnedTask {
  struct promise_type {
    OwnedTask get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

template <class T>
OwnedTask start(Task<T> task, std::optional<T>* out) {
  out->emplace(co_await task);
}

OwnedTask start(Task<void> task, bool* done) {
  co_await task;
  *done = true;
}

template <class T>
T run(Task<T> task) {
  std::optional<T> out;
  start(std::move(task), &out);
  return std::move(out.value());
}

struct Gate {
  std::coroutine_handle<> waiter;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) noexcept { waiter = h; }
  void await_resume() const noexcept {}
};

// Counts its live copies: a double destruction or a leak shows as a count other than zero.
struct Counted {
  explicit Counted(int* count) : live(count) { ++*live; }
  Counted(const Counted& other) : live(other.live) { ++*live; }
  Counted(Counted&& other) noexcept : live(other.live) { ++*live; }
  Counted& operator=(const Counted&) = default;
  ~Counted() { --*live; }
  int* live;
};

Task<int> number(int n) { co_return n; }

Task<int> sum_to(int n) {
  if (n == 0) co_return 0;
  Task<int> rest = sum_to(n - 1);
  const int below = co_await rest;
  co_return below + n;
}

TEST(Task, ReturnsItsValue) { EXPECT_EQ(run(number(7)), 7); }

TEST(Task, NestsAndUnwinds) { EXPECT_EQ(run(sum_to(200)), 200 * 201 / 2); }

TEST(Task, ReturnsMoveOnlyAndConvertedValues) {
  auto make = []() -> Task<std::unique_ptr<int>> { co_return std::make_unique<int>(5); };
  EXPECT_EQ(*run(make()), 5);
  auto text = []() -> Task<std::string> { co_return "from a literal"; };
  EXPECT_EQ(run(text()), "from a literal");
}

TEST(Task, DoesNothingUntilAwaited) {
  int started = 0;
  auto body = [](int* count) -> Task<void> {
    ++*count;
    co_return;
  };
  {
    Task<void> task = body(&started);
    EXPECT_EQ(started, 0);
  }
  EXPECT_EQ(started, 0) << "dropped without being awaited";
  bool done = false;
  start(body(&started), &done);
  EXPECT_TRUE(done);
  EXPECT_EQ(started, 1);
}

TEST(Task, MovesBeforeItRuns) {
  Task<int> first = number(3);
  Task<int> second = std::move(first);
  EXPECT_EQ(run(std::move(second)), 3);
}

TEST(Task, SuspendsAndGoesOnWhereItWas) {
  Gate gate;
  std::vector<int> trace;
  auto inner = [](Gate* g, std::vector<int>* t) -> Task<int> {
    t->push_back(1);
    co_await *g;
    t->push_back(3);
    co_return 4;
  };
  std::optional<int> out;
  start(inner(&gate, &trace), &out);
  trace.push_back(2);
  EXPECT_FALSE(out.has_value());
  gate.waiter.resume();
  ASSERT_TRUE(out.has_value());
  trace.push_back(*out);
  EXPECT_EQ(trace, (std::vector<int>{1, 2, 3, 4}));
}

TEST(Task, ParametersAndLocalsDieExactlyOnce) {
  int live = 0;
  auto body = [](Counted by_value, int* count) -> Task<int> {
    const Counted local(count);
    co_return *by_value.live;
  };
  EXPECT_GE(run(body(Counted(&live), &live)), 2);
  EXPECT_EQ(live, 0);
}

// g++ 12 destroys a temporary inside a co_await operand twice; so task.h requires a task in a variable.
TEST(Task, CapturedStateOfANamedBodyDiesExactlyOnce) {
  int live = 0;
  {
    const Counted captured(&live);
    auto body = [captured](int n) -> Task<int> { co_return n + (captured.live != nullptr ? 1 : 0); };
    auto caller = [](auto& f) -> Task<int> {
      int total = 0;
      for (int i = 0; i < 3; ++i) {
        Task<int> work = f(i);
        total += co_await work;
      }
      co_return total;
    };
    EXPECT_EQ(run(caller(body)), 6);
    EXPECT_EQ(live, 2) << "the original and the captured one";
  }
  EXPECT_EQ(live, 0);
}

TEST(Task, ASuspendedTaskThatIsDroppedDestroysItsLocals) {
  int live = 0;
  Gate gate;
  auto inner = [](Gate* g, int* count) -> Task<void> {
    const Counted local(count);
    co_await *g;
  };
  struct Holder {
    std::optional<Task<void>> task;
  };
  // A separate coroutine awaits the task, so that the task can be destroyed from outside while it waits.
  struct Watcher {
    struct promise_type {
      Watcher get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
      std::suspend_never initial_suspend() noexcept { return {}; }
      std::suspend_always final_suspend() noexcept { return {}; }
      void return_void() {}
      void unhandled_exception() noexcept { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;
  };
  auto watch = [](Task<void>* task) -> Watcher { co_await *task; };
  Holder holder;
  holder.task.emplace(inner(&gate, &live));
  const Watcher watcher = watch(&*holder.task);
  EXPECT_EQ(live, 1);
  watcher.handle.destroy();
  holder.task.reset();
  EXPECT_EQ(live, 0);
}

TEST(Task, FramesComeFromTheRunningWorkersPool) {
  FramePool pool;
  {
    const FramePool::Scope scope(&pool);
    EXPECT_EQ(run(sum_to(10)), 55);
  }
  const uint64_t warm = pool.blocks_made();
  EXPECT_GT(warm, 0U);
  {
    const FramePool::Scope scope(&pool);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(run(sum_to(10)), 55);
  }
  EXPECT_EQ(pool.blocks_made(), warm) << "after the first run nothing grows";
}

TEST(Task, AFrameGoesBackToTheScopeItCameFrom) {
  FramePool pool;
  std::optional<Task<int>> task;
  {
    const FramePool::Scope scope(&pool);
    task.emplace(number(1));
  }
  task.reset();  // outside the scope: the block itself knows its owner
  const uint64_t made = pool.blocks_made();
  for (int i = 0; i < 100; ++i) {
    const FramePool::Scope scope(&pool);
    EXPECT_EQ(run(number(i)), i);
  }
  EXPECT_LE(pool.blocks_made(), made + 64);
}

}  // namespace
}  // namespace weft
