#include "weft/txn/commit_parser.h"

#include <new>

#include "weft/base/check.h"
#include "weft/txn/key_part.h"
#include "weft/txn/messages.h"
#include "weft/txn/notices.h"

namespace weft {

bool CommitParser::parse_get(const Message& m, Batch* batch) const {
  if (m.tag >= static_cast<size_t>(records_.slots()) || m.body.size() < sizeof(GetRequest)) return false;
  const auto request = load<GetRequest>(m.body.data());
  if (request.table >= ctx_.tables.count() || request.key_bytes > ctx_.limits.key_bytes_max ||
      m.body.size() - sizeof request < request.key_bytes) {
    return false;
  }
  const TableId id(request.table);
  Table* table = ctx_.tables.at(id);
  if (table->integer_keys() && request.key_bytes != 8) return false;
  KeyRef& ref = *new (batch->keys.add()) KeyRef();
  ref.key = table->hashed({m.body.data() + sizeof request, request.key_bytes});
  ref.table = table;
  ref.table_id = id;
  return ctx_.view().placement(ref.key.partition).is_in_sync(ctx_.self);
}

bool CommitParser::parse_keys(const Message& m, Batch* batch) const {
  WEFT_CHECK(m.source.value < ctx_.nodes, "the port knows who sent it");
  if (m.tag >= static_cast<size_t>(records_.slots()) || m.body.size() < sizeof(CommitRequest)) return false;
  const auto request = load<CommitRequest>(m.body.data());
  if (request.flags > kCommitFlagsMax) return false;
  if (ctx_.table_batching) __builtin_prefetch(&records_.at(m.source, static_cast<uint8_t>(m.tag)));
  const auto kind = static_cast<Kind>(m.kind);
  const std::byte* at = m.body.data() + sizeof request;
  const std::byte* const end = m.body.data() + m.body.size();
  for (int i = 0; i < request.keys; ++i) {
    KeyPartView in;
    if (!take_key(&at, end, &in)) return false;
    if (in.part->table >= ctx_.tables.count() || in.part->write > static_cast<uint8_t>(Write::kErase)) return false;
    const TableId id(in.part->table);
    Table* table = ctx_.tables.at(id);
    if (in.part->version > kVersionMax) return false;
    if (!value_makes_sense(kind, *in.part) || !fits_table(*in.part, *table, ctx_.limits.key_bytes_max)) return false;
    const KeyRef& ref = *new (batch->keys.add()) KeyRef{.key = table->hashed(in.key),
                                                        .table = table,
                                                        .value = in.value,
                                                        .version = Version(in.part->version),
                                                        .room = in.part->value_bytes,
                                                        .table_id = id,
                                                        .write = in.write(),
                                                        .index = in.part->index,
                                                        .flags = in.part->flags,
                                                        .predecessor_delta = in.part->predecessor_delta};
    const Placement& placement = ctx_.view().placement(ref.key.partition);
    const bool catches_up = kind == Kind::kReplicate && placement.is_catching_up(ctx_.self);
    if (!placement.is_in_sync(ctx_.self) && !catches_up) return false;
  }
  return true;
}

bool CommitParser::parse_unlock(const Message& m, Batch* batch) const {
  if (!parse_keys(m, batch)) return false;
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
