// The question: what does a packet over tcp cost, alone and in a stream, and what is gathering output worth?
//
//   RoundTrip              one 64-byte packet there and one back, both ends on one thread: two processes also need the
//                          wake-ups.
//   Stream/bytes/gathered  packets one way, that many sent before each poll: packets per second on one thread, and the
//                          write calls it took.
//   EmptyPoll              a poll that finds nothing.
//   Verbs/doorbell         READs of 64 bytes, that many in one post, both ends on one thread.
#include <benchmark/benchmark.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/check.h"
#include "weft/base/clock.h"
#include "weft/wires/tcp/tcp.h"

namespace weft {
namespace {

constexpr NodeId kA(0), kB(1);
constexpr WorkerId kW(0);

struct Pair {
  RealClock clock;
  std::unique_ptr<Region> region = std::move(*Region::create(2 << 20));
  Regions regions;
  std::unique_ptr<TcpInterconnect> a = make(kA), b = make(kB);

  Pair() {
    regions.add(region.get());
    regions.grant(kA, Domain::kEngine);
    a->join({kB, 1, b->address()});
    b->join({kA, 1, a->address()});
    a->wire(kW)->accept_incarnation(kB, 1);
    b->wire(kW)->accept_incarnation(kA, 1);
    for (bool up = false; !up; up = a->links() == 1 && b->links() == 1) a->control_step(), b->control_step();
    for (int i = 0; i < 10; ++i) receive(a->wire(kW)), receive(b->wire(kW));
  }
  std::unique_ptr<TcpInterconnect> make(NodeId self) {
    TcpOptions options;
    options.self = self;
    options.incarnation = 1;
    return std::move(*TcpInterconnect::create(options, &regions, &clock));
  }
  static size_t receive(TcpWire* wire) {
    std::array<Packet, 16> packets;
    const size_t count = wire->poll(packets);
    wire->release();
    return count;
  }
};

void BM_RoundTrip(benchmark::State& state) {
  Pair pair;
  TcpWire* const a = pair.a->wire(kW);
  TcpWire* const b = pair.b->wire(kW);
  const std::string packet(64, 'p');
  for (auto _ : state) {
    a->send(kB, Flow::kExecution, as_bytes(packet));
    Pair::receive(a);
    while (Pair::receive(b) == 0) {
    }
    b->send(kA, Flow::kExecution, as_bytes(packet));
    Pair::receive(b);
    while (Pair::receive(a) == 0) {
    }
  }
}
BENCHMARK(BM_RoundTrip);

void BM_Stream(benchmark::State& state) {
  Pair pair;
  TcpWire* const a = pair.a->wire(kW);
  TcpWire* const b = pair.b->wire(kW);
  const std::string packet(static_cast<size_t>(state.range(0)), 'p');
  uint64_t received = 0;
  for (auto _ : state) {
    for (int64_t i = 0; i < state.range(1); ++i) a->send(kB, Flow::kExecution, as_bytes(packet));
    Pair::receive(a);
    for (size_t count = 1; count != 0; received += count) count = Pair::receive(b);
  }
  state.counters["per_second"] = benchmark::Counter(static_cast<double>(received), benchmark::Counter::kIsRate);
  state.counters["packets_per_write"] =
      static_cast<double>(a->counters().packets_sent) / static_cast<double>(a->counters().writes);
}
BENCHMARK(BM_Stream)->ArgsProduct({{64, 1024, 8192}, {1, 8, 32}});

void BM_EmptyPoll(benchmark::State& state) {
  Pair pair;
  for (auto _ : state) benchmark::DoNotOptimize(Pair::receive(pair.a->wire(kW)));
}
BENCHMARK(BM_EmptyPoll);

void BM_Verbs(benchmark::State& state) {
  Pair pair;
  TcpWire* const a = pair.a->wire(kW);
  std::array<std::byte, 64> local;
  Verb read;
  read.bytes = 64;
  read.local = local.data();
  const std::vector<Verb> verbs(static_cast<size_t>(state.range(0)), read);
  std::vector<Completion> done(256);
  uint64_t completed = 0;
  for (auto _ : state) {
    a->post(kB, Domain::kEngine, verbs);
    for (size_t left = verbs.size(); left != 0;) {
      Pair::receive(a);
      Pair::receive(pair.b->wire(kW));
      const size_t count = a->poll_completions(Domain::kEngine, done);
      for (size_t i = 0; i < count; ++i) WEFT_CHECK(done[i].status == VerbStatus::kDone, "the region is granted");
      left -= count;
      completed += count;
    }
  }
  state.counters["per_second"] = benchmark::Counter(static_cast<double>(completed), benchmark::Counter::kIsRate);
}
BENCHMARK(BM_Verbs)->Arg(1)->Arg(16);

}  // namespace
}  // namespace weft

BENCHMARK_MAIN();
