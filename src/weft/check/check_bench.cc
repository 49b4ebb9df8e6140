// How long does it take to check a history of 100,000 transactions: from memory, from JSON text, and when it is
// invalid (a stale read late in the history, so that the cycle search runs too)?
#include <benchmark/benchmark.h>

#include <string>

#include "weft/check/checker.h"
#include "weft/check/random_history.h"

namespace weft {
namespace {

History history_of(int64_t txns) {
  return checking::RandomHistory(1, {.txns = static_cast<size_t>(txns), .live_keys = 32, .overlap = 40}).make();
}

std::string text_of(const History& history) {
  std::string text;
  for (const TxnRecord& txn : history.txns) append_json(txn, text);
  return text;
}

void count(benchmark::State& state, const History& history) {
  state.counters["txns/s"] = benchmark::Counter(
      static_cast<double>(history.txns.size()) * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

void check_valid(benchmark::State& state) {
  const History history = history_of(state.range(0));
  for (auto _ : state) {
    if (!check(history).valid()) state.SkipWithError("a valid history was refused");
  }
  count(state, history);
}
BENCHMARK(check_valid)->Arg(10'000)->Arg(100'000)->Arg(300'000)->Unit(benchmark::kMillisecond);

void check_stale(benchmark::State& state) {
  History history = history_of(state.range(0));
  TxnRecord& last = history.txns.back();
  last.ops.back().list.emplace();
  for (auto _ : state) {
    if (check(history).valid()) state.SkipWithError("an invalid history was accepted");
  }
  count(state, history);
}
BENCHMARK(check_stale)->Arg(100'000)->Unit(benchmark::kMillisecond);

void check_lost_updates(benchmark::State& state) {
  // Every tenth transaction forgot what it read: the worst case for the search, one component of nearly everything.
  History history = history_of(state.range(0));
  for (size_t t = 0; t + 1 < history.txns.size(); t += 10) {
    TxnRecord& txn = history.txns[t];
    if (txn.type != TxnRecord::Type::kOk || txn.ops.front().kind != TxnRecord::Op::Kind::kRead) continue;
    txn.ops.resize(1);
    txn.ops.front().list.emplace();
  }
  for (auto _ : state) {
    if (check(history).valid()) state.SkipWithError("an invalid history was accepted");
  }
  count(state, history);
}
BENCHMARK(check_lost_updates)->Arg(100'000)->Unit(benchmark::kMillisecond);

void parse(benchmark::State& state) {
  const History history = history_of(state.range(0));
  const std::string text = text_of(history);
  for (auto _ : state) {
    if (!parse_history(text, "bench")) state.SkipWithError("a history was refused");
  }
  count(state, history);
  state.SetBytesProcessed(static_cast<int64_t>(text.size()) * state.iterations());
}
BENCHMARK(parse)->Arg(100'000)->Unit(benchmark::kMillisecond);

void write(benchmark::State& state) {
  const History history = history_of(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(text_of(history));
  count(state, history);
}
BENCHMARK(write)->Arg(100'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weft

BENCHMARK_MAIN();
