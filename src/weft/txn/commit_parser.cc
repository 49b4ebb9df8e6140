#include "weft/txn/commit_parser.h"

#include <algorithm>
#include <new>

#include "weft/base/check.h"
#include "weft/base/inline.h"
#include "weft/txn/key_part.h"
#include "weft/txn/messages.h"
#include "weft/txn/notices.h"

namespace weft {

CommitParser::CommitParser(WorkerContext& ctx, PreparedTable& records) : ctx_(ctx), records_(records) {
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
  KeyRef& ref = *new (batch->keys.add()) KeyRef();
  ref.key = table->hashed(key);
  ref.table = table;
  ref.table_id = id;
  return ctx_.view().placement(ref.key.partition).is_in_sync(ctx_.self);
}

bool CommitParser::check_request(const Message& m) const {
  WEFT_CHECK(m.source.value < ctx_.nodes, "the port knows who sent it");
  const auto slot = static_cast<uint8_t>(m.tag);
  if (slot >= records_.slots() || m.body.size() < CommitRequest::bytes(ctx_.nodes)) return false;
  if ((m.tag >> 8 & 0xffU) > kCommitFlagsMax) return false;
  if (ctx_.table_batching) __builtin_prefetch(&records_.at(m.source, slot));
  return true;
}

bool CommitParser::parse_keys(const Message& m, Batch* batch) const {
  return check_request(m) && m.body.size() != CommitRequest::bytes(ctx_.nodes) && take_keys(m, batch);
}

// Takes the key if it is a narrow one of an integer table with a replica in sync here, as most are. If it is not, or is
// not well-formed, nothing has happened.
WEFT_INLINE bool CommitParser::take_integer_key(uint32_t allowed, const std::byte** at, const std::byte* end,
                                                Batch* batch) const {
  const std::byte* const from = *at;
  if (static_cast<size_t>(end - from) < kNarrowHeadBytes + sizeof(uint64_t)) return false;
  const auto head = load<uint64_t>(from);
  const IntegerTable& of = integer_tables_[head >> 45 & 7U];
  constexpr uint64_t kKeyBytesMask = uint64_t{31} << 52;
  if ((head & (kWideKey | kKeyBytesMask)) != uint64_t{sizeof(uint64_t)} << 52 || of.table == nullptr) return false;
  const auto write = static_cast<Write>(head >> 41 & 3U);
  const uint32_t flags = head >> 43 & 3U;
  const auto room = static_cast<uint32_t>(head >> 57);
  const bool has_value = (flags & kHasValue) != 0;
  const std::byte* const value = from + kNarrowHeadBytes + sizeof(uint64_t);
  const size_t value_bytes = has_value ? room : 0;
  if ((allowed >> allowed_bit(write, has_value) & 1U) == 0 || room > of.value_bytes_max) return false;
  if (static_cast<size_t>(end - value) < padded(value_bytes)) return false;
  KeyRef& ref = *batch->keys.add();
  of.table->hash_to({from + kNarrowHeadBytes, sizeof(uint64_t)}, &ref.key);
  if (!ctx_.view().placement(ref.key.partition).is_in_sync(ctx_.self)) [[unlikely]] {
    batch->keys.cut(batch->keys.size() - 1);
    return false;
  }
  ref.table = of.table;
  ref.value = {value, value_bytes};
  ref.version = Version(head & kVersionMax);
  ref.room = room;
  ref.predecessor_delta = 0;
  ref.table_id = TableId(head >> 45 & 7U);
  ref.index = static_cast<uint16_t>(head >> 48 & 15U);
  ref.write = write;
  ref.flags = static_cast<uint8_t>(flags);
  *at = value + padded(value_bytes);
  return true;
}

// Takes any key.
bool CommitParser::take_other_key(Kind kind, uint32_t allowed, const std::byte** at, const std::byte* end,
                                  Batch* batch) const {
  KeyPartView in;
  if (!take_key(at, end, &in) || in.part.table >= ctx_.tables.count()) return false;
  const TableId id(in.part.table);
  Table* table = ctx_.tables.at(id);
  if ((allowed >> allowed_bit(in.part) & 1U) == 0 || !fits_table(in.part, *table, ctx_.limits.key_bytes_max)) {
    return false;
  }
  KeyRef& ref = *new (batch->keys.add()) KeyRef{.key = table->hashed(in.key),
                                                .table = table,
                                                .value = in.value,
                                                .version = Version(in.part.version),
                                                .room = in.part.value_bytes,
                                                .predecessor_delta = in.part.predecessor_delta,
                                                .table_id = id,
                                                .index = in.part.index,
                                                .write = in.write(),
                                                .flags = in.part.flags};
  const Placement& placement = ctx_.view().placement(ref.key.partition);
  return placement.is_in_sync(ctx_.self) || (kind == Kind::kReplicate && placement.is_catching_up(ctx_.self));
}

WEFT_INLINE bool CommitParser::take_keys(const Message& m, Batch* batch) const {
  static constexpr uint32_t kLock = allowed_writes(Kind::kLock), kReplicate = allowed_writes(Kind::kReplicate),
                            kUnlock = allowed_writes(Kind::kUnlock);
  const auto kind = static_cast<Kind>(m.kind);
  const uint32_t allowed = kind == Kind::kReplicate ? kReplicate : kind == Kind::kUnlock ? kUnlock : kLock;
  const std::byte* at = m.body.data() + CommitRequest::bytes(ctx_.nodes);
  const std::byte* const end = m.body.data() + m.body.size();
  uint32_t keys = 0;
  do {
    if (++keys > ctx_.limits.txn_keys_max) return false;
    if (take_integer_key(allowed, &at, end, batch)) [[likely]]
      continue;
    if (!take_other_key(kind, allowed, &at, end, batch)) return false;
  } while (at != end);
  return true;
}

bool CommitParser::parse_unlock(const Message& m, Batch* batch) const {
  if (!check_request(m)) return false;
  if (m.body.size() != CommitRequest::bytes(ctx_.nodes) && !take_keys(m, batch)) return false;
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
