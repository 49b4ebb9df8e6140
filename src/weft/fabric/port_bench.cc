// The question: what does a message cost on the local wire, and what is batching worth? And what does a one-sided verb
// cost, alone and many to a doorbell?
//
//   Messages/batching/burst  64-byte messages from one node to another on one thread: reserve, flush, poll, handler.
//   OwnNode                  the same to the local node.
//   Ring/burst               the ring alone under it, one frame per message: what the port adds is the difference.
//   AcrossThreads            two threads, the sender as fast as the ring takes it.
//   EmptyPoll/nodes          a poll that finds nothing.
//   RoundTrip                one message there and one back, on one thread.
//   Verbs/kind/doorbell      one-sided verbs on 64-byte records, that many in one post.
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "weft/fabric/local.h"
#include "weft/fabric/port.h"

namespace weft {
namespace {

constexpr NodeId kA(0), kB(1);
constexpr WorkerId kW(0);
constexpr size_t kBody = 56;  // with its header 64 bytes

PortOptions options(NodeId self, bool batching) {
  return {.self = self, .worker = kW, .nodes = 2, .batching = batching};
}

struct Sink {
  uint64_t messages = 0;
  uint64_t sum = 0;
  static void handle(void* context, std::span<const Message> run) {
    auto* sink = static_cast<Sink*>(context);
    for (const Message& m : run) sink->sum += load<uint64_t>(m.body.data());
    sink->messages += run.size();
  }
};

void fill(std::byte* at, uint64_t i) {
  for (size_t k = 0; k < kBody; k += 8) store(at + k, i + k);
}

void rate(benchmark::State& state, uint64_t n) {
  state.counters["per_second"] = benchmark::Counter(static_cast<double>(n), benchmark::Counter::kIsRate);
}

void BM_Messages(benchmark::State& state) {
  const bool batching = state.range(0) != 0;
  const auto burst = static_cast<uint64_t>(state.range(1));
  LocalFabric fabric({.nodes = 2});
  Port a(options(kA, batching), fabric.wire(kA, kW), nullptr);
  Port b(options(kB, batching), fabric.wire(kB, kW), nullptr);
  Sink sink;
  b.set_handler(0, Sink::handle, &sink);
  uint64_t sent = 0;
  for (auto _ : state) {
    for (uint64_t i = 0; i < burst; ++i) fill(a.reserve(kB, Flow::kCommit, 0, kBody), sent++);
    a.flush();
    while (b.poll()) {
    }
  }
  if (sink.messages != sent) state.SkipWithError("messages are missing");
  rate(state, sent);
}
BENCHMARK(BM_Messages)->ArgNames({"batching", "burst"})->ArgsProduct({{0, 1}, {1, 4, 16, 64}});

void BM_OwnNode(benchmark::State& state) {
  const auto burst = static_cast<uint64_t>(state.range(0));
  LocalFabric fabric({.nodes = 2});
  Port a(options(kA, true), fabric.wire(kA, kW), nullptr);
  Sink sink;
  a.set_handler(0, Sink::handle, &sink);
  uint64_t sent = 0;
  for (auto _ : state) {
    for (uint64_t i = 0; i < burst; ++i) fill(a.reserve(kA, Flow::kCommit, 0, kBody), sent++);
    while (a.poll()) {
    }
  }
  rate(state, sent);
}
BENCHMARK(BM_OwnNode)->ArgName("burst")->Arg(1)->Arg(16)->Arg(64);

void BM_Ring(benchmark::State& state) {
  const auto burst = static_cast<uint64_t>(state.range(0));
  FrameQueue queue;
  std::vector<uint64_t> memory(32 << 10);
  queue.set_up(reinterpret_cast<std::byte*>(memory.data()), memory.size() * 8);
  uint64_t sent = 0, sum = 0;
  std::byte frame[kBody];
  for (auto _ : state) {
    for (uint64_t i = 0; i < burst; ++i) {
      fill(frame, sent++);
      queue.push(frame);
    }
    for (ByteView got = queue.front(); !got.empty(); got = queue.front()) {
      sum += load<uint64_t>(got.data());
      queue.pop(got);
    }
    queue.release();
  }
  benchmark::DoNotOptimize(sum);
  rate(state, sent);
}
BENCHMARK(BM_Ring)->ArgName("burst")->Arg(1)->Arg(16)->Arg(64);

void BM_AcrossThreads(benchmark::State& state) {
  const bool batching = state.range(0) != 0;
  const auto burst = static_cast<uint64_t>(state.range(1));
  LocalFabric fabric({.nodes = 2});
  std::atomic<uint64_t> taken{0};
  std::atomic<bool> stop{false};
  std::thread receiver([&] {
    Port b(options(kB, batching), fabric.wire(kB, kW), nullptr);
    Sink sink;
    b.set_handler(0, Sink::handle, &sink);
    while (!stop.load(std::memory_order_relaxed)) {
      if (b.poll()) taken.store(sink.messages, std::memory_order_release);
    }
  });
  Port a(options(kA, batching), fabric.wire(kA, kW), nullptr);
  uint64_t sent = 0;
  for (auto _ : state) {
    for (uint64_t i = 0; i < burst; ++i) fill(a.reserve(kB, Flow::kCommit, 0, kBody), sent++);
    a.flush();
    // Bounds what is in flight, as a transaction's credit does.
    while (sent - taken.load(std::memory_order_acquire) > 2048) a.flush();
  }
  while (taken.load() != sent) a.flush();
  stop.store(true);
  receiver.join();
  rate(state, sent);
}
BENCHMARK(BM_AcrossThreads)->ArgNames({"batching", "burst"})->ArgsProduct({{0, 1}, {1, 16, 64}})->UseRealTime();

void BM_EmptyPoll(benchmark::State& state) {
  const auto nodes = static_cast<int>(state.range(0));
  LocalFabric fabric({.nodes = nodes});
  Port a({.self = kA, .worker = kW, .nodes = nodes}, fabric.wire(kA, kW), nullptr);
  for (auto _ : state) benchmark::DoNotOptimize(a.poll());
}
BENCHMARK(BM_EmptyPoll)->ArgName("nodes")->Arg(2)->Arg(5)->Arg(10);

void BM_RoundTrip(benchmark::State& state) {
  LocalFabric fabric({.nodes = 2});
  Port a(options(kA, true), fabric.wire(kA, kW), nullptr);
  Port b(options(kB, true), fabric.wire(kB, kW), nullptr);
  Sink sink;
  a.set_handler(1, Sink::handle, &sink);
  b.set_handler(
      0,
      [](void* context, std::span<const Message> run) {
        for (const Message& m : run) {
          std::memcpy(static_cast<Port*>(context)->reserve(m.source, Flow::kCommit, 1, kBody), m.body.data(), kBody);
        }
      },
      &b);
  for (auto _ : state) {
    fill(a.reserve(kB, Flow::kCommit, 0, kBody), sink.messages);
    a.flush();
    b.poll();
    b.flush();
    a.poll();
  }
  rate(state, sink.messages);
}
BENCHMARK(BM_RoundTrip);

void BM_Verbs(benchmark::State& state) {
  const auto kind = static_cast<VerbKind>(state.range(0));
  const auto doorbell = static_cast<size_t>(state.range(1));
  auto region = Region::create(64 << 20);
  if (!region) {
    state.SkipWithError("no memory");
    return;
  }
  (*region)->prefault(0, (*region)->bytes());
  Regions regions;
  const RegionId id = regions.add(region->get());
  regions.grant(kA, Domain::kEngine);
  LocalFabric fabric({.nodes = 2});
  fabric.set_regions(kB, &regions);
  LocalWire* wire = fabric.wire(kA, kW);
  uint64_t local[8] = {};
  std::vector<Verb> verbs(doorbell);
  std::vector<Completion> done(doorbell);
  uint64_t posted = 0;
  for (auto _ : state) {
    for (Verb& v : verbs) {
      v.kind = kind;
      v.signalled = false;
      v.region = id;
      v.offset = posted++ * 0x9e3779b97f4a7c15U % ((64U << 20) / 64) * 64;
      v.bytes = 64;
      v.local = reinterpret_cast<std::byte*>(local);
      v.operand = 1;
    }
    verbs.back().signalled = true;
    wire->post(kB, Domain::kEngine, verbs);
    benchmark::DoNotOptimize(wire->poll_completions(Domain::kEngine, done));
  }
  rate(state, posted);
}
BENCHMARK(BM_Verbs)->ArgNames({"kind", "doorbell"})->ArgsProduct({{0, 1, 2, 3}, {1, 16}});

}  // namespace
}  // namespace weft

BENCHMARK_MAIN();
