// What a change of the view leaves to do in a node's tables, a few bins at a time, so that leases and transactions go
// on.
//
// Before the first of its workers goes on in the new view, when all of them have carried everything out:
// - what this node begins to fill, and has replicated before, is discarded. Its copies are of an older view: a key that
//   was deleted since would come back. Nobody has locked, applied or read anything of it since this node was stopped;
// - tombstones of partitions that were filling and are whole now go.
// And beside transactions: what this node replicates no more is discarded. No message and no reader asks for it. If
// another view lets this node fill it again meanwhile, that is for the first of these.
//
// Which partitions these are is noted when the node hears of a view (Node::publish), since a worker may miss some.
#include <algorithm>
#include <mutex>

#include "weft/base/marks.h"
#include "weft/txn/engine.h"

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

// True when all is done.
bool Engine::settle_tables() {
  using Stage = Node::Sweep::Stage;
  Node::Sweep& at = node_->sweep();
  const std::unique_lock lock(at.mutex, std::try_to_lock);
  if (!lock) return false;
  if (at.epoch != view_->epoch.value) {
    at.epoch = view_->epoch.value;
    std::vector<bool> fills = node_->stale();
    for (size_t p = 0; p < fills.size(); ++p) fills[p] = fills[p] && view_->partitions[p].filled_at(self_);
    if (any(fills)) WEFT_MARK("discarded before it fills again");
    begin_stage(at, Stage::kDiscard, std::move(fills));
  }
  if (at.stage == Stage::kDiscard) {
    if (!discard_slice(kStoppedBins)) return false;
    std::vector<bool> settled(view_->partitions.size());
    const std::shared_ptr<const View> before = node_->last_active();
    for (size_t p = 0; before != nullptr && p < settled.size(); ++p) {
      settled[p] = before->partitions[p].filled_at(self_) && view_->partitions[p].held_by(self_);
    }
    const bool nothing = !any(settled);
    begin_stage(at, Stage::kSettle, std::move(settled));
    if (nothing) at.table = node_->tables();
  }
  if (at.stage == Stage::kSettle && at.table < node_->tables()) {
    at.cursor = node_->table(TableId(static_cast<uint16_t>(at.table)))->settle(at.partitions, at.cursor, kStoppedBins);
    if (at.cursor == 0) ++at.table;
    if (at.table < node_->tables()) return false;
  }
  if (at.stage == Stage::kReady) return true;
  std::vector<bool> left = node_->stale();
  for (size_t p = 0; p < left.size(); ++p) {
    // What only a later view takes away is still served.
    left[p] = left[p] && !view_->partitions[p].held_by(self_) && !view_->partitions[p].filled_at(self_);
  }
  begin_stage(at, Stage::kReady, std::move(left));  // where discard_step begins
  return true;
}

bool Engine::discard_step() {
  Node::Sweep& at = node_->sweep();
  const std::unique_lock lock(at.mutex, std::try_to_lock);
  if (!lock) return true;  // another worker looks whether it may go on: the next step is soon
  discards_ = !discard_slice(kBesideBins);
  if (!discards_) WEFT_MARK("a replica that left is discarded");
  return true;
}

// Of the sweep, whose mutex the caller holds: records, then absence words, of one table after the other. True when all
// are gone.
bool Engine::discard_slice(int bins) {
  Node::Sweep& at = node_->sweep();
  const bool nothing = !any(at.partitions) || bugs_.has(Bug::kKeepsStale);
  if (!nothing && at.table < node_->tables()) {
    Table* table = node_->table(TableId(static_cast<uint16_t>(at.table)));
    if (!at.words) {
      at.cursor = table->discard(at.partitions, at.cursor, bins);
      at.words = at.cursor == 0;
      charge(Step::kLookup, static_cast<uint64_t>(bins));
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
    if (++at.table < node_->tables()) return false;
  }
  node_->discarded(at.partitions);
  return true;
}

}  // namespace weft
