#include "weft/txn/slot.h"

#include <algorithm>
#include <cstring>

#include "weft/base/check.h"

namespace weft {

void clear(TxnSlot& slot) {
  slot.single = slot.acknowledged = slot.expired = slot.left = false;
  slot.read_only = slot.unanimous = slot.lock_brings_values = false;
  slot.flags = 0;
  slot.in_pieces = false;
  slot.rejected = Code::kOk;
  slot.count = slot.done_upto = slot.reads_pending = slot.wait_upto = 0;
  slot.capacity = TxnSlot::kInlineEntries;
  slot.entries = slot.inline_entries.data();
  slot.places = nullptr;
  slot.scans = slot.awaited_scan = nullptr;
  slot.last_entry = 0;
  slot.waiter = {};
  slot.phase = Phase::kExecute;
  slot.writes = slot.round_trips = 0;
  slot.notices_pending = 0;
  slot.waiting = slot.locked_nodes = slot.record_nodes = slot.participants = slot.credit_nodes =
      slot.catching_up_nodes = slot.nonvoting_nodes = slot.executor = slot.shipped_to = slot.early_acks = {};
  slot.steps = {};
  slot.reply = {};
  slot.ring_nodes = {};
  slot.ring_bytes = 0;
  slot.verbs_pending = 0;
  slot.outcome = Outcome();
  slot.bytes_used = slot.bytes_read = slot.bytes_taken = slot.inline_used = slot.chunk_left = 0;
  slot.chunks = 0;
}

void fail(TxnSlot& slot, Code code, const Entry* entry, Owner holder) {
  WEFT_CHECK(code != Code::kOk, "what fails has a reason");
  if (slot.outcome.code != Code::kOk) return;
  Outcome& out = slot.outcome;
  out.code = code;
  out.kind = slot.rejected != Code::kOk ? OutcomeKind::kRejected : OutcomeKind::kAborted;
  if (code == Code::kTableFull || code == Code::kBinFull || code == Code::kVersionLimit) {
    out.kind = OutcomeKind::kRejected;
  }
  if (entry != nullptr) {
    out.table = entry->table_id;
    out.key_bytes = static_cast<uint32_t>(entry->key.bytes.size());
    out.integer_key = entry->table != nullptr && entry->table->integer_keys();
    std::memcpy(out.key_start, entry->key.bytes.data(), std::min(entry->key.bytes.size(), sizeof out.key_start));
  }
  if (holder) {
    out.has_holder = true;
    out.holder_node = slot.owners.node(holder);
    out.holder_worker = slot.owners.worker(holder);
  }
}

bool others_may_commit(const TxnSlot& slot) {
  if (!slot.in_phases() && slot.stage != TxnStage::kFinished) return false;
  if (slot.read_only || slot.phase == Phase::kExecute) return false;
  return slot.phase >= Phase::kReplicate || slot.unanimous;
}

void fail_for_peer(TxnSlot& slot, const Entry* entry, NodeSet nodes) {
  WEFT_CHECK(!nodes.empty(), "somebody was lost");
  if (slot.outcome.code != Code::kOk) return;
  fail(slot, Code::kPeerLost, entry, Owner());
  slot.outcome.silent = nodes.bits();
}

Code reject(TxnSlot& slot, Code code, const Entry* entry, const ExceededLimit& limit) {
  WEFT_CHECK(code != Code::kOk, "what is rejected has a reason");
  if (slot.rejected == Code::kOk && slot.outcome.code == Code::kOk) {
    slot.rejected = code;
    fail(slot, code, entry, Owner());
    slot.outcome.limit_name = limit.name;
    slot.outcome.limit = limit.is;
    slot.outcome.asked = limit.asked;
  }
  return code;
}

}  // namespace weft
