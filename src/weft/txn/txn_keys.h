// TxnKeys: the keys of a transaction and the memory for its bytes. A slot has room for a few of both; more come from
// the worker's pool, up to the transaction's limits, and go back when the slot is freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "weft/base/bytes.h"
#include "weft/txn/context.h"
#include "weft/txn/messages.h"
#include "weft/txn/pool.h"
#include "weft/txn/slot.h"

namespace weft {

class TxnKeys {
 public:
  TxnKeys(WorkerContext& ctx, Pool* pool) : ctx_(ctx), pool_(pool) {}

  // The transaction's entry of the key. nullptr: rejected, and the slot's outcome says why.
  Entry* find_or_add(TxnSlot& slot, TableId table, const Key& key);

  // Returns nullptr if it exceeds Limits::txn_bytes_max.
  std::byte* take_bytes(TxnSlot& slot, size_t bytes) {
    const size_t need = padded(bytes);
    if (slot.bytes_used + need > ctx_.limits.txn_bytes_max) return nullptr;
    slot.bytes_used += static_cast<uint32_t>(need);
    std::byte* at;
    if (slot.inline_used + need <= TxnSlot::kInlineBytes) [[likely]] {
      at = slot.bytes.data() + slot.inline_used;
      slot.inline_used += static_cast<uint32_t>(need);
    } else {
      at = take_chunk_bytes(slot, need);
    }
    if (need != 0) store(at + need - 8, uint64_t{0});  // padding goes over the wire: never leak what was there before
    return at;
  }
  // Copies the value that was read into the transaction.
  void keep_value(TxnSlot& slot, Entry& entry, ByteView value);
  // Notes a write. Returns kOk, or why the transaction will not commit.
  Code write(TxnSlot& slot, Entry& entry, Write write, std::string_view value);

 private:
  static Entry* guess(TxnSlot& slot, TableId table, const Key& key);
  static Entry* find(TxnSlot& slot, const Table* table, const HashedKey& key);
  void grow(TxnSlot& slot);
  std::byte* take_chunk_bytes(TxnSlot& slot, size_t need);
  ExceededLimit bytes_limit(const TxnSlot& slot, size_t more) const {
    return {"limits.txn_bytes_max", ctx_.limits.txn_bytes_max, slot.bytes_used + more};
  }

  WorkerContext& ctx_;
  Pool* const pool_;
};

}  // namespace weft
