// What a worker has counted, for other threads. The worker publishes a copy now and then, and before it sleeps. Readers
// do not slow it down; they see every number untorn, but not all numbers of the same moment.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "weft/cluster.h"

namespace weft {

struct WorkerStats {
  Counters counters;
  uint64_t in_flight = 0;   // transactions that applications hold
  uint64_t verb_limit = 0;  // verbs that may be in flight; 0: any number
};

class WorkerStatsSnapshot {
 public:
  static constexpr uint64_t kPeriodNs = 20'000'000;

  // The worker's thread.
  bool due(uint64_t now_ns) const { return now_ns >= due_ns_; }
  void put(const WorkerStats& stats, uint64_t now_ns) {
    due_ns_ = now_ns + kPeriodNs;
    const auto words = std::bit_cast<Words>(stats);
    for (size_t i = 0; i < words.size(); ++i) words_[i].store(words[i], std::memory_order_relaxed);
  }
  // Any thread.
  WorkerStats read() const {
    Words words;
    for (size_t i = 0; i < words.size(); ++i) words[i] = words_[i].load(std::memory_order_relaxed);
    return std::bit_cast<WorkerStats>(words);
  }

 private:
  static_assert(std::is_trivially_copyable_v<WorkerStats> && sizeof(WorkerStats) % sizeof(uint64_t) == 0);
  using Words = std::array<uint64_t, sizeof(WorkerStats) / sizeof(uint64_t)>;
  std::array<std::atomic<uint64_t>, std::tuple_size_v<Words>> words_{};
  uint64_t due_ns_ = 0;
};

}  // namespace weft
