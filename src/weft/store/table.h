// Table: one node's part of a transactional table: the records of every partition it holds, in one index (DLHT) of
// records that are out of line in a region, plus one array of absence words per partition.
//
// It knows records, versions and locks, not transactions, rows or the network. Operations of different workers do not
// block each other, except that a reader of a record that is being installed retries.
//
// Absence has a version: each (partition, hash of the key) has an absence word. Inserting or deleting a key locks its
// absence word too; a delete sets it to the version of the delete, an insert leaves it unchanged. So a read that found
// nothing returns the absence word's version and is validated like any other, and a key's versions never repeat (I5):
//   A1: an insert follows the absence word (base = its version), which does not change from the lock to the commit, so
//       the new record's version is above every version at which the key was seen absent.
//   A2: a delete follows both (base = the greater of the record's version and the absence word's) and sets the word to
//       its version, so absence is then above every version at which the key was seen present.
//   A3: puts only increase the version from the insert's on, and the word never decreases.
// An insert need not bump the word: the record itself is above it, and a bump would cause needless conflicts for
// readers of other keys. Keys that share an absence word can cause each other false conflicts, never wrong results.
// Several keys of one transaction may share one: table_absence.cc.
//
// Versions: lock() returns the *base*: the version that the new one must follow. The transaction's new version of that
// key is base + 1, the same at all replicas.
//
// The life of a key at a primary, or at any replica of a row that locks all replicas:
//   lock -> commit (installs, unlocks) | unlock (nothing happened)
// and at a backup of a row that replicates:
//   apply (installs unreadable, returns the old version and value for the undo log) -> mark_readable
// There a delete is a tombstone in the index until it is marked readable, and only then the absence word follows: by
// then all keys of its transaction have been applied here, so nobody sees another key of it absent at a version that it
// will have.
//
// The index has one slot per key. It knows keys by their 64-bit hash, which for integers is as good as the key; the
// full key is always compared in the record. The slot value is
//
//    63         48 47      40 39                     0
//   | partition   | class    | offset / 16            |
//
// so that a one-sided READ of the slot tells where the record is and how long its block is, and a walk of one partition
// touches no other's records. (A tag of hash bits would add nothing to what the slot has.)
//
// An ordered table keeps its keys in order too, in an index beside this one that has what this one has
// (table_order.cc).
//
// Thread-safety: any worker may call any operation, but the operations on one key are ordered: by its lock at a primary
// (only the lock's owner calls commit, unlock and relock), and by the primary's lock at a backup (apply, but not
// apply_late_put, which comes late). A reader may race with anything.
//
// Batching: hashed(), then prefetch_index() for all keys of a batch, then prefetch_record() for all, then the
// operations.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/bugs.h"
#include "weft/base/bytes.h"
#include "weft/base/hash.h"
#include "weft/base/inline.h"
#include "weft/fabric/local_atomics.h"
#include "weft/fabric/region.h"
#include "weft/options.h"
#include "weft/status.h"
#include "weft/store/dlht.h"
#include "weft/store/record.h"
#include "weft/store/table_space.h"
#include "weft/types.h"

namespace weft {

inline constexpr uint32_t kRedisSlots = 16384;
uint32_t redis_slot(ByteView key);  // CRC16 of the key, or of its {tag}

enum class Write : uint8_t { kNone, kPut, kInsert, kErase };  // kPut replaces or inserts; kNone: locked for reading
constexpr bool installs(Write write) { return write == Write::kPut || write == Write::kInsert; }

struct TableOptions {
  TableSpec spec;
  int partitions = 1;       // of the cluster
  int partitions_held = 1;  // by this node: sizes the index and the region; 0: it only knows keys and limits
  uint64_t hash_seed = 0;
  int workers = 1;        // of this node
  bool checksums = true;  // see Table::set_checksums
  PlantedBugs bugs;       // test only
  // Test only: called between reading an absence word and searching the index.
  void (*looking)(void* context) = nullptr;
  void* looking_context = nullptr;
  uint32_t order_nodes_max = 0;  // test only: of an ordered table, in place of what it needs at most
};

// A slot value of the index; 0 is none.
struct RecordSlot {
  uint64_t bits = 0;
  constexpr RecordSlot() = default;
  constexpr explicit RecordSlot(uint64_t b) : bits(b) {}
  constexpr RecordSlot(PartitionId partition, int block_class, uint64_t offset)
      : bits(uint64_t{partition.value} << 48 | static_cast<uint64_t>(block_class) << 40 | offset / kBlockAlign) {}
  constexpr uint64_t offset() const { return (bits & ((uint64_t{1} << 40) - 1)) * kBlockAlign; }
  constexpr int block_class() const { return static_cast<int>(bits >> 40 & 0xff); }
  constexpr size_t bytes() const { return block_bytes(block_class()); }
  constexpr RecordForm form() const {
    return block_class() <= kNarrowClassMax ? RecordForm::kNarrow : RecordForm::kWide;
  }
  constexpr PartitionId partition() const { return PartitionId(static_cast<uint16_t>(bits >> 48)); }
  constexpr explicit operator bool() const { return bits != 0; }
  friend constexpr bool operator==(RecordSlot, RecordSlot) = default;
};
static_assert(sizeof(RecordSlot) == 8);

// A key with its hash and partition: computed once per key and node.
struct HashedKey {
  ByteView bytes;  // an integer key is its 8 bytes, little endian
  uint64_t hash = 0;
  PartitionId partition;
  mutable RecordSlot hint;  // where prefetch_record found it: saves the next index lookup, but may be stale
};

// What a lock holds at this replica; passed to commit() or unlock(). Plain data, kept in the participant's record.
struct Locked {
  RecordSlot record;        // none: locked for reading, and absent
  RecordSlot larger_block;  // allocated for a value that does not fit the record's block
  uint32_t absence = 0;     // index of the absence word + 1, 0: not locked
  bool fresh = false;       // the record was made by this lock (it is in the index, marked deleted, until committed)
  Version base;
};

struct LockResult {
  Code code = Code::kOk;  // kOk, kLocked, kVersionMoved, kNotFound, kExists, kTableFull, kBinFull, kVersionLimit
  Owner holder;           // kLocked: the owner
  Version replaced;       // of the existing record
  Locked locked;
};

struct ReadResult {
  bool found = false;
  // The record's word. If there is no record, the absence word; readable then says whether a backup may serve the
  // absence: it is clear (and deleted is set) while there is a tombstone not marked readable yet. The owner is that of
  // a record being inserted or deleted, if there is one.
  Word word;
  uint32_t value_bytes = 0;
  // The record exists, but a new version was being installed the whole time: by a peer's one-sided WRITEs, which are
  // slow and may never finish if it dies. `word` names the owner; nothing else is valid.
  bool torn = false;
};

// Where a table's index is in its region, for peers that search it by one-sided READs.
struct RemoteIndexAddress {
  uint64_t offset = 0;
  uint64_t bins = 0;  // 0: not known
  friend constexpr bool operator==(const RemoteIndexAddress&, const RemoteIndexAddress&) = default;
};

// When a write that a backup applies becomes readable.
enum class Visibility : uint8_t { kWhenMarked, kImmediate };

struct Undo {
  bool existed = false;
  Version version;           // of the record, or of absence, before
  uint32_t value_bytes = 0;  // the old value is in the buffer given to apply()
};

class OrderedIndex;
class OrderedScan;

class Table {
 public:
  static Result<std::unique_ptr<Table>> create(const TableOptions& options, Region* region);
  // The size of the region that create() needs.
  static size_t region_bytes(const TableOptions& options);
  ~Table();

  const TableSpec& spec() const { return spec_; }
  bool integer_keys() const { return integer_keys_; }

  // The result is the same at every node.
  [[gnu::always_inline]] HashedKey hashed(ByteView key) const {
    if (!plain_) return hashed_otherwise(key);
    const uint64_t hash = hash_u64(load<uint64_t>(key.data()), seed_);
    return {key, hash, PartitionId(static_cast<uint16_t>(reduce_low(hash, partitions_))), {}};
  }
  // The same, written to where it stays: building it elsewhere and copying it stalls a processor that has just stored
  // its parts.
  [[gnu::always_inline]] void hash_to(ByteView key, HashedKey* to) const {
    if (!plain_) [[unlikely]] {
      *to = hashed_otherwise(key);
      return;
    }
    const uint64_t hash = hash_u64(load<uint64_t>(key.data()), seed_);
    to->bytes = key;
    to->hash = hash;
    to->partition = PartitionId(static_cast<uint16_t>(reduce_low(hash, partitions_)));
    to->hint = RecordSlot();
  }
  void prefetch_index(uint64_t hash) const { index_->prefetch(hash); }
  // Searches the (prefetched) bin, prefetches the record, and keeps where it is in key.hint.
  WEFT_INLINE void prefetch_record(const HashedKey& key) const {
    if (!key.hint) {
      key.hint = RecordSlot(index_->find_inline(key.hash));
      if (!key.hint) [[unlikely]]
        return prefetch_otherwise(key);
    }
    prefetch_slot(key.hint);
  }
  void prefetch_slot(RecordSlot slot) const {
    const std::byte* const record = at(slot);
    __builtin_prefetch(record);
    if (slot.block_class() <= block_class_of(64)) [[likely]]
      return;
    const size_t bytes = slot.bytes();
    for (size_t i = 64; i < bytes && i < 256; i += 64) __builtin_prefetch(record + i);
  }

  // Copies the value (at most `value_max` bytes) of the newest consistent version, also of a locked or unreadable
  // record: the word says so, and the caller decides. A deleted record counts as absent.
  ReadResult read(const HashedKey& key, std::byte* value, size_t value_max) const;

  // Whether the key is still at version `expected` and not locked by another owner than `self`: kOk, kLocked,
  // kVersionMoved.
  Code validate(const HashedKey& key, Version expected, Owner self, Owner* holder) const;
  // Whether the key is at this version, and a single read would be answered here: not write-locked, and readable unless
  // this is its primary.
  bool is_newest(const HashedKey& key, Version expected, bool primary) const;

  // Locks the key for `owner`, without waiting. `expected`: the version that was read, if any. A write reserves all the
  // space that its commit needs, so that commit() cannot fail. For Write::kNone the word is marked read-locked.
  LockResult lock(const HashedKey& key, Owner owner, Write write, std::optional<Version> expected,
                  uint32_t value_bytes);
  // Changes what a lock is for, once more is known (lock-while-reading: first kPut with no value, then the real write).
  // Returns kOk or an error of lock(), in which case the lock is unchanged.
  Code relock(const HashedKey& key, Owner owner, Write write, uint32_t value_bytes, Locked* locked);

  // Installs the write at base + 1 and unlocks. Write::kNone only unlocks.
  void commit(const HashedKey& key, Owner owner, Write write, ByteView value, const Locked& locked);
  void unlock(const HashedKey& key, Owner owner, const Locked& locked);

  // The usual case of these (table_in_place.h).
  bool read_in_place(const HashedKey& key, std::byte* value, size_t value_max, Word* word, uint32_t* value_bytes) const;
  bool lock_in_place(const HashedKey& key, Owner owner, Version expected, uint32_t value_bytes, Locked* locked);
  bool commit_in_place(const HashedKey& key, Owner owner, ByteView value, const Locked& locked);
  bool apply_in_place(const HashedKey& key, ByteView value, Version version, std::byte* old, Visibility visibility,
                      Undo* undo);

  // At a backup: installs the write at `version`, unreadable, over any older version, and copies the old value to
  // `undo` (which must have room for spec().value_bytes_max). Never fails: backups keep headroom over what the primary
  // admits. An erase leaves an unreadable tombstone. Visibility::kImmediate: a put is readable at once, for rows in
  // which nobody reads from backups.
  Undo apply(const HashedKey& key, Write write, ByteView value, Version version, std::byte* undo,
             Visibility visibility = Visibility::kWhenMarked) {
    return apply(key, write, value, version, undo, visibility, false);
  }
  // The same where late puts of other workers may come at any time (apply_late_put), since no primary's lock excludes
  // them.
  Undo apply_unordered(const HashedKey& key, Write write, ByteView value, Version version, std::byte* undo);
  // Makes `version` readable; a tombstone of that version is removed. Does nothing if the record has another version by
  // now.
  void mark_readable(const HashedKey& key, Version version);

  // Undoes apply(), if the record is still at that version. For recovery, while nobody reads.
  void undo(const HashedKey& key, Version version, const Undo& undo, ByteView old_value);

  // For a replica that is catching up (txn/state_transfer.h): installs a write at a version, readable, unless the
  // record is newer; a delete stays as a tombstone until purge_tombstones() of its partition. By any worker, in any
  // order. `scratch` is like `undo` of apply.
  void install_if_newer(const HashedKey& key, Write write, ByteView value, Version version, std::byte* scratch);
  // Installs a late put, readable, over an older version of the record (a backup that lags, txn/participant.h). The
  // record existed when the put was logged; if it is gone, a delete came first, and it stays deleted.
  void apply_late_put(const HashedKey& key, ByteView value, Version version, std::byte* scratch);
  // Removes the tombstones of these partitions, in `bins` bins from the cursor on. Returns the next cursor, 0 at the
  // end. While nobody writes.
  uint64_t purge_tombstones(const std::vector<bool>& partitions, uint64_t cursor, int bins);
  // Removes these partitions with their records and tombstones, in `bins` bins from the cursor on. Returns the next
  // cursor, 0 at the end. Nobody reads or writes them, and none of their keys is locked; other partitions may be in
  // use. Their blocks are freed for reuse.
  uint64_t drop_partitions(const std::vector<bool>& partitions, uint64_t cursor, int bins);
  // Resets `words` of their absence words from `first` on.
  void drop_absence(PartitionId partition, uint32_t first, uint32_t words);
  // Counts the index slots of a partition, whatever they refer to, and the absence words that are not zero: for the
  // checks after a run.
  uint64_t leftovers(PartitionId partition) const;
  // Visits records of a partition from the cursor on, and returns the next cursor (0 at the end): records committed
  // before the call and not visited now are visited from there. Stops after `bytes` or `bins`.
  using Copy = std::function<void(ByteView key, ByteView value, Version version)>;
  uint64_t export_records(PartitionId partition, uint64_t cursor, size_t bytes, int bins, std::byte* value,
                          const Copy& copy) const;
  // The same for one bin, from the cursor to its end. A record that a peer's verbs are just writing has no value, nor
  // has one that is being inserted: it may be committed before it is unlocked. A tombstone is not visited, but
  // reported: at a backup, the delete may still be undone.
  // Of a value, the first `value_max` bytes.
  uint64_t export_bin(PartitionId partition, uint64_t cursor, std::byte* value, size_t value_max, const Copy& copy,
                      bool* met_tombstone) const;
  uint32_t absence_words() const { return absence_per_partition_; }
  Version absence_version(PartitionId partition, uint32_t index) const;
  void bump_absence_version(PartitionId partition, uint32_t index, Version version);

  // For peers that reach the table by one-sided verbs (table_remote.cc). What they read can prove that a record exists,
  // never that it does not.
  RecordSlot locate(const HashedKey& key) const;  // none: absent, or being moved
  RemoteIndexAddress index_address() const;
  // Whether records have checksums: those need them that peers read or write by verbs (record.h). While nobody uses the
  // table.
  void set_checksums(bool on);
  static uint64_t bin_offset(const RemoteIndexAddress& index, uint64_t hash) {
    return index.offset + Dlht::bin_number(hash, index.bins) * 64;
  }
  static RecordSlot find_in_bin_copy(const std::byte* bin, const RemoteIndexAddress& index, uint64_t hash) {
    return RecordSlot(Dlht::find_in_bin_copy(bin, hash, index.bins));
  }
  static uint64_t link_offset(const RemoteIndexAddress& index, uint32_t link) {
    return index.offset + Dlht::link_offset(index.bins, link);
  }
  // For recovery of a key that a peer has locked by a verb: installs the value at `version` and unlocks, if the lock is
  // still held. If not, the peer has done so itself, and other transactions may have written since.
  void recovery_commit(const HashedKey& key, Owner owner, ByteView value, Version version);
  // Unlocks all records that are still locked, once every transaction is decided and applied, in chunks (of 1 MiB) of
  // the memory that was ever used for records, by any worker. Nothing records which words a dead peer has locked.
  uint64_t lock_chunks() const { return blocks_.chunks(); }
  void release_orphaned_locks(uint64_t chunk);

  // From now on `words` changes the words of records where a peer's CAS may race with the change (table_remote.cc);
  // nullptr: the CPU does. `region` is the table's. Call it while nobody uses the table.
  void set_local_atomics(LocalAtomics* words, RegionId region) {
    local_atomics_ = words;
    region_ = region;
    usual_ = is_usual();
  }

  // Of an ordered table; OrderedScan (ordered_scan.h) visits it in order.
  bool ordered() const { return order_ != nullptr; }
  const OrderedIndex& order() const { return *order_; }
  // Of an ordered table: how its keys compare, as <0, 0 or >0, and whether all keys from `from` on and below `to` have
  // the prefix, or the tag, of `from`, and so its partition.
  int compare(ByteView a, ByteView b) const;
  bool share_prefix(ByteView from, ByteView to) const;
  // How many records of the partition were erased at this node, of an ordered table. It is raised before a scan can
  // miss the record. A scan that sees the same keys and versions as an earlier one has missed nothing that came and
  // went only if this was the same before the first and after the second.
  uint64_t erases(PartitionId partition) const { return usage_[partition.value].erases(); }

  // Per worker: between two calls of quiesce the worker may keep using an old index; a worker that sleeps must be
  // offline, and must not access the table then.
  void quiesce(WorkerId worker);
  void offline(WorkerId worker);

  // Visits every record that is present (not deleted) at some time during the walk; consistent only while nobody
  // writes. The callback gets key, value and word.
  using Visitor = void (*)(void* context, ByteView key, ByteView value, Word word);
  void visit(Visitor visitor, void* context) const;
  // The same in steps: from the cursor on (0 at first), until that many bins, or bytes of values, are visited. Returns
  // the next cursor, 0 at the end. Others may write between two calls.
  uint64_t visit_some(uint64_t cursor, int bins, size_t bytes, Visitor visitor, void* context) const;
  // The number of locked words (records and absence), unreadable records, and tombstones: for the checks after a run.
  struct LeakReport {
    uint64_t locked = 0, unreadable = 0, tombstones = 0;
  };
  LeakReport leak_report() const;
  // The same for some bins, added to `out`; and for an absence word.
  uint64_t leak_report_some(uint64_t cursor, int bins, LeakReport* out) const;
  bool absence_locked(PartitionId partition, uint32_t index) const;

  uint64_t records() const;  // present ones
  uint64_t records(PartitionId partition) const { return usage_[partition.value].records(); }
  // Neither records nor tombstones.
  bool is_empty(PartitionId partition) const {
    return records(partition) == 0 && !usage_[partition.value].has_blocks();
  }
  uint64_t records_max() const { return records_limit_; }  // of a partition
  uint64_t memory_bytes() const;                           // committed: index, blocks, absence words
  uint64_t memory_bytes_max() const { return memory_bytes_max_; }
  Word absence(const HashedKey& key) const;

  // Names the limit behind kTableFull or kBinFull, and its value.
  std::string limit_text(Code code) const;

 private:
  friend class OrderedScan;
  struct SharedAbsence {
    uint32_t index;
    uint32_t holders;
    Version version;
  };
  struct KeyMatch;  // the index's Match for byte-string keys

  Table(const TableOptions& options, Region* region, const TableLayout& layout);

  HashedKey hashed_otherwise(ByteView key) const;
  uint64_t hash_of(ByteView key) const {
    return integer_keys_ ? hash_u64(load<uint64_t>(key.data()), seed_) : hash_bytes(key.data(), key.size(), seed_);
  }

  void prefetch_otherwise(const HashedKey& key) const;
  void read_otherwise(const HashedKey& key, std::byte* value, size_t value_max, ReadResult* result) const;
  // table_in_place.h
  bool is_usual() const { return integer_keys_ && !checksums_ && local_atomics_ == nullptr && bugs_.mask == 0; }
  bool at_hint(const HashedKey& key, Word* word, uint64_t* meta) const;
  void install_in_place(const HashedKey& key, ByteView value, Word word) const;

  // table_inline.h: the index and the blocks.
  std::byte* at(RecordSlot slot) const { return base_ + slot.offset(); }
  RecordSlot find(const HashedKey& key) const;
  RecordSlot first_lookup(const HashedKey& key) const;
  // Writes a record. `key_is_there`: its block has the key already.
  void write_record(RecordSlot slot, const HashedKey& key, ByteView value, Word word,
                    bool key_is_there) const;  // the hint if it holds, else find
  bool key_is(RecordSlot slot, const HashedKey& key) const;
  // Copies the key of the record, as long as it is one of its block; `to` has room for kKeyBytesMax.
  std::optional<size_t> copy_key(RecordSlot slot, std::byte* to) const;
  InsertCode add_slot(const HashedKey& key, RecordSlot slot);
  void remove_slot(const HashedKey& key, RecordSlot slot);
  RecordSlot allocate(const HashedKey& key, uint32_t value_bytes, uint64_t limit);
  void release(RecordSlot slot);
  bool fits(RecordSlot slot, const HashedKey& key, size_t value_bytes) const;
  PartitionUsage& usage(const HashedKey& key) { return usage_[key.partition.value]; }

  // table_order.cc
  void make_order(const TableOptions& options, const TableLayout& layout);
  InsertCode add_to_order(const HashedKey& key, RecordSlot slot);
  void remove_from_order(PartitionId partition, ByteView key, RecordSlot slot);
  void drop_from_order(RecordSlot slot);
  void count_erase(PartitionId partition) {
    if (order_ != nullptr) usage_[partition.value].count_erase();
  }

  size_t copy_record(RecordSlot slot, std::byte* value, size_t value_max, const Copy& copy, bool* met_tombstone) const;

  // table_absence.cc
  uint32_t absence_index(const HashedKey& key) const;
  std::byte* absence_at(uint32_t index) const { return absence_ + size_t{index} * sizeof(uint64_t); }
  bool read_absence(const HashedKey& key, Word* word) const;
  Word word_of(const HashedKey& key) const;
  bool take_absence(uint32_t index, Owner owner, bool for_reading, Word* found);
  void release_absence(uint32_t index, Version version);
  void mark_absence(uint32_t index, bool for_reading);
  void bump_absence_version(uint32_t index, Version version);

  // Changes of words that a peer's CAS may meet (table_remote.cc says which).
  bool swap(RecordSlot slot, Word expected, Word desired);
  bool mark_moved(RecordSlot slot, Word word);
  bool cas_through_wire(RecordSlot slot, Word expected, Word desired);

  // table_lock.cc. On false look the key up again.
  bool lock_present(const HashedKey& key, RecordSlot slot, Owner owner, Write write, std::optional<Version> expected,
                    uint32_t value_bytes, LockResult* result);
  bool lock_absent(const HashedKey& key, Owner owner, Write write, std::optional<Version> expected,
                   uint32_t value_bytes, LockResult* result);
  Code make_fresh(const HashedKey& key, Owner owner, uint32_t value_bytes, Locked* locked);
  Code reserve(const HashedKey& key, Owner owner, Write write, uint32_t value_bytes, Locked* locked, Owner* holder);
  bool version_ok(std::optional<Version> expected, Version found) const;

  // table_apply.cc. On false look the key up again.
  void install_erase(const HashedKey& key, const Locked& locked);
  void replace(const HashedKey& key, RecordSlot old_slot, RecordSlot new_slot, ByteView value, Word word);
  Undo apply(const HashedKey& key, Write write, ByteView value, Version version, std::byte* undo, Visibility visibility,
             bool catching_up);
  bool apply_absent(const HashedKey& key, Write write, ByteView value, Version version, Visibility visibility,
                    bool catching_up, Undo* undo);
  bool apply_present(const HashedKey& key, RecordSlot slot, Write write, ByteView value, Version version,
                     Visibility visibility, std::byte* old_value, Undo* undo);

  IndexExtents extents_;  // outlives the index
  // What the hot path reads.
  std::byte* const base_;
  std::byte* const absence_;
  std::unique_ptr<Dlht> index_;
  const uint64_t seed_;
  const uint32_t partitions_;
  const uint32_t absence_per_partition_;
  const bool integer_keys_;
  bool checksums_;
  const bool plain_;  // integer keys, partitioned by hash
  bool usual_;        // is_usual(), kept in a line that every operation reads
  const PlantedBugs bugs_;
  void (*const looking_)(void*);
  void* const looking_context_;
  LocalAtomics* local_atomics_ = nullptr;
  RegionId region_;
  const uint64_t records_limit_;
  const uint64_t bytes_limit_;
  const uint64_t memory_bytes_max_;
  Blocks blocks_;
  std::unique_ptr<PartitionUsage[]> usage_;  // by partition
  std::unique_ptr<OrderedIndex> order_;      // nullptr: the table is not ordered

  const TableSpec spec_;
  const int partitions_held_;
  // Held by install_if_newer, apply_late_put and apply_unordered: no primary's lock orders writes to a replica that is
  // catching up, or late writes.
  std::mutex catch_up_mutex_;
  std::mutex shared_mutex_;
  std::vector<SharedAbsence> shared_;  // absence words held by several keys of one transaction; almost always empty
};

}  // namespace weft
