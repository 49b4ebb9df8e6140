// The usual case of a table's operations, inlined where it is called: an integer key whose record is where the key's
// hint says, is narrow and keeps its size, in a table that no verbs reach. Each returns false if it is not that case;
// nothing has happened then, and the caller takes the operation of table.h.
#pragma once

#include "weft/base/check.h"
#include "weft/base/inline.h"
#include "weft/store/record_inline.h"
#include "weft/store/table.h"

namespace weft {

namespace in_place {
inline constexpr size_t kKeyAt = key_at(RecordForm::kNarrow);
inline constexpr size_t kValueAt = value_at(RecordForm::kNarrow, sizeof(uint64_t));
constexpr uint32_t lens_of(size_t value_bytes) {
  return record_lens(RecordForm::kNarrow, sizeof(uint64_t), value_bytes);
}
}  // namespace in_place

// Whether the record at the hint is this key's. The meta word that is returned was read after the word.
WEFT_INLINE inline bool Table::at_hint(const HashedKey& key, Word* word, uint64_t* meta) const {
  if (!usual_ || !key.hint || key.hint.form() != RecordForm::kNarrow) return false;
  const std::byte* const record = at(key.hint);
  *word = load_word(record);
  *meta = load_ordered(record + kMetaAt);
  return load_ordered(record + in_place::kKeyAt) == load<uint64_t>(key.bytes.data());
}

// Replaces the value by one of the same size.
WEFT_INLINE inline void Table::install_in_place(const HashedKey& key, ByteView value, Word word) const {
  std::byte* const record = at(key.hint);
  const uint32_t lens = in_place::lens_of(value.size());
  store_ordered(record + kMetaAt, kMetaTorn);
  for_words(value, [&](size_t i, uint64_t w) { store_ordered(record + in_place::kValueAt + i, w); });
  store_ordered(record + kMetaAt, record_meta(record_identity(key.hash, word), lens));
  store_word(record, word);
}

// read(): the value has at most `value_max` bytes, and the record is not deleted.
WEFT_INLINE inline bool Table::read_in_place(const HashedKey& key, std::byte* value, size_t value_max, Word* word,
                                             uint32_t* value_bytes) const {
  uint64_t meta;
  if (!at_hint(key, word, &meta) || (word->bits & (kDeleted | kMoved)) != 0) return false;
  const uint32_t length = value_bytes_of(RecordForm::kNarrow, meta);
  if (meta >> 32 != in_place::lens_of(length) || length > value_max) return false;
  const std::byte* const record = at(key.hint);
  copy_from_shared(value, record + in_place::kValueAt, length);
  *value_bytes = length;
  return load_ordered(record + kMetaAt) == meta && record_identity(key.hash, *word) == static_cast<uint32_t>(meta);
}

// lock() of a put over the version that was read.
WEFT_INLINE inline bool Table::lock_in_place(const HashedKey& key, Owner owner, Version expected, uint32_t value_bytes,
                                             Locked* locked) {
  Word word;
  uint64_t meta;
  if (!at_hint(key, &word, &meta) || word != Word(expected, kReadable)) return false;
  if (meta >> 32 != in_place::lens_of(value_bytes) || expected.value >= kVersionMax) return false;
  std::byte* const record = at(key.hint);
  const Word taken = word.with_owner(owner);
  if (!swap_word(record, word, taken)) return false;
  if (load_ordered(record + in_place::kKeyAt) != load<uint64_t>(key.bytes.data())) [[unlikely]] {
    swap_word(record, taken, word);  // see lock_present()
    return false;
  }
  *locked = {.record = key.hint, .larger_block = {}, .absence = 0, .fresh = false, .base = expected};
  return true;
}

// commit() of a put.
WEFT_INLINE inline bool Table::commit_in_place(const HashedKey& key, Owner owner, ByteView value,
                                               const Locked& locked) {
  Word word;
  uint64_t meta;
  if (locked.larger_block || locked.absence != 0 || locked.record != key.hint || !at_hint(key, &word, &meta)) {
    return false;
  }
  if (meta >> 32 != in_place::lens_of(value.size())) return false;
  WEFT_CHECK(word.owner() == owner, "only the holder installs (I2 of record.h)");
  install_in_place(key, value, Word(Version(locked.base.value + 1), kReadable));
  return true;
}

// apply() of a put over an older version.
WEFT_INLINE inline bool Table::apply_in_place(const HashedKey& key, ByteView value, Version version, std::byte* old,
                                              Visibility visibility, Undo* undo) {
  Word word;
  uint64_t meta;
  if (!at_hint(key, &word, &meta) || (word.bits & (kDeleted | kMoved)) != 0 || word.version() >= version) return false;
  if (meta >> 32 != in_place::lens_of(value.size())) return false;
  copy_from_shared(old, at(key.hint) + in_place::kValueAt, value.size());
  *undo = {.existed = true, .version = word.version(), .value_bytes = static_cast<uint32_t>(value.size())};
  install_in_place(key, value, Word(version, visibility == Visibility::kImmediate ? kReadable : 0));
  return true;
}

}  // namespace weft
