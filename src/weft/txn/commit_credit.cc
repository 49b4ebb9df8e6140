#include "weft/txn/commit_credit.h"

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/txn/key_part.h"
#include "weft/txn/scan_messages.h"
#include "weft/txn/slot_table.h"
#include "weft/txn/txn_scan.h"

namespace weft {

namespace {

// The worst case: three messages that name a key, one that brings its value, and their answers, each in a packet of its
// own.
constexpr uint32_t kMessages = 512;
constexpr uint32_t kKey = 3 * kWideHeadBytes + 2 * sizeof(uint64_t);

}  // namespace

uint32_t CommitCredit::small_bytes(const Limits& limits) {
  const uint32_t bytes = static_cast<uint32_t>(SlotTable::slots_for(limits)) * kSmallBytes;
  return bytes <= limits.credit_bytes / 2 ? bytes : 0;
}

bool CommitCredit::is_small(const TxnSlot& slot) const {
  constexpr uint32_t kKeys = 4;
  static_assert(kMessages + kKeys * kKey + 3 * kSmallCommitBytes <= kSmallBytes);
  return has_small_ && slot.count <= kKeys && slot.bytes_used <= small_bytes_max_ && slot.scans == nullptr;
}

void CommitCredit::plan(TxnSlot& slot) {
  for (const NodeId n : slot.participants) slot.need[n.value] = kMessages;
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    uint32_t bytes = kKey + 3 * static_cast<uint32_t>(padded(e.key.bytes.size()));
    if (e.write != Write::kNone) bytes += static_cast<uint32_t>(padded(e.new_bytes));
    const NodeSet at = slot.participants & (e.placement->in_sync | e.placement->catching_up);
    for (const NodeId n : at) slot.need[n.value] += bytes;
  }
  for (const TxnScan* scan = slot.scans; scan != nullptr; scan = scan->next) {
    slot.need[scan->placement->primary().value] += static_cast<uint32_t>(sizeof(uint64_t) + check_bytes(scan->check));
  }
}

bool CommitCredit::is_large(const TxnSlot& slot) const {
  for (const NodeId n : slot.participants) {
    if (slot.need[n.value] > gate_.limit() / 2) return true;
  }
  return false;
}

CommitCredit::Line CommitCredit::line_of(TxnSlot& slot) const {
  if (is_small(slot)) return Line::kCredit;
  plan(slot);
  return is_large(slot) ? Line::kTurn : Line::kCredit;
}

bool CommitCredit::take_planned(TxnSlot& slot) {
  if (is_large(slot)) [[unlikely]] {
    if (turn_ != nullptr) return false;
    WEFT_MARK("a large commit has its turn");
    turn_ = &slot;
    return true;
  }
  NodeSet taken;
  for (const NodeId n : slot.participants) {
    if (!slot.credit_nodes.contains(n)) slot.credit[n.value] = 0;
    const uint32_t need = slot.need[n.value];
    if (!gate_.take(n, need)) {
      put_back(slot, taken);
      return false;
    }
    taken.add(n);
    slot.credit[n.value] += need;
  }
  slot.credit_nodes |= taken;
  return true;
}

void CommitCredit::put_back(TxnSlot& slot, NodeSet taken) {
  for (const NodeId n : taken) {
    gate_.put_back(n, slot.need[n.value]);
    slot.credit[n.value] -= slot.need[n.value];
  }
}

void CommitCredit::give_back(TxnSlot& slot) {
  for (const NodeId n : slot.credit_nodes) gate_.give(n, slot.credit[n.value]);
  slot.credit_nodes = {};
  if (turn_ != &slot) return;
  turn_ = nullptr;
  gate_.retry_waiters();
}

void CommitCredit::enqueue(TxnSlot& slot) {
  Queue& queue = at(line_of(slot));
  WEFT_CHECK(slot.locked_nodes.empty(), "who waits for credit holds no locks");
  WEFT_CHECK(slot.stage == TxnStage::kAwaitingCredit, "a commit that has sent nothing waits");
  WEFT_CHECK(slot.next == nullptr && queue.last != &slot, "a commit waits in line once");
  (queue.last != nullptr ? queue.last->next : queue.first) = &slot;
  queue.last = &slot;
  slot.next = nullptr;
  gate_.retry_waiters();
}

void CommitCredit::pop(Line line) {
  Queue& queue = at(line);
  WEFT_CHECK(queue.first != nullptr, "somebody waits for credit");
  TxnSlot& slot = *queue.first;
  queue.first = slot.next;
  if (queue.first == nullptr) queue.last = nullptr;
  slot.next = nullptr;
}

void CommitCredit::remove(TxnSlot& slot) {
  for (Queue& queue : lines_) {
    TxnSlot* last = nullptr;
    for (TxnSlot* waits = queue.first; waits != nullptr; last = waits, waits = waits->next) {
      if (waits != &slot) continue;
      (last != nullptr ? last->next : queue.first) = slot.next;
      if (queue.last == &slot) queue.last = last;
      slot.next = nullptr;
      gate_.retry_waiters();  // those behind it in the queue may have room
      return;
    }
  }
  WEFT_CHECK(false, "a commit that has sent nothing waits for credit");
}

}  // namespace weft
