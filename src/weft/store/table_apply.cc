// Installing: commit where the key was locked; apply and mark_readable at a backup.
//
// Readers (read_absence, read) rely on the order of the stores:
//   insert   record word (present), then the absence word is released
//   delete   record word (deleted, still owned), index slot, absence word bumped and released, block freed
//   outgrown new record (complete, still owned), index slot, old word (moved), new word (unlocked), old block freed
// At a backup the primary's lock excludes other installs of the key, but another worker may mark an older version
// readable at any time. It changes a word only together with the meta word (swap_word_with_meta), so it never changes a
// newer version or another key. A tombstone belongs to whoever first marks it moved: the mark_readable that removes it,
// or the apply that replaces it.
#include "weft/base/inline.h"
#include "weft/base/marks.h"
#include "weft/store/ordered_index.h"
#include "weft/store/record_inline.h"
#include "weft/store/table_inline.h"

namespace weft {

void Table::commit(const HashedKey& key, Owner owner, Write write, ByteView value, const Locked& locked) {
  if (write == Write::kNone) {
    unlock(key, owner, locked);
    return;
  }
  WEFT_CHECK(locked.record && (load_word(at(locked.record)).owner() == owner || bugs_.has(PlantedBug::kLocksByCpu)),
             "only the holder installs (I2 of record.h)");
  if (write == Write::kErase) {
    install_erase(key, locked);
    return;
  }
  const Word word(Version(locked.base.value + 1), kReadable);
  if (fits(locked.record, key, value.size())) [[likely]] {
    write_record(locked.record, key, value, word, true);
    if (locked.larger_block) release(locked.larger_block);
  } else {
    WEFT_CHECK(locked.larger_block && fits(locked.larger_block, key, value.size()), "lock() reserved the space");
    replace(key, locked.record, locked.larger_block, value, word);
  }
  if (locked.absence != 0) release_absence(locked.absence - 1, Version(0));
}

void Table::install_erase(const HashedKey& key, const Locked& locked) {
  WEFT_CHECK(!locked.fresh && locked.absence != 0, "a delete holds the record and its absence word");
  const Version version(locked.base.value + 1);
  std::byte* const record = at(locked.record);
  const Owner owner = load_word(record).owner();
  count_erase(key.partition);
  write_record(locked.record, key, ByteView(), Word(version, kDeleted, owner), true);
  remove_slot(key, locked.record);
  release_absence(locked.absence - 1, version);
  store_word(record, Word(version, kDeleted));
  release(locked.record);
  if (locked.larger_block) release(locked.larger_block);
  usage(key).remove_record();
}

void Table::replace(const HashedKey& key, RecordSlot old_slot, RecordSlot new_slot, ByteView value, Word word) {
  // The new block is locked until the index refers to it: it may have held this key before, and a worker that remembers
  // it could otherwise lock it, and move or delete the record, before the slot is switched.
  std::byte* const old = at(old_slot);
  std::byte* const larger = at(new_slot);
  const Word before = load_word(old);
  write_record(new_slot, key, value, word.with_owner(before.owner()), false);
  const bool switched = index_->compare_put(key.hash, old_slot.bits, new_slot.bits);
  WEFT_CHECK(switched, "the slot of a record changes only by its holder");
  if (order_ != nullptr) order_->replace(key.partition, key.bytes, old_slot.bits, new_slot.bits);
  store_word(old, Word(before.version(), kMoved));
  if (before.owner()) store_word(larger, word);
  release(old_slot);
}

namespace {

uint64_t flags_of(Write write, Visibility visibility) {
  if (write == Write::kErase) return kDeleted;
  return visibility == Visibility::kImmediate ? kReadable : 0;
}

}  // namespace

Undo Table::apply(const HashedKey& key, Write write, ByteView value, Version version, std::byte* undo,
                  Visibility visibility, bool catching_up) {
  WEFT_CHECK(write != Write::kNone && value.size() <= spec_.value_bytes_max, "a write within value_bytes_max");
  Undo result;
  for (RecordSlot slot = first_lookup(key);; slot = find(key)) {
    const bool done = slot ? apply_present(key, slot, write, value, version, visibility, undo, &result)
                           : apply_absent(key, write, value, version, visibility, catching_up, &result);
    if (done) return result;
    WEFT_MARK_OUTSIDE("table: apply looks again");
  }
}

// A replica that is catching up always leaves a tombstone: its absence word says nothing about a key that is still to
// come.
bool Table::apply_absent(const HashedKey& key, Write write, ByteView value, Version version, Visibility visibility,
                         bool catching_up, Undo* undo) {
  const bool erase = write == Write::kErase;
  *undo = Undo{false, load_word(absence_at(absence_index(key))).version(), 0};
  if (erase && !catching_up && undo->version >= version) {
    WEFT_MARK_OUTSIDE("table: apply of an older delete ignored");
    return true;
  }
  const ByteView installed = erase ? ByteView() : value;
  const RecordSlot slot = allocate(key, static_cast<uint32_t>(installed.size()), PartitionUsage::kNoLimit);
  WEFT_CHECK(bool{slot}, "backups keep headroom over what the primary admits");
  write_record(slot, key, installed, Word(version, flags_of(write, visibility)), false);
  const InsertCode inserted = add_slot(key, slot);
  if (inserted == InsertCode::kExists) {
    store_word(at(slot), Word(version, kDeleted));
    release(slot);
    return false;
  }
  WEFT_CHECK(inserted == InsertCode::kInserted, "backups keep headroom over what the primary admits");
  if (!erase) usage(key).add_record(PartitionUsage::kNoLimit);
  return true;
}

WEFT_INLINE bool Table::apply_present(const HashedKey& key, RecordSlot slot, Write write, ByteView value,
                                      Version version, Visibility visibility, std::byte* old_value, Undo* undo) {
  std::byte* const record = at(slot);
  const Word word = load_word(record);
  const uint64_t meta = load_ordered(record + kMetaAt);
  if (!key_is(slot, key)) return false;
  if (word.moved()) {
    // Another worker's mark_readable is removing this tombstone. It frees the block; both may remove the slot.
    if (word.deleted()) remove_slot(key, slot);
    return false;
  }
  *undo = Undo{!word.deleted(), word.version(), 0};
  if (undo->existed) {
    undo->value_bytes = value_bytes_of(slot.form(), meta);
    copy_from_shared(old_value, record + value_at(slot.form(), key.bytes.size()), undo->value_bytes);
  }
  if (word.version() >= version) {
    WEFT_MARK_OUTSIDE("table: apply of an older version ignored");
    return true;
  }
  if (word.deleted()) {
    WEFT_MARK("table: apply over a tombstone");
    if (!swap_word_with_meta(record, word, meta, word.with(kMoved))) return false;
    // The mark_readable of this tombstone will find a newer record, so the absence word is bumped here.
    bump_absence_version(absence_index(key), word.version());
  } else if (!mark_moved(slot, word)) {
    return false;
  }
  const bool erase = write == Write::kErase;
  const ByteView installed = erase ? ByteView() : value;
  const Word next(version, flags_of(write, visibility));
  if (undo->existed && erase) {
    count_erase(key.partition);
    usage(key).remove_record();
  }
  if (!undo->existed && !erase) usage(key).add_record(PartitionUsage::kNoLimit);
  if (fits(slot, key, installed.size())) {
    write_record(slot, key, installed, next, true);
    return true;
  }
  const RecordSlot larger = allocate(key, static_cast<uint32_t>(installed.size()), PartitionUsage::kNoLimit);
  WEFT_CHECK(bool{larger}, "backups keep headroom over what the primary admits");
  replace(key, slot, larger, installed, next);
  return true;
}

Undo Table::apply_unordered(const HashedKey& key, Write write, ByteView value, Version version, std::byte* undo) {
  const std::lock_guard guard(catch_up_mutex_);
  return apply(key, write, value, version, undo, Visibility::kWhenMarked, false);
}

void Table::apply_late_put(const HashedKey& key, ByteView value, Version version, std::byte* scratch) {
  const std::lock_guard guard(catch_up_mutex_);
  for (;;) {
    const RecordSlot slot = find(key);
    if (!slot) {
      WEFT_MARK("table: a put that a delete has overtaken");
      return;
    }
    Undo undo;
    if (apply_present(key, slot, Write::kPut, value, version, Visibility::kWhenMarked, scratch, &undo)) break;
  }
  mark_readable(key, version);
}

void Table::mark_readable(const HashedKey& key, Version version) {
  for (RecordSlot slot = first_lookup(key);; slot = find(key)) {
    if (!slot) return;
    std::byte* const record = at(slot);
    const Word word = load_word(record);
    const uint64_t meta = load_ordered(record + kMetaAt);
    if (word.moved() && word.deleted()) return;
    if (word.moved() || !key_is(slot, key)) {
      WEFT_MARK_OUTSIDE("table: mark_readable looks again");
      continue;
    }
    if (word.version() != version && !bugs_.has(PlantedBug::kRaiseWithoutVersion)) {
      WEFT_MARK("table: mark_readable of a record that moved on");
      return;
    }
    if (word.readable() || word.owner()) return;
    if (!word.deleted()) {
      if (swap_word_with_meta(record, word, meta, word.with(kReadable))) return;
      continue;
    }
    bump_absence_version(absence_index(key), word.version());
    if (!swap_word_with_meta(record, word, meta, word.with(kMoved))) continue;
    remove_slot(key, slot);
    release(slot);
    return;
  }
}

}  // namespace weft
