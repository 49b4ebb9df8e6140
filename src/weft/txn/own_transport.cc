#include "weft/txn/own_transport.h"

#include <new>

#include "weft/base/check.h"
#include "weft/txn/message_transport.h"

namespace weft {

void OwnTransport::take_keys(const TxnSlot& slot, Phase phase) {
  keys_.cut(0);
  unread_ = false;
  // An unlock names keys only where it brings values, and an abort none.
  if (!slot.steps[index_of(phase)].send_to.contains(ctx_.self)) return;
  if (phase == Phase::kUnlock && slot.stage != TxnStage::kCommitting) return;
  KeyRef* to = keys_.begin_adding(slot.count);
  for (uint16_t i = 0; i < slot.count; ++i) {
    const Entry& e = slot.entry(i);
    if (!e.at[index_of(phase)].contains(ctx_.self)) continue;
    unread_ |= !e.key.hint;
    const KeyPart part = MessageTransport::key_part(slot, e, i, phase);
    new (to++) KeyRef{.key = e.key,
                      .table = e.table,
                      .value = (part.flags & kHasValue) != 0 ? ByteView(e.new_value, e.new_bytes) : ByteView(),
                      .version = Version(part.version),
                      .room = part.value_bytes,
                      .predecessor_delta = part.predecessor_delta,
                      .table_id = e.table_id,
                      .index = part.index,
                      .write = e.write,
                      .flags = part.flags};
  }
  keys_.end_adding(to);
}

// Keys that this transaction has not read here are not in the cache. Those of other nodes' commits are prefetched when
// their messages arrive.
void OwnTransport::prefetch() const {
  if (!unread_ || !ctx_.table_batching) return;
  for (const KeyRef& ref : keys_.all()) {
    if (!ref.key.hint) ref.table->prefetch_index(ref.key.hash);
  }
  for (const KeyRef& ref : keys_.all()) {
    if (!ref.key.hint) ref.table->prefetch_record(ref.key);
  }
}

void OwnTransport::run(TxnSlot& slot, Phase phase) {
  take_keys(slot, phase);
  if (phase != Phase::kUnlock) prefetch();
  const CommitRequest request = MessageTransport::request_of(ctx_.self, slot);
  bool taken = true;
  switch (phase) {
    case Phase::kLock:
      lock(slot, request);
      break;
    case Phase::kValidate:
      validate(slot, request);
      break;
    case Phase::kReplicate:
      taken = participant_.replicate(request, participant_.gather(keys_.all()));
      break;
    case Phase::kUnlock:
      taken = participant_.unlock(request, keys_.all());
      break;
    case Phase::kExecute:
    case Phase::kDone:
      taken = false;
  }
  WEFT_CHECK(taken || ctx_.bugs.mask != 0, "this node's own requests are right");
}

void OwnTransport::replicate_for(const CommitRequest& request, const TxnSlot& slot) {
  take_keys(slot, Phase::kReplicate);
  if (keys_.empty()) return;
  const bool taken = participant_.replicate(request, participant_.gather(keys_.all()));
  WEFT_CHECK(taken || ctx_.bugs.mask != 0, "what was locked here can be logged here");
}

void OwnTransport::lock(TxnSlot& slot, const CommitRequest& request) {
  PhaseResult result;
  const bool taken = participant_.lock(request, participant_.gather(keys_.all()), &result);
  WEFT_CHECK(taken || ctx_.bugs.mask != 0, "this node's own requests are right");
  if (result.code != Code::kOk) {
    fail(slot, result.code, &slot.entry(result.index), result.holder);
    return;
  }
  slot.locked_nodes.add(ctx_.self);
  slot.record_nodes.add(ctx_.self);
  MessageTransport::take_lock_versions(slot, ctx_.self, result);
}

void OwnTransport::validate(TxnSlot& slot, const CommitRequest& request) {
  const PhaseResult result = participant_.validate(request, keys_.all());
  if (result.code != Code::kOk) fail(slot, result.code, &slot.entry(result.index), result.holder);
}

}  // namespace weft
