#include "weft/txn/commit_parser.h"

#include <algorithm>
#include <new>

#include "weft/base/check.h"
#include "weft/base/inline.h"
#include "weft/txn/key_part.h"
#include "weft/txn/messages.h"
#include "weft/txn/notices.h"

namespace weft {

CommitParser::CommitParser(WorkerContext& ctx, PreparedTable& records)
    : ctx_(ctx), records_(records), request_bytes_(CommitRequest::bytes(ctx.nodes)), roles_(ctx.views.roles()) {
  for (size_t i = 0; i < std::min(ctx.tables.count(), integer_tables_.size()); ++i) {
    Table* table = ctx.tables.at(TableId(static_cast<uint16_t>(i)));
    if (table->integer_keys()) integer_tables_[i] = {table, table->spec().value_bytes_max};
  }
}

bool CommitParser::parse_get(const Message& m, Batch* batch) const {
  GetRequest request;
  ByteView key;
  if (!GetRequest::take(m.tag, m.body, &request, &key) || request.slot >= records_.slots()) return false;
  if (request.table >= ctx_.tables.count() || key.size() > ctx_.limits.key_bytes_max) return false;
  const TableId id(request.table);
  Table* table = ctx_.tables.at(id);
  if (table->integer_keys() && key.size() != 8) return false;
  KeyRef* const ref = new (batch->keys.begin_adding(1)) KeyRef();
  table->hash_to(key, &ref->key);
  ref->table = table;
  ref->table_id = id;
  batch->keys.end_adding(ref + 1);
  return (roles_[ref->key.partition.value] & kInSync) != 0;
}

WEFT_INLINE bool CommitParser::check_request(const Message& m) const {
  WEFT_CHECK(m.source.value < ctx_.nodes, "the port knows who sent it");
  const auto slot = static_cast<uint8_t>(m.tag);
  if (slot >= records_.slots() || m.body.size() < request_bytes_) return false;
  if ((m.tag >> 8 & 0xffU) > kCommitFlagsMax) return false;
  if (ctx_.table_batching) __builtin_prefetch(&records_.at(m.source, slot));
  return true;
}

// Takes the key if it is a narrow one of an integer table with a replica in sync here, as most are. If it is not, or is
// not well-formed, nothing has happened.
WEFT_INLINE bool CommitParser::take_integer_key(uint32_t allowed, const std::byte** at, const std::byte* end,
                                                KeyRef* to) const {
  const std::byte* const from = *at;
  if (static_cast<size_t>(end - from) < kNarrowHeadBytes + sizeof(uint64_t)) return false;
  const auto head = load<uint64_t>(from);
  const IntegerTable& of = integer_tables_[NarrowHead::table(head)];
  if (!NarrowHead::is_of_integer(head) || of.table == nullptr) return false;
  const Write write = NarrowHead::write(head);
  const uint32_t flags = NarrowHead::flags(head);
  const uint32_t room = NarrowHead::value_bytes(head);
  const bool has_value = (flags & kHasValue) != 0;
  const std::byte* const value = from + kNarrowHeadBytes + sizeof(uint64_t);
  const size_t value_bytes = has_value ? room : 0;
  if ((allowed >> allowed_bit(write, has_value) & 1U) == 0 || room > of.value_bytes_max) return false;
  if (static_cast<size_t>(end - value) < padded(value_bytes)) return false;
  KeyRef& ref = *to;
  of.table->hash_to({from + kNarrowHeadBytes, sizeof(uint64_t)}, &ref.key);
  if ((roles_[ref.key.partition.value] & kInSync) == 0) [[unlikely]]
    return false;
  ref.table = of.table;
  ref.value = {value, value_bytes};
  ref.version = Version(head & kVersionMax);
  ref.room = room;
  ref.predecessor_delta = 0;
  ref.table_id = TableId(static_cast<uint16_t>(NarrowHead::table(head)));
  ref.index = static_cast<uint16_t>(NarrowHead::index(head));
  ref.write = write;
  ref.flags = static_cast<uint8_t>(flags);
  *at = value + padded(value_bytes);
  return true;
}

// Takes any key.
bool CommitParser::take_other_key(Kind kind, uint32_t allowed, const std::byte** at, const std::byte* end,
                                  KeyRef* to) const {
  KeyPartView in;
  if (!take_key(at, end, &in) || in.part.table >= ctx_.tables.count()) return false;
  const TableId id(in.part.table);
  Table* table = ctx_.tables.at(id);
  if ((allowed >> allowed_bit(in.part) & 1U) == 0 || !fits_table(in.part, *table, ctx_.limits.key_bytes_max)) {
    return false;
  }
  KeyRef& ref = *new (to) KeyRef{.key = table->hashed(in.key),
                                 .table = table,
                                 .value = in.value,
                                 .version = Version(in.part.version),
                                 .room = in.part.value_bytes,
                                 .predecessor_delta = in.part.predecessor_delta,
                                 .table_id = id,
                                 .index = in.part.index,
                                 .write = in.write(),
                                 .flags = in.part.flags};
  return (roles_[ref.key.partition.value] & (kind == Kind::kReplicate ? kInSync | kCatchingUp : kInSync)) != 0;
}

template <Kind kKind>
WEFT_INLINE bool CommitParser::take_keys(const Message& m, Batch* batch) const {
  constexpr uint32_t kAllowed = allowed_writes(kKind);
  const std::byte* at = m.body.data() + request_bytes_;
  const std::byte* const end = m.body.data() + m.body.size();
  const size_t most = std::min<size_t>(static_cast<size_t>(end - at) / kNarrowHeadBytes, ctx_.limits.txn_keys_max);
  KeyRef* to = batch->keys.begin_adding(most);
  const KeyRef* const last = to + most;
  do {
    if (to == last) return false;
    if (!take_integer_key(kAllowed, &at, end, to) && !take_other_key(kKind, kAllowed, &at, end, to)) return false;
    ++to;
  } while (at != end);
  batch->keys.end_adding(to);
  return true;
}

template <Kind kKind>
bool CommitParser::parse_keys(const Message& m, Batch* batch) const {
  return check_request(m) && m.body.size() != request_bytes_ && take_keys<kKind>(m, batch);
}
template bool CommitParser::parse_keys<Kind::kLock>(const Message&, Batch*) const;
template bool CommitParser::parse_keys<Kind::kReplicate>(const Message&, Batch*) const;

bool CommitParser::parse_unlock(const Message& m, Batch* batch) const {
  if (!check_request(m)) return false;
  if (m.body.size() != request_bytes_ && !take_keys<Kind::kUnlock>(m, batch)) return false;
  prefetch_keys(records_.at(m.source, static_cast<uint8_t>(m.tag)).locked, batch);
  return true;
}

bool CommitParser::parse_done(const Message& m, Batch* batch) const {
  for (const TxnCompleteNotice& notice : NoticeQueue::of(m)) {
    if (notice.slot() >= records_.slots()) return false;
    prefetch_keys(records_.at(m.source, notice.slot()).applied, batch);
  }
  return m.body.size() % sizeof(TxnCompleteNotice) == 0;
}

// Unlock and done name a record, and their handlers touch its keys. For most keys the location of the table record is
// known from before.
void CommitParser::prefetch_keys(const PreparedKeys* part, Batch* batch) const {
  for (; part != nullptr; part = part->next) {
    for (const PreparedKey& key : part->all()) {
      if (key.table == nullptr) continue;
      ++batch->logged;
      if (!ctx_.table_batching) continue;
      if (key.key.hint) {
        key.table->prefetch_slot(key.key.hint);
      } else {
        key.table->prefetch_index(key.key.hash);
      }
    }
  }
}

}  // namespace weft
