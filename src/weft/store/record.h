// The record of a transactional table, as bytes in a region: local workers and remote NICs read the same layout.
//
// The word, 64 bits:
//
//    63                    24 23                         4   3     2       1       0
//   | version (40)           | owner (20), 0 = unlocked   | rlock| moved |deleted|readable|
//
// The record (8-byte aligned, its block rounded to a size class). In a block of at most kNarrowBlockBytes it is narrow:
//
//    0        8        12       16          16+pad8(key)                end
//   | word   | check  | lens   | key bytes  | value bytes               |
//
// and in a larger one wide. A block keeps its class, so its records keep their form, and a key stays where it is for as
// long as the block has it.
//
//    0        8        12       16          24          24+pad8(key)    end
//   | word   | check  | lens   | key length | key bytes  | value bytes  |
//
//   check  32-bit checksum over version, deleted, lens, key length, key and value (not over owner and the other flags)
//   lens   narrow: key bytes (11 bits) | value bytes (21 bits); wide: value bytes
//
// check and lens are one 64-bit word, the *meta* word: an install first sets it to kMetaTorn, then writes the value,
// then the new meta word, then the word. So a local reader that read any byte of a newer install finds the meta word
// changed at its end and does not depend on the checksum; a NIC, which may copy cache lines in any order, depends on
// the checksum alone. On x86 the ordered loads and stores that this needs are plain ones. In a table that no peer
// reaches by verbs, check is no checksum: it is made of the key's hash, the version and deleted, so that the meta word
// still names the key and its version (record_identity).
//
// Invariants:
// I1: version and value change together: one install writes value, check and word, in this order, and a reader whose
//     check does not match its word's version has a torn or stale copy and retries.
// I2: only the holder of the lock installs at a primary; at a backup of an undo row only the transaction that holds the
//     primary's lock does.
// I3: an install at a backup clears readable in the same step, where clients may read from that backup.
// I4: a block belongs to one size class of one table for the life of the region; a freed block's word is deleted, an
//     outgrown one's is moved. Only the meta word of a free block has another use (blocks.h), so that its word and key
//     stay what they were. Deleted and moved together mark a tombstone that is being replaced or removed.
// I5: versions of a key never repeat, across delete and insert too (absence words in table.h).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "weft/base/bytes.h"
#include "weft/types.h"

namespace weft {

inline constexpr uint64_t kReadable = 1U << 0;
inline constexpr uint64_t kDeleted = 1U << 1;
inline constexpr uint64_t kMoved = 1U << 2;
inline constexpr uint64_t kReadLocked = 1U << 3;
inline constexpr int kOwnerShift = 4;
inline constexpr uint64_t kOwnerMask = uint64_t{0xfffff} << kOwnerShift;
inline constexpr int kVersionShift = 24;
inline constexpr uint64_t kVersionMax = (uint64_t{1} << 40) - 1;

// The holder of a lock: a node's worker and its slot. 20 bits, 0 = none; OwnerFormat says which are which.
struct Owner {
  uint32_t bits = 0;
  constexpr Owner() = default;
  constexpr explicit Owner(uint32_t b) : bits(b) {}
  constexpr explicit operator bool() const { return bits != 0; }
  friend constexpr bool operator==(Owner, Owner) = default;
};

// The parts of an Owner, from the low bits up: slot, worker, node + 1. Each has as many bits as the cluster needs, so
// that many workers or many nodes are possible, if not both. All nodes must have the same format: it follows from what
// they agree on when they connect.
class OwnerFormat {
 public:
  static constexpr int kBits = 20;
  // How many bits it takes: no cluster has more than kBits.
  static constexpr int bits_for(int nodes, int workers, int slots) {
    return width(nodes) + width(workers - 1) + width(slots - 1);
  }
  constexpr OwnerFormat(int workers, int slots)
      : worker_at_(width(slots - 1)), node_at_(worker_at_ + width(workers - 1)) {}

  constexpr Owner make(NodeId node, WorkerId worker, uint8_t slot) const {
    return Owner((uint32_t{node.value} + 1) << node_at_ | uint32_t{worker.value} << worker_at_ | slot);
  }
  constexpr NodeId node(Owner owner) const { return NodeId(static_cast<uint8_t>((owner.bits >> node_at_) - 1)); }
  constexpr WorkerId worker(Owner owner) const {
    return WorkerId(static_cast<uint8_t>((owner.bits & ((1U << node_at_) - 1)) >> worker_at_));
  }

 private:
  static constexpr int width(int most) { return std::bit_width(static_cast<unsigned>(most)); }

  int worker_at_;
  int node_at_;
};

// A decoded record word. Absence words have the same layout; of the flags they use kReadLocked, and kMoved for "several
// keys of the owner's transaction hold this word" (table_absence.cc).
struct Word {
  uint64_t bits = 0;
  constexpr Word() = default;
  constexpr explicit Word(uint64_t b) : bits(b) {}
  constexpr Word(Version v, uint64_t flags, Owner owner = Owner())
      : bits(v.value << kVersionShift | uint64_t{owner.bits} << kOwnerShift | flags) {}
  constexpr Version version() const { return Version(bits >> kVersionShift); }
  constexpr Owner owner() const { return Owner(static_cast<uint32_t>((bits & kOwnerMask) >> kOwnerShift)); }
  constexpr bool readable() const { return bits & kReadable; }
  constexpr bool deleted() const { return bits & kDeleted; }
  constexpr bool moved() const { return bits & kMoved; }
  constexpr bool read_locked() const { return bits & kReadLocked; }
  constexpr bool write_locked() const { return (bits & kOwnerMask) != 0 && !read_locked(); }
  constexpr Word with_owner(Owner o) const { return Word((bits & ~kOwnerMask) | uint64_t{o.bits} << kOwnerShift); }
  constexpr Word with(uint64_t flags) const { return Word(bits | flags); }
  constexpr Word without(uint64_t flags) const { return Word(bits & ~flags); }
  friend constexpr bool operator==(Word, Word) = default;
};

struct RecordHeader {
  uint64_t word;
  uint32_t check;
  uint32_t lens;
};
static_assert(sizeof(RecordHeader) == 16);
static_assert(offsetof(RecordHeader, word) == 0 && offsetof(RecordHeader, check) == 8);

inline constexpr uint32_t kKeyBytesMax = 64 << 10;          // of every table; Limits sets the user's
inline constexpr size_t kTableValueBytesMax = 16385 << 10;  // 16 MiB and what its owner puts before it

enum class RecordForm : uint8_t { kNarrow, kWide };

inline constexpr size_t kNarrowBlockBytes = 1984;  // a size class (blocks.h)
constexpr RecordForm form_of_block(size_t block_bytes) {
  return block_bytes <= kNarrowBlockBytes ? RecordForm::kNarrow : RecordForm::kWide;
}

// The meta word: check in the low half, lens in the high half.
inline constexpr size_t kMetaAt = 8;
inline constexpr size_t kKeyLengthAt = 16;           // wide
inline constexpr uint64_t kMetaTorn = ~uint64_t{0};  // no record has it: its lengths are beyond every size class

inline constexpr int kKeyLenBits = 11;
static_assert(kNarrowBlockBytes < 1U << kKeyLenBits);
constexpr uint32_t record_lens(RecordForm form, size_t key_bytes, size_t value_bytes) {
  if (form == RecordForm::kWide) return static_cast<uint32_t>(value_bytes);
  return static_cast<uint32_t>(key_bytes) | static_cast<uint32_t>(value_bytes) << kKeyLenBits;
}
constexpr uint32_t value_bytes_of(RecordForm form, uint64_t meta) {
  return form == RecordForm::kWide ? static_cast<uint32_t>(meta >> 32)
                                   : static_cast<uint32_t>(meta >> 32) >> kKeyLenBits;
}
constexpr size_t key_at(RecordForm form) { return form == RecordForm::kWide ? kKeyLengthAt + 8 : kKeyLengthAt; }
constexpr size_t value_at(RecordForm form, size_t key_bytes) { return key_at(form) + align_up(key_bytes, 8); }
constexpr size_t record_bytes(RecordForm form, size_t key_bytes, size_t value_bytes) {
  return value_at(form, key_bytes) + align_up(value_bytes, 8);
}
// Of a record in the smallest block that holds it. It fits every larger block too, in whatever form that has.
constexpr size_t record_bytes(size_t key_bytes, size_t value_bytes) {
  const size_t narrow = record_bytes(RecordForm::kNarrow, key_bytes, value_bytes);
  return narrow <= kNarrowBlockBytes ? narrow : record_bytes(RecordForm::kWide, key_bytes, value_bytes);
}

// Ordered accesses to words of shared memory: see the note on the meta word above.
inline uint64_t load_ordered(const std::byte* from) {
  return __atomic_load_n(reinterpret_cast<const uint64_t*>(from), __ATOMIC_ACQUIRE);
}
inline void store_ordered(std::byte* to, uint64_t value) {
  __atomic_store_n(reinterpret_cast<uint64_t*>(to), value, __ATOMIC_RELEASE);
}

// The length of the key. If the record is being written it may be any number of 32 bits.
inline size_t key_bytes_of(RecordForm form, const std::byte* record, uint64_t meta) {
  if (form == RecordForm::kWide) return static_cast<uint32_t>(load_ordered(record + kKeyLengthAt));
  return static_cast<uint32_t>(meta >> 32) & ((1U << kKeyLenBits) - 1);
}

inline Word load_word(const std::byte* record) { return Word(load_ordered(record)); }
inline void store_word(std::byte* record, Word word) { store_ordered(record, word.bits); }
inline bool swap_word(std::byte* record, Word expected, Word desired) {
  return __atomic_compare_exchange_n(reinterpret_cast<uint64_t*>(record), &expected.bits, desired.bits, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

// Replaces the word only if the meta word is `meta` too. The check in it identifies the key: the swap fails on a block
// that was freed and given to another key meanwhile, even if that key's word looks the same.
bool swap_word_with_meta(std::byte* record, Word expected, uint64_t meta, Word desired);

// Writes key and value, then check and lens, then the word. The caller is the only writer of this block.
void record_write(std::byte* record, ByteView key, ByteView value, Word word, RecordForm form = RecordForm::kNarrow);

// The meta word of a complete record with this key, value and version. Read after the word, or in one step with it, it
// proves that the word was this record's too, and that the block still holds it (I4: blocks are reused). For a version
// of a key is in one block, during one interval: a reader that knew it before, and finds it there after it has read the
// word, has read the word within that interval.
uint64_t record_meta_of(RecordForm form, ByteView key, ByteView value, Version version);
// The checksum in it.
uint32_t record_check(RecordForm form, ByteView key, ByteView value, Word word);

enum class RecordStatus : uint8_t { kConsistent, kTorn, kOtherKey };

// Takes a consistent copy of a record that other threads may be writing: its word, its value (at most `value_max` bytes
// of it) and the value's length. On kTorn and kOtherKey look the key up again.
RecordStatus record_read(const std::byte* record, size_t block_bytes, ByteView key, std::byte* value, size_t value_max,
                         Word* word, uint32_t* value_bytes);

// Whether the block holds this key. May be false while another thread installs here: retry then.
bool record_key_is(RecordForm form, const std::byte* record, ByteView key);

// A parsed copy of a record.
struct RecordView {
  Word word;
  ByteView key;
  ByteView value;
};

// Parses `bytes` bytes that a one-sided READ copied from a record, cache line by cache line in any order; false if they
// are not one consistent version. `copy` is 8-byte aligned and may be longer than the record (the READ takes the whole
// block); without `form` it is of the whole block. The views point into it.
bool parse_record_copy(const std::byte* copy, size_t bytes, RecordForm form, RecordView* view);
inline bool parse_record_copy(const std::byte* copy, size_t bytes, RecordView* view) {
  return parse_record_copy(copy, bytes, form_of_block(bytes), view);
}

}  // namespace weft
