#include "weft/bench/limits.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <coroutine>
#include <cstddef>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#include "weft/base/bytes.h"
#include "weft/base/histogram.h"
#include "weft/base/random.h"
#include "weft/fabric/region.h"
#include "weft/fabric/ring.h"
#include "weft/run/coroutine_frames.h"
#include "weft/run/owned_task.h"
#include "weft/task.h"

namespace weft::bench {
namespace {

constexpr int kRepeats = 5;
constexpr size_t kLine = 64;
constexpr size_t kMessages = 16;  // in a packet
constexpr size_t kTouchBatch = 24;
constexpr size_t kBareClients = 64;
constexpr uint64_t kMemoryMin = 1 << 20, kMemoryMax = uint64_t{4} << 30;

// Counted on 5 nodes with 3 replicas and dnl4 when the engine did what Dandelion's protocol says, each step with
// messages of its own: gets that go to another node, lock, validate, replicate, unlock, their answers, and the notices
// that mark backups readable; a touch for each read, lock and validation, and two for each write at a backup.
struct FixedNeeds {
  std::string_view workload;
  double messages, touches;
};
constexpr FixedNeeds kFixedNeeds[] = {{"smallbank", 8.81, 9.50}, {"tatp", 3.79, 3.03}};
constexpr int kFixedNodes = 5, kFixedReplicas = 3;

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

// What stands for a worker and its engine: slots, and coroutines that are to be resumed.
struct BareWorker {
  struct Slot {
    uint64_t sequence = 0;
    Outcome outcome;
  };
  std::array<Slot, kBareClients> slots;
  std::vector<uint8_t> free;
  std::vector<std::coroutine_handle<>> ready, running;
  uint64_t sequence = 0, left = 0;
  Histogram latency_ns;
};

struct NextTurn {
  BareWorker* worker;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) const noexcept { worker->ready.push_back(h); }
  void await_resume() const noexcept {}
};

Task<Outcome> bare_attempt(BareWorker& worker, const Call& call) {
  const uint8_t index = worker.free.back();
  worker.free.pop_back();
  BareWorker::Slot& slot = worker.slots[index];
  slot.sequence = ++worker.sequence;
  slot.outcome = Outcome();
  co_await NextTurn{&worker};  // its reads
  slot.outcome.id.sequence = slot.sequence + call.kind;
  co_await NextTurn{&worker};  // its commit
  worker.free.push_back(index);
  co_return slot.outcome;
}

Task<void> bare_transact(BareWorker& worker, const Call& call) {
  const uint64_t began = worker.sequence;
  Task<Outcome> work = bare_attempt(worker, call);
  const Outcome outcome = co_await work;
  if (outcome.committed()) worker.latency_ns.record(outcome.id.sequence - began);
}

Task<void> bare_client(BareWorker& worker, const Workload& workload, uint64_t seed) {
  Random random(seed);
  while (worker.left > 0) {
    --worker.left;
    const Call call = workload.draw(random);
    Task<void> work = bare_transact(worker, call);
    co_await work;
  }
}

double time_clients(const Workload& workload, int threads, Clock& clock) {
  constexpr uint64_t kTransactions = 500'000;
  const auto work = [&](int thread) {
    FramePool frames;
    const FramePool::Scope scope(&frames);
    BareWorker worker;
    worker.left = kTransactions;
    for (size_t i = 0; i < kBareClients; ++i) worker.free.push_back(static_cast<uint8_t>(i));
    std::vector<OwnedTask> clients;
    for (size_t i = 0; i < kBareClients; ++i) {
      clients.push_back(OwnedTask::of(bare_client(worker, workload, static_cast<uint64_t>(thread) * 1000 + i)));
      clients.back().start();
    }
    while (!worker.ready.empty()) {
      worker.running.swap(worker.ready);
      for (const std::coroutine_handle<> coroutine : worker.running) coroutine.resume();
      worker.running.clear();
    }
    keep(worker.sequence);
  };
  return time_each(threads, kTransactions, clock, work);
}

}  // namespace

MachineLimits measure_limits(const Workload& workload, uint64_t memory_bytes, int threads, Clock& clock) {
  MachineLimits limits;
  limits.threads = threads;
  limits.memory_bytes = std::clamp(memory_bytes, kMemoryMin, kMemoryMax);
  limits.message_ns = time_messages(threads, clock);
  limits.touch_ns = time_touches(limits.memory_bytes, threads, clock);
  limits.client_ns = time_clients(workload, threads, clock);
  return limits;
}

Needs needs_of(const Report& report) {
  if (report.nodes == kFixedNodes && report.replicas == kFixedReplicas) {
    for (const FixedNeeds& fixed : kFixedNeeds) {
      if (fixed.workload == report.workload) return {fixed.messages, fixed.touches, true};
    }
  }
  return {report.messages_per_txn, report.touches_per_txn, false};
}

Attainable attainable(const MachineLimits& limits, const Report& report) {
  Attainable out;
  out.needs = needs_of(report);
  out.ns = out.needs.messages * limits.message_ns + out.needs.touches * limits.touch_ns + limits.client_ns;
  out.tps_per_core = out.ns > 0 ? 1e9 / out.ns : 0;
  out.reached = out.tps_per_core > 0 ? report.tps_median / report.threads / out.tps_per_core : 0;
  return out;
}

}  // namespace weft::bench
