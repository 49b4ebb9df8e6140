// Operations of recovery and state transfer: undoing an applied write, exporting a partition, dropping one.
#include <algorithm>
#include <array>
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
    if (!present) usage(key).add_record(PartitionUsage::kNoLimit);
    write_record(slot, key, old_value, Word(undo.version, kReadable), true);
    return;
  }
  if (present) {
    count_erase(key.partition);
    usage(key).remove_record();
  }
  store_word(record, Word(version, kDeleted));
  remove_slot(key, slot);
  release(slot);
}

void Table::install_if_newer(const HashedKey& key, Write write, ByteView value, Version version, std::byte* scratch) {
  const std::lock_guard guard(catch_up_mutex_);
  apply(key, write, value, version, scratch, Visibility::kWhenMarked, true);
  if (write != Write::kErase) {
    mark_readable(key, version);
  } else {
    // Whatever happened to the record since, the key was once absent at this version.
    bump_absence_version(absence_index(key), version);
  }
}

uint64_t Table::purge_tombstones(const std::vector<bool>& partitions, uint64_t cursor, int bins) {
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
      const size_t bytes = key_bytes_of(slot.form(), record, load_ordered(record + kMetaAt));
      found.push_back({std::string(as_text({record + key_at(slot.form()), bytes})), word.version()});
    });
  } while (cursor != 0 && --bins > 0);
  for (const Tombstone& tombstone : found) mark_readable(hashed(as_bytes(tombstone.key)), tombstone.version);
  return cursor;
}

uint64_t Table::drop_partitions(const std::vector<bool>& partitions, uint64_t cursor, int bins) {
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
    if (order_ != nullptr) drop_from_order(slot);
    std::byte* const record = at(slot);
    Word word = load_word(record);
    while (!mark_moved(slot, word)) word = load_word(record);
    if (!word.deleted()) usage_[slot.partition().value].remove_record();
    store_word(record, Word(word.version(), kDeleted));  // for readers with an old hint to this block
    release(slot);
  }
  return cursor;
}

void Table::drop_absence(PartitionId partition, uint32_t first, uint32_t words) {
  const uint32_t end = std::min(absence_per_partition_, first + words);
  for (uint32_t i = first; i < end; ++i) {
    std::byte* const word = absence_at(partition.value * absence_per_partition_ + i);
    if (load_word(word).bits != 0) store_word(word, Word());  // pages never written stay uncommitted
  }
}

uint64_t Table::leftovers(PartitionId partition) const {
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

// Copies the record at the slot, if it still has a value; returns its bytes. With `met_tombstone`, also what is just
// being written or inserted, without its value.
size_t Table::copy_record(RecordSlot slot, std::byte* value, size_t value_max, const Copy& copy,
                          bool* met_tombstone) const {
  std::array<std::byte, kKeyBytesMax> key;
  const std::optional<size_t> key_bytes = copy_key(slot, key.data());
  if (!key_bytes || (integer_keys_ && *key_bytes != sizeof(uint64_t))) return 0;
  const HashedKey hashed_key = hashed(ByteView(key.data(), *key_bytes));
  const ReadResult result = read(hashed_key, value, value_max);
  // Otherwise a replica that is catching up would never get it, and nobody would notice.
  WEFT_CHECK(!result.torn || met_tombstone != nullptr || result.word.owner(), "a record that nobody writes is whole");
  if (!result.found) {
    if (met_tombstone == nullptr) return 0;
    const bool tombstone = !result.torn && !result.word.readable();
    *met_tombstone |= tombstone;
    if (!result.torn && (tombstone || !result.word.owner())) return 0;
  }
  const size_t value_bytes = result.found ? std::min<size_t>(result.value_bytes, value_max) : 0;
  copy(hashed_key.bytes, ByteView(value, value_bytes), result.word.version());
  return *key_bytes + value_bytes;
}

uint64_t Table::export_bin(PartitionId partition, uint64_t cursor, std::byte* value, size_t value_max, const Copy& copy,
                           bool* met_tombstone) const {
  WEFT_CHECK(met_tombstone != nullptr, "who walks bins wants to know");
  std::array<RecordSlot, 64> bin;
  size_t count = 0;
  const uint64_t next = index_->scan(cursor, [&](uint64_t hash, uint64_t slot_value) {
    const RecordSlot slot(slot_value);
    if (slot.partition() == partition && hash >= cursor && count < bin.size()) bin[count++] = slot;
  });
  for (size_t i = 0; i < count; ++i) copy_record(bin[i], value, value_max, copy, met_tombstone);
  return next;
}

uint64_t Table::export_records(PartitionId partition, uint64_t cursor, size_t bytes_max, int bins, std::byte* value,
                               const Copy& copy) const {
  struct Found {
    uint64_t hash;
    RecordSlot slot;
  };
  size_t copied = 0;
  for (int i = 0; i < bins; ++i) {
    std::vector<Found> bin;
    const uint64_t next = index_->scan(cursor, [&](uint64_t hash, uint64_t slot_value) {
      if (RecordSlot(slot_value).partition() == partition) bin.push_back({hash, RecordSlot(slot_value)});
    });
    std::sort(bin.begin(), bin.end(), [](const Found& a, const Found& b) { return a.hash < b.hash; });
    for (const Found& found : bin) {
      // The caller's cursors have no lowest bit, so hashes that differ only in it are visited together.
      if (copied >= bytes_max && found.hash >> 1 != cursor >> 1) return found.hash & ~uint64_t{1};
      cursor = found.hash;
      // A torn record is being committed by a transaction of this view, which has sent it to all replicas that are
      // catching up.
      copied += copy_record(found.slot, value, spec_.value_bytes_max, copy, nullptr);
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

void Table::bump_absence_version(PartitionId partition, uint32_t index, Version version) {
  bump_absence_version(partition.value * absence_per_partition_ + index, version);
}

}  // namespace weft
