#include "weft/txn/commit_parser.h"

#include <algorithm>
#include <new>

#include "weft/base/check.h"
#include "weft/base/inline.h"
#include "weft/txn/key_part.h"
#include "weft/txn/messages.h"
#include "weft/txn/notices.h"
#include "weft/txn/scan_messages.h"
#include "weft/txn/txn_scan.h"

namespace weft {

CommitParser::CommitParser(WorkerContext& ctx, PreparedTable& records)
    : ctx_(ctx), records_(records), request_bytes_(CommitRequest::bytes(ctx.nodes)), roles_(ctx.views.roles()) {}

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

// Takes the key if it has a known shape and a replica in sync here, as most have. If not, nothing has happened.
WEFT_INLINE bool CommitParser::take_known_key(const Shapes& shapes, const std::byte** at, const std::byte* end,
                                              KeyRef* to) const {
  const std::byte* const from = *at;
  const auto left = static_cast<size_t>(end - from);
  if (left < kNarrowHeadBytes) return false;
  const auto head = load<uint64_t>(from);
  const Shape& shape = shapes[NarrowHead::table(head)];
  if (NarrowHead::shape(head) != shape.bits || left < shape.part_bytes) return false;
  KeyRef& ref = *to;
  shape.table->hash_to({from + kNarrowHeadBytes, sizeof(uint64_t)}, &ref.key);
  if ((roles_[ref.key.partition.value] & kInSync) == 0) [[unlikely]]
    return false;
  ref.table = shape.table;
  ref.value = {from + kNarrowHeadBytes + sizeof(uint64_t), shape.value_bytes};
  ref.version = Version(head & kVersionMax);
  ref.room = shape.room;
  ref.predecessor_delta = 0;
  ref.table_id = TableId(static_cast<uint16_t>(NarrowHead::table(head)));
  ref.index = static_cast<uint16_t>(NarrowHead::index(head));
  ref.write = shape.write;
  ref.flags = shape.flags;
  *at = from + shape.part_bytes;
  return true;
}

// The key was parsed from `from` to `end`.
void CommitParser::note_shape(const std::byte* from, const std::byte* end, const KeyRef& key, Shapes* shapes) {
  const auto head = load<uint64_t>(from);
  if ((head & kWideKey) != 0 || !key.table->integer_keys()) return;
  (*shapes)[key.table_id.value] = {.bits = NarrowHead::shape(head),
                                   .table = key.table,
                                   .part_bytes = static_cast<uint32_t>(end - from),
                                   .value_bytes = static_cast<uint32_t>(key.value.size()),
                                   .room = key.room,
                                   .write = key.write,
                                   .flags = key.flags};
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

// The first key comes after `before` bytes.
template <Kind kKind>
WEFT_INLINE bool CommitParser::take_keys(const Message& m, size_t before, Shapes* shapes, Batch* batch) const {
  constexpr uint32_t kAllowed = allowed_writes(kKind);
  const std::byte* at = m.body.data() + before;
  const std::byte* const end = m.body.data() + m.body.size();
  const size_t most = std::min<size_t>(static_cast<size_t>(end - at) / kNarrowHeadBytes, ctx_.limits.txn_keys_max);
  KeyRef* to = batch->keys.begin_adding(most);
  const KeyRef* const last = to + most;
  do {
    if (to == last) return false;
    if (!take_known_key(*shapes, &at, end, to)) {
      const std::byte* const from = at;
      if (!take_other_key(kKind, kAllowed, &at, end, to)) return false;
      note_shape(from, at, *to, shapes);
    }
    ++to;
  } while (at != end);
  batch->keys.end_adding(to);
  return true;
}

template <Kind kKind>
bool CommitParser::parse_keys(const Message& m, Batch* batch) {
  Shapes* shapes = &replicates_;
  if constexpr (kKind == Kind::kLock) shapes = static_cast<Kind>(m.kind) == Kind::kLock ? &locks_ : &validates_;
  return check_request(m) && m.body.size() != request_bytes_ && take_keys<kKind>(m, request_bytes_, shapes, batch);
}
template bool CommitParser::parse_keys<Kind::kLock>(const Message&, Batch*);
template bool CommitParser::parse_keys<Kind::kReplicate>(const Message&, Batch*);

bool CommitParser::parse_replicate_for(const Message& m, Batch* batch) {
  const size_t head = sizeof(uint64_t) + request_bytes_;
  const auto slot = static_cast<uint8_t>(m.tag);
  if (slot >= records_.slots() || m.body.size() <= head || (m.tag >> 8 & 0xffU) > kCommitFlagsMax) return false;
  const auto coordinator = load<uint64_t>(m.body.data());
  if (coordinator >= static_cast<uint64_t>(ctx_.nodes)) return false;
  const NodeId node(static_cast<uint8_t>(coordinator));
  if (node == ctx_.self || node == m.source || ctx_.view().find(node) == nullptr) return false;
  if (ctx_.table_batching) __builtin_prefetch(&records_.at(node, slot));
  return take_keys<Kind::kReplicate>(m, head, &replicates_, batch);
}

bool CommitParser::parse_shipped(const Message& m, Batch* batch) {
  if (m.tag >= static_cast<uint32_t>(records_.slots()) || m.body.size() < sizeof(ShippedReply)) return false;
  if (m.body.size() > kShipBytesMax) return false;
  const auto reply = load<ShippedReply>(m.body.data());
  if (reply.code >= kCodes || reply.reply_bytes > m.body.size()) return false;
  const bool refused = static_cast<Code>(reply.code) != Code::kOk;
  size_t before = sizeof reply + padded(reply.reply_bytes);
  if (reply.keys == 0) return m.body.size() == before;
  before += request_bytes_;
  const size_t first = batch->keys.size();
  if (refused || m.body.size() <= before || !take_keys<Kind::kReplicate>(m, before, &replicates_, batch)) return false;
  return batch->keys.size() - first == reply.keys && reply.keys <= reply.writes;
}

bool CommitParser::parse_check_scans(const Message& m, Batch* batch) {
  size_t rest = 0;
  if (!check_request(m) || !take_checks_size(m, &rest) || m.body.size() - rest < request_bytes_) return false;
  const std::byte* at = m.body.data() + sizeof(uint64_t);
  const std::byte* const end = m.body.data() + rest;
  ScanCheck check;
  uint16_t scan = 0;
  int before_it = -1;
  uint64_t items = 0;
  while (at != end) {
    if (!take_check(ctx_, &at, end, &check, &scan) || scan >= TxnScan::kScansMax || scan <= before_it) return false;
    before_it = scan;
    items += check.items;
  }
  if (items > uint64_t{TxnScan::kItemsFactor} * ctx_.limits.txn_keys_max) return false;
  const size_t before = rest + request_bytes_;
  return m.body.size() == before || take_keys<Kind::kLock>(m, before, &validates_, batch);
}

bool CommitParser::parse_unlock(const Message& m, Batch* batch) {
  if (!check_request(m)) return false;
  if (m.body.size() != request_bytes_ && !take_keys<Kind::kUnlock>(m, request_bytes_, &unlocks_, batch)) return false;
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
