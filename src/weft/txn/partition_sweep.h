// PartitionSweep: which partitions of a node's tables are to be discarded, and how far its workers are with that (one
// of them at a time; partition_gc.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "weft/base/bugs.h"
#include "weft/member/view.h"
#include "weft/types.h"

namespace weft {

class PartitionSweep {
 public:
  PartitionSweep(NodeId self, PlantedBugs bugs) : self_(self), bugs_(bugs) {}

  // Partitions of which this node may still have what another view gave it: they are discarded, and before it fills one
  // of them again. From any thread.
  std::vector<bool> stale() const;
  bool has_stale() const { return stale_count_.load(std::memory_order_acquire) != 0; }
  // A view follows another: what this node replicates no more becomes stale.
  void note_view(const View& before, const View& now);
  void discarded(const std::vector<bool>& partitions);

  // The walk over the tables, by whoever holds the mutex.
  enum class Stage : uint8_t { kDiscard, kSettle, kReady };
  struct Progress {
    uint32_t epoch = 0;
    Stage stage = Stage::kDiscard;
    std::vector<bool> partitions;  // that this stage is about
    size_t table = 0;              // the next one
    bool words = false;            // of it, the absence words; else the records
    size_t partition = 0;          // whose words
    uint64_t cursor = 0;

    void begin(Stage next, std::vector<bool> about);
  };
  std::mutex& mutex() { return mutex_; }
  Progress& progress() { return progress_; }

 private:
  void count_stale();

  const NodeId self_;
  const PlantedBugs bugs_;
  std::mutex mutex_;
  Progress progress_;
  mutable std::mutex stale_mutex_;
  std::vector<bool> stale_;  // by partition
  std::atomic<size_t> stale_count_{0};
};

}  // namespace weft
