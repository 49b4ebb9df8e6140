// Writing and reading records, to be inlined into a table's hot operations. Only for record.cc and table_*.cc.
//
// We use our own checksum because it is computed while the words are copied, in one pass over shared memory: one
// multiply per 8 bytes, independent of each other.
#pragma once

#include <algorithm>

#include "weft/base/inline.h"
#include "weft/store/record.h"

namespace weft {

// Sums a mixed term per word. Each word is mixed with its position, so that swapped words are detected.
class RecordChecksum {
 public:
  explicit RecordChecksum(uint32_t lens) { add(lens); }

  void add(uint64_t word) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(word ^ salt_) * kMultiplier;
    sum_ += static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    salt_ += kSalt;
  }

  // Version and deleted are XORed in last, so that two successive versions of the same bytes always differ.
  uint32_t finish(Word word) const {
    uint64_t mixed = sum_ ^ sum_ >> 29;
    mixed *= kFinish;
    const uint64_t version = word.version().value;
    return static_cast<uint32_t>(mixed >> 32) ^ static_cast<uint32_t>(version) ^
           static_cast<uint32_t>(version >> 32) * kHighVersion ^ (word.deleted() ? kDeletedBit : 0);
  }

 private:
  static constexpr uint64_t kSalt = 0x9e3779b97f4a7c15U;
  static constexpr uint64_t kMultiplier = 0xa0761d6478bd642fU;
  static constexpr uint64_t kFinish = 0xe7037ed1a0b428dbU;
  static constexpr uint32_t kHighVersion = 0x85ebca6bU;
  static constexpr uint32_t kDeletedBit = 0x80000000U;
  uint64_t sum_ = 0;
  uint64_t salt_ = kSalt;
};

constexpr uint64_t record_meta(uint32_t check, uint32_t lens) { return uint64_t{lens} << 32 | check; }

// The bytes as words, the last one padded with zeros.
template <class Each>
inline void for_words(ByteView bytes, Each each) {
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) each(i, load<uint64_t>(bytes.data() + i));
  if (i < bytes.size()) {
    uint64_t tail = 0;
    std::memcpy(&tail, bytes.data() + i, bytes.size() - i);
    each(i, tail);
  }
}

WEFT_INLINE inline void record_write_inline(std::byte* record, RecordForm form, ByteView key, ByteView value,
                                            Word word) {
  const uint32_t lens = record_lens(form, key.size(), value.size());
  RecordChecksum sum(lens);
  store_ordered(record + kMetaAt, kMetaTorn);
  if (form == RecordForm::kWide) {
    sum.add(key.size());
    store_ordered(record + kKeyLengthAt, key.size());
  }
  std::byte* const key_to = record + key_at(form);
  for_words(key, [&](size_t at, uint64_t w) {
    sum.add(w);
    store_ordered(key_to + at, w);
  });
  std::byte* const value_to = record + value_at(form, key.size());
  for_words(value, [&](size_t at, uint64_t w) {
    sum.add(w);
    store_ordered(value_to + at, w);
  });
  store_ordered(record + kMetaAt, record_meta(sum.finish(word), lens));
  store_word(record, word);
}

// The check of a record without a checksum. Two versions of a key have different ones, unless they are 2^32 apart.
constexpr uint32_t record_identity(uint64_t hash, Word word) {
  return static_cast<uint32_t>(hash >> 32) ^ static_cast<uint32_t>(word.version().value) ^
         (word.deleted() ? uint32_t{0x80000000U} : 0);
}

// record_write_inline without a checksum. The key is written unless it is there already.
WEFT_INLINE inline void record_write_plain(std::byte* record, RecordForm form, uint64_t hash, ByteView key,
                                           ByteView value, Word word, bool key_is_there) {
  store_ordered(record + kMetaAt, kMetaTorn);
  if (!key_is_there) {
    if (form == RecordForm::kWide) store_ordered(record + kKeyLengthAt, key.size());
    std::byte* const key_to = record + key_at(form);
    for_words(key, [&](size_t at, uint64_t w) { store_ordered(key_to + at, w); });
  }
  std::byte* const value_to = record + value_at(form, key.size());
  for_words(value, [&](size_t at, uint64_t w) { store_ordered(value_to + at, w); });
  store_ordered(record + kMetaAt,
                record_meta(record_identity(hash, word), record_lens(form, key.size(), value.size())));
  store_word(record, word);
}

// record_read_inline without a checksum.
WEFT_INLINE inline RecordStatus record_read_plain(const std::byte* record, size_t block_bytes, uint64_t hash,
                                                  ByteView key, std::byte* value, size_t value_max, Word* word,
                                                  uint32_t* value_bytes) {
  *word = load_word(record);
  const uint64_t meta = load_ordered(record + kMetaAt);
  const RecordForm form = form_of_block(block_bytes);
  if (key_bytes_of(form, record, meta) != key.size()) {
    return meta == kMetaTorn ? RecordStatus::kTorn : RecordStatus::kOtherKey;
  }
  const size_t length = value_bytes_of(form, meta);
  if (record_bytes(form, key.size(), length) > block_bytes) return RecordStatus::kTorn;
  uint64_t differs = 0;
  const std::byte* const key_from = record + key_at(form);
  for_words(key, [&](size_t at, uint64_t w) { differs |= w ^ load_ordered(key_from + at); });
  if (differs != 0) return RecordStatus::kOtherKey;
  copy_from_shared(value, record + value_at(form, key.size()), std::min(length, value_max));
  if (load_ordered(record + kMetaAt) != meta || record_identity(hash, *word) != static_cast<uint32_t>(meta)) {
    return RecordStatus::kTorn;
  }
  *value_bytes = static_cast<uint32_t>(length);
  return RecordStatus::kConsistent;
}

WEFT_INLINE inline RecordStatus record_read_inline(const std::byte* record, size_t block_bytes, ByteView key,
                                                   std::byte* value, size_t value_max, Word* word,
                                                   uint32_t* value_bytes) {
  *word = load_word(record);
  const uint64_t meta = load_ordered(record + kMetaAt);
  const RecordForm form = form_of_block(block_bytes);
  if (key_bytes_of(form, record, meta) != key.size()) {
    return meta == kMetaTorn ? RecordStatus::kTorn : RecordStatus::kOtherKey;
  }
  const size_t length = value_bytes_of(form, meta);
  if (record_bytes(form, key.size(), length) > block_bytes) return RecordStatus::kTorn;

  RecordChecksum sum(static_cast<uint32_t>(meta >> 32));
  if (form == RecordForm::kWide) sum.add(key.size());
  uint64_t differs = 0;
  const std::byte* const key_from = record + key_at(form);
  for_words(key, [&](size_t at, uint64_t w) {
    differs |= w ^ load_ordered(key_from + at);
    sum.add(w);
  });
  if (differs != 0) return RecordStatus::kOtherKey;

  const std::byte* const value_from = record + value_at(form, key.size());
  const size_t whole = std::min(length, value_max) / 8 * 8;
  size_t i = 0;
  for (; i < whole; i += 8) {
    const uint64_t w = load_ordered(value_from + i);
    sum.add(w);
    store(value + i, w);
  }
  for (; i < length; i += 8) {
    const uint64_t w = load_ordered(value_from + i);
    sum.add(w);
    if (i < value_max) std::memcpy(value + i, &w, std::min({size_t{8}, length - i, value_max - i}));
  }
  if (load_ordered(record + kMetaAt) != meta || sum.finish(*word) != static_cast<uint32_t>(meta))
    return RecordStatus::kTorn;
  *value_bytes = static_cast<uint32_t>(length);
  return RecordStatus::kConsistent;
}

}  // namespace weft
