// What dlht_bench measures of one map, in a separate process.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/check.h"
#include "weft/base/clock.h"
#include "weft/base/histogram.h"
#include "weft/base/random.h"
#include "weft/store/bench_figures.h"
#include "weft/store/dlht_bench_maps.h"

namespace weft::dlht_bench {

inline constexpr size_t kBatch = 24;
inline constexpr size_t kLongBatch = 240;  // what a worker collects from many transactions

struct Plan {
  uint64_t keys = 0;
  uint64_t ops = 0;  // of one measurement
  int repeats = 0;
};

using store_bench::cell;
using store_bench::Figure;
using store_bench::figures_of_child;
using store_bench::find_figure;
using store_bench::first_line_of;
using store_bench::print_for_parent;
using store_bench::rate;
using store_bench::resident_bytes;
using store_bench::Samples;

// Random reads of 64-byte lines in `bytes` of memory on huge pages: the upper bound of the machine. Measured plainly,
// one load after the other, as many at once as the core sees ahead; and with each line prefetched kBatch reads ahead.
class CacheLineReads {
 public:
  explicit CacheLineReads(size_t bytes) : memory_(SIZE_MAX), count_(bytes / 64), at_(memory_.allocate(count_ * 64)) {
    for (size_t i = 0; i < count_; ++i) store_shared(at_ + i * 64, i);
  }
  ~CacheLineReads() { memory_.free(at_, count_ * 64); }
  CacheLineReads(const CacheLineReads&) = delete;
  CacheLineReads& operator=(const CacheLineReads&) = delete;

  uint64_t read(uint64_t times, Random& random) const {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < times; ++i) sum += load_shared(at_ + random.below(count_) * 64);
    return sum;
  }

  uint64_t read_ahead(uint64_t times, Random& random) const {
    std::array<const std::byte*, kBatch> ahead;
    ahead.fill(at_);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < times; ++i) {
      const std::byte* const next = at_ + random.below(count_) * 64;
      __builtin_prefetch(next);
      const std::byte*& ref = ahead[i % kBatch];
      sum += load_shared(ref);
      ref = next;
    }
    return sum;
  }

 private:
  MappedMemory memory_;
  const size_t count_;
  std::byte* const at_;
};

// Batched requests of any kind.
template <class Map, class Make>
void batches(Map& map, size_t size, uint64_t ops, Make make) {
  std::vector<DlhtRequest> requests(size);
  for (uint64_t done = 0; done < ops; done += size) {
    for (size_t i = 0; i < size; ++i) requests[i] = make(done + i);
    map.run(requests);
    for (const DlhtRequest& request : requests) WEFT_CHECK(request.ok, "every request succeeds");
  }
}

template <class Map>
void measure_once(Map& map, const Plan& plan, Random& random, Samples* samples) {
  const uint64_t n = plan.keys;
  const uint64_t ops = plan.ops / kLongBatch * kLongBatch;
  uint64_t value = 0;
  samples->add("get", rate(ops, [&] {
                 for (uint64_t i = 0; i < ops; ++i) WEFT_CHECK(map.get(random.below(n), &value), "the key is there");
               }));
  samples->add("put", rate(ops, [&] {
                 for (uint64_t i = 0; i < ops; ++i) WEFT_CHECK(map.put(random.below(n), i), "the key is there");
               }));
  // Keys all over the table are erased and inserted again, so that the table keeps the size it was created for.
  const uint64_t some = std::min(ops, n / 8 / kLongBatch * kLongBatch);
  const uint64_t start = random.below(n);
  const auto key = [&](uint64_t i) { return (start + i * 7) % n; };
  samples->add("delete", rate(some, [&] {
                 for (uint64_t i = 0; i < some; ++i) WEFT_CHECK(map.erase(key(i)), "the key is there");
               }));
  samples->add("insert", rate(some, [&] {
                 for (uint64_t i = 0; i < some; ++i) WEFT_CHECK(map.insert(key(i), i), "the key is not there");
               }));
  if constexpr (Map::kBatches) {
    for (const size_t size : {kBatch, kLongBatch}) {
      const std::string by = " by " + std::to_string(size);
      const auto run = [&](const char* name, DlhtOp op, uint64_t times, auto key_of) {
        samples->add(name + by, rate(times, [&] {
                       batches(map, size, times, [&](uint64_t i) {
                         return DlhtRequest{.op = op, .key = key_of(i), .hash = 0, .value = i};
                       });
                     }));
      };
      const auto any = [&](uint64_t) { return random.below(n); };
      run("get", DlhtOp::kGet, ops, any);
      run("put", DlhtOp::kPut, ops, any);
      run("delete", DlhtOp::kErase, some, key);
      run("insert", DlhtOp::kInsert, some, key);
    }
  }
}

// For the map that batches, the machine's read rate is measured alternately with it, on as much memory: other tenants
// and the CPU's clock rate change from second to second.
template <class Map>
std::vector<Figure> measure(const Plan& plan) {
  Random random(plan.keys);
  const uint64_t before = resident_bytes();
  Map map(plan.keys);
  const double load = rate(plan.keys, [&] {
    for (uint64_t key = 0; key < plan.keys; ++key) WEFT_CHECK(map.insert(key, key), "the key is new");
  });
  const double bytes = static_cast<double>(resident_bytes() - before);
  Samples samples;
  samples.add("load", load);
  samples.add("bytes a key", bytes / static_cast<double>(plan.keys));
  if constexpr (Map::kBatches) {
    const CacheLineReads lines(plan.keys * 50);
    uint64_t sum = 0;
    for (int i = 0; i < plan.repeats; ++i) {
      samples.add("reads", rate(plan.ops, [&] { sum += lines.read(plan.ops, random); }));
      samples.add("reads ahead", rate(plan.ops, [&] { sum += lines.read_ahead(plan.ops, random); }));
      measure_once(map, plan, random, &samples);
    }
    WEFT_CHECK(sum != 1, "the reads are not optimised away");
  } else {
    for (int i = 0; i < plan.repeats; ++i) measure_once(map, plan, random, &samples);
  }
  return samples.figures();
}

// Latency of single gets, in nanoseconds, clock included, while another thread also gets, and while another thread
// resizes the table. Only gets that began during the resize count.
inline std::vector<Figure> measure_resize(const Plan& plan) {
  Samples samples;
  for (int repeat = 0; repeat < plan.repeats; ++repeat) {
    auto table = std::move(*RawTable::create({.capacity = plan.keys, .readers = 2}));
    for (uint64_t key = 0; key < plan.keys; ++key) WEFT_CHECK(*table->insert(key, key), "the key is new");
    RealClock clock;
    enum class Phase { kWait, kQuiet, kResize, kEnd };
    std::atomic<Phase> phase{Phase::kWait};
    std::array<Histogram, 4> histograms;
    std::thread reader([&] {
      Random random(7);
      uint64_t value = 0;
      for (uint64_t i = 0;; ++i) {
        const Phase now = phase.load(std::memory_order_relaxed);
        if (now == Phase::kEnd) break;
        const uint64_t from = clock.now_ns();
        WEFT_CHECK(table->get(random.below(plan.keys), &value), "the key is there");
        histograms[static_cast<size_t>(now)].record(clock.now_ns() - from);
        if (i % 64 == 0) table->index().quiescence().quiesce(1);  // without helping the resize
      }
      table->offline(1);
    });
    Random random(8);
    uint64_t value = 0;
    uint64_t next = plan.keys;
    while (!table->index()
                .stats()
                .resizing) {  // fills the table until the next insert that finds no room begins the resize
      WEFT_CHECK(*table->insert(next, next), "the key is new");
      ++next;
    }
    phase.store(Phase::kResize);
    while (table->index().help_resize(1024)) {
    }
    phase.store(Phase::kQuiet);
    table->quiesce(0);
    const Histogram& quiet = histograms[static_cast<size_t>(Phase::kQuiet)];
    while (quiet.count() < plan.ops / 8) {
      for (int i = 0; i < 1000; ++i) WEFT_CHECK(table->get(random.below(plan.keys), &value), "it is there");
    }
    phase.store(Phase::kEnd);
    reader.join();
    for (const auto& [name, which] : {std::pair{"quiet", Phase::kQuiet}, std::pair{"resize", Phase::kResize}}) {
      const Histogram& histogram = histograms[static_cast<size_t>(which)];
      samples.add(std::string("get p50 ns, ") + name, static_cast<double>(histogram.quantile(0.5)));
      samples.add(std::string("get p99.9 ns, ") + name, static_cast<double>(histogram.quantile(0.999)));
      samples.add(std::string("gets, ") + name, static_cast<double>(histogram.count()));
    }
  }
  return samples.figures();
}

}  // namespace weft::dlht_bench
