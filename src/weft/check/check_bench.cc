// How long does it take to check a history of 100,000 transactions, valid, and with cycles so that the search for one
// runs too; and to read and write it as JSON?
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

// From transaction `first` on, every `step`th transaction that is a single read finds nothing. The final read of all
// keys still has everything, and there are no info transactions, so only the cycle search can find it.
History history_with_stale_reads(int64_t txns, size_t first, size_t step) {
  History history =
      checking::RandomHistory(1, {.txns = static_cast<size_t>(txns), .live_keys = 32, .overlap = 40, .info_percent = 0})
          .make();
  for (size_t t = first, found = 0; t + 1 < history.txns.size(); ++t) {
    TxnRecord& txn = history.txns[t];
    if (txn.type != TxnRecord::Type::kOk) continue;
    if (txn.ops.size() != 1 || txn.ops[0].kind != TxnRecord::Op::Kind::kRead || txn.ops[0].list->empty()) continue;
    if (found++ % step == 0) txn.ops[0].list.emplace();
  }
  return history;
}

void check_cyclic(benchmark::State& state, const History& history) {
  for (auto _ : state) {
    if (check(history).cycle.empty()) state.SkipWithError("no cycle was found");
  }
  count(state, history);
}

void check_one_stale_read(benchmark::State& state) {
  const auto txns = static_cast<size_t>(state.range(0));
  check_cyclic(state, history_with_stale_reads(state.range(0), txns * 9 / 10, txns));
}
BENCHMARK(check_one_stale_read)->Arg(100'000)->Unit(benchmark::kMillisecond);

void check_many_stale_reads(benchmark::State& state) {
  check_cyclic(state, history_with_stale_reads(state.range(0), 0, 1));
}
BENCHMARK(check_many_stale_reads)->Arg(100'000)->Unit(benchmark::kMillisecond);

// Hundreds of transactions at a time read a key as it was before any of them, and append: one component of nearly
// everything, in which every rw edge is a candidate.
void check_lost_updates(benchmark::State& state) {
  constexpr int64_t kAtATime = 500;
  History history;
  TxnRecord last;
  last.invoke = last.complete = ~uint64_t{0};
  for (int64_t i = 0; i < state.range(0); ++i) {
    const std::string key = "k" + std::to_string(i / kAtATime);
    if (i % kAtATime == 0) last.ops.push_back(TxnRecord::Op::read(key, std::vector<int64_t>{}));
    TxnRecord& txn = history.txns.emplace_back();
    txn.invoke = static_cast<uint64_t>(i);
    txn.complete = static_cast<uint64_t>(i + kAtATime);
    txn.ops = {TxnRecord::Op::read(key, std::vector<int64_t>{}), TxnRecord::Op::append(key, i)};
    last.ops.back().list->push_back(i);
  }
  history.txns.push_back(last);
  check_cyclic(state, history);
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
