// DLHT: a concurrent hash index of 16-byte slots in 64-byte bins with bounded chaining.
//
// Thread-safety: any number of threads may call it at once. A thread that calls anything but create(), the statistics
// and the destructor is one of the `readers` of the options and is online (quiesce.h): between two calls of quiesce()
// it may keep using an index that was replaced. No operation takes a lock; see "Waiting" below.
//
// The index knows keys only by their 64-bit hash. For 8-byte keys the hash is a bijection of the key (hash_u64), so the
// hash identifies the key: use MatchAny. For longer keys several slots can have the same hash; their values refer to
// the keys, and `Match` decides by the value: `bool match(uint64_t value)`. It is called only with values that a slot
// of this hash had during the operation, so what they refer to must stay readable until the caller quiesces.
//
// dlht_bin.h shows the layout. With versions, tags and states every operation takes a few loads and at most three
// atomic instructions:
//
//   get     loads the header, compares the words of its valid slots, loads the value, loads the header again, and
//           retries if it changed. No slot is filled or emptied for another key without a change of the header (the
//           version), so an unchanged header means that word and value belong to one filling of the slot. In that
//           filling the value changes only while the word is live; a key that was erased in between keeps its last
//           value. Takes effect when it loads the value, or just before that erase. On a miss no slot became valid
//           between the two loads of the header, and each was seen without the key, so the key was absent at the
//           second.
//   put     finds the slot as get does, then replaces (word, old value) by (word, new value) with a 16-byte CAS, at
//           which it takes effect. The word has a tag that is new for every filling of the slot, so the CAS fails if
//           the key was erased, the slot reused (even for the same key and value), or the key moved to a new index.
//   erase   finds the slot and replaces (word, value) by (word + dead, value) with a CAS, at which it takes effect; it
//           returns that value. Then it marks the slot empty in the header, so that it can be reused at once. A link
//           bucket that has become empty returns to the arena.
//   insert  searches for the key under one header; reserves an empty slot by changing the header (empty -> trying,
//           version + 1), fills it, and publishes it by changing the header (trying -> valid, version + 1), at which it
//           takes effect. Both changes compare the whole header, so nothing was published since the last search; if a
//           change fails, it searches again. So no key is there twice.
//
// Links are attached before a slot in them is reserved, and detached only by a thread that has reserved all their slots
// in the header. If the header is unchanged since the links were read, they still belonged to the bin. A late CAS on a
// link bucket that now belongs to another bin fails because of its tag.
//
// Resize. When a bin has no slot left (or the arena no link) and the table is at least half full, the inserter links a
// larger index to the current one (`next`). Bins are moved one by one by any thread: inserts and quiesce() move a few
// each. Moving a bin: set its state to moving (from now on no header change of an insert succeeds); CAS each live slot
// to frozen, which fixes its value (from now on no put and no erase succeeds); copy it; set the state to moved.
// Operations reach the next index only through a moved bin, and never skip an index, so no other thread uses the bins
// that are being filled until then, and every key has exactly one slot where changes can take effect. When all bins are
// moved, `next` becomes the current index, and the old one is freed once all readers have quiesced.
//
// Waiting. A get never waits: in a moving bin it reads frozen slots like live ones (the bin was not yet moved when it
// loaded the header again, so nothing newer exists). A put, insert or erase waits if another thread is moving its bin;
// an insert also waits if every slot of its bin is in use and other threads are just filling or emptying some. Only an
// insert into a new index that runs out of links before the old one is moved has to move the remaining bins itself; it
// then waits for the bins that other threads are moving.
//
// A full bin in a table that is less than half full is due to colliding hashes, which no resize can fix: kBinFull.
//
// Wrap-around: a get would go wrong if a header returned to the same value, that is, after 2^32 changes of one bin
// between two of its loads. A put or erase would go wrong if the slot was filled a multiple of 2^tag times (2^4 in the
// smallest table, 2^24 for 100 M keys) between its load and its CAS, the last time with the same key and value, and
// that insert is in the few instructions before its publication.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "weft/status.h"
#include "weft/store/dlht_index.h"
#include "weft/store/quiesce.h"
#include "weft/types.h"

namespace weft {

// The source of an index's memory: extents of a region, or the heap for a raw table. Called rarely (creation, resize,
// reclamation), from any thread. The memory is zeroed and 64-byte aligned.
class IndexMemory {
 public:
  virtual ~IndexMemory() = default;
  virtual std::byte* allocate(size_t bytes) = 0;  // nullptr if the limit does not allow it
  virtual void free(std::byte* memory, size_t bytes) = 0;
  virtual size_t limit() const = 0;
};

struct DlhtOptions {
  uint64_t capacity = 1024;  // keys it is created for
  int readers = 1;           // threads that attach, by index 0 .. readers - 1
  bool resizable = true;
};

enum class InsertCode : uint8_t { kInserted, kExists, kBinFull, kNoMemory };

struct InsertResult {
  InsertCode code;
  uint64_t value;  // kExists: the existing value
};

struct MatchAny {
  constexpr bool operator()(uint64_t) const { return true; }
};

enum class DlhtOp : uint8_t { kGet, kPut, kInsert, kErase };

struct DlhtRequest {  // of the batch API, for integer keys
  DlhtOp op;
  bool ok = false;  // found, replaced, inserted, erased
  InsertCode insert = InsertCode::kInserted;
  uint64_t key;    // for the caller; ignored
  uint64_t hash;   // hash_u64(key)
  uint64_t value;  // in: put, insert; out: get, erase
};

struct DlhtStats {
  uint64_t size = 0;
  uint64_t bins = 0;
  uint64_t links = 0;       // link buckets in the arena
  uint64_t links_used = 0;  // of them, attached to bins
  size_t bytes = 0;         // of all indexes that are not freed yet
  uint64_t resizes = 0;     // begun
  bool resizing = false;
};

class Dlht {
 public:
  // Reader 0 .. readers - 1 are online from the start. Errors: kBadOption, kNoMemory.
  static Result<std::unique_ptr<Dlht>> create(const DlhtOptions& options, IndexMemory* memory);
  // How much memory create() takes.
  static size_t bytes_for(uint64_t capacity);
  ~Dlht();
  Dlht(const Dlht&) = delete;
  Dlht& operator=(const Dlht&) = delete;

  template <class Match>
  bool get(uint64_t hash, Match match, uint64_t* value) const;

  // Replaces the value of an existing key and returns the old one.
  template <class Match>
  bool put(uint64_t hash, Match match, uint64_t value, uint64_t* old);
  // Replaces old_value by new_value if a slot of this hash has it.
  bool compare_put(uint64_t hash, uint64_t old_value, uint64_t new_value);

  template <class Match>
  InsertResult insert(uint64_t hash, Match match, uint64_t value);

  template <class Match>
  bool erase(uint64_t hash, Match match, uint64_t* old);

  // For callers with their own batches: prefetch the bins of all keys first, then the links of those that have any.
  void prefetch(uint64_t hash) const { __builtin_prefetch(&current()->bin_of(hash)); }
  void prefetch_links(uint64_t hash) const;
  // The value of the key with this hash if it is in its bin itself, and nothing is being moved; 0: use get().
  uint64_t find_inline(uint64_t hash) const;

  // Executes the requests in order, with their memory accesses overlapped: prefetches their bins, then their links. A
  // batch of 24 does well; a longer one does better, because its stages overlap.
  void run(std::span<DlhtRequest> requests);

  // One step of a walk: visits the keys of one bin, by hash and value, and returns the next cursor. Start with 0; the
  // walk is over when it returns 0. The cursor is a position in hash order, which a resize does not change: every key
  // that is present throughout the walk is visited exactly once; one that is inserted or erased meanwhile, at most once
  // each time it is present.
  template <class Visit>  // visit(uint64_t hash, uint64_t value)
  uint64_t scan(uint64_t cursor, Visit visit) const;

  // Readers call this regularly, between operations. It also does a little of a resize in progress, and frees what may
  // be freed.
  void quiesce(int reader);
  void offline(int reader) { quiescence_.offline(reader); }  // until the next quiesce()
  Quiescence& quiescence() { return quiescence_; }           // for other memory that its readers use

  // Moves up to `bins` bins if a resize is in progress; false if none is.
  bool help_resize(uint64_t bins);

  // For peers that read bins by one-sided READs: where the bins are now, and how many. A resize moves them; a READ at
  // an old address finds nothing, or a value that refers to no record of its key.
  struct Bins {
    const std::byte* at;
    uint64_t count;
  };
  Bins bins() const;
  // The number of the hash's bin in an index with that many bins.
  static uint64_t bin_number(uint64_t hash, uint64_t bins);
  // In a copy of that bin, the value of an inline slot that has this hash, or 0. 0 does not prove absence: the key may
  // be in a link bucket, or elsewhere by now.
  static uint64_t find_in_bin_copy(const std::byte* bin, uint64_t hash, uint64_t bins);
  // The same for its slots in link buckets: which buckets to read, and in their copies (those that were not read are
  // not looked at) the value. They may belong to another bin by then: what the value refers to has to show its key.
  struct LinkedSlots {
    uint32_t single = 0, pair = 0;  // link buckets with a key; 0: none
    uint16_t valid = 0;             // slots of the bin that have a key
    explicit operator bool() const { return single != 0 || pair != 0; }
  };
  static constexpr size_t kSingleBytes = 64, kPairBytes = 128;
  static LinkedSlots linked_slots(const std::byte* bin, uint64_t bins);
  static uint64_t link_offset(uint64_t bins, uint32_t link) { return 64 * (bins + link); }  // in the index
  static uint64_t find_in_link_copies(const std::byte* single, const std::byte* pair, const LinkedSlots& of,
                                      uint64_t hash, uint64_t bins);

  uint64_t size() const;  // exact while nobody inserts or erases
  DlhtStats stats() const;

 private:
  using Bin = dlht::Bin;
  using Slot = dlht::Slot;
  using Index = dlht::Index;
  static constexpr uint64_t kHelpInsert = 16;  // bins that an insert moves during a resize
  static constexpr uint64_t kHelpQuiesce = 64;
  static constexpr size_t kCounters = 32;

  enum class Lookup : uint8_t { kFound, kAbsent, kChanged };
  struct Found {
    Slot* slot;
    int number;
    uint64_t word;
    uint64_t value;
  };
  struct Entry {
    uint64_t hash;
    uint64_t value;
  };
  struct Snapshot {
    std::array<Entry, dlht::kBinSlots> entries;
    size_t count = 0;
    uint64_t next = 0;
  };
  struct BinRef {  // a bin that can be changed, its index, and the header that was read
    Index* index;
    Bin* bin;
    uint64_t header;
  };
  struct alignas(64) Counter {
    std::atomic<int64_t> keys{0};
  };
  struct Retired {
    Index* index;
    uint64_t ticket;
  };

  Dlht(const DlhtOptions& options, IndexMemory* memory, Index* index);

  Index* current() const { return current_.load(std::memory_order_acquire); }
  void count(int64_t change);

  static uint64_t inline_hits(const Bin& bin, uint64_t header, uint64_t want, uint64_t mask);
  template <class Match>
  static Lookup find(const Index& index, Bin& bin, uint64_t header, uint64_t hash, uint64_t mask, Match& match,
                     Found* found);
  template <class Match>
  bool get_slowly(const Index* index, uint64_t hash, Match& match, uint64_t* value) const;
  template <class Match>
  bool find_live(uint64_t hash, Match& match, BinRef* ref, Found* found);
  template <class Match>
  Lookup publish(const BinRef& ref, int number, uint64_t hash, Match& match, uint64_t value, Found* found);
  Snapshot snapshot(uint64_t cursor) const;
  void run_gets(std::span<DlhtRequest> requests) const;
  void run_one(DlhtRequest& request);

  BinRef writable(uint64_t hash) const;
  bool attach(const BinRef& ref, int number);
  void detach(Index& index, Bin& bin);
  void detach(Index& index, Bin& bin, uint64_t slots);
  // Called when a bin has no room. kInserted: retry.
  InsertCode make_room(const BinRef& ref, uint64_t hash, bool links_out);

  static bool full(const BinRef& ref);
  bool half_full(const Index& index) const;
  bool begin_resize(Index& index);
  void move_bin(Index& from, uint64_t number);
  static void move_keys(Index& from, Index& to, uint64_t number, uint64_t header);
  void finish_resize(Index& from);
  void switch_to_next(Index& from);
  void reclaim();
  void drop(Index* index);

  alignas(64) std::atomic<Index*> current_;
  IndexMemory* const memory_;
  const bool resizable_;
  Quiescence quiescence_;
  std::unique_ptr<Counter[]> counters_;

  std::mutex mutex_;  // for growing and freeing below; never taken by an operation that has room
  std::vector<Retired> retired_;
  std::atomic<size_t> retired_count_{0};
  std::atomic<size_t> bytes_{0};
  std::atomic<uint64_t> resizes_{0};
};

}  // namespace weft

#include "weft/store/dlht_ops.h"  // IWYU pragma: export
