// A latency histogram of fixed size: log-linear buckets over the whole range of 64 bits.
//
// Every power of two is divided into 64 buckets, so values below 128 are exact and a larger one is known to 1/64 (1.6
// %). A quantile is the upper edge of its bucket (at most the largest value seen): it may be a little too high, never
// too low.
//
// One thread records; at the same time any thread may read it or merge it into its own. Such a reader sees no torn
// counter, but a concurrent record perhaps in some of the counters only. Nothing allocates.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace weft {

namespace histogram {

inline constexpr int kSubBits = 6;
inline constexpr uint64_t kSubBuckets = uint64_t{1} << kSubBits;
inline constexpr size_t kBuckets = (64 - kSubBits + 1) * kSubBuckets;

// A value below 64 is its own bucket; above, the top seven bits of the value select it.
constexpr size_t bucket_of(uint64_t value) {
  if (value < kSubBuckets) return value;
  const int shift = static_cast<int>(std::bit_width(value)) - 1 - kSubBits;
  return static_cast<size_t>(shift) * kSubBuckets + (value >> shift);
}

constexpr uint64_t upper_edge(size_t bucket) {
  if (bucket < kSubBuckets) return bucket;
  const int shift = static_cast<int>(bucket / kSubBuckets) - 1;
  const uint64_t low = (kSubBuckets + bucket % kSubBuckets) << shift;
  return low + ((uint64_t{1} << shift) - 1);
}

static_assert(bucket_of(127) == 127 && upper_edge(127) == 127);
static_assert(bucket_of(128) == 128 && bucket_of(129) == 128 && upper_edge(128) == 129);
static_assert(bucket_of(~uint64_t{0}) == kBuckets - 1 && upper_edge(kBuckets - 1) == ~uint64_t{0});

}  // namespace histogram

class Histogram {
 public:
  Histogram() = default;
  Histogram(const Histogram& other) { merge(other); }
  Histogram& operator=(const Histogram& other);
  ~Histogram() = default;

  void record(uint64_t value) {
    add(counts_[histogram::bucket_of(value)], 1);
    add(sum_, value);
    if (value > max_.load(std::memory_order_relaxed)) max_.store(value, std::memory_order_relaxed);
  }

  void merge(const Histogram& other);  // only by the thread that records here
  void clear();                        // likewise
  // Subtracts an earlier copy of it, so that what was recorded since remains; max() stays. Likewise.
  void subtract(const Histogram& earlier);

  uint64_t count() const;
  uint64_t count_upto(uint64_t value) const;  // values whose bucket ends there or below
  uint64_t sum() const { return sum_.load(std::memory_order_relaxed); }
  uint64_t max() const { return max_.load(std::memory_order_relaxed); }
  double mean() const;  // exact; 0 when empty

  // The smallest edge that at least a fraction `q` of the values do not exceed, 0 <= q <= 1; 0 when empty.
  uint64_t quantile(double q) const;

 private:
  using Counter = std::atomic<uint64_t>;

  // There is one writer, so a load and a store suffice: no locked instruction.
  static void add(Counter& counter, uint64_t n) {
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }

  std::array<Counter, histogram::kBuckets> counts_{};
  Counter sum_{0};
  Counter max_{0};
};

}  // namespace weft
