#include "weft/store/dlht_index.h"

#include <algorithm>
#include <bit>

#include "weft/base/check.h"

namespace weft::dlht {
namespace {

__extension__ using Wide = unsigned __int128;

// A table for N keys has 5N/8 bins, 1.6 keys in each. Freshly filled (Poisson), one bin in 13 has more than three keys.
// After long churn more bins have a link, about one in six: a key inserted when the bin had three others stays in the
// link when they are erased, and keeps the link. So there is one link for four bins. In total 50 bytes per key.
uint32_t links_for(uint64_t bins) { return static_cast<uint32_t>(bins / 4 + 16); }

// The low bits of a hash that distinguish the hashes of one bin: a bin covers at most ceil(2^64 / bins) consecutive
// ones.
int low_bits_for(uint64_t bins) {
  const uint64_t widest = ~uint64_t{0} / bins + 1;
  return static_cast<int>(std::bit_width(widest - 1));
}

}  // namespace

uint64_t Index::bins_for(uint64_t keys) { return std::max(kBinsMin, (keys * 5 + 7) / 8); }
uint64_t Index::capacity_of(uint64_t bins) { return bins * 8 / 5; }
size_t Index::bytes_for(uint64_t bins) { return 64 * (bins + 1 + links_for(bins)); }
uint32_t Index::links_of(uint64_t bins) { return links_for(bins); }
uint64_t Index::low_mask_for(uint64_t bins) { return (uint64_t{1} << low_bits_for(bins)) - 1; }

// The memory is zeroed, which is the state of empty bins; constructing objects one by one would only touch every page.
Index::Index(std::byte* memory, uint64_t bins, uint32_t kept_links)
    : bins_(reinterpret_cast<Bin*>(memory)),
      links_(reinterpret_cast<LinkBucket*>(memory + 64 * bins)),
      bin_count_(bins),
      low_mask_(low_mask_for(bins)),
      low_bits_(low_bits_for(bins)),
      link_count_(links_for(bins)),
      untouched_(uint64_t{link_count_} << 32 | 1),
      bottom_end_(link_count_ - kept_links) {
  WEFT_CHECK(bins >= kBinsMin && bins <= kBinsMax, "number of bins");
  WEFT_CHECK(reinterpret_cast<uintptr_t>(memory) % 64 == 0, "an index is aligned to a cache line");
  WEFT_CHECK(kept_links <= link_count_, "an index is too small for the one it replaces");
  WEFT_CHECK(tag_bits() >= 4, "a slot's tag has four bits at least");
}

uint64_t Index::first_hash(uint64_t number) const {
  if (number == bin_count_) return 0;
  return static_cast<uint64_t>(((static_cast<Wide>(number) << 64) + bin_count_ - 1) / bin_count_);
}

// An upper bound of the links that the keys of a bin need in the next index, where they end up in several bins. 15 keys
// in three links can become 8 and 7 in four; 11 keys in a pair without a single (which was detached while the pair was
// attached) can become 8 and 3 in three. So three for every two are enough.
uint32_t Index::kept_links() const { return link_count_ + link_count_ / 2 + 2; }

uint64_t Index::links_used() const {
  const uint64_t untouched = untouched_.load(std::memory_order_relaxed);
  const int64_t taken = int64_t{link_count_} -
                        ((static_cast<int64_t>(untouched >> 32)) - static_cast<int64_t>(untouched & 0xffffffffU) + 1);
  return static_cast<uint64_t>(std::max<int64_t>(0, taken - given_.load(std::memory_order_relaxed)));
}

uint32_t Index::take_low(uint32_t count) {
  uint64_t old = untouched_.load(std::memory_order_relaxed);
  for (;;) {
    const uint64_t bottom = old & 0xffffffffU;
    const uint64_t end = std::min<uint64_t>(bottom_end_.load(std::memory_order_acquire), old >> 32);
    if (bottom + count > end + 1) return 0;
    if (untouched_.compare_exchange_weak(old, old + count, std::memory_order_acq_rel)) {
      return static_cast<uint32_t>(bottom);
    }
  }
}

uint32_t Index::take_kept(uint32_t count) {
  uint64_t old = untouched_.load(std::memory_order_relaxed);
  for (;;) {
    WEFT_CHECK((old >> 32) + 1 >= (old & 0xffffffffU) + count, "links for a resize are kept");
    if (untouched_.compare_exchange_weak(old, old - (uint64_t{count} << 32), std::memory_order_acq_rel)) {
      return static_cast<uint32_t>(old >> 32) + 1 - count;
    }
  }
}

void Index::release_kept() { bottom_end_.store(link_count_, std::memory_order_release); }

uint32_t Index::take_single() {
  if (const uint32_t link = pop(&free_singles_)) return given_.fetch_sub(1, std::memory_order_relaxed), link;
  if (const uint32_t link = take_low(1)) return link;
  const uint32_t pair = pop(&free_pairs_);
  if (pair == 0) return 0;
  given_.fetch_sub(2, std::memory_order_relaxed);
  give_single(pair + 1);
  return pair;
}

uint32_t Index::take_pair() {
  if (const uint32_t link = pop(&free_pairs_)) return given_.fetch_sub(2, std::memory_order_relaxed), link;
  return take_low(2);
}

// A free link's first slot is dead (or was never used), so nobody reads its value: it holds the next link.
void Index::push(std::atomic<uint64_t>* list, uint32_t link) {
  given_.fetch_add(list == &free_pairs_ ? 2 : 1, std::memory_order_relaxed);
  uint64_t old = list->load(std::memory_order_acquire);
  do {
    links_[link].slots[0].value.store(old & 0xffffffffU, std::memory_order_release);
  } while (!list->compare_exchange_weak(old, (old & ~uint64_t{0xffffffffU}) | link, std::memory_order_acq_rel));
}

uint32_t Index::pop(std::atomic<uint64_t>* list) {
  uint64_t old = list->load(std::memory_order_acquire);
  for (;;) {
    const uint32_t link = static_cast<uint32_t>(old);
    if (link == 0) return 0;
    const uint64_t rest = links_[link].slots[0].value.load(std::memory_order_acquire) & 0xffffffffU;
    const uint64_t popped = ((old >> 32) + 1) << 32;
    if (list->compare_exchange_weak(old, popped | rest, std::memory_order_acq_rel)) return link;
  }
}

}  // namespace weft::dlht
