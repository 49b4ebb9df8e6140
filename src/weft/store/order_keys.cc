#include "weft/store/order_keys.h"

#include <algorithm>
#include <array>
#include <bit>

#include "weft/store/table.h"

namespace weft {
namespace {

constexpr uint64_t big_endian(uint64_t word) { return __builtin_bswap64(word); }

// Up to 8 bytes as a number, the first one highest; what is missing counts as zeros.
uint64_t number_of(const std::byte* from, size_t bytes) {
  if (bytes >= 8) return big_endian(load<uint64_t>(from));
  uint64_t word = 0;
  if (bytes != 0) std::memcpy(&word, from, bytes);
  return big_endian(word);
}

// Equal bytes at the beginning of two words, of which the first byte is the lowest.
size_t equal_bytes(uint64_t a, uint64_t b) { return a == b ? 8 : static_cast<size_t>(std::countr_zero(a ^ b)) / 8; }

}  // namespace

OrderKeys::Place OrderKeys::place(uint64_t ref) const {
  const RecordSlot slot(ref & kSlotMask);
  const std::byte* const block = base_ + slot.offset();
  size_t length = ref >> kLengthShift;
  if (length == kLong) length = static_cast<uint32_t>(load_ordered(block + kKeyLengthAt));
  return {block + key_at(slot.form()), std::min(length, slot.bytes() - key_at(slot.form()))};
}

uint64_t OrderKeys::prefix(ByteView key, int skip) const {
  if (integers_) return load<uint64_t>(key.data());
  const auto from = static_cast<size_t>(skip);
  return key.size() <= from ? 0 : number_of(key.data() + from, key.size() - from);
}

uint64_t OrderKeys::prefix(uint64_t ref, int skip) const {
  const Place key = place(ref);
  const auto from = static_cast<size_t>(skip);
  if (key.length <= from) return 0;
  std::array<std::byte, 16> window{};
  const size_t aligned = from / 8 * 8;
  copy_from_shared(window.data(), key.bytes + aligned, std::min(key.length - aligned, window.size()));
  return number_of(window.data() + (from - aligned), std::min<size_t>(key.length - from, 8));
}

int OrderKeys::compare(ByteView key, uint64_t ref, size_t bytes) const {
  const Place other = place(ref);
  const size_t wanted = std::min(other.length, bytes);
  const size_t both = std::min(wanted, key.size());
  for (size_t i = 0; i < both; i += 8) {
    const size_t here = std::min<size_t>(8, both - i);
    const uint64_t ours = number_of(key.data() + i, here);
    uint64_t theirs = big_endian(load_shared(other.bytes + i));
    if (here < 8) theirs &= ~uint64_t{0} << (64 - here * 8);
    if (ours != theirs) return ours < theirs ? -1 : 1;
  }
  if (key.size() < wanted) return -1;
  return key.size() > wanted && wanted < bytes ? 1 : 0;
}

size_t OrderKeys::common(ByteView key, uint64_t ref) const {
  const Place other = place(ref);
  const size_t both = std::min(key.size(), other.length);
  for (size_t i = 0; i < both; i += 8) {
    uint64_t ours = 0;
    std::memcpy(&ours, key.data() + i, std::min<size_t>(8, both - i));
    const size_t equal = equal_bytes(ours, load_shared(other.bytes + i));
    if (equal < 8) return std::min(both, i + equal);
  }
  return both;
}

size_t OrderKeys::common(uint64_t a, uint64_t b) const {
  const Place one = place(a);
  const Place other = place(b);
  const size_t both = std::min(one.length, other.length);
  for (size_t i = 0; i < both; i += 8) {
    const size_t equal = equal_bytes(load_shared(one.bytes + i), load_shared(other.bytes + i));
    if (equal < 8) return std::min(both, i + equal);
  }
  return both;
}

size_t OrderKeys::copy(uint64_t ref, std::byte* to) const {
  const Place key = place(ref);
  const size_t bytes = std::min<size_t>(key.length, kKeyBytesMax);
  copy_from_shared(to, key.bytes, bytes);
  return bytes;
}

uint64_t OrderKeys::make_separator(PartitionId partition, uint64_t left, uint64_t right) {
  std::array<std::byte, kKeyBytesMax> key;
  const size_t bytes = std::min(common(left, right) + 1, copy(right, key.data()));
  const int block_class = block_class_of(record_bytes(bytes, 0));
  PartitionUsage& usage = usage_[partition.value];
  usage.add_block(block_class, PartitionUsage::kNoLimit);
  const uint64_t offset = blocks_->allocate(block_class);
  if (offset == 0) {
    usage.remove_block(block_class);
    return 0;
  }
  const RecordSlot slot(PartitionId(0), block_class, offset);
  record_write(base_ + offset, ByteView(key.data(), bytes), ByteView(), Word(Version(0), kDeleted), slot.form());
  return ref(slot.bits, bytes);
}

void OrderKeys::free_separator(PartitionId partition, uint64_t ref) {
  if (integers_) return;
  const RecordSlot slot(ref & kSlotMask);
  usage_[partition.value].remove_block(slot.block_class());
  blocks_->free(slot.offset(), slot.block_class());
}

}  // namespace weft
