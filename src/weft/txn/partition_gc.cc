#include "weft/txn/partition_gc.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/store/table.h"

namespace weft {

namespace {

constexpr int kStoppedBins = 256;  // bins of a slice while the node is stopped
constexpr int kBesideBins = 16;    // and while transactions run
constexpr uint32_t kWordsPerBin = 64;

bool any(const std::vector<bool>& partitions) {
  return std::find(partitions.begin(), partitions.end(), true) != partitions.end();
}

}  // namespace

bool PartitionGc::settle() {
  using Stage = PartitionSweep::Stage;
  WEFT_CHECK(!ctx_.views.active(), "partitions are settled while the worker is stopped");
  PartitionSweep::Progress& at = sweep_.progress();
  const std::unique_lock lock(sweep_.mutex(), std::try_to_lock);
  if (!lock) return false;
  if (at.epoch != ctx_.view().epoch.value) {
    at.epoch = ctx_.view().epoch.value;
    std::vector<bool> again = sweep_.stale();
    for (size_t p = 0; p < again.size(); ++p)
      again[p] = again[p] && ctx_.view().partitions[p].is_catching_up(ctx_.self);
    if (any(again)) WEFT_MARK("dropped before it catches up again");
    at.begin(Stage::kDiscard, std::move(again));
  }
  if (at.stage == Stage::kDiscard) {
    if (!discard_slice(kStoppedBins)) return false;
    std::vector<bool> settled(ctx_.view().partitions.size());
    const std::shared_ptr<const View> before = ctx_.state.views.last_active();
    for (size_t p = 0; before != nullptr && p < settled.size(); ++p) {
      settled[p] = before->partitions[p].is_catching_up(ctx_.self) && ctx_.view().partitions[p].is_in_sync(ctx_.self);
    }
    const bool nothing = !any(settled);
    at.begin(Stage::kSettle, std::move(settled));
    if (nothing) at.table = ctx_.tables.count();
  }
  if (at.stage == Stage::kSettle && at.table < ctx_.tables.count()) {
    at.cursor = ctx_.tables.at(TableId(static_cast<uint16_t>(at.table)))
                    ->purge_tombstones(at.partitions, at.cursor, kStoppedBins);
    if (at.cursor == 0) ++at.table;
    if (at.table < ctx_.tables.count()) return false;
  }
  if (at.stage == Stage::kReady) return true;
  std::vector<bool> left = sweep_.stale();
  for (size_t p = 0; p < left.size(); ++p) {
    // A partition that only a later view takes away is still served.
    left[p] = left[p] && !ctx_.view().partitions[p].is_in_sync(ctx_.self) &&
              !ctx_.view().partitions[p].is_catching_up(ctx_.self);
  }
  at.begin(Stage::kReady, std::move(left));  // step() begins there
  return true;
}

bool PartitionGc::step(uint64_t) {
  if (!discards_ || !ctx_.views.active()) return false;
  const std::unique_lock lock(sweep_.mutex(), std::try_to_lock);
  if (!lock) return true;  // another worker holds the mutex: retry soon, in the next step
  discards_ = !discard_slice(kBesideBins);
  if (!discards_) WEFT_MARK("a replica that was dropped is deleted");
  return true;
}

void PartitionGc::on_view_active() { discards_ = ctx_.id.value == ctx_.workers - 1 && sweep_.has_stale(); }

// Discards a part of the sweep, whose mutex the caller holds: records, then absence words, one table after the other.
// Returns true when all are gone.
bool PartitionGc::discard_slice(int bins) {
  PartitionSweep::Progress& at = sweep_.progress();
  const bool nothing = !any(at.partitions) || ctx_.bugs.has(PlantedBug::kKeepsStale);
  if (!nothing && at.table < ctx_.tables.count()) {
    Table* table = ctx_.tables.at(TableId(static_cast<uint16_t>(at.table)));
    if (!at.words) {
      at.cursor = table->drop_partitions(at.partitions, at.cursor, bins);
      at.words = at.cursor == 0;
      ctx_.charge(CostStep::kLookup, static_cast<uint64_t>(bins));
      return false;
    }
    const uint32_t words = kWordsPerBin * static_cast<uint32_t>(bins);
    while (at.partition < at.partitions.size() && !at.partitions[at.partition]) ++at.partition;
    if (at.partition < at.partitions.size()) {
      table->drop_absence(PartitionId(static_cast<uint16_t>(at.partition)), static_cast<uint32_t>(at.cursor), words);
      at.cursor += words;
      if (at.cursor < table->absence_words()) return false;
      at.cursor = 0;
      ++at.partition;
      return false;
    }
    at.partition = 0;
    at.words = false;
    if (++at.table < ctx_.tables.count()) return false;
  }
  sweep_.discarded(at.partitions);
  return true;
}

}  // namespace weft
