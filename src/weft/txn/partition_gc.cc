#include "weft/txn/partition_gc.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "weft/base/marks.h"
#include "weft/store/table.h"
#include "weft/txn/node.h"

namespace weft {

namespace {

constexpr int kStoppedBins = 256;  // of a slice while the node is stopped
constexpr int kBesideBins = 16;    // and beside transactions
constexpr uint32_t kWordsPerBin = 64;

void begin_stage(Node::Sweep& sweep, Node::Sweep::Stage stage, std::vector<bool> partitions) {
  sweep.stage = stage;
  sweep.partitions = std::move(partitions);
  sweep.table = sweep.partition = 0;
  sweep.cursor = 0;
  sweep.words = false;
}

bool any(const std::vector<bool>& partitions) {
  return std::find(partitions.begin(), partitions.end(), true) != partitions.end();
}

}  // namespace

bool PartitionGc::settle() {
  using Stage = Node::Sweep::Stage;
  Node::Sweep& at = ctx_.node->sweep();
  const std::unique_lock lock(at.mutex, std::try_to_lock);
  if (!lock) return false;
  if (at.epoch != ctx_.view().epoch.value) {
    at.epoch = ctx_.view().epoch.value;
    std::vector<bool> fills = ctx_.node->stale();
    for (size_t p = 0; p < fills.size(); ++p) fills[p] = fills[p] && ctx_.view().partitions[p].filled_at(ctx_.self);
    if (any(fills)) WEFT_MARK("discarded before it fills again");
    begin_stage(at, Stage::kDiscard, std::move(fills));
  }
  if (at.stage == Stage::kDiscard) {
    if (!discard_slice(kStoppedBins)) return false;
    std::vector<bool> settled(ctx_.view().partitions.size());
    const std::shared_ptr<const View> before = ctx_.node->last_active();
    for (size_t p = 0; before != nullptr && p < settled.size(); ++p) {
      settled[p] = before->partitions[p].filled_at(ctx_.self) && ctx_.view().partitions[p].held_by(ctx_.self);
    }
    const bool nothing = !any(settled);
    begin_stage(at, Stage::kSettle, std::move(settled));
    if (nothing) at.table = ctx_.node->tables();
  }
  if (at.stage == Stage::kSettle && at.table < ctx_.node->tables()) {
    at.cursor =
        ctx_.node->table(TableId(static_cast<uint16_t>(at.table)))->settle(at.partitions, at.cursor, kStoppedBins);
    if (at.cursor == 0) ++at.table;
    if (at.table < ctx_.node->tables()) return false;
  }
  if (at.stage == Stage::kReady) return true;
  std::vector<bool> left = ctx_.node->stale();
  for (size_t p = 0; p < left.size(); ++p) {
    // What only a later view takes away is still served.
    left[p] =
        left[p] && !ctx_.view().partitions[p].held_by(ctx_.self) && !ctx_.view().partitions[p].filled_at(ctx_.self);
  }
  begin_stage(at, Stage::kReady, std::move(left));  // where step() begins
  return true;
}

bool PartitionGc::step(uint64_t) {
  if (!discards_ || !ctx_.views.active()) return false;
  Node::Sweep& at = ctx_.node->sweep();
  const std::unique_lock lock(at.mutex, std::try_to_lock);
  if (!lock) return true;  // another worker looks whether it may go on: the next step is soon
  discards_ = !discard_slice(kBesideBins);
  if (!discards_) WEFT_MARK("a replica that left is discarded");
  return true;
}

void PartitionGc::on_view_active() { discards_ = ctx_.id.value == ctx_.node->workers() - 1 && ctx_.node->has_stale(); }

// Of the sweep, whose mutex the caller holds: records, then absence words, of one table after the other. True when all
// are gone.
bool PartitionGc::discard_slice(int bins) {
  Node::Sweep& at = ctx_.node->sweep();
  const bool nothing = !any(at.partitions) || ctx_.bugs.has(Bug::kKeepsStale);
  if (!nothing && at.table < ctx_.node->tables()) {
    Table* table = ctx_.node->table(TableId(static_cast<uint16_t>(at.table)));
    if (!at.words) {
      at.cursor = table->discard(at.partitions, at.cursor, bins);
      at.words = at.cursor == 0;
      ctx_.charge(Step::kLookup, static_cast<uint64_t>(bins));
      return false;
    }
    const uint32_t words = kWordsPerBin * static_cast<uint32_t>(bins);
    while (at.partition < at.partitions.size() && !at.partitions[at.partition]) ++at.partition;
    if (at.partition < at.partitions.size()) {
      table->discard_absence(PartitionId(static_cast<uint16_t>(at.partition)), static_cast<uint32_t>(at.cursor), words);
      at.cursor += words;
      if (at.cursor < table->absence_words()) return false;
      at.cursor = 0;
      ++at.partition;
      return false;
    }
    at.partition = 0;
    at.words = false;
    if (++at.table < ctx_.node->tables()) return false;
  }
  ctx_.node->discarded(at.partitions);
  return true;
}

}  // namespace weft
