// Absence words: reading, locking, bumping.
//
// Several keys of one transaction may share an absence word. Its owner may take it again; the word is then flagged
// (kMoved) and counted in a small list. It is released when the last of these keys is committed or unlocked, at the
// greatest version of their deletes. Until then it does not change: it stays locked at its old version, in whatever
// order the keys are committed. A1 of table.h needs that: if the first key's delete bumped the word at once, a reader
// could see a second key, whose insert is still to come, absent at a version which that key will have later. The
// replicas agree: at a backup each delete bumps the word to its version when it is marked readable, so that the word
// ends at the same maximum, and all keys of the transaction have been applied there before the first is marked.
//
// The list has a mutex: two keys of one transaction at one absence word are rare (about k * k / 2 / words for k keys).
#include "weft/base/marks.h"
#include "weft/store/table_inline.h"

namespace weft {

Word Table::absence(const HashedKey& key) const { return load_word(absence_at(absence_index(key))).without(kMoved); }

// A consistent read of a key that seems absent: its absence word, with the flags that ReadResult promises. False: the
// key exists, or is being moved to another block; look it up again.
//
// The word is read before and after the index. If its version has not changed, no delete of this key completed in
// between, so the key was absent at this version when the index was read. The holder of the word in either read, or of
// the record that is being inserted or deleted, counts as the holder: an insert or delete may be decided already.
bool Table::read_absence(const HashedKey& key, Word* word) const {
  const std::byte* const at_word = absence_at(absence_index(key));
  for (;;) {
    const Word before = load_word(at_word);
    if (looking_ != nullptr) [[unlikely]]
      looking_(looking_context_);
    const RecordSlot slot = find(key);
    Word record;
    if (slot) {
      const std::byte* const found = at(slot);
      record = load_word(found);
      if (!record.deleted() || !key_is(slot, key) || load_word(found) != record) return false;
    }
    const Word after = bugs_.has(PlantedBug::kAbsenceOnce) ? before : load_word(at_word);
    if (before.version() != after.version() && !bugs_.has(PlantedBug::kAbsenceOnce)) {
      WEFT_MARK_OUTSIDE("table: absence moved while looking");
      continue;
    }
    Word seen = (after.owner() || !before.owner() ? after : before).without(kMoved);
    if (record.owner() && !seen.owner()) seen = seen.with_owner(record.owner());
    if (slot && !record.owner()) {
      WEFT_MARK("table: tombstone read");
      *word = Word(later(seen.version(), record.version()), kDeleted, seen.owner());
    } else {
      *word = seen.with(kReadable);
    }
    return true;
  }
}

bool Table::take_absence(uint32_t index, Owner owner, bool for_reading, Word* found) {
  std::byte* const at_word = absence_at(index);
  for (;;) {
    const Word word = load_word(at_word);
    *found = word;
    if (!word.owner()) {
      if (swap_word(at_word, word, Word(word.version(), for_reading ? kReadLocked : 0, owner))) return true;
      continue;
    }
    if (word.owner() != owner) return false;
    WEFT_MARK("table: absence word shared by keys of one transaction");
    const std::lock_guard guard(shared_mutex_);
    const auto entry =
        std::find_if(shared_.begin(), shared_.end(), [index](const SharedAbsence& s) { return s.index == index; });
    if (entry != shared_.end()) {
      ++entry->holders;
    } else {
      shared_.push_back({index, 2, word.version()});
    }
    store_word(at_word, for_reading ? word.with(kMoved) : word.with(kMoved).without(kReadLocked));
    return true;
  }
}

// `version`: of the delete; Version(0) if there was none.
void Table::release_absence(uint32_t index, Version version) {
  std::byte* const at_word = absence_at(index);
  const Word word = load_word(at_word);
  if (!word.moved()) [[likely]] {
    store_word(at_word, Word(later(word.version(), version), 0));
    return;
  }
  const std::lock_guard guard(shared_mutex_);
  const auto entry =
      std::find_if(shared_.begin(), shared_.end(), [index](const SharedAbsence& s) { return s.index == index; });
  WEFT_CHECK(entry != shared_.end(), "a shared absence word has its entry");
  entry->version = later(entry->version, version);
  if (--entry->holders > 0) return;
  store_word(at_word, Word(later(word.version(), entry->version), 0));
  *entry = shared_.back();
  shared_.pop_back();
}

// A shared word keeps the strongest lock of its keys.
void Table::mark_absence(uint32_t index, bool for_reading) {
  std::byte* const at_word = absence_at(index);
  const Word word = load_word(at_word);
  if (!for_reading) {
    store_word(at_word, word.without(kReadLocked));
  } else if (!word.moved()) {
    store_word(at_word, word.with(kReadLocked));
  }
}

// For backups, where nobody locks: several transactions may bump one word at a time.
void Table::bump_absence_version(uint32_t index, Version version) {
  std::byte* const at_word = absence_at(index);
  for (;;) {
    const Word word = load_word(at_word);
    if (word.version() >= version) return;
    if (swap_word(at_word, word, Word(word.bits + ((version.value - word.version().value) << kVersionShift)))) return;
  }
}

}  // namespace weft
