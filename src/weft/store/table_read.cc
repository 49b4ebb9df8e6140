// Reading and validating.
#include <thread>

#include "weft/base/marks.h"
#include "weft/store/record_inline.h"
#include "weft/store/table_in_place.h"
#include "weft/store/table_inline.h"

namespace weft {
namespace {

// Waits between two reads of a record that is being installed: the writer needs a moment, or the CPU.
class Backoff {
 public:
  bool exhausted() const { return attempts_ >= 128; }
  void wait() {
    if (++attempts_ < 64) {
      __builtin_ia32_pause();
    } else {
      std::this_thread::yield();
    }
  }

 private:
  int attempts_ = 0;
};

}  // namespace

ReadResult Table::read(const HashedKey& key, std::byte* value, size_t value_max) const {
  ReadResult result;
  if (read_in_place(key, value, value_max, &result.word, &result.value_bytes)) [[likely]] {
    result.found = true;
    return result;
  }
  read_otherwise(key, value, value_max, &result);
  return result;
}

void Table::read_otherwise(const HashedKey& key, std::byte* value, size_t value_max, ReadResult* out) const {
  ReadResult& result = *out;
  RecordSlot slot = first_lookup(key);
  for (Backoff backoff;; backoff.wait(), slot = find(key)) {
    if (slot) {
      const RecordStatus look = checksums_ ? record_read(at(slot), slot.bytes(), key.bytes, value, value_max,
                                                         &result.word, &result.value_bytes)
                                           : record_read_plain(at(slot), slot.bytes(), key.hash, key.bytes, value,
                                                               value_max, &result.word, &result.value_bytes);
      if (look == RecordStatus::kConsistent && !result.word.deleted() && !result.word.moved()) {
        result.found = true;
        return;
      }
      // The install is slow, or will never finish because of a faulty peer: that must fail the read, not block this
      // worker.
      if (look == RecordStatus::kTorn && backoff.exhausted()) {
        WEFT_MARK("table: torn by a peer's verb");
        result.torn = true;
        return;
      }
    }
    if (read_absence(key, &result.word)) {
      result.value_bytes = 0;
      return;
    }
    WEFT_MARK_OUTSIDE("table: read looks again");
  }
}

// The key's word: of its record, or of its absence with the flags that ReadResult promises.
Word Table::word_of(const HashedKey& key) const {
  RecordSlot slot = first_lookup(key);
  for (Backoff backoff;; backoff.wait(), slot = find(key)) {
    Word word;
    if (slot) {
      const std::byte* const record = at(slot);
      word = load_word(record);
      // The word is this key's if the block was this key's between two reads of the word: if the block had gone to
      // another key and come back, this key was deleted meanwhile, and its version is different.
      if (!key_is(slot, key) || load_word(record) != word || (word.moved() && !word.deleted())) continue;
    }
    if ((!slot || word.deleted()) && !read_absence(key, &word)) continue;
    return word;
  }
}

Code Table::validate(const HashedKey& key, Version expected, Owner self, Owner* holder) const {
  const Word word = word_of(key);
  if (word.owner() && word.owner() != self) {
    if (holder != nullptr) *holder = word.owner();
    return Code::kLocked;
  }
  return word.version() == expected ? Code::kOk : Code::kVersionMoved;
}

bool Table::is_newest(const HashedKey& key, Version expected, bool primary) const {
  const Word word = word_of(key);
  return !word.write_locked() && (primary || word.readable()) && word.version() == expected;
}

// By the hash only: comparing the key would wait for the record. The user of the hint compares it.
void Table::prefetch_otherwise(const HashedKey& key) const {
  uint64_t value = 0;
  if (index_->get(key.hash, MatchAny{}, &value)) {
    key.hint = RecordSlot(value);
    prefetch_slot(key.hint);
  } else {
    __builtin_prefetch(absence_at(absence_index(key)));
  }
}

}  // namespace weft
