#include "weft/txn/txn_keys.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "weft/base/check.h"
#include "weft/base/inline.h"
#include "weft/base/marks.h"
#include "weft/txn/key_part.h"

namespace weft {

std::byte* TxnKeys::take_chunk_bytes(TxnSlot& slot, size_t need) {
  WEFT_CHECK(need != 0 && need % 8 == 0, "pieces of a block are aligned");
  if (need > slot.chunk_left) {
    // Each block at least doubles the last, so that their number stays small.
    const size_t room = Pool::room(std::max(need, size_t{4096} << std::min<int>(slot.chunks, 12)));
    WEFT_CHECK(slot.chunks < TxnSlot::kChunksMax, "blocks that double hold the largest transaction");
    slot.chunk_next = pool_->allocate(room);
    slot.chunk_left = static_cast<uint32_t>(room);
    slot.chunk[slot.chunks++] = {slot.chunk_next, static_cast<uint32_t>(room)};
  }
  std::byte* at = slot.chunk_next;
  slot.chunk_next += need;
  slot.chunk_left -= static_cast<uint32_t>(need);
  return at;
}

namespace {

ByteView bytes_of(const Key& key) { return {reinterpret_cast<const std::byte*>(key.data()), key.size()}; }

void index_entry(TxnSlot& slot, uint16_t index) {
  size_t place = slot.entry(index).key.hash & slot.place_mask;
  while (slot.places[place] != 0) place = (place + 1) & slot.place_mask;
  slot.places[place] = static_cast<uint16_t>(index + 1);
}

bool is_entry(const Entry& e, const Table* table, const HashedKey& key) {
  if (e.key.hash != key.hash || e.table != table) return false;
  // For integers, equal hashes mean equal keys.
  return table->integer_keys() || as_text(e.key.bytes) == as_text(key.bytes);
}

}  // namespace

// Applications often return to the key they used last, or go over their keys again in order: checking these two is
// cheaper than hashing.
WEFT_INLINE Entry* TxnKeys::guess(TxnSlot& slot, TableId table, const Key& key) {
  const auto following = static_cast<uint16_t>(slot.last_entry + 1U < slot.count ? slot.last_entry + 1U : 0U);
  for (const uint16_t i : {slot.last_entry, following}) {
    Entry& e = slot.entry(i);
    if (e.table_id != table || e.key.bytes.size() != key.size()) continue;
    const bool same = e.table->integer_keys() ? e.integer_key == load<uint64_t>(bytes_of(key).data())
                                              : as_text(e.key.bytes) == as_text(bytes_of(key));
    if (!same) continue;
    slot.last_entry = i;
    return &e;
  }
  return nullptr;
}

Entry* TxnKeys::find(TxnSlot& slot, const Table* table, const HashedKey& key) {
  if (slot.places != nullptr) {
    for (size_t place = key.hash & slot.place_mask; slot.places[place] != 0; place = (place + 1) & slot.place_mask) {
      Entry& e = slot.entry(slot.places[place] - 1U);
      if (is_entry(e, table, key)) return &e;
    }
    return nullptr;
  }
  for (uint16_t i = 0; i < slot.count; ++i) {
    if (is_entry(slot.entry(i), table, key)) return &slot.entry(i);
  }
  return nullptr;
}

Entry* TxnKeys::find_known(TxnSlot& slot, TableId table_id, const Key& key) const {
  if (slot.count == 0 || table_id.value >= ctx_.tables.count()) return nullptr;
  if (Entry* e = guess(slot, table_id, key)) return e;
  const Table* table = ctx_.tables.at(table_id);
  if (table->integer_keys() && key.size() != 8) return nullptr;
  return find(slot, table, table->hashed(bytes_of(key)));
}

// Returns nullptr if it is rejected; the slot's outcome says why.
Entry* TxnKeys::find_or_add(TxnSlot& slot, TableId table_id, const Key& key) {
  WEFT_CHECK(slot.stage == TxnStage::kExecuting, "only what executes names keys");
  if (slot.count != 0) {
    if (Entry* e = guess(slot, table_id, key)) return e;
  }
  if (table_id.value >= ctx_.tables.count()) {
    reject(slot, Code::kNoSuchTable, nullptr, {"the number of tables", ctx_.tables.count(), table_id.value});
    return nullptr;
  }
  Table* table = ctx_.tables.at(table_id);
  const bool integer = table->integer_keys();
  if (integer && key.size() != 8) {
    reject(slot, Code::kInvalidArgument, nullptr, {"the bytes of an integer key", 8, key.size()});
    return nullptr;
  }
  if (key.size() > ctx_.limits.key_bytes_max) {
    reject(slot, Code::kKeyTooLong, nullptr, {"limits.key_bytes_max", ctx_.limits.key_bytes_max, key.size()});
    return nullptr;
  }
  const HashedKey hashed = table->hashed(bytes_of(key));
  if (Entry* e = slot.count != 0 ? find(slot, table, hashed) : nullptr) {
    slot.last_entry = static_cast<uint16_t>(e - slot.entries);
    return e;
  }
  if (slot.count >= ctx_.limits.txn_keys_max) {
    reject(slot, Code::kTxnTooLarge, nullptr, {"limits.txn_keys_max", ctx_.limits.txn_keys_max, slot.count + 1U});
    return nullptr;
  }
  if (!fits(slot.bytes_used + padded(key.size()))) {
    reject_bytes(slot, nullptr, slot.bytes_used + key.size());
    return nullptr;
  }
  if (slot.count == slot.capacity) grow(slot);
  Entry* e = new (slot.entries + slot.count) Entry();
  std::byte* bytes = integer ? reinterpret_cast<std::byte*>(&e->integer_key) : take_bytes(slot, key.size());
  if (bytes == nullptr) {
    reject_taken(slot, nullptr, key.size());
    return nullptr;
  }
  slot.bytes_used += static_cast<uint32_t>(padded(key.size()));
  copy_bytes(bytes, key.data(), key.size());
  slot.last_entry = slot.count++;
  e->key = hashed;
  e->key.bytes = {bytes, key.size()};
  e->table = table;
  e->table_id = table_id;
  if (integer) e->narrow_head = narrow_integer_head(table_id, slot.last_entry);
  e->placement = &ctx_.view().placement(hashed.partition);
  if (slot.places != nullptr) index_entry(slot, static_cast<uint16_t>(slot.count - 1));
  return e;
}

// To eight times as many entries, with a table of places twice as long.
void TxnKeys::grow(TxnSlot& slot) {
  const auto capacity = static_cast<uint16_t>(std::min(uint32_t{slot.capacity} * 8, ctx_.limits.txn_keys_max));
  WEFT_CHECK(slot.count < capacity && capacity <= TxnSlot::kKeysMax && slot.chunks < TxnSlot::kChunksMax,
             "limits bound a transaction");
  const size_t places = std::bit_ceil(size_t{capacity} * 2);
  const size_t room = Pool::room(capacity * sizeof(Entry) + places * sizeof(uint16_t));
  auto* grown = reinterpret_cast<Entry*>(pool_->allocate(room));
  slot.chunk[slot.chunks++] = {reinterpret_cast<std::byte*>(grown), static_cast<uint32_t>(room)};
  for (uint16_t i = 0; i < slot.count; ++i) {
    Entry* e = new (grown + i) Entry(slot.entry(i));
    if (e->table->integer_keys()) e->key.bytes = {reinterpret_cast<std::byte*>(&e->integer_key), sizeof e->integer_key};
  }
  slot.entries = grown;
  slot.capacity = capacity;
  slot.places = reinterpret_cast<uint16_t*>(grown + capacity);
  slot.place_mask = static_cast<uint16_t>(places - 1);
  std::memset(slot.places, 0, places * sizeof(uint16_t));
  for (uint16_t i = 0; i < slot.count; ++i) index_entry(slot, i);
}

Code TxnKeys::write(TxnSlot& slot, Entry& e, Write write, std::string_view value) {
  WEFT_CHECK(write != Write::kNone, "write() is called with a put, an insert or an erase");
  const uint32_t value_max = std::min(e.table->spec().value_bytes_max, ctx_.limits.value_bytes_max);
  if (value.size() > value_max) {
    return reject(slot, Code::kValueTooLong, &e, {"the table's value_bytes_max", value_max, value.size()});
  }
  // Only the first write has a precondition; later ones see what this transaction has written.
  if (e.write == Write::kNone) {
    e.precondition = write == Write::kInsert  ? Precondition::kAbsent
                     : write == Write::kErase ? Precondition::kPresent
                                              : Precondition::kNothing;
  } else if (write == Write::kInsert && e.write == Write::kPut) {
    fail(slot, Code::kExists, &e, Owner());
    return Code::kExists;
  } else if (write == Write::kErase && e.write == Write::kErase) {
    fail(slot, Code::kNotFound, &e, Owner());
    return Code::kNotFound;
  }
  // What it wrote before counts no more. Its memory stays: somebody may still look at it.
  const size_t used = slot.bytes_used - padded(e.new_bytes);
  if (write == Write::kErase) {
    slot.bytes_used = static_cast<uint32_t>(used);
    e.write = Write::kErase;
    e.new_bytes = 0;
    return Code::kOk;
  }
  if (!fits(used + padded(value.size()))) return reject_bytes(slot, &e, used + value.size());
  std::byte* bytes = take_bytes(slot, value.size());
  if (bytes == nullptr) return reject_taken(slot, &e, value.size());
  slot.bytes_used = static_cast<uint32_t>(used + padded(value.size()));
  copy_bytes(bytes, value.data(), value.size());
  e.new_value = bytes;
  e.new_bytes = static_cast<uint32_t>(value.size());
  e.write = Write::kPut;
  return Code::kOk;
}

std::byte* TxnKeys::take_or_reject(TxnSlot& slot, size_t bytes, CountAs as) {
  uint32_t nothing = 0;
  uint32_t& counted = as == CountAs::kUsed ? slot.bytes_used : as == CountAs::kRead ? slot.bytes_read : nothing;
  if (as != CountAs::kNothing && !fits(counted + padded(bytes))) {
    reject_bytes(slot, nullptr, counted + bytes);
    return nullptr;
  }
  std::byte* const at = take_bytes(slot, bytes);
  if (at == nullptr) {
    reject_taken(slot, nullptr, bytes);
    return nullptr;
  }
  counted += static_cast<uint32_t>(padded(bytes));
  return at;
}

void TxnKeys::keep_value(TxnSlot& slot, Entry& e, ByteView value) {
  WEFT_CHECK(e.read && !e.done, "a value is kept for a read that is under way");
  const bool too_much = !fits(slot.bytes_read + padded(value.size()));
  e.value = too_much ? nullptr : take_bytes(slot, value.size());
  if (e.value == nullptr) {
    e.code = Code::kTxnTooLarge;
    too_much ? reject_bytes(slot, &e, slot.bytes_read + value.size()) : reject_taken(slot, &e, value.size());
    return;
  }
  slot.bytes_read += static_cast<uint32_t>(padded(value.size()));
  copy_words(e.value, value.data(), value.size());
  e.value_bytes = e.value_length = static_cast<uint32_t>(value.size());
}

}  // namespace weft
