// Arriving messages: each is taken apart and checked once, the index bins of all keys in the burst are prefetched, then
// their records, then the handlers run. What does not parse closes the peer that sent it.
#include "weft/base/inline.h"
#include "weft/base/marks.h"
#include "weft/txn/engine.h"

namespace weft {

void Engine::on_burst(std::span<const Message> burst) {
  // What a peer has logged by verbs comes before what it says of it.
  if (rings_ != nullptr) drain_rings();
  burst_base_ = burst.data();
  parsed_.resize(burst.size());
  keys_.clear();
  logged_ = 0;
  for (size_t i = 0; i < burst.size(); ++i) parsed_[i] = parse(burst[i]);
  if (keys_.empty() && logged_ == 0) return;
  ++counters_.table_batches;
  counters_.table_batched += keys_.size() + logged_;
  if (!table_batching_) return;
  // One after the other without work between: a prefetch that misses the TLB waits for its page walk, and walks
  // overlap only if many are under way.
  for (const KeyRef& ref : keys_) ref.table->prefetch_index(ref.key.hash);
  for (const KeyRef& ref : keys_) ref.table->prefetch_record(ref.key);
}

// Unlock and done name a record; its keys are touched by their handlers. Most know from before where they are.
void Engine::touch_later(const LogPart* part) {
  for (; part != nullptr; part = part->next) {
    for (const LogKey& key : part->all()) {
      if (key.table == nullptr) continue;
      ++logged_;
      if (!table_batching_) continue;
      if (key.key.hint) {
        key.table->prefetch_slot(key.key.hint);
      } else {
        key.table->prefetch_index(key.key.hash);
      }
    }
  }
}

void Engine::prefetch_slot(const Message& m) const {
  if (!table_batching_ || m.spare >= slots_.size()) return;
  const auto* line = reinterpret_cast<const std::byte*>(slots_[m.spare].get());
  for (int i = 0; i < TxnSlot::kHotLines; ++i) __builtin_prefetch(line + i * 64);
}

WEFT_INLINE Engine::Parsed Engine::parse(const Message& m) {
  Parsed out{static_cast<uint32_t>(keys_.size()), 0, false};
  switch (static_cast<Kind>(m.kind)) {
    case Kind::kGet:
      out.ok = parse_get(m);
      out.keys = 1;
      break;
    case Kind::kLock:
    case Kind::kValidate:
    case Kind::kReplicate:
      out.ok = parse_keys(m, &out.keys);
      break;
    case Kind::kUnlock:
      out.ok = parse_keys(m, &out.keys);
      if (out.ok) touch_later(log_.at(m.source, static_cast<uint8_t>(m.spare)).locked);
      break;
    case Kind::kGetReply:
      prefetch_slot(m);
      out.ok =
          m.spare < slots_.size() && m.body.size() >= sizeof(GetReply) &&
          load<GetReply>(m.body.data()).code <= static_cast<uint8_t>(Code::kOs) &&
          m.body.size() - sizeof(GetReply) >= load<GetReply>(m.body.data()).value_bytes +
                                                  (load<GetReply>(m.body.data()).has_where != 0 ? sizeof(GetWhere) : 0);
      break;
    case Kind::kRingRead:
      out.ok = m.body.size() == sizeof(RingRead) && rings_ != nullptr;
      break;
    case Kind::kReply:
      prefetch_slot(m);
      out.ok = m.spare < slots_.size() && m.body.size() >= sizeof(PhaseReply) &&
               load<PhaseReply>(m.body.data()).code <= static_cast<uint8_t>(Code::kOs) &&
               (m.body.size() - sizeof(PhaseReply)) / sizeof(uint64_t) >=
                   size_t{load<PhaseReply>(m.body.data()).bases} + load<PhaseReply>(m.body.data()).erased;
      break;
    case Kind::kDone:
      out.ok = parse_done(m);
      break;
    case Kind::kUnlocked:
      out.ok = parse_unlocked(m);
      break;
    case Kind::kRecovery:
      out.ok = parse_recovery(m);
      break;
    case Kind::kFill:
      out.ok = parse_fill(m);
      break;
    case Kind::kControl:
      out.ok = true;
      break;
    case Kind::kWalk:
      out.ok = parse_walk(m);
      break;
    case Kind::kFateAsk:
      out.ok = m.body.size() == sizeof(FateAsk);
      break;
    case Kind::kFateAnswer:
      out.ok = m.body.size() == sizeof(FateAnswer) &&
               load<FateAnswer>(m.body.data()).standing <= static_cast<uint8_t>(Standing::kAborted);
      break;
  }
  if (!out.ok) {
    keys_.resize(out.first_key);
    bad_message(m.source, "a message that does not parse");
  }
  return out;
}

// A value comes with a put or an insert and with nothing else; replication and what an unlock brings need one.
WEFT_INLINE bool Engine::makes_sense(Kind kind, const KeyPart& part) {
  const auto write = static_cast<Write>(part.write);
  const bool has_value = (part.flags & kHasValue) != 0;
  if (has_value && !installs(write)) return false;
  if (kind == Kind::kReplicate) return has_value || write == Write::kErase;
  return kind != Kind::kUnlock || has_value;
}

WEFT_INLINE bool Engine::parse_get(const Message& m) {
  if (m.spare >= static_cast<size_t>(log_.slots()) || m.body.size() < sizeof(GetRequest)) return false;
  const auto request = load<GetRequest>(m.body.data());
  if (request.table >= node_->tables() || request.key_bytes > limits_.key_bytes_max ||
      m.body.size() - sizeof request < request.key_bytes) {
    return false;
  }
  const TableId id(request.table);
  Table* table = node_->table(id);
  if (table->integer_keys() && request.key_bytes != 8) return false;
  KeyRef& ref = keys_.emplace_back();
  ref.key = table->hashed({m.body.data() + sizeof request, request.key_bytes});
  ref.table = table;
  ref.table_id = id;
  return view_->placement(ref.key.partition).held_by(self_);
}

WEFT_INLINE bool Engine::parse_keys(const Message& m, uint16_t* keys) {
  if (m.spare >= static_cast<size_t>(log_.slots()) || m.body.size() < sizeof(CommitRequest)) return false;
  const auto request = load<CommitRequest>(m.body.data());
  if (request.row >= kRows.size()) return false;
  if (table_batching_) __builtin_prefetch(&log_.at(m.source, static_cast<uint8_t>(m.spare)));
  const std::byte* at = m.body.data() + sizeof request;
  const std::byte* const end = m.body.data() + m.body.size();
  for (int i = 0; i < request.keys; ++i) {
    if (static_cast<size_t>(end - at) < sizeof(KeyPart)) return false;
    const auto* part = reinterpret_cast<const KeyPart*>(at);
    at += sizeof(KeyPart);
    if (part->table >= node_->tables() || part->write > static_cast<uint8_t>(Write::kErase)) return false;
    if (!makes_sense(static_cast<Kind>(m.kind), *part)) return false;
    const TableId id(part->table);
    Table* table = node_->table(id);
    if (part->key_bytes > limits_.key_bytes_max || part->value_bytes > table->spec().value_bytes_max) return false;
    if (table->integer_keys() && part->key_bytes != 8) return false;
    const size_t value_bytes = (part->flags & kHasValue) != 0 ? part->value_bytes : 0;
    const size_t need = padded(part->key_bytes) + padded(value_bytes);
    if (static_cast<size_t>(end - at) < need) return false;
    KeyRef& ref = keys_.emplace_back();
    ref.key = table->hashed({at, part->key_bytes});
    ref.table = table;
    ref.value = {at + padded(part->key_bytes), value_bytes};
    ref.version = Version(part->version);
    ref.room = part->value_bytes;
    ref.table_id = id;
    ref.write = static_cast<Write>(part->write);
    ref.index = part->index;
    ref.has_value = (part->flags & kHasValue) != 0;
    ref.has_version = (part->flags & kHasVersion) != 0;
    ref.held = (part->flags & kHeld) != 0;
    ref.by_verb = (part->flags & kByVerb) != 0;
    ref.in_order = (part->flags & kInOrder) != 0;
    ref.follows = part->follows;
    const Placement& placement = view_->placement(ref.key.partition);
    const bool fills = static_cast<Kind>(m.kind) == Kind::kReplicate && placement.filled_at(self_);
    if (!placement.held_by(self_) && !fills) return false;
    at += need;
  }
  *keys = request.keys;
  return true;
}

WEFT_INLINE bool Engine::parse_done(const Message& m) {
  for (const DoneNotice& notice : notices_of(m)) {
    if (notice.slot >= static_cast<uint32_t>(log_.slots())) return false;
    touch_later(log_.at(m.source, static_cast<uint8_t>(notice.slot)).applied);
  }
  return m.body.size() % sizeof(DoneNotice) == 0;
}

bool Engine::parse_unlocked(const Message& m) const {
  for (const DoneNotice& notice : notices_of(m)) {
    if (notice.slot >= slots_.size()) return false;
  }
  return m.body.size() % sizeof(DoneNotice) == 0;
}

}  // namespace weft
