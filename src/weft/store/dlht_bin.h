// The bytes of a DLHT index: bins, link buckets, the header word and the slot word. dlht.h explains the operations on
// them. Everything here is shared between threads and accessed by atomics only.
//
//   bin (64 bytes)                             link bucket (64 bytes)
//    0        8        16      32      48       0       16      32      48
//   | header | links  | slot 0| slot 1| slot 2| | slot  | slot  | slot  | slot  |
//
//   A bin has slots 0..2 inline, 3..6 in its single link bucket, 7..14 in its pair of link buckets: never more than 15.
//
//   header  63          32 31   30 29                        0
//          | version (32) | state | slot 14 .. slot 0, 2 bits |
//   links   63          32 31          0
//          | pair (32)    | single (32) |   numbers of link buckets, 0 = none; the pair is that bucket and the next
//   slot    word (8) | value (8)
//   word    63     62       61 .. L    L-1 .. 0
//          | dead | frozen | tag      | low bits of the hash |
//
// The bin's number implies the high bits of the hash (bins are in hash order), so a word needs only the low L bits. The
// free bits hold a tag, which is incremented each time the slot is filled. So a word never repeats in a slot (except
// when the tag wraps), and a compare-and-swap of a slot is safe without the header.
#pragma once

#include <sched.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "weft/base/cas128.h"

namespace weft::dlht {

inline constexpr int kInlineSlots = 3;
inline constexpr int kLinkSlots = 4;
inline constexpr int kSingleFirst = kInlineSlots;
inline constexpr int kPairFirst = kInlineSlots + kLinkSlots;
inline constexpr int kBinSlots = kInlineSlots + 3 * kLinkSlots;

struct alignas(16) Slot {
  std::atomic<uint64_t> word;
  std::atomic<uint64_t> value;
};

struct alignas(64) Bin {
  std::atomic<uint64_t> header;
  std::atomic<uint64_t> links;
  Slot slots[kInlineSlots];
};

struct alignas(64) LinkBucket {
  Slot slots[kLinkSlots];
};

static_assert(sizeof(Slot) == 16 && sizeof(Bin) == 64 && sizeof(LinkBucket) == 64);
static_assert(offsetof(Slot, word) == 0 && offsetof(Slot, value) == 8);
static_assert(offsetof(Bin, header) == 0 && offsetof(Bin, links) == 8 && offsetof(Bin, slots) == 16);
static_assert(std::atomic<uint64_t>::is_always_lock_free && sizeof(std::atomic<uint64_t>) == 8);

// ---- Header.

enum SlotState : uint64_t { kEmpty = 0, kTrying = 1, kValid = 2 };

inline constexpr uint64_t kVersionOne = uint64_t{1} << 32;
inline constexpr uint64_t kMoving = uint64_t{1} << 30;  // its keys are being moved to the next index
inline constexpr uint64_t kMoved = uint64_t{2} << 30;   // they are there
inline constexpr uint64_t kStateMask = kMoving | kMoved;
inline constexpr uint64_t kSlotsLow = 0x15555555;  // the lower bit of each slot's state
inline constexpr uint64_t kValidBits = kSlotsLow << 1;
inline constexpr uint64_t kInlineValid = (kValid << 0) | (kValid << 2) | (kValid << 4);
inline constexpr uint64_t kLinkedValid = kValidBits & ~kInlineValid;
inline constexpr uint64_t kSingleBits = uint64_t{0xff} << (2 * kSingleFirst);
inline constexpr uint64_t kPairBits = uint64_t{0xffff} << (2 * kPairFirst);
static_assert(2 * kBinSlots == 30 && (kSingleBits & kPairBits) == 0);
static_assert((kSingleBits | kPairBits | 0x3f) == (uint64_t{1} << 30) - 1);

constexpr bool valid(uint64_t header, int slot) { return (header >> (2 * slot) & 3) == kValid; }
constexpr uint64_t with(SlotState state, int slot) { return state << (2 * slot); }

// The first slot that is neither valid nor being filled, or -1.
constexpr int first_empty(uint64_t header) {
  const uint64_t empty = ~(header | header >> 1) & kSlotsLow;
  return empty == 0 ? -1 : std::countr_zero(empty) / 2;
}

constexpr int count_valid(uint64_t header) { return std::popcount(header & kValidBits); }

// ---- Links.

constexpr uint32_t single_of(uint64_t links) { return static_cast<uint32_t>(links); }
constexpr uint32_t pair_of(uint64_t links) { return static_cast<uint32_t>(links >> 32); }

// ---- Slot word.

inline constexpr uint64_t kDead = uint64_t{1} << 63;    // erased; the header will soon show it too
inline constexpr uint64_t kFrozen = uint64_t{1} << 62;  // its key was moved to the next index
inline constexpr int kWordFlagBits = 2;

inline uint64_t value_of(const Slot& slot) { return slot.value.load(std::memory_order_acquire); }

// Replaces (word, value) by (new_word, new_value) with one 16-byte CAS.
inline bool swap(Slot& slot, uint64_t word, uint64_t value, uint64_t new_word, uint64_t new_value) {
  return cas128(&slot, {word, value}, {new_word, new_value});
}

// One step of waiting for another thread that is moving a bin: soon over, unless it was preempted.
inline void wait_a_little(uint32_t spins) {
  if (spins % 64 == 63) {
    sched_yield();
  } else {
    __builtin_ia32_pause();
  }
}

}  // namespace weft::dlht
