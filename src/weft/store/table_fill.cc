// What recovery and filling do to a table: taking an applied write back, copying a partition, discarding one.
#include <algorithm>
#include <vector>

#include "weft/base/marks.h"
#include "weft/store/table_inline.h"

namespace weft {

void Table::undo(const HashedKey& key, Version version, const Undo& undo, ByteView old_value) {
  const RecordSlot slot = find(key);
  if (!slot) return;
  std::byte* const record = at(slot);
  const Word word = load_word(record);
  if (word.version() != version || word.owner()) return;
  WEFT_MARK("table: an applied write is taken back");
  const bool present = !word.deleted();
  if (undo.existed) {
    WEFT_CHECK(fits(slot, key, old_value.size()), "an apply never makes the block smaller");
    if (!present) share(key).add_record(Share::kNoLimit);
    record_write(record, key.bytes, old_value, Word(undo.version, kReadable));
    return;
  }
  if (present) share(key).remove_record();
  store_word(record, Word(version, kDeleted));
  remove_slot(key, slot);
  release(slot);
}

void Table::install(const HashedKey& key, Write write, ByteView value, Version version, std::byte* scratch) {
  const std::lock_guard guard(fill_mutex_);
  apply(key, write, value, version, scratch, true);
  if (write != Write::kErase) {
    raise(key, version);
  } else {
    // Whatever became of the record since: the key was absent at this version once.
    raise_absence(absence_index(key), version);
  }
}

uint64_t Table::settle(const std::vector<bool>& partitions, uint64_t cursor, int bins) {
  struct Tombstone {
    std::string key;
    Version version;
  };
  std::vector<Tombstone> found;
  do {
    cursor = index_->scan(cursor, [&](uint64_t, uint64_t slot_value) {
      const RecordSlot slot(slot_value);
      if (!partitions[slot.partition().value]) return;
      const std::byte* const record = at(slot);
      const Word word = load_word(record);
      if (!word.deleted()) return;
      const size_t bytes = key_bytes_of(load_ordered(record + kMetaAt));
      found.push_back({std::string(as_text({record + kKeyAt, bytes})), word.version()});
    });
  } while (cursor != 0 && --bins > 0);
  for (const Tombstone& tombstone : found) raise(hashed(as_bytes(tombstone.key)), tombstone.version);
  return cursor;
}

uint64_t Table::discard(const std::vector<bool>& partitions, uint64_t cursor, int bins) {
  struct Found {
    uint64_t hash;
    RecordSlot slot;
  };
  std::vector<Found> found;
  do {
    cursor = index_->scan(cursor, [&](uint64_t hash, uint64_t slot_value) {
      const RecordSlot slot(slot_value);
      if (partitions[slot.partition().value]) found.push_back({hash, slot});
    });
  } while (cursor != 0 && --bins > 0);
  for (const auto& [hash, slot] : found) {
    uint64_t old = 0;
    const uint64_t bits = slot.bits;
    if (!index_->erase(
            hash, [bits](uint64_t value) { return value == bits; }, &old)) {
      continue;
    }
    std::byte* const record = at(slot);
    const Word word = load_word(record);
    if (!word.deleted()) shares_[slot.partition().value].remove_record();
    store_word(record, Word(word.version(), kDeleted));  // for who remembers where the key was
    release(slot);
  }
  return cursor;
}

void Table::discard_absence(PartitionId partition, uint32_t first, uint32_t words) {
  const uint32_t end = std::min(absence_per_partition_, first + words);
  for (uint32_t i = first; i < end; ++i) {
    std::byte* const word = absence_at(partition.value * absence_per_partition_ + i);
    if (load_word(word).bits != 0) store_word(word, Word());  // what was never written takes no memory
  }
}

uint64_t Table::traces(PartitionId partition) const {
  uint64_t found = 0;
  uint64_t cursor = 0;
  do {
    cursor = index_->scan(
        cursor, [&](uint64_t, uint64_t value) { found += RecordSlot(value).partition() == partition ? 1 : 0; });
  } while (cursor != 0);
  for (uint32_t i = 0; i < absence_per_partition_; ++i) {
    found += load_word(absence_at(partition.value * absence_per_partition_ + i)).bits != 0 ? 1 : 0;
  }
  return found;
}

uint64_t Table::copy_out(PartitionId partition, uint64_t cursor, size_t bytes_max, int bins, std::byte* value,
                         const Copy& copy) const {
  struct Found {
    uint64_t hash;
    RecordSlot slot;
  };
  std::vector<std::byte> key(kKeyBytesMax + 1);
  size_t copied = 0;
  for (int i = 0; i < bins; ++i) {
    std::vector<Found> bin;
    const uint64_t next = index_->scan(cursor, [&](uint64_t hash, uint64_t slot_value) {
      if (RecordSlot(slot_value).partition() == partition) bin.push_back({hash, RecordSlot(slot_value)});
    });
    std::sort(bin.begin(), bin.end(), [](const Found& a, const Found& b) { return a.hash < b.hash; });
    for (const Found& found : bin) {
      // The caller's cursors have no lowest bit: what shares all others is visited together.
      if (copied >= bytes_max && found.hash >> 1 != cursor >> 1) return found.hash & ~uint64_t{1};
      cursor = found.hash;
      const std::byte* const record = at(found.slot);
      const size_t key_bytes = key_bytes_of(load_ordered(record + kMetaAt));
      if (value_at(key_bytes) > found.slot.bytes()) continue;
      copy_from_shared(key.data(), record + kKeyAt, key_bytes);
      const HashedKey hashed_key = hashed(ByteView(key.data(), key_bytes));
      const ReadResult result = read(hashed_key, value, spec_.value_bytes_max);
      if (!result.found) continue;
      copy(hashed_key.bytes, ByteView(value, result.value_bytes), result.word.version());
      copied += key_bytes + result.value_bytes;
    }
    if (next == 0) return 0;
    cursor = next;
    if (copied >= bytes_max) break;
  }
  return cursor & ~uint64_t{1};
}

Version Table::absence_version(PartitionId partition, uint32_t index) const {
  return load_word(absence_at(partition.value * absence_per_partition_ + index)).version();
}

void Table::raise_absence(PartitionId partition, uint32_t index, Version version) {
  raise_absence(partition.value * absence_per_partition_ + index, version);
}

}  // namespace weft
