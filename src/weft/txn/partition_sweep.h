// PartitionSweep: which partitions of a node's tables are to be discarded, and how far its workers have come with that
// (one of them at a time; partition_gc.h).
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

  // Partitions of which this node may still have data from an earlier view. They are discarded, at the latest before
  // this node catches up on one of them again. From any thread.
  std::vector<bool> stale() const;
  bool has_stale() const { return stale_count_.load(std::memory_order_acquire) != 0; }
  // A view follows another: partitions that this node no longer replicates become stale.
  void note_view(const View& before, const View& now);
  void discarded(const std::vector<bool>& partitions);

  // The walk over the tables, by the worker that holds the mutex.
  enum class Stage : uint8_t { kDiscard, kSettle, kReady };
  struct Progress {
    uint32_t epoch = 0;
    Stage stage = Stage::kDiscard;
    std::vector<bool> partitions;  // of this stage
    size_t table = 0;              // the next one
    bool words = false;            // walking the table's absence words; else its records
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
