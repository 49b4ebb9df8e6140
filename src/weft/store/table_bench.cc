// What does one operation of a table cost, alone and in a batch that prefetches, on tables of 1 M and of 20 M records?
// The largest fits no cache, so the difference between the two columns is what batching can gain.
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "weft/base/random.h"
#include "weft/store/table_testing.h"

namespace weft {
namespace {

using testing::TableBox;

constexpr size_t kBatch = 24;

// One table at a time: the benchmarks of one size run one after the other.
Table& table_of(uint64_t records) {
  static std::unique_ptr<TableBox> box;
  static uint64_t made_for = 0;
  if (made_for != records) {
    box.reset();
    box = std::make_unique<TableBox>(testing::integer_table(records, 8));
    made_for = records;
    for (uint64_t i = 0; i < records; ++i) {
      const testing::IntegerKey k(i);
      const HashedKey key = (*box)->hashed(k.bytes());
      const LockResult r = (*box)->lock(key, testing::kAlice, Write::kInsert, std::nullopt, 8);
      WEFT_CHECK(r.code == Code::kOk, "the table takes its capacity");
      (*box)->commit(key, testing::kAlice, Write::kInsert, k.bytes(), r.locked);
    }
  }
  return **box;
}

// Runs `each` on random keys, kBatch at a time, with or without the two prefetching passes.
template <class Each>
void run(benchmark::State& state, Each each) {
  const auto records = static_cast<uint64_t>(state.range(0));
  const bool batched = state.range(1) != 0;
  Table& table = table_of(records);
  Random random(1);
  std::vector<uint64_t> values(kBatch);
  std::vector<HashedKey> keys(kBatch);
  for (auto _ : state) {
    for (size_t i = 0; i < kBatch; ++i) {
      values[i] = random.below(records);
      keys[i] = table.hashed({reinterpret_cast<const std::byte*>(&values[i]), 8});
      if (batched) table.prefetch_index(keys[i].hash);
    }
    if (batched) {
      for (const HashedKey& key : keys) table.prefetch_record(key);
    }
    for (const HashedKey& key : keys) each(table, key);
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kBatch));
  state.SetLabel(batched ? "batched" : "one by one");
}

void BM_Read(benchmark::State& state) {
  uint64_t sum = 0;
  run(state, [&](Table& table, const HashedKey& key) {
    uint64_t value = 0;
    table.read(key, reinterpret_cast<std::byte*>(&value), sizeof value);
    sum += value;
  });
  benchmark::DoNotOptimize(sum);
}

void BM_Validate(benchmark::State& state) {
  uint64_t sum = 0;
  run(state, [&](Table& table, const HashedKey& key) {
    sum += static_cast<uint64_t>(table.validate(key, Version(1), testing::kAlice, nullptr));
  });
  benchmark::DoNotOptimize(sum);
}

void BM_LockCommit(benchmark::State& state) {
  run(state, [](Table& table, const HashedKey& key) {
    const LockResult r = table.lock(key, testing::kAlice, Write::kPut, std::nullopt, 8);
    table.commit(key, testing::kAlice, Write::kPut, key.bytes, r.locked);
  });
}

// Versions must increase: the old one is read first, as part of the batch's work.
void BM_ReadApplyRaise(benchmark::State& state) {
  run(state, [](Table& table, const HashedKey& key) {
    uint64_t value = 0;
    const ReadResult r = table.read(key, reinterpret_cast<std::byte*>(&value), sizeof value);
    const Version next(r.word.version().value + 1);
    uint64_t undo = 0;
    table.apply(key, Write::kPut, key.bytes, next, reinterpret_cast<std::byte*>(&undo));
    table.mark_readable(key, next);
  });
}

void sizes(benchmark::internal::Benchmark* benchmark) { benchmark->ArgNames({"records", "batched"}); }

// Registered by size, so that each table is filled once.
const bool kRegistered = [] {
  for (const int64_t records : {int64_t{1000}, int64_t{1'000'000}, int64_t{20'000'000}}) {
    for (const int64_t batched : {0, 1}) {
      const std::vector<int64_t> args{records, batched};
      benchmark::RegisterBenchmark("read", BM_Read)->Apply(sizes)->Args(args);
      benchmark::RegisterBenchmark("validate", BM_Validate)->Apply(sizes)->Args(args);
      benchmark::RegisterBenchmark("lock+commit", BM_LockCommit)->Apply(sizes)->Args(args);
      benchmark::RegisterBenchmark("read+apply+raise", BM_ReadApplyRaise)->Apply(sizes)->Args(args);
    }
  }
  return true;
}();

}  // namespace
}  // namespace weft

BENCHMARK_MAIN();
