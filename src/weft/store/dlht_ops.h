// The operations of Dlht that take a Match; included by dlht.h only, which explains why they are correct.
//
// Memory order: headers are loaded with acquire and changed by read-modify-writes; words and values are loaded with
// acquire and stored with release. A reader that has seen a word or value of a later filling therefore sees, in its
// second load of the header, the change that preceded it.
#pragma once

#include "weft/store/dlht.h"

namespace weft {

// The valid bits of the inline slots whose words match. All three are compared without a branch, because it cannot be
// predicted which slot a key is in.
inline uint64_t Dlht::inline_hits(const Bin& bin, uint64_t header, uint64_t want, uint64_t mask) {
  uint64_t hits = 0;
  for (int i = 0; i < dlht::kInlineSlots; ++i) {
    hits |= uint64_t{(bin.slots[i].word.load(std::memory_order_acquire) & mask) == want} << (2 * i + 1);
  }
  return hits & header;
}

template <class Match>
inline Dlht::Lookup Dlht::find(const Index& index, Bin& bin, uint64_t header, uint64_t hash, uint64_t mask,
                               Match& match, Found* found) {
  const uint64_t want = index.low(hash);
  uint64_t rest = inline_hits(bin, header, want, mask);
  uint64_t links = 0;
  if ((header & dlht::kLinkedValid) != 0) [[unlikely]] {
    links = bin.links.load(std::memory_order_acquire);
    rest |= header & dlht::kLinkedValid;
  }
  for (; rest != 0; rest &= rest - 1) {
    const int number = std::countr_zero(rest) / 2;
    Slot& slot = index.slot(bin, links, number);
    const uint64_t word = slot.word.load(std::memory_order_acquire);
    if ((word & mask) != want) continue;
    const uint64_t value = dlht::value_of(slot);
    // Only now is it certain that the value belongs to the word, so that Match may dereference it.
    if (bin.header.load(std::memory_order_acquire) != header) return Lookup::kChanged;
    if (!match(value)) continue;
    *found = {&slot, number, word, value};
    return Lookup::kFound;
  }
  return bin.header.load(std::memory_order_acquire) == header ? Lookup::kAbsent : Lookup::kChanged;
}

inline uint64_t Dlht::find_inline(uint64_t hash) const {
  const Index* index = current();
  const Bin& bin = index->bin_of(hash);
  const uint64_t header = bin.header.load(std::memory_order_acquire);
  const uint64_t hits = inline_hits(bin, header, index->low(hash), index->strict());
  if (hits == 0 || (header & dlht::kStateMask) != 0) return 0;
  const uint64_t found = dlht::value_of(bin.slots[std::countr_zero(hits) / 2]);
  return bin.header.load(std::memory_order_acquire) == header ? found : 0;
}

template <class Match>
inline bool Dlht::get(uint64_t hash, Match match, uint64_t* value) const {
  const Index* index = current();
  const Bin& bin = index->bin_of(hash);
  const uint64_t header = bin.header.load(std::memory_order_acquire);
  if ((header & dlht::kStateMask) == 0) [[likely]] {
    const uint64_t hits = inline_hits(bin, header, index->low(hash), index->strict());
    if (hits != 0) [[likely]] {
      const uint64_t found = dlht::value_of(bin.slots[std::countr_zero(hits) / 2]);
      if (bin.header.load(std::memory_order_acquire) == header && match(found)) [[likely]] {
        *value = found;
        return true;
      }
    } else if ((header & dlht::kLinkedValid) == 0 && bin.header.load(std::memory_order_acquire) == header) {
      return false;
    }
  }
  return get_slowly(index, hash, match, value);
}

template <class Match>
bool Dlht::get_slowly(const Index* index, uint64_t hash, Match& match, uint64_t* value) const {
  for (;;) {
    Bin& bin = index->bin_of(hash);
    const uint64_t header = bin.header.load(std::memory_order_acquire);
    if ((header & dlht::kMoved) != 0) {
      index = index->next.load(std::memory_order_acquire);
      continue;
    }
    const uint64_t mask = (header & dlht::kMoving) != 0 ? index->lenient() : index->strict();
    Found found;
    const Lookup look = find(*index, bin, header, hash, mask, match, &found);
    if (look == Lookup::kChanged) continue;
    if (look == Lookup::kFound) *value = found.value;
    return look == Lookup::kFound;
  }
}

template <class Match>
bool Dlht::find_live(uint64_t hash, Match& match, BinRef* ref, Found* found) {
  for (;;) {
    *ref = writable(hash);
    const Lookup look = find(*ref->index, *ref->bin, ref->header, hash, ref->index->strict(), match, found);
    if (look != Lookup::kChanged) return look == Lookup::kFound;
  }
}

template <class Match>
bool Dlht::put(uint64_t hash, Match match, uint64_t value, uint64_t* old) {
  BinRef ref;
  Found found;
  while (find_live(hash, match, &ref, &found)) {
    if (dlht::swap(*found.slot, found.word, found.value, found.word, value)) {
      *old = found.value;
      return true;
    }
  }
  return false;
}

inline bool Dlht::compare_put(uint64_t hash, uint64_t old_value, uint64_t new_value) {
  uint64_t old;
  return put(
      hash, [old_value](uint64_t value) { return value == old_value; }, new_value, &old);
}

template <class Match>
bool Dlht::erase(uint64_t hash, Match match, uint64_t* old) {
  BinRef ref;
  Found found;
  while (find_live(hash, match, &ref, &found)) {
    if (!dlht::swap(*found.slot, found.word, found.value, found.word | dlht::kDead, found.value)) continue;
    *old = found.value;
    // Only this thread may empty the slot: nobody else changes the state of a valid slot, not even a thread that moves
    // the bin.
    ref.bin->header.fetch_add(dlht::kVersionOne - dlht::with(dlht::kValid, found.number), std::memory_order_acq_rel);
    if (found.number >= dlht::kInlineSlots) detach(*ref.index, *ref.bin);
    count(-1);
    return true;
  }
  return false;
}

template <class Match>
InsertResult Dlht::insert(uint64_t hash, Match match, uint64_t value) {
  if (current()->next.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
    help_resize(kHelpInsert);
  for (;;) {
    const BinRef ref = writable(hash);
    Found found;
    Lookup look = find(*ref.index, *ref.bin, ref.header, hash, ref.index->strict(), match, &found);
    if (look == Lookup::kChanged) continue;
    if (look == Lookup::kFound) return {InsertCode::kExists, found.value};
    const int number = dlht::first_empty(ref.header);
    const bool attached = number >= 0 && attach(ref, number);
    if (!attached) {
      const InsertCode code = make_room(ref, hash, number >= 0);
      if (code != InsertCode::kInserted) return {code, 0};
      continue;
    }
    uint64_t header = ref.header;
    const uint64_t reserved = header + dlht::kVersionOne + dlht::with(dlht::kTrying, number);
    if (!ref.bin->header.compare_exchange_strong(header, reserved, std::memory_order_acq_rel)) continue;
    look = publish({ref.index, ref.bin, reserved}, number, hash, match, value, &found);
    if (look == Lookup::kChanged) continue;
    if (look == Lookup::kFound) return {InsertCode::kExists, found.value};
    count(1);
    return {InsertCode::kInserted, value};
  }
}

// Fills and publishes a slot that this thread reserved in a bin with this header. kAbsent: published. kFound: another
// thread inserted the key meanwhile. kChanged: the bin is being moved; the slot is abandoned with it.
template <class Match>
Dlht::Lookup Dlht::publish(const BinRef& ref, int number, uint64_t hash, Match& match, uint64_t value, Found* found) {
  Bin& bin = *ref.bin;
  Slot& slot = ref.index->slot(bin, bin.links.load(std::memory_order_acquire), number);
  const uint64_t word = ref.index->low(hash) | ref.index->next_tag(slot.word.load(std::memory_order_relaxed));
  slot.value.store(value, std::memory_order_release);
  slot.word.store(word, std::memory_order_release);
  uint64_t header = ref.header;
  constexpr uint64_t kPublish = dlht::kValid - dlht::kTrying;
  while (!bin.header.compare_exchange_strong(header, header + dlht::kVersionOne + (kPublish << (2 * number)),
                                             std::memory_order_acq_rel)) {
    for (;; header = bin.header.load(std::memory_order_acquire)) {
      if ((header & dlht::kStateMask) != 0) return Lookup::kChanged;
      const Lookup look = find(*ref.index, bin, header, hash, ref.index->strict(), match, found);
      if (look == Lookup::kAbsent) break;
      if (look == Lookup::kChanged) continue;
      slot.word.store(word | dlht::kDead, std::memory_order_release);
      bin.header.fetch_add(dlht::kVersionOne - dlht::with(dlht::kTrying, number), std::memory_order_acq_rel);
      return Lookup::kFound;
    }
  }
  return Lookup::kAbsent;
}

template <class Visit>
uint64_t Dlht::scan(uint64_t cursor, Visit visit) const {
  const Snapshot bin = snapshot(cursor);
  for (size_t i = 0; i < bin.count; ++i) visit(bin.entries[i].hash, bin.entries[i].value);
  return bin.next;
}

}  // namespace weft
