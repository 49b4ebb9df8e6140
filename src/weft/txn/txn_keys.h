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
  // nullptr: the transaction has no such key.
  Entry* find_known(TxnSlot& slot, TableId table, const Key& key) const;

  // What a transaction reads is bounded by Limits::txn_bytes_max, and so are its keys and what it writes; all memory
  // that it takes, with what it has overwritten, by kTakenMax times as much. nullptr: it exceeds that.
  static constexpr uint32_t kTakenMax = 2;
  std::byte* take_bytes(TxnSlot& slot, size_t bytes) {
    const size_t need = padded(bytes);
    if (slot.bytes_taken + need > uint64_t{kTakenMax} * ctx_.limits.txn_bytes_max) return nullptr;
    slot.bytes_taken += static_cast<uint32_t>(need);
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
  // The same for what a scan keeps, which is refused by name: bytes that count as used (its bounds), as read (its
  // items) or as neither. nullptr: rejected.
  enum class CountAs : uint8_t { kUsed, kRead, kNothing };
  std::byte* take_or_reject(TxnSlot& slot, size_t bytes, CountAs as);
  // Copies the value that was read into the transaction.
  void keep_value(TxnSlot& slot, Entry& entry, ByteView value);
  // Notes a write. Returns kOk, or why the transaction will not commit.
  Code write(TxnSlot& slot, Entry& entry, Write write, std::string_view value);

 private:
  static Entry* guess(TxnSlot& slot, TableId table, const Key& key);
  static Entry* find(TxnSlot& slot, const Table* table, const HashedKey& key);
  void grow(TxnSlot& slot);
  std::byte* take_chunk_bytes(TxnSlot& slot, size_t need);
  bool fits(size_t bytes) const { return bytes <= ctx_.limits.txn_bytes_max; }
  Code reject_bytes(TxnSlot& slot, const Entry* entry, size_t bytes) const {
    return reject(slot, Code::kTxnTooLarge, entry, {"limits.txn_bytes_max", ctx_.limits.txn_bytes_max, bytes});
  }
  Code reject_taken(TxnSlot& slot, const Entry* entry, size_t more) const {
    return reject(slot, Code::kTxnTooLarge, entry,
                  {"twice limits.txn_bytes_max, for what it reads, writes and has overwritten,",
                   uint64_t{kTakenMax} * ctx_.limits.txn_bytes_max, slot.bytes_taken + more});
  }

  WorkerContext& ctx_;
  Pool* const pool_;
};

}  // namespace weft
