// What the local node does for peers that access a table by one-sided verbs.
//
// Record words where a peer's CAS is not atomic with the CPU's locked instructions (set_local_atomics). Such a CAS
// reads the word and, if it is as expected, writes it; the CPU's stores, also those of its own CAS instructions, may
// come in between. It expects one of two words: readable, present and unlocked (to lock), or the same locked by the
// transaction that posts it (to undo a mistaken lock). So the CPU must change neither:
//   W1: a record is locked only by a CAS through the wire; one that is not readable yet is not locked.
//   W2: a word that is changed without a lock, because it is a backup's or of a dropped partition, is first marked
//       moved (mark_moved): by a CAS through the wire, whatever lock a peer has put there by mistake (the block was
//       another key's when it looked). No CAS expects a word that is not readable, so the CPU itself marks it:
//       otherwise another worker's mark_readable between the read and the change would make it a word that a CAS
//       expects, and that CAS would store an old version over the new one. No CAS expects a deleted word and nobody
//       makes it readable, so it need not be marked. That is enough: a CAS that matched has stored before the one that
//       marks completes, for the device executes one at a time; later ones find a word that is moved, then one that is
//       not readable, or deleted. If the device has failed the word is not marked: the node is about to leave the view
//       with all it has, and the checksum detects what a CAS may still tear.
//   W3: the rightful holder of a lock unlocks by a plain store or a WRITE: no CAS of another expects its word. Recovery
//       acts for owners whose verbs do not land any more.
#include "weft/base/marks.h"
#include "weft/store/record_inline.h"
#include "weft/store/table_inline.h"

namespace weft {

bool Table::cas_through_wire(RecordSlot slot, Word expected, Word desired) {
  const bool locks = !expected.owner() && desired.owner();
  if (bugs_.has(PlantedBug::kLocksByCpu) && locks) return swap_word(at(slot), expected, desired);
  return local_atomics_->swap(region_, slot.offset(), expected.bits, desired.bits);
}

RecordSlot Table::locate(const HashedKey& key) const {
  const RecordSlot slot = find(key);
  if (!slot) return slot;
  const std::byte* const record = at(slot);
  const Word word = load_word(record);
  return word.deleted() || word.moved() || !key_is(slot, key) ? RecordSlot() : slot;
}

RemoteIndexAddress Table::index_address() const {
  const Dlht::Bins bins = index_->bins();
  return {static_cast<uint64_t>(bins.at - base_), bins.count};
}

void Table::set_checksums(bool on) {
  if (on == checksums_) return;
  checksums_ = on;
  usual_ = is_usual();
  uint64_t cursor = 0;
  do {
    cursor = index_->scan(cursor, [&](uint64_t, uint64_t slot_value) {
      const RecordSlot slot(slot_value);
      std::byte* const record = at(slot);
      const Word word = load_word(record);
      const uint64_t meta = load_ordered(record + kMetaAt);
      const ByteView key(record + key_at(slot.form()), key_bytes_of(slot.form(), record, meta));
      const ByteView value(record + value_at(slot.form(), key.size()), value_bytes_of(slot.form(), meta));
      const auto lens = static_cast<uint32_t>(meta >> 32);
      const uint32_t check = on ? record_check(slot.form(), key, value, word) : record_identity(hashed(key).hash, word);
      store_ordered(record + kMetaAt, record_meta(check, lens));
    });
  } while (cursor != 0);
}

void Table::recovery_commit(const HashedKey& key, Owner owner, ByteView value, Version version) {
  const RecordSlot slot = find(key);
  if (!slot) return;
  std::byte* const record = at(slot);
  const Word word = load_word(record);
  if (word.owner() != owner || word.deleted() || word.version().value + 1 != version.value || !key_is(slot, key)) {
    WEFT_MARK("table: a lock by a verb that was released by one");
    return;
  }
  WEFT_MARK("table: a lock by a verb is committed by recovery");
  WEFT_CHECK(fits(slot, key, value.size()), "what outgrows its block is locked by message");
  write_record(slot, key, value, Word(version, kReadable), true);
}

void Table::release_orphaned_locks(uint64_t chunk) {
  blocks_.visit(chunk, [](std::byte* record) {
    for (Word word = load_word(record); word.owner(); word = load_word(record)) {
      WEFT_MARK("table: a lock by a verb is freed by recovery");
      if (swap_word(record, word, word.with_owner(Owner()))) break;
    }
  });
}

}  // namespace weft
