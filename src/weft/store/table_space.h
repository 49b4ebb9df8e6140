// How a table divides its region, and the limits it enforces.
//
//   0        4 KiB            index            order         blocks                            end
//   | unused | absence words  | index extents  | nodes of an   | map of the slabs, slabs of      |
//   |        | of every partition, then pages of 4 KiB | ordered table | blocks ->             |
//
// Address space is reserved for the worst case; pages are committed when first touched.
//
// Limits are per partition and enforced where the partition is locked, so that its backups never reach them:
//   records  capacity / partitions * 1.1 + 6 * sqrt(capacity / partitions) + 64: a table filled to its capacity does
//            not fail because of hash skew
//   bytes    of blocks. Slabs never change their class, so a partition needs as much of a class as it ever had; the
//            limit applies to the sum of these peaks, not to the bytes currently in use. A backup's peaks differ by
//            what is in flight, so the block area has 25 % and some slabs of each class in addition.
//   nodes    of an ordered table. There are as many as the records of all partitions can take, and a quarter more for
//            the tombstones of backups, so that the other limits are reached first.
//
// Thread-safety: PartitionUsage and IndexExtents may be used by any thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "weft/fabric/region.h"
#include "weft/status.h"
#include "weft/store/blocks.h"
#include "weft/store/dlht.h"

namespace weft {

struct TableOptions;

struct TableLayout {
  uint64_t keys = 0;                   // that the index is created for
  uint64_t records_per_partition = 0;  // limit
  uint64_t bytes_per_partition = 0;    // limit, of blocks
  uint32_t absence_per_partition = 0;
  uint64_t absence_at = 0;  // offsets
  uint64_t index_at = 0;
  uint64_t order_at = 0;
  uint32_t order_nodes = 0;  // 0: the table is not ordered
  uint64_t blocks_at = 0;
  uint64_t end = 0;
};

// An error if the specification cannot be met (a value limit beyond the layout's, a memory limit that is too small).
Result<TableLayout> table_layout(const TableOptions& options);

// The records and blocks that one partition uses at this node.
class alignas(64) PartitionUsage {
 public:
  // Counts one more record; false if there are `limit` already.
  bool add_record(uint64_t limit);
  void remove_record() { records_.fetch_sub(1, std::memory_order_relaxed); }
  // Release and acquire: whoever no longer sees a record sees it counted.
  void count_erase() { erases_.fetch_add(1, std::memory_order_release); }
  uint64_t erases() const { return erases_.load(std::memory_order_acquire); }
  uint64_t records() const { return records_.load(std::memory_order_relaxed); }

  // Counts one more block; false if the sum of peaks would exceed `limit` bytes.
  bool add_block(int block_class, uint64_t limit);
  void remove_block(int block_class) {
    live_[static_cast<size_t>(block_class)].fetch_sub(1, std::memory_order_relaxed);
  }
  bool has_blocks() const {
    return std::any_of(live_.begin(), live_.end(),
                       [](const auto& n) { return n.load(std::memory_order_relaxed) != 0; });
  }

  static constexpr uint64_t kNoLimit = ~uint64_t{0};

 private:
  std::atomic<uint64_t> records_{0};
  std::atomic<uint64_t> erases_{0};
  std::atomic<uint64_t> charged_{0};  // sum over classes of peak * bytes
  std::array<std::atomic<uint32_t>, kBlockClasses> live_{};
  std::array<std::atomic<uint32_t>, kBlockClasses> peak_{};
};

// Extents for the index: first fit among the gaps of the area, in pages. Freed memory returns to the kernel and is
// therefore zero when it is used again.
class IndexExtents final : public IndexMemory {
 public:
  IndexExtents(Region* region, uint64_t begin, uint64_t end);
  std::byte* allocate(size_t bytes) override;
  void free(std::byte* memory, size_t bytes) override;
  size_t limit() const override { return end_ - begin_; }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  struct Gap {
    uint64_t at, bytes;
  };
  Region* const region_;
  const uint64_t begin_;
  const uint64_t end_;
  std::mutex mutex_;
  std::vector<Gap> gaps_;  // by address, never adjacent
  std::atomic<uint64_t> used_{0};
};

}  // namespace weft
