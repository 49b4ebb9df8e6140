#include "weft/txn/truncation.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/base/marks.h"

namespace weft {

void Truncation::finished(TxnSlot& slot) {
  if (slot.record_nodes.empty()) return;
  if (!by_next_use_) {
    for (const NodeId n : slot.record_nodes) {
      notices_.add(n, {slot.sequence, slot.index});
      ++slot.notices_pending;
    }
    return;
  }
  const uint64_t now_ns = ctx_.now_ns();
  if (slot.untruncated.empty()) slot.untruncated_since_ns = now_ns;
  slot.untruncated |= slot.record_nodes;
  slot.finished_sequence = slot.sequence;
  slot.finished_ns = now_ns;
  due_ns_ = std::min(due_ns_, now_ns + kIdleNs);
}

bool Truncation::step() {
  if (by_next_use_) return ctx_.now_ns() >= due_ns_ && send_due(ctx_.now_ns());
  if (notices_.empty()) return false;
  return notices_.send(slots_.runs_short(), [&](const TxnCompleteNotice& notice) {
    TxnSlot& slot = slots_.at(notice.slot());
    WEFT_CHECK(slot.stage == TxnStage::kFinished && slot.notices_pending != 0, "notices are of what is finished");
    --slot.notices_pending;
    slots_.free_if_done(slot);
  });
}

bool Truncation::send_due(uint64_t now_ns) {
  due_ns_ = UINT64_MAX;
  for (size_t i = 0; i < slots_.size(); ++i) {
    TxnSlot& slot = slots_.at(i);
    if (slot.untruncated.empty()) continue;
    const uint64_t due_ns = std::min(slot.finished_ns + kIdleNs, slot.untruncated_since_ns + kLongestNs);
    if (now_ns < due_ns) {
      due_ns_ = now_ns + kIdleNs;  // slots are examined once in that time
      continue;
    }
    WEFT_MARK("a record is truncated by a notice");
    for (const NodeId n : slot.untruncated) notices_.add(n, {slot.finished_sequence, slot.index});
    slot.untruncated = {};
  }
  return notices_.send(true, [](const TxnCompleteNotice&) {});
}

void Truncation::clear() {
  notices_.clear();
  for (size_t i = 0; i < slots_.size(); ++i) slots_.at(i).untruncated = {};
  due_ns_ = UINT64_MAX;
}

}  // namespace weft
