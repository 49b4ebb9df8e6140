// One index of a Dlht: its bins and its arena of link buckets, in one block of memory. A Dlht has one index, and two
// while it is being resized. Private to dlht*.cc.
//
// Bins are in hash order: bin = hash * bins / 2^64. An index with g times as many bins therefore spreads bin b over
// its bins g * b .. g * b + g - 1 and no others, for any number of bins.
//
// The arena: links are allocated from the bottom for inserts and from the top for a resize that fills this index, so
// that the resize can never run out (see kept_links). Links that erases free go to two free lists, of single links and
// of pairs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/store/dlht_bin.h"

namespace weft::dlht {

class Index {
 public:
  static constexpr uint64_t kBinsMin = 64;
  static constexpr uint64_t kBinsMax = uint64_t{1} << 34;  // a link's number has 32 bits

  static uint64_t bins_for(uint64_t keys);     // 1.6 keys per bin
  static uint64_t capacity_of(uint64_t bins);  // keys
  static size_t bytes_for(uint64_t bins);
  static uint32_t links_of(uint64_t bins);      // link buckets: numbers 1 .. links_of(bins)
  static uint64_t low_mask_for(uint64_t bins);  // the low bits of a hash that distinguish the hashes of one bin

  // `memory` is zeroed and has bytes_for(bins). `kept_links`: reserved for the resize that fills this index.
  Index(std::byte* memory, uint64_t bins, uint32_t kept_links);
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  std::byte* memory() const { return reinterpret_cast<std::byte*>(bins_); }
  size_t bytes() const { return bytes_for(bin_count_); }
  uint64_t bin_count() const { return bin_count_; }
  uint32_t link_count() const { return link_count_; }
  uint64_t links_used() const;

  uint64_t number_of(uint64_t hash) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((static_cast<Wide>(hash) * bin_count_) >> 64);
  }
  Bin& bin(uint64_t number) const { return bins_[number]; }
  Bin& bin_of(uint64_t hash) const { return bins_[number_of(hash)]; }
  LinkBucket& link(uint32_t number) const { return links_[number]; }

  // The slot may be in a link that the bin had when `links` was read; if it had none, in bucket 0, which no bin uses.
  Slot& slot(Bin& bin, uint64_t links, int i) const {
    if (i < kInlineSlots) return bin.slots[i];
    if (i < kPairFirst) return links_[single_of(links)].slots[i - kSingleFirst];
    const uint32_t pair = pair_of(links);
    const int at = i - kPairFirst;
    return links_[pair == 0 ? 0 : pair + static_cast<uint32_t>(at / kLinkSlots)].slots[at % kLinkSlots];
  }

  // Words: the bits that identify a key in its bin, and masks for comparing. `strict` matches no dead and no frozen
  // word.
  uint64_t low(uint64_t hash) const { return hash & low_mask_; }
  uint64_t strict() const { return low_mask_ | kDead | kFrozen; }
  uint64_t lenient() const { return low_mask_ | kDead; }
  uint64_t next_tag(uint64_t word) const { return ((word | low_mask_) + 1) & ~(low_mask_ | kDead | kFrozen); }
  int tag_bits() const { return 64 - kWordFlagBits - low_bits_; }

  // The smallest hash of a bin; 0 for the bin after the last.
  uint64_t first_hash(uint64_t number) const;
  uint64_t hash_of(uint64_t first, uint64_t word) const { return first + ((word - first) & low_mask_); }

  // Links for inserts: returns the number of one (or of the first of two consecutive ones), or 0 if none is left.
  uint32_t take_single();
  uint32_t take_pair();
  void give_single(uint32_t link) { push(&free_singles_, link); }
  void give_pair(uint32_t link) { push(&free_pairs_, link); }
  // For the resize that fills this index: `count` consecutive links. They were reserved as kept_links.
  uint32_t take_kept(uint32_t count);
  void release_kept();  // when the resize has ended: inserts may use the rest
  // How many links the next index must reserve for all keys of this one.
  uint32_t kept_links() const;

  // State of the resize out of this index.
  std::atomic<Index*> next{nullptr};
  std::atomic<uint64_t> claimed{0};  // bins below it are taken by helpers
  std::atomic<uint64_t> moved{0};    // bins that are moved

 private:
  uint32_t take_low(uint32_t count);
  void push(std::atomic<uint64_t>* list, uint32_t link);
  uint32_t pop(std::atomic<uint64_t>* list);

  Bin* const bins_;
  LinkBucket* const links_;  // number 0 is not used
  const uint64_t bin_count_;
  const uint64_t low_mask_;
  const int low_bits_;
  const uint32_t link_count_;  // numbers 1 .. link_count_

  // Bottom and top of the links never allocated, in one word: | top (32) | bottom (32) |, both the next numbers to
  // allocate; and the end of the bottom's growth while a resize keeps the rest.
  alignas(64) std::atomic<uint64_t> untouched_;
  std::atomic<uint32_t> bottom_end_;
  std::atomic<uint64_t> free_singles_{0};  // | times popped (32) | first link (32) |
  std::atomic<uint64_t> free_pairs_{0};
  std::atomic<int64_t> given_{0};  // links on the free lists
};

}  // namespace weft::dlht
