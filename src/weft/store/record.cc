#include "weft/store/record.h"

#include "weft/base/cas128.h"
#include "weft/store/record_inline.h"

namespace weft {

bool swap_word_with_meta(std::byte* record, Word expected, uint64_t meta, Word desired) {
  return cas128(record, {expected.bits, meta}, {desired.bits, meta});
}

void record_write(std::byte* record, ByteView key, ByteView value, Word word, RecordForm form) {
  record_write_inline(record, form, key, value, word);
}

uint32_t record_check(RecordForm form, ByteView key, ByteView value, Word word) {
  RecordChecksum sum(record_lens(form, key.size(), value.size()));
  if (form == RecordForm::kWide) sum.add(key.size());
  for_words(key, [&](size_t, uint64_t w) { sum.add(w); });
  for_words(value, [&](size_t, uint64_t w) { sum.add(w); });
  return sum.finish(word);
}

uint64_t record_meta_of(RecordForm form, ByteView key, ByteView value, Version version) {
  return record_meta(record_check(form, key, value, Word(version, 0)), record_lens(form, key.size(), value.size()));
}

RecordStatus record_read(const std::byte* record, size_t block_bytes, ByteView key, std::byte* value, size_t value_max,
                         Word* word, uint32_t* value_bytes) {
  return record_read_inline(record, block_bytes, key, value, value_max, word, value_bytes);
}

bool record_key_is(RecordForm form, const std::byte* record, ByteView key) {
  if (key_bytes_of(form, record, load_ordered(record + kMetaAt)) != key.size()) return false;
  uint64_t differs = 0;
  const std::byte* const key_from = record + key_at(form);
  for_words(key, [&](size_t at, uint64_t w) { differs |= w ^ load_ordered(key_from + at); });
  return differs == 0;
}

bool parse_record_copy(const std::byte* copy, size_t bytes, RecordForm form, RecordView* view) {
  if (bytes < key_at(form)) return false;
  view->word = Word(load<uint64_t>(copy));
  const uint64_t meta = load<uint64_t>(copy + kMetaAt);
  const size_t key_bytes = key_bytes_of(form, copy, meta);
  const size_t length = value_bytes_of(form, meta);
  const size_t end = record_bytes(form, key_bytes, length);
  if (end > bytes) return false;
  RecordChecksum sum(static_cast<uint32_t>(meta >> 32));
  for (size_t i = kKeyLengthAt; i < end; i += 8) sum.add(load<uint64_t>(copy + i));
  if (sum.finish(view->word) != static_cast<uint32_t>(meta)) return false;
  view->key = ByteView(copy + key_at(form), key_bytes);
  view->value = ByteView(copy + value_at(form, key_bytes), length);
  return true;
}

}  // namespace weft
