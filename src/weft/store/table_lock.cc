// Locking and unlocking, at a primary or at any replica of a row that locks all replicas. Nothing here waits: a lock
// that another holds is returned as a result. So there is no deadlock, whatever the order in which keys, records and
// absence words are locked.
#include "weft/base/inline.h"
#include "weft/base/marks.h"
#include "weft/store/table_inline.h"

namespace weft {

bool Table::version_ok(std::optional<Version> expected, Version found) const {
  return !expected || *expected == found || bugs_.has(PlantedBug::kIgnoreVersion);
}

LockResult Table::lock(const HashedKey& key, Owner owner, Write write, std::optional<Version> expected,
                       uint32_t value_bytes) {
  WEFT_CHECK(value_bytes <= spec_.value_bytes_max, "the caller enforces value_bytes_max");
  LockResult result;
  for (RecordSlot slot = first_lookup(key);; slot = find(key)) {
    const bool done = slot ? lock_present(key, slot, owner, write, expected, value_bytes, &result)
                           : lock_absent(key, owner, write, expected, value_bytes, &result);
    if (done) return result;
    WEFT_MARK_OUTSIDE("table: lock looks again");
    result = LockResult();
  }
}

WEFT_INLINE bool Table::lock_present(const HashedKey& key, RecordSlot slot, Owner owner, Write write,
                                     std::optional<Version> expected, uint32_t value_bytes, LockResult* result) {
  std::byte* const record = at(slot);
  const Word word = load_word(record);
  if (word.owner()) {
    // The block may belong to another key by now; then this is a false conflict, and the next attempt finds the right
    // one.
    result->code = Code::kLocked;
    result->holder = word.owner();
    return true;
  }
  if (word.deleted()) {
    // Freed since the lookup, or a tombstone not marked readable yet, of a transaction that is not finished.
    if (find(key) != slot) return false;
    WEFT_MARK_OUTSIDE("table: lock meets a tombstone");
    result->code = Code::kLocked;
    return true;
  }
  if (word.moved() || !key_is(slot, key)) return false;
  if (!version_ok(expected, word.version())) {
    result->code = Code::kVersionMoved;
    return true;
  }
  if (write == Write::kInsert) {
    result->code = Code::kExists;
    return true;
  }
  if (local_atomics_ != nullptr && !word.readable()) {
    WEFT_MARK_OUTSIDE("table: lock meets what is not readable yet");
    result->code = Code::kLocked;
    return true;
  }
  const Word locked = word.with_owner(owner).with(write == Write::kNone ? kReadLocked : 0);
  if (!swap(slot, word, locked)) {
    if (local_atomics_ == nullptr || !local_atomics_->failed()) return false;
    result->code = Code::kLocked;
    return true;
  }
  if (!key_is(slot, key)) {
    // The block went to another key with the same word. That key may be a backup's and an apply may have changed it
    // meanwhile, so no plain store: whoever changed the word has unlocked it too.
    WEFT_MARK_OUTSIDE("table: locked a block that went to another key");
    swap(slot, locked, word);
    return false;
  }
  result->locked.record = slot;
  result->locked.base = result->replaced = word.version();
  result->code = reserve(key, owner, write, value_bytes, &result->locked, &result->holder);
  if (result->code != Code::kOk) {
    store_word(record, word);
    result->locked = Locked();
  }
  return true;
}

bool Table::lock_absent(const HashedKey& key, Owner owner, Write write, std::optional<Version> expected,
                        uint32_t value_bytes, LockResult* result) {
  if (write == Write::kErase) {
    Word word;
    if (!read_absence(key, &word)) return false;
    const bool locked = word.owner() && word.owner() != owner;
    result->code = locked                                  ? Code::kLocked
                   : !version_ok(expected, word.version()) ? Code::kVersionMoved
                                                           : Code::kNotFound;
    if (locked) result->holder = word.owner();
    return true;
  }
  const uint32_t index = absence_index(key);
  Word word;
  if (!take_absence(index, owner, write == Write::kNone, &word)) {
    result->code = Code::kLocked;
    result->holder = word.owner();
    return true;
  }
  Locked& locked = result->locked;
  locked.absence = index + 1;
  locked.base = word.version();
  bool done = true;
  if (write == Write::kNone) {
    // Somebody may have inserted the key between the index lookup and the lock. From now on nobody can.
    done = !find(key);
    if (!version_ok(expected, word.version())) result->code = Code::kVersionMoved;
  } else if (!version_ok(expected, word.version())) {
    result->code = Code::kVersionMoved;
  } else {
    result->code = make_fresh(key, owner, value_bytes, &locked);
    done = result->code != Code::kExists;
  }
  if (!done || result->code != Code::kOk) {
    release_absence(index, Version(0));
    locked = Locked();
  }
  return done;
}

// With the absence word held: creates a record that is in the index, locked and marked deleted. kExists: retry.
Code Table::make_fresh(const HashedKey& key, Owner owner, uint32_t value_bytes, Locked* locked) {
  if (locked->base.value >= kVersionMax) return Code::kVersionLimit;
  const Version base = bugs_.has(PlantedBug::kInsertAtZero) ? Version(0) : locked->base;
  if (!usage(key).add_record(records_limit_)) return Code::kTableFull;
  const RecordSlot slot = allocate(key, value_bytes, bytes_limit_);
  if (!slot) {
    usage(key).remove_record();
    return Code::kTableFull;
  }
  write_record(slot, key, ByteView(), Word(base, kDeleted, owner), false);
  const InsertCode inserted = add_slot(key, slot);
  if (inserted == InsertCode::kInserted) {
    locked->record = slot;
    locked->fresh = true;
    locked->base = base;
    return Code::kOk;
  }
  store_word(at(slot), Word(base, kDeleted));
  release(slot);
  usage(key).remove_record();
  switch (inserted) {
    case InsertCode::kExists:
      return Code::kExists;
    case InsertCode::kBinFull:
      return Code::kBinFull;
    default:
      return Code::kTableFull;
  }
}

// With the record locked: reserves what else the write needs. Changes nothing if it fails.
WEFT_INLINE Code Table::reserve(const HashedKey& key, Owner owner, Write write, uint32_t value_bytes, Locked* locked,
                                Owner* holder) {
  if (write == Write::kNone) return Code::kOk;
  if (write == Write::kErase) {
    if (locked->absence == 0) {
      const uint32_t index = absence_index(key);
      Word word;
      if (!take_absence(index, owner, false, &word)) {
        *holder = word.owner();
        return Code::kLocked;
      }
      const Version base = later(locked->base, word.version());
      if (base.value >= kVersionMax) {
        release_absence(index, Version(0));
        return Code::kVersionLimit;
      }
      locked->absence = index + 1;
      locked->base = base;
    }
    return Code::kOk;
  }
  if (locked->base.value >= kVersionMax) return Code::kVersionLimit;
  if (fits(locked->record, key, value_bytes)) return Code::kOk;
  if (locked->larger_block && fits(locked->larger_block, key, value_bytes)) return Code::kOk;
  const RecordSlot larger_block = allocate(key, value_bytes, bytes_limit_);
  if (!larger_block) return Code::kTableFull;
  if (locked->larger_block) release(locked->larger_block);
  locked->larger_block = larger_block;
  return Code::kOk;
}

Code Table::relock(const HashedKey& key, Owner owner, Write write, uint32_t value_bytes, Locked* locked) {
  WEFT_CHECK(value_bytes <= spec_.value_bytes_max, "the caller enforces value_bytes_max");
  const bool present = locked->record && !locked->fresh;
  if (write == Write::kInsert && present) return Code::kExists;
  if (write == Write::kErase && !present) return Code::kNotFound;
  if (!locked->record && write != Write::kNone) {
    const Code code = make_fresh(key, owner, value_bytes, locked);
    WEFT_CHECK(code != Code::kExists, "nobody inserts while the absence word is held");
    if (code != Code::kOk) return code;
  } else {
    Owner holder;
    const Code code = reserve(key, owner, write, value_bytes, locked, &holder);
    if (code != Code::kOk) return code;
  }
  if (present) {
    std::byte* const record = at(locked->record);
    const Word word = load_word(record);
    store_word(record, write == Write::kNone ? word.with(kReadLocked) : word.without(kReadLocked));
  } else {
    mark_absence(locked->absence - 1, write == Write::kNone);
  }
  return Code::kOk;
}

void Table::unlock(const HashedKey& key, Owner owner, const Locked& locked) {
  if (locked.record) {
    std::byte* const record = at(locked.record);
    const Word word = load_word(record);
    WEFT_CHECK(word.owner() == owner || bugs_.has(PlantedBug::kLocksByCpu), "only the holder unlocks");
    if (locked.fresh) {
      remove_slot(key, locked.record);
      store_word(record, word.with_owner(Owner()));
      release(locked.record);
      usage(key).remove_record();
    } else {
      store_word(record, word.with_owner(Owner()).without(kReadLocked));
    }
  }
  if (locked.larger_block) release(locked.larger_block);
  if (locked.absence != 0) release_absence(locked.absence - 1, Version(0));
}

}  // namespace weft
