#include "weft/txn/partition_sweep.h"

#include <algorithm>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/marks.h"

namespace weft {

// An in-sync replica that is one no more has left, even if it is catching up now: then a view in between, which this
// node has not seen, was without it.
void PartitionSweep::note_view(const View& before, const View& now) {
  WEFT_CHECK(before.partitions.size() == now.partitions.size(), "views of one cluster have the same partitions");
  const std::scoped_lock lock(stale_mutex_);
  stale_.resize(now.partitions.size());
  for (size_t p = 0; p < now.partitions.size(); ++p) {
    const Placement& was = before.partitions[p];
    const Placement& is = now.partitions[p];
    const bool had = was.is_in_sync(self_) || was.is_catching_up(self_);
    const bool was_copying = was.is_catching_up(self_) || bugs_.has(PlantedBug::kFillsStale);
    const bool goes_on = is.is_in_sync(self_) || (is.is_catching_up(self_) && was_copying);
    if (was.is_in_sync(self_) && is.is_catching_up(self_))
      WEFT_MARK("an in-sync replica catches up: its node has missed a view");
    if (had && !goes_on) stale_[p] = true;
  }
  count_stale();
}

std::vector<bool> PartitionSweep::stale() const {
  const std::scoped_lock lock(stale_mutex_);
  return stale_;
}

void PartitionSweep::discarded(const std::vector<bool>& partitions) {
  const std::scoped_lock lock(stale_mutex_);
  for (size_t p = 0; p < std::min(stale_.size(), partitions.size()); ++p) stale_[p] = stale_[p] && !partitions[p];
  count_stale();
}

void PartitionSweep::count_stale() {
  stale_count_.store(static_cast<size_t>(std::count(stale_.begin(), stale_.end(), true)), std::memory_order_release);
}

void PartitionSweep::Progress::begin(Stage next, std::vector<bool> about) {
  stage = next;
  partitions = std::move(about);
  table = partition = 0;
  cursor = 0;
  words = false;
}

}  // namespace weft
