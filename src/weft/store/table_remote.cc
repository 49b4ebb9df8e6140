// What peers that reach a table by one-sided verbs leave to do for its node.
//
// Words and peers' CAS, where that does not go with the processor's locked instructions (set_local_atomics). Such a CAS
// reads the word and, if it is what it expects, writes it, with the processor's stores in between; a processor's swap
// is just such a store to it. It expects one of two words: readable, present and unlocked (to lock), or the same locked
// by the transaction that posts it (to take back a lock that was a mistake). So the processor must change neither:
//   W1: a record is locked by a CAS through the wire, and by nothing else; one that is not readable yet is not locked.
//   W2: what is changed without a lock, because it is a backup's or nobody's any more, is claimed first: marked moved
//       by a CAS through the wire, whatever lock a peer has put there by mistake (the block was another key's when it
//       looked). A word that is not readable no CAS expects, so the processor itself marks it: a raise by another
//       worker between the look and the change would make it a word that a CAS expects, and that CAS would store an
//       old version over the new one. One that is deleted no CAS expects and nobody makes readable; it needs no claim.
//       That is all: a CAS that matched has been stored before the claim by the wire is done, for the device does one
//       at a time; what comes later meets a word that is moved, then one that is not readable, or deleted.
//       If the device has failed the claim is left out: the node is on its way out of the view with all it has, and
//       what a CAS may still tear its checksum shows.
//   W3: whoever holds a lock rightly unlocks by a plain store or a WRITE: no CAS of another expects its word. Recovery
//       stands in for owners whose verbs do not land any more.
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
  return word.deleted() || word.moved() || !key_is(record, key) ? RecordSlot() : slot;
}

RemoteIndexAddress Table::index_address() const {
  const Dlht::Bins bins = index_->bins();
  return {static_cast<uint64_t>(bins.at - base_), bins.count};
}

void Table::recovery_commit(const HashedKey& key, Owner owner, ByteView value, Version version) {
  const RecordSlot slot = find(key);
  if (!slot) return;
  std::byte* const record = at(slot);
  const Word word = load_word(record);
  if (word.owner() != owner || word.deleted() || word.version().value + 1 != version.value || !key_is(record, key)) {
    WEFT_MARK("table: a lock by a verb that was released by one");
    return;
  }
  WEFT_MARK("table: a lock by a verb is committed by recovery");
  WEFT_CHECK(fits(slot, key, value.size()), "what outgrows its block is locked by message");
  record_write(record, key.bytes, value, Word(version, kReadable));
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
