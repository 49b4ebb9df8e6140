#include "weft/txn/dispatcher.h"

#include "weft/base/check.h"
#include "weft/base/inline.h"
#include "weft/txn/log_receiver.h"
#include "weft/txn/notices.h"

namespace weft {

Dispatcher::Dispatcher(WorkerContext& ctx, const CommitParser& parser, const SlotTable& slots)
    : ctx_(ctx), parser_(parser), slots_(slots) {
  batch_.parsed.reserve(1024);
  for (Route& route : routes_) route.batch = &batch_;
  ctx.port.set_burst_hook(
      [](void* self, std::span<const Message> burst) { static_cast<Dispatcher*>(self)->on_burst(burst); }, this);
}

void Dispatcher::on_burst(std::span<const Message> burst) {
  if (log_ != nullptr) log_->drain();
  batch_.begin(burst);
  for (size_t i = 0; i < burst.size(); ++i) batch_.parsed[i] = parse(burst[i]);
  if (batch_.keys.empty() && batch_.logged == 0) return;
  ++ctx_.counters.table_batches;
  ctx_.counters.table_batched += batch_.keys.size() + batch_.logged;
  if (!ctx_.table_batching) return;
  // One after the other without work between: a prefetch that misses the TLB waits for its page walk, and walks
  // overlap only if many are in flight.
  for (const KeyRef& ref : batch_.keys) ref.table->prefetch_index(ref.key.hash);
  for (const KeyRef& ref : batch_.keys) ref.table->prefetch_record(ref.key);
}

void Dispatcher::prefetch_slot(const Message& m) const {
  if (!ctx_.table_batching || m.tag >= slots_.size()) return;
  const auto* line = reinterpret_cast<const std::byte*>(&slots_.at(m.tag));
  for (int i = 0; i < TxnSlot::kHotLines; ++i) __builtin_prefetch(line + i * 64);
}

WEFT_INLINE Batch::Parsed Dispatcher::parse(const Message& m) {
  Batch::Parsed out{static_cast<uint32_t>(batch_.keys.size()), 0, false};
  switch (static_cast<Kind>(m.kind)) {
    case Kind::kGet:
      out.ok = parser_.parse_get(m, &batch_);
      out.keys = 1;
      break;
    case Kind::kLock:
    case Kind::kValidate:
    case Kind::kReplicate:
      out.ok = parser_.parse_keys(m, &batch_, &out.keys);
      break;
    case Kind::kUnlock:
      out.ok = parser_.parse_unlock(m, &batch_, &out.keys);
      break;
    case Kind::kGetReply:
      out.ok = parse_get_reply(m);
      break;
    case Kind::kReply:
      out.ok = parse_reply(m);
      break;
    case Kind::kDone:
      out.ok = parser_.parse_done(m, &batch_);
      break;
    case Kind::kUnlocked:
      out.ok = parse_unlocked(m);
      break;
    default: {
      const Route& route = routes_[m.kind];
      out.ok = route.parse != nullptr && route.parse(route.owner, m);
    }
  }
  if (!out.ok) {
    batch_.keys.cut(out.first_key);
    ctx_.faults.report(m.source, "a message that does not parse");
  }
  WEFT_CHECK(!out.ok || batch_.keys.size() == size_t{out.first_key} + out.keys, "a message's keys follow each other");
  return out;
}

WEFT_INLINE bool Dispatcher::parse_get_reply(const Message& m) const {
  prefetch_slot(m);
  if (m.tag >= slots_.size() || m.body.size() < sizeof(GetReply)) return false;
  const auto reply = load<GetReply>(m.body.data());
  const size_t where_bytes = reply.has_where != 0 ? sizeof(GetWhere) : 0;
  return reply.code <= static_cast<uint8_t>(Code::kOs) &&
         m.body.size() - sizeof reply >= reply.value_bytes + where_bytes;
}

WEFT_INLINE bool Dispatcher::parse_reply(const Message& m) const {
  prefetch_slot(m);
  if (m.tag >= slots_.size() || m.body.size() < sizeof(PhaseReply)) return false;
  const auto reply = load<PhaseReply>(m.body.data());
  return reply.code <= static_cast<uint8_t>(Code::kOs) &&
         (m.body.size() - sizeof reply) / sizeof(uint64_t) >= size_t{reply.bases} + reply.erased;
}

bool Dispatcher::parse_unlocked(const Message& m) const {
  for (const TxnCompleteNotice& notice : NoticeQueue::of(m)) {
    if (notice.slot >= slots_.size()) return false;
  }
  return m.body.size() % sizeof(TxnCompleteNotice) == 0;
}

}  // namespace weft
