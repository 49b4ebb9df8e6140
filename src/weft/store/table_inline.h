// The small steps that every operation of a table takes. Only for table_*.cc.
#pragma once

#include <algorithm>

#include "weft/base/check.h"
#include "weft/base/hash.h"
#include "weft/store/record_inline.h"
#include "weft/store/table.h"

namespace weft {

// Matches slots that have the hash of a byte-string key. The record of a slot may have been freed and given to another
// key since the slot was read; "no match" would then hide a key that exists in another block. So it does not match only
// if the record's key is another one *with this hash*; otherwise it does, and the caller compares the key itself and
// retries.
struct Table::KeyMatch {
  const Table& table;
  const HashedKey& key;
  bool operator()(uint64_t slot_value) const {
    return table.key_is(RecordSlot(slot_value), key) || !collides(RecordSlot(slot_value));
  }
  bool collides(RecordSlot slot) const;
};

inline RecordSlot Table::find(const HashedKey& key) const {
  uint64_t value = 0;
  const bool found =
      integer_keys_ ? index_->get(key.hash, MatchAny{}, &value) : index_->get(key.hash, KeyMatch{*this, key}, &value);
  return found ? RecordSlot(value) : RecordSlot();
}

inline bool Table::key_is(RecordSlot slot, const HashedKey& key) const {
  const RecordForm form = slot.form();
  if (integer_keys_) return load_ordered(at(slot) + key_at(form)) == load<uint64_t>(key.bytes.data());
  return value_at(form, key.bytes.size()) <= slot.bytes() && record_key_is(form, at(slot), key.bytes);
}

inline std::optional<size_t> Table::copy_key(RecordSlot slot, std::byte* to) const {
  const std::byte* const record = at(slot);
  const size_t bytes = key_bytes_of(slot.form(), record, load_ordered(record + kMetaAt));
  if (bytes > kKeyBytesMax || value_at(slot.form(), bytes) > slot.bytes()) return std::nullopt;
  copy_from_shared(to, record + key_at(slot.form()), bytes);
  return bytes;
}

// A hint is as good as an index lookup if the block is still this key's and in use: a key has one block at a time, and
// the word of an abandoned block is deleted or moved. Whatever happens after this check would also happen after an
// index lookup.
inline RecordSlot Table::first_lookup(const HashedKey& key) const {
  if (key.hint) {
    const Word word = load_word(at(key.hint));
    if (!word.deleted() && !word.moved() && key_is(key.hint, key)) return key.hint;
  }
  return find(key);
}

WEFT_INLINE inline void Table::write_record(RecordSlot slot, const HashedKey& key, ByteView value, Word word,
                                            bool key_is_there) const {
  if (checksums_) {
    record_write(at(slot), key.bytes, value, word, slot.form());
  } else {
    record_write_plain(at(slot), slot.form(), key.hash, key.bytes, value, word, key_is_there);
  }
}

inline bool Table::swap(RecordSlot slot, Word expected, Word desired) {
  if (local_atomics_ != nullptr) [[unlikely]]
    return cas_through_wire(slot, expected, desired);
  return swap_word(at(slot), expected, desired);
}

// Call before changing a word that this node has not locked: from now on no peer's CAS can match it. False: the word
// has changed; retry.
inline bool Table::mark_moved(RecordSlot slot, Word word) {
  if (local_atomics_ == nullptr || word.deleted()) return true;
  if (word.readable()) return cas_through_wire(slot, word, word.with(kMoved)) || local_atomics_->failed();
  // No peer's CAS expects this word now, but it could after another worker's mark_readable().
  return swap_word(at(slot), word, word.with(kMoved));
}

inline InsertCode Table::add_slot(const HashedKey& key, RecordSlot slot) {
  const InsertCode code = (integer_keys_ ? index_->insert(key.hash, MatchAny{}, slot.bits)
                                         : index_->insert(key.hash, KeyMatch{*this, key}, slot.bits))
                              .code;
  if (order_ != nullptr && code == InsertCode::kInserted) [[unlikely]]
    return add_to_order(key, slot);
  return code;
}

inline void Table::remove_slot(const HashedKey& key, RecordSlot slot) {
  uint64_t old = 0;
  index_->erase(
      key.hash, [slot](uint64_t value) { return value == slot.bits; }, &old);
  if (order_ != nullptr) [[unlikely]]
    remove_from_order(key.partition, key.bytes, slot);
}

inline RecordSlot Table::allocate(const HashedKey& key, uint32_t value_bytes, uint64_t limit) {
  const int block_class = block_class_of(record_bytes(key.bytes.size(), value_bytes));
  if (!usage(key).add_block(block_class, limit)) return RecordSlot();
  const uint64_t offset = blocks_.allocate(block_class);
  if (offset == 0) {
    usage(key).remove_block(block_class);
    return RecordSlot();
  }
  return RecordSlot(key.partition, block_class, offset);
}

inline void Table::release(RecordSlot slot) {
  usage_[slot.partition().value].remove_block(slot.block_class());
  blocks_.free(slot.offset(), slot.block_class());
}

inline bool Table::fits(RecordSlot slot, const HashedKey& key, size_t value_bytes) const {
  return record_bytes(key.bytes.size(), value_bytes) <= slot.bytes();
}

inline uint32_t Table::absence_index(const HashedKey& key) const {
  return key.partition.value * absence_per_partition_ + reduce(key.hash, absence_per_partition_);
}

constexpr Version later(Version a, Version b) { return a < b ? b : a; }

}  // namespace weft
