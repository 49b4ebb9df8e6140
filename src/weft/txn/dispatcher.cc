#include "weft/txn/dispatcher.h"

#include "weft/base/check.h"
#include "weft/base/inline.h"
#include "weft/txn/log_receiver.h"
#include "weft/txn/notices.h"

namespace weft {

Dispatcher::Dispatcher(WorkerContext& ctx, CommitParser& parser, const SlotTable& slots)
    : ctx_(ctx), parser_(parser), slots_(slots), slot_count_(slots.size()) {
  for (Route& route : routes_) route.batch = &batch_;
  ctx.port.set_burst_hook([](void* self, std::span<Message> burst) { static_cast<Dispatcher*>(self)->on_burst(burst); },
                          this);
}

void Dispatcher::on_burst(std::span<Message> burst) {
  if (log_ != nullptr) log_->drain();
  batch_.begin();
  for (Message& message : burst) parse(message);
  if (batch_.keys.empty() && batch_.logged == 0) return;
  ++ctx_.counters.table_batches;
  ctx_.counters.table_batched += batch_.keys.size() + batch_.logged;
  if (!ctx_.table_batching) return;
  // Prefetches in a row without work in between: a prefetch that misses the TLB waits for its page walk, and page walks
  // overlap only if many are in flight.
  for (const KeyRef& ref : batch_.keys) ref.table->prefetch_index(ref.key.hash);
  for (const KeyRef& ref : batch_.keys) ref.table->prefetch_record(ref.key);
}

// For an answer: returns whether its slot exists, and if so prefetches the slot's lines.
WEFT_INLINE bool Dispatcher::prefetch_slot(uint32_t slot) const {
  if (slot >= slot_count_) return false;
  if (!ctx_.table_batching) return true;
  const auto* line = reinterpret_cast<const std::byte*>(&slots_.at(slot));
  for (int i = 0; i < TxnSlot::kHotLines; ++i) __builtin_prefetch(line + i * 64);
  return true;
}

WEFT_INLINE void Dispatcher::parse(Message& m) {
  const size_t first_key = batch_.keys.size();
  bool ok;
  switch (static_cast<Kind>(m.kind)) {
    case Kind::kGet:
      ok = parser_.parse_get(m, &batch_);
      break;
    case Kind::kLock:
    case Kind::kValidate:
    case Kind::kExecute:
      ok = parser_.parse_keys<Kind::kLock>(m, &batch_);
      break;
    case Kind::kReplicate:
      ok = parser_.parse_keys<Kind::kReplicate>(m, &batch_);
      break;
    case Kind::kReplicateFor:
      ok = parser_.parse_replicate_for(m, &batch_);
      break;
    case Kind::kShipped:
      ok = parser_.parse_shipped(m, &batch_);
      break;
    case Kind::kCheckScans:
      ok = parser_.parse_check_scans(m, &batch_);
      break;
    case Kind::kUnlock:
      ok = parser_.parse_unlock(m, &batch_);
      break;
    case Kind::kGetReply:
      ok = parse_get_reply(m);
      break;
    case Kind::kReply:
      ok = parse_reply(m);
      break;
    case Kind::kAck:
      ok = parse_acks(m);
      break;
    case Kind::kDone:
      ok = parser_.parse_done(m, &batch_);
      break;
    case Kind::kUnlocked:
      ok = parse_unlocked(m);
      break;
    default: {
      const Route& route = routes_[m.kind];
      ok = route.parse != nullptr && route.parse(route.owner, m);
    }
  }
  if (!ok) [[unlikely]]
    ctx_.faults.report(m.source, "a message that does not parse");
  batch_.note(m, first_key, ok);
}

WEFT_INLINE bool Dispatcher::parse_get_reply(const Message& m) const {
  GetReply reply;
  return prefetch_slot(static_cast<uint8_t>(m.tag)) && GetReply::take(m.tag, m.body, &reply);
}

WEFT_INLINE bool Dispatcher::parse_reply(const Message& m) const {
  if (!prefetch_slot(m.tag) || m.body.size() < sizeof(PhaseReply)) return false;
  const auto reply = load<PhaseReply>(m.body.data());
  const size_t versions = size_t{reply.bases} + reply.erased;
  if (!is_answer(static_cast<Code>(reply.code)) || (m.body.size() - sizeof reply) / sizeof(uint64_t) < versions) {
    return false;
  }
  return are_versions(m.body.data() + sizeof reply, versions);
}

WEFT_INLINE bool Dispatcher::parse_acks(const Message& m) const {
  for (size_t at = 0; at + sizeof(PhaseAck) <= m.body.size(); at += sizeof(PhaseAck)) {
    if (!prefetch_slot(load<PhaseAck>(m.body.data() + at).slot)) return false;
  }
  return m.body.size() % sizeof(PhaseAck) == 0;
}

bool Dispatcher::parse_unlocked(const Message& m) const {
  for (const TxnCompleteNotice& notice : NoticeQueue::of(m)) {
    if (notice.slot() >= slot_count_) return false;
  }
  return m.body.size() % sizeof(TxnCompleteNotice) == 0;
}

}  // namespace weft
