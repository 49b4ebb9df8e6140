#include "weft/bench/limits.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <coroutine>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "weft/base/bytes.h"
#include "weft/base/random.h"
#include "weft/fabric/region.h"
#include "weft/fabric/ring.h"
#include "weft/task.h"

namespace weft::bench {
namespace {

constexpr int kRepeats = 5;
constexpr size_t kLine = 64;
constexpr size_t kMessages = 16;  // in a packet
constexpr size_t kTouchBatch = 24;
constexpr uint64_t kMemoryMin = 1 << 20, kMemoryMax = uint64_t{4} << 30;

// Of a transaction that commits at its first attempt: into its coroutine, out of it, once for the reads and once for
// the commit.
constexpr double kSwitchesPerAttempt = 4;

// Keeps a result alive without storing it anywhere.
void keep(uint64_t value) { asm volatile("" : : "r"(value)); }

// The time per operation when every thread does `count` of them at the same time; the median of the repeats.
double time_each(int threads, uint64_t count, Clock& clock, const std::function<void(int thread)>& work) {
  std::vector<double> each;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    std::atomic<int> arrived{0};
    std::vector<uint64_t> took(static_cast<size_t>(threads));
    std::vector<std::thread> pool;
    for (int i = 0; i < threads; ++i) {
      pool.emplace_back([&, i] {
        ++arrived;
        while (arrived.load() < threads) std::this_thread::yield();
        const uint64_t begin_ns = clock.now_ns();
        work(i);
        took[static_cast<size_t>(i)] = clock.now_ns() - begin_ns;
      });
    }
    for (std::thread& thread : pool) thread.join();
    uint64_t sum = 0;
    for (const uint64_t ns : took) sum += ns;
    each.push_back(static_cast<double>(sum) / threads / static_cast<double>(count));
  }
  std::nth_element(each.begin(), each.begin() + kRepeats / 2, each.end());
  return each[kRepeats / 2];
}

double time_messages(int threads, Clock& clock) {
  constexpr uint64_t kPackets = 200'000;
  const auto work = [](int) {
    std::vector<uint64_t> memory((256 << 10) / sizeof(uint64_t));
    FrameQueue ring;
    ring.set_up(reinterpret_cast<std::byte*>(memory.data()), memory.size() * sizeof(uint64_t));
    alignas(8) std::array<std::byte, kMessages * kLine> packet{};
    std::array<std::byte, kLine> body{};
    uint64_t sum = 0;
    for (uint64_t i = 0; i < kPackets; ++i) {
      for (size_t m = 0; m < kMessages; ++m) {
        store(body.data(), i + m);
        std::memcpy(packet.data() + m * kLine, body.data(), kLine);
      }
      ring.push(packet);
      const ByteView arrived = ring.front();
      for (size_t m = 0; m < kMessages; ++m) sum += load<uint64_t>(arrived.data() + m * kLine);
      ring.pop(arrived);
      ring.release();
    }
    keep(sum);
  };
  return time_each(threads, kPackets * kMessages, clock, work);
}

// The first half of the memory has index lines, each of which names a random line of the second half.
void fill_index(std::byte* memory, uint64_t lines) {
  Random random(7);
  for (uint64_t i = 0; i < lines; ++i) store_shared(memory + i * kLine, lines + random.below(lines));
  for (uint64_t i = lines; i < 2 * lines; ++i) store_shared(memory + i * kLine, i);
}

uint64_t touch(const std::byte* memory, uint64_t lines, uint64_t count, Random random) {
  std::array<const std::byte*, kTouchBatch> at;
  uint64_t sum = 0;
  for (uint64_t done = 0; done < count; done += kTouchBatch) {
    for (auto& p : at) {
      p = memory + random.below(lines) * kLine;
      __builtin_prefetch(p);
    }
    for (auto& p : at) {
      p = memory + load_shared(p) * kLine;
      __builtin_prefetch(p);
    }
    for (const auto& p : at) sum += load_shared(p);
  }
  return sum;
}

double time_touches(uint64_t memory_bytes, int threads, Clock& clock) {
  constexpr uint64_t kTouches = kTouchBatch * 100'000;
  auto region = Region::create(memory_bytes);
  if (!region) return 0;
  std::byte* const memory = (*region)->base();
  const uint64_t lines = memory_bytes / kLine / 2;
  fill_index(memory, lines);
  return time_each(threads, kTouches, clock, [&](int thread) {
    keep(touch(memory, lines, kTouches, Random(static_cast<uint64_t>(thread) + 1)));
  });
}

struct Park {
  std::coroutine_handle<>* handle;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) const noexcept { *handle = h; }
  void await_resume() const noexcept {}
};

Task<void> turns(std::coroutine_handle<>* handle, uint64_t* count, const bool* stop) {
  while (!*stop) {
    ++*count;
    co_await Park{handle};
  }
}

double time_switches(int threads, Clock& clock) {
  constexpr uint64_t kRounds = 50'000, kCoroutines = 64;
  const auto work = [](int) {
    std::array<std::coroutine_handle<>, kCoroutines> handles;
    uint64_t count = 0;
    bool stop = false;
    std::vector<Task<void>> tasks;
    tasks.reserve(kCoroutines);
    for (auto& handle : handles) {
      tasks.push_back(turns(&handle, &count, &stop));
      tasks.back().await_suspend(std::noop_coroutine()).resume();
    }
    for (uint64_t i = 0; i < kRounds; ++i) {
      for (auto& handle : handles) handle.resume();
    }
    stop = true;
    for (auto& handle : handles) handle.resume();
    keep(count);
  };
  return time_each(threads, kRounds * kCoroutines, clock, work);
}

}  // namespace

MachineLimits measure_limits(uint64_t memory_bytes, int threads, Clock& clock) {
  MachineLimits limits;
  limits.threads = threads;
  limits.memory_bytes = std::clamp(memory_bytes, kMemoryMin, kMemoryMax);
  limits.message_ns = time_messages(threads, clock);
  limits.touch_ns = time_touches(limits.memory_bytes, threads, clock);
  limits.switch_ns = time_switches(threads, clock);
  return limits;
}

Attainable attainable(const MachineLimits& limits, const Report& report) {
  Attainable out;
  out.messages = report.messages_per_txn;
  out.touches = report.touches_per_txn;
  out.switches = kSwitchesPerAttempt * report.attempts_per_txn;
  out.ns = out.messages * limits.message_ns + out.touches * limits.touch_ns + out.switches * limits.switch_ns;
  out.tps_per_core = out.ns > 0 ? 1e9 / out.ns : 0;
  out.reached = out.tps_per_core > 0 ? report.tps_median / report.threads / out.tps_per_core : 0;
  return out;
}

}  // namespace weft::bench
