#include "weft/store/table_space.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/store/ordered_index.h"
#include "weft/store/table.h"

namespace weft {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kAbsenceMin = 64;
constexpr uint64_t kKeyBytesPlanned = 512;         // of byte-string keys, if no memory limit is given
constexpr uint64_t kValueBytesPlanned = 64 << 10;  // of large values, the same
constexpr uint64_t kBytesPlannedMax = uint64_t{64} << 30;
// For what is in flight at backups: so many slabs of each class up to this size, and of larger blocks one for each
// worker and one more in all, for a worker replaces one at a time.
constexpr uint64_t kSlabsInAddition = 8;
constexpr uint64_t kSlabsInAdditionUpTo = 1 << 20;
constexpr uint64_t kTombstonesInAddition = 4096;  // of a partition, at a backup of an ordered table
constexpr uint64_t kOrderNodesMax = uint64_t{1} << 31;
constexpr uint64_t kSmallIndex = 1 << 16;  // keys; a small index may grow by a large factor

uint64_t index_area_bytes(uint64_t keys) { return keys * (keys <= kSmallIndex ? 1024 : 320) + (4 << 20); }

// Of the trees of `held` partitions with so many keys each.
uint64_t order_nodes_for(uint64_t held, uint64_t keys) { return held * OrderedIndex::nodes_for(keys); }

uint64_t planned_record_bytes(const TableSpec& spec, uint64_t value_bytes) {
  const uint64_t key = spec.keys == KeyKind::kInteger ? sizeof(uint64_t) : kKeyBytesPlanned;
  return block_bytes(block_class_of(record_bytes(key, value_bytes)));
}

// Without a memory limit: every record may have the longest value, as long as that is no absurd amount of address
// space.
uint64_t planned_bytes(const TableSpec& spec, uint64_t records, uint64_t partitions_held) {
  const uint64_t longest = records * planned_record_bytes(spec, spec.value_bytes_max);
  const uint64_t usual =
      records * planned_record_bytes(spec, std::min<uint64_t>(spec.value_bytes_max, kValueBytesPlanned));
  return std::min(longest, std::max(usual, kBytesPlannedMax / partitions_held));
}

}  // namespace

Result<TableLayout> table_layout(const TableOptions& options) {
  const TableSpec& spec = options.spec;
  if (spec.value_bytes_max > kTableValueBytesMax) {
    return Error{Code::kBadOption, "table " + spec.name + ": value_bytes_max is " +
                                       std::to_string(spec.value_bytes_max) + ", at most " +
                                       std::to_string(kTableValueBytesMax)};
  }
  const auto partitions = static_cast<uint64_t>(options.partitions);
  const auto held = static_cast<uint64_t>(options.partitions_held);
  const uint64_t capacity = std::max<uint64_t>(1, (spec.capacity + partitions - 1) / partitions);

  TableLayout out;
  out.keys = capacity * held;
  const double slack = 0.1 * static_cast<double>(capacity) + 6 * std::sqrt(static_cast<double>(capacity)) + 64;
  out.records_per_partition = capacity + static_cast<uint64_t>(slack);
  out.absence_per_partition = static_cast<uint32_t>(std::max(kAbsenceMin, capacity / 4));
  out.absence_at = kPage;
  out.index_at = out.absence_at + align_up(partitions * out.absence_per_partition * sizeof(uint64_t), kPage);
  out.order_at = out.index_at + align_up(index_area_bytes(out.keys), kPage);
  if (spec.ordered) {
    const uint64_t nodes = order_nodes_for(held, out.records_per_partition * 5 / 4 + kTombstonesInAddition);
    if (nodes > kOrderNodesMax) {
      return Error{Code::kBadOption, "table " + spec.name + ": ordered, and its capacity of " +
                                         std::to_string(spec.capacity) + " records takes " + std::to_string(nodes) +
                                         " nodes, at most " + std::to_string(kOrderNodesMax)};
    }
    out.order_nodes = options.order_nodes_max != 0 ? options.order_nodes_max : static_cast<uint32_t>(nodes);
  }
  out.blocks_at = out.order_at + align_up(uint64_t{out.order_nodes} * kOrderNodeBytes, kPage);
  if (held == 0) {
    out.end = out.blocks_at + align_up(Blocks::map_bytes(0), kPage);
    return out;
  }
  out.bytes_per_partition = planned_bytes(spec, out.records_per_partition, held);
  if (spec.memory_bytes_max != 0) {
    // Index, order and absence words are subtracted first; a fifth of the rest is the backups' headroom.
    const uint64_t order = spec.ordered ? order_nodes_for(held, out.records_per_partition) * kOrderNodeBytes : 0;
    const uint64_t fixed =
        align_up(Dlht::bytes_for(out.keys), kPage) + held * out.absence_per_partition * sizeof(uint64_t) + order;
    const uint64_t smallest = fixed + held * kSlabBytes;
    if (spec.memory_bytes_max < smallest) {
      return Error{Code::kBadOption, "table " + spec.name + ": memory_bytes_max is " +
                                         std::to_string(spec.memory_bytes_max) + ", its capacity of " +
                                         std::to_string(spec.capacity) + " records needs at least " +
                                         std::to_string(smallest)};
    }
    out.bytes_per_partition = (spec.memory_bytes_max - fixed) / held * 4 / 5;
  }
  uint64_t blocks = held * out.bytes_per_partition;
  blocks += blocks / 4;
  const int largest = spec.keys == KeyKind::kInteger
                          ? block_class_of(record_bytes(sizeof(uint64_t), spec.value_bytes_max))
                          : block_class_of(record_bytes(kKeyBytesMax, spec.value_bytes_max));
  for (int c = 0; c <= largest && block_bytes(c) <= kSlabsInAdditionUpTo; ++c) {
    blocks += kSlabsInAddition * slab_bytes(c);
  }
  if (block_bytes(largest) > kSlabsInAdditionUpTo) {
    blocks += (static_cast<uint64_t>(options.workers) + 1) * slab_bytes(largest);
  }
  blocks += Blocks::map_bytes(blocks + blocks / 1024);  // and for the map itself
  out.end = out.blocks_at + align_up(blocks, kPage);
  return out;
}

bool PartitionUsage::add_record(uint64_t limit) {
  if (records_.fetch_add(1, std::memory_order_relaxed) < limit) return true;
  records_.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

bool PartitionUsage::add_block(int block_class, uint64_t limit) {
  const auto c = static_cast<size_t>(block_class);
  const uint64_t bytes = block_bytes(block_class);
  const uint32_t live = live_[c].fetch_add(1, std::memory_order_relaxed) + 1;
  uint32_t peak = peak_[c].load(std::memory_order_relaxed);
  while (live > peak) {
    if (charged_.fetch_add(bytes, std::memory_order_relaxed) + bytes > limit) {
      charged_.fetch_sub(bytes, std::memory_order_relaxed);
      live_[c].fetch_sub(1, std::memory_order_relaxed);
      return false;
    }
    if (peak_[c].compare_exchange_strong(peak, peak + 1, std::memory_order_relaxed)) {
      ++peak;
    } else {
      charged_.fetch_sub(bytes, std::memory_order_relaxed);
    }
  }
  return true;
}

IndexExtents::IndexExtents(Region* region, uint64_t begin, uint64_t end) : region_(region), begin_(begin), end_(end) {
  gaps_.reserve(64);
  gaps_.push_back({begin, end - begin});
}

std::byte* IndexExtents::allocate(size_t bytes) {
  bytes = align_up(bytes, kPage);
  const std::lock_guard guard(mutex_);
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
    if (gap->bytes < bytes) continue;
    const uint64_t at = gap->at;
    gap->at += bytes;
    gap->bytes -= bytes;
    if (gap->bytes == 0) gaps_.erase(gap);
    used_.fetch_add(bytes, std::memory_order_relaxed);
    return region_->base() + at;
  }
  WEFT_MARK_OUTSIDE("table: index area used up");
  return nullptr;
}

void IndexExtents::free(std::byte* memory, size_t bytes) {
  bytes = align_up(bytes, kPage);
  const auto at = static_cast<uint64_t>(memory - region_->base());
  WEFT_CHECK(at >= begin_ && at + bytes <= end_, "an extent of this area");
  region_->discard(at, bytes);
  const std::lock_guard guard(mutex_);
  auto next = std::find_if(gaps_.begin(), gaps_.end(), [at](const Gap& gap) { return gap.at > at; });
  next = gaps_.insert(next, {at, bytes});
  if (next + 1 != gaps_.end() && next->at + next->bytes == (next + 1)->at) {
    next->bytes += (next + 1)->bytes;
    gaps_.erase(next + 1);
  }
  if (next != gaps_.begin() && (next - 1)->at + (next - 1)->bytes == next->at) {
    (next - 1)->bytes += next->bytes;
    gaps_.erase(next);
  }
  used_.fetch_sub(bytes, std::memory_order_relaxed);
}

}  // namespace weft
