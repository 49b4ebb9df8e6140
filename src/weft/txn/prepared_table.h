// What a participant keeps of other nodes' transactions (and of this node's, which take the same path): for each
// coordinating slot one PreparedTxn with the keys it locked and the keys it applied, from the first commit message
// until the coordinator says that all participants have acknowledged (rule K4).
//
// PreparedKeys hold copies of keys and values: the new values of a lock that carries them (redo), the old ones of an
// applied write (undo). Only the owning worker touches them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <span>

#include "weft/base/bytes.h"
#include "weft/base/inline.h"
#include "weft/store/table.h"
#include "weft/txn/messages.h"
#include "weft/txn/pool.h"
#include "weft/types.h"

namespace weft {

// Values of tables with at most this size are copied directly to where they stay: read into the transaction, or written
// beside the new value of an applied write. Larger ones go through a scratch buffer.
inline constexpr uint32_t kSmallValue = 256;

// One key as a message names it. It points into the message; a PreparedKey points into its PreparedKeys.
struct KeyRef {
  HashedKey key;
  Table* table = nullptr;
  ByteView value;     // the new value, if it came
  Version version;    // the version that was read, or in replication the new one
  uint32_t room = 0;  // size of the new value, whether it came or not
  uint32_t predecessor_delta = 0;
  TableId table_id;
  uint16_t index = 0;  // of the key in the transaction
  Write write = Write::kNone;
  uint8_t flags = 0;  // KeyFlags

  bool has(KeyFlags flag) const { return (flags & flag) != 0; }
};
static_assert(sizeof(KeyRef) == 88);

// One key of a PreparedTxn.
struct PreparedKey : KeyRef {
  PreparedKey() {}
  explicit PreparedKey(const KeyRef& ref) : KeyRef(ref) {}
  // Its bytes have moved by this much.
  PreparedKey(const KeyRef& ref, ptrdiff_t moved) : KeyRef(ref) {
    key.bytes = {key.bytes.data() + moved, key.bytes.size()};
    value = {value.data() + moved, value.size()};
  }

  bool locked_to_write = false;  // for a put or an insert, whose value may come later
  bool deferred_apply = false;   // at a replica that is catching up, or deferred: installed when the transaction is
                                 // finished
  bool late_put = false;         // deferred at a backup that had the record then
  bool applied = false;  // at a backup: the table has the new version, unreadable; undo and old_value have the old one
  const std::byte* old_value = nullptr;  // applied: what it replaced, undo.value_bytes long
  union {
    Locked locked{};  // if the key is in PreparedTxn::locked
    Undo undo;        // if it was applied
  };
};
static_assert(sizeof(PreparedKey) == 136);

// The key with this index in its transaction, of keys that are in the order of their indexes, as those of a message
// are; nullptr if there is none.
template <class K>
const K* find_index(std::span<const K> keys, uint16_t index) {
  const auto at = std::lower_bound(keys.begin(), keys.end(), index, [](const K& k, uint16_t i) { return k.index < i; });
  return at != keys.end() && at->index == index ? &*at : nullptr;
}

// The keys of one message: a block that holds this header, the array of PreparedKey, and their bytes.
struct PreparedKeys {
  PreparedKeys* next;
  uint32_t block_bytes;  // of the whole block
  uint32_t keys;
  std::span<PreparedKey> all() { return {reinterpret_cast<PreparedKey*>(this + 1), keys}; }
  std::span<const PreparedKey> all() const { return {reinterpret_cast<const PreparedKey*>(this + 1), keys}; }
};
static_assert(sizeof(PreparedKeys) % 8 == 0);

enum PreparedState : uint8_t {
  kLocked = 1,
  kReplicated = 2,
  kCommitted = 4,
};

struct PreparedTxn {
  uint64_t sequence = 0;
  NodeSet participants;
  uint32_t incarnation = 0;
  uint8_t state = 0;         // PreparedState bits; 0: no record
  bool ends_quietly = true;  // nothing is to be done with its keys when it is finished
  bool unanimous = false;    // all locks together commit it
  bool in_progress =
      false;  // a large message about it is handled over several steps (piece_receiver.h): no other may be
  uint16_t writes = 0;
  bool ended = false;  // test only (PlantedBug::kForgetsDecisions): an earlier recovery has applied what it decided
  PreparedKeys* locked = nullptr;
  PreparedKeys* applied = nullptr;  // at a backup; at a primary of a row that replicates there, deferred until unlock
  const PreparedKeys* decided =
      nullptr;  // while recovery commits it: the keys of the decision, which this record does not own
  // The finished mark (rule K4): the last transaction of this slot that is finished here, and how it ended.
  uint64_t finished = 0;              // sequence
  uint32_t finished_incarnation = 0;  // of the coordinator
  bool finished_commit = false;
  // The slot's last transaction was aborted here, but perhaps not everywhere it was locked (rows that commit by
  // unanimity): others could still commit what is left of it without this node. 0: none.
  uint64_t aborted_here = 0;

  // The record becomes this transaction's, if it is not yet. A transaction of the slot that was refused here has left
  // its participants and its number of writes: recovery must not take them for this one's.
  void begin(uint32_t of, uint64_t transaction) {
    incarnation = of;
    sequence = transaction;
    if (state != 0) return;
    participants = {};
    unanimous = false;
    writes = 0;
    ends_quietly = true;
  }
  bool is(uint32_t of, uint64_t transaction) const {
    return state != 0 && incarnation == of && sequence == transaction;
  }
  // Whether its coordinator can have finished it: what it locked here is unlocked.
  bool may_be_finished() const {
    return (state & kCommitted) != 0 || (locked == nullptr && (state & kReplicated) != 0);
  }
  // Whether the transaction with this sequence, which has no record here, was here and is finished. Sequences are
  // compared whole: a slot that only reads for a long time leaves its finished mark behind by more than 32 bits can
  // order.
  bool was_finished(uint32_t of, uint64_t transaction) const {
    return finished != 0 && finished_incarnation == of && finished >= transaction;
  }
  // Whether key `index` was locked or applied here.
  bool covers(uint16_t index) const;
  // Whether key `index` was locked here by a verb.
  bool locked_by_verb(uint16_t index) const;
  // The new value of key `index`, if this record has it.
  const PreparedKey* find_value(uint16_t index) const;
};

class PreparedTable {
 public:
  PreparedTable(int nodes, int slots, Pool* pool)
      : slots_(slots),
        pool_(pool),
        records_(pool->make_array<PreparedTxn>(static_cast<size_t>(nodes) * static_cast<size_t>(slots))) {}

  PreparedTxn& at(NodeId coordinator, uint8_t slot) {
    return records_[size_t{coordinator.value} * static_cast<size_t>(slots_) + slot];
  }
  const PreparedTxn& at(NodeId coordinator, uint8_t slot) const {
    return records_[size_t{coordinator.value} * static_cast<size_t>(slots_) + slot];
  }
  int slots() const { return slots_; }
  template <class F>  // f(const PreparedTxn&)
  void for_each(F f) const {
    for (const PreparedTxn& record : records_) f(record);
  }

  // Makes a block with room for `keys` keys and `bytes` bytes of keys and values; `*bytes_at` is where these go.
  PreparedKeys* make_part(uint32_t keys, size_t bytes, std::byte** bytes_at);
  // A block that belongs to no record yet, and the room that is left in it.
  struct NewPart {
    PreparedKeys* keys;
    std::span<std::byte> room;
  };
  // Makes a block with the keys that one message names, at least one: copies their keys and values.
  NewPart make_part(std::span<const KeyRef> keys);
  // The same for keys from anywhere.
  NewPart gather_part(std::span<const KeyRef> keys);
  void drop_parts(PreparedKeys* part) {
    while (part != nullptr) {
      PreparedKeys* next = part->next;
      pool_->free_block(reinterpret_cast<std::byte*>(part), part->block_bytes);
      part = next;
    }
  }
  void drop(PreparedTxn& record, bool committed) {
    if (record.locked != nullptr) drop_parts(record.locked);
    if (record.applied != nullptr) drop_parts(record.applied);
    record.locked = record.applied = nullptr;
    record.state = 0;
    record.ended = record.in_progress = false;
    record.aborted_here = 0;
    record.finished = record.sequence;
    record.finished_incarnation = record.incarnation;
    record.finished_commit = committed;
  }
  // Forgets everything of a coordinator that is gone.
  void forget(NodeId coordinator);

  size_t open_records() const;

 private:
  PreparedKeys* allocate(uint32_t keys, size_t bytes, std::byte** bytes_at);

  const int slots_;
  Pool* const pool_;
  const std::span<PreparedTxn> records_;
};

// The caller constructs the keys.
WEFT_INLINE inline PreparedKeys* PreparedTable::allocate(uint32_t keys, size_t bytes, std::byte** bytes_at) {
  const size_t fixed = sizeof(PreparedKeys) + keys * sizeof(PreparedKey);
  const size_t room = Pool::room(fixed + bytes);
  auto* part = reinterpret_cast<PreparedKeys*>(pool_->allocate_block(room));
  *part = {nullptr, static_cast<uint32_t>(room), keys};
  *bytes_at = reinterpret_cast<std::byte*>(part) + fixed;
  return part;
}

WEFT_INLINE inline PreparedTable::NewPart PreparedTable::make_part(std::span<const KeyRef> keys) {
  const std::byte* const from = keys.front().key.bytes.data();
  const ByteView last = keys.back().value;
  const auto bytes = static_cast<size_t>(last.data() + padded(last.size()) - from);
  std::byte* at;
  PreparedKeys* part = allocate(static_cast<uint32_t>(keys.size()), bytes, &at);
  copy_words(at, from, bytes);
  PreparedKey* key = part->all().data();
  for (const KeyRef& ref : keys) new (key++) PreparedKey(ref, at - from);
  return {part, {at + bytes, reinterpret_cast<std::byte*>(part) + part->block_bytes}};
}

}  // namespace weft
