// The keys of an ordered index: where they are, and how they compare.
//
// Integer keys are compared as numbers, byte strings as bytes. A node has 8 bytes of each key; an integer is no longer.
// The rest of a byte string stays in the block of its record, and a key that separates two children of an inner node is
// in a block of its own: that looks like a deleted record, and belongs to the index until it frees it.
//
// A reference to a key is a slot of the table without its partition; in its place is the length of the key, which a
// record that is being written does not tell:
//
//    63        48 47      40 39             0
//   | length     | class    | offset / 16    |      length 0xffff: that or longer, the (wide) block has it
//
// Thread-safety: any thread may call it. What a reference names is the key only as long as a node has the reference: a
// reader that holds no node checks the node's version after it has read the key.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/base/bytes.h"
#include "weft/store/blocks.h"
#include "weft/store/table_space.h"
#include "weft/types.h"

namespace weft {

class OrderKeys {
 public:
  // `usage` is by partition; the blocks of separators count there, without a limit: there is at most one for each
  // dozen keys, and the block area has that and more in addition to the limit (table_space.h).
  OrderKeys(std::byte* base, Blocks* blocks, PartitionUsage* usage, bool integers)
      : base_(base), blocks_(blocks), usage_(usage), integers_(integers) {}

  bool integers() const { return integers_; }
  static constexpr uint64_t ref(uint64_t slot_bits, size_t key_bytes) {
    return (slot_bits & kSlotMask) | (key_bytes < kLong ? key_bytes : kLong) << kLengthShift;
  }
  static constexpr uint64_t slot_bits(uint64_t ref, PartitionId partition) {
    return (ref & kSlotMask) | uint64_t{partition.value} << kLengthShift;
  }

  // 8 bytes of a key that follow the first `skip`, in a form that compares as they do.
  uint64_t prefix(ByteView key, int skip) const;
  uint64_t prefix(uint64_t ref, int skip) const;

  // < 0, 0 or > 0: a key beside that of a reference, or beside its first `bytes` only (then 0: it begins with them).
  int compare(ByteView key, uint64_t ref, size_t bytes = SIZE_MAX) const;
  // How many bytes of their beginning two keys have in common.
  size_t common(ByteView key, uint64_t ref) const;
  size_t common(uint64_t a, uint64_t b) const;
  // Copies the key; `to` has room for kKeyBytesMax.
  size_t copy(uint64_t ref, std::byte* to) const;
  void prefetch_record(uint64_t ref) const {
    const std::byte* const record = base_ + (ref & ((uint64_t{1} << 40) - 1)) * kBlockAlign;
    __builtin_prefetch(record);
    const uint64_t steps = ref >> 40 & 0xff;  // its class: blocks up to 128 bytes have a line or two
    __builtin_prefetch(record + kBlockBytesMin + kBlockAlign * (steps < 6 ? steps : 6) - 1);
  }

  // The shortest key that is above `left` and not above `right`, in a block of its own. 0: no memory.
  uint64_t make_separator(PartitionId partition, uint64_t left, uint64_t right);
  void free_separator(PartitionId partition, uint64_t ref);

 private:
  static constexpr int kLengthShift = 48;
  static constexpr uint64_t kSlotMask = (uint64_t{1} << kLengthShift) - 1;
  static constexpr uint64_t kLong = 0xffff;
  struct Place {
    const std::byte* bytes;  // 8-aligned, and padded to 8
    size_t length;
  };
  Place place(uint64_t ref) const;

  std::byte* const base_;
  Blocks* const blocks_;
  PartitionUsage* const usage_;
  const bool integers_;
};

}  // namespace weft
