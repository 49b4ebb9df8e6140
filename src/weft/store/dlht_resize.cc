// Resize of a Dlht: when one begins, how a bin is moved, and how it ends. dlht.h explains why this is safe.
#include <algorithm>
#include <memory>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/store/dlht.h"

namespace weft {
namespace {

// Small indexes grow by a large factor, because they will soon be too small again; large ones by a small factor, to
// save memory.
constexpr uint64_t kGrowEightfoldBelow = 4 << 20;  // bytes
constexpr uint64_t kGrowFourfoldBelow = 256 << 20;
// Below this many bins the arena of an index twice the size has too few links for those kept for the resize.
constexpr uint64_t kDoubleFromBins = 1024;

uint64_t growth(size_t bytes) { return bytes < kGrowEightfoldBelow ? 8 : bytes < kGrowFourfoldBelow ? 4 : 2; }

}  // namespace

bool Dlht::half_full(const Index& index) const { return size() * 2 >= Index::capacity_of(index.bin_count()); }

// Whether all 15 slots of the bin hold keys. Waits for slots that other threads are just filling or emptying: they may
// become free. False: there is room, or the bin is being moved.
bool Dlht::full(const BinRef& ref) {
  for (uint32_t spins = 0;; ++spins) {
    const uint64_t header = ref.bin->header.load(std::memory_order_acquire);
    if ((header & dlht::kStateMask) != 0 || dlht::first_empty(header) >= 0) return false;
    const uint64_t links = ref.bin->links.load(std::memory_order_acquire);
    int live = 0;
    for (int i = 0; i < dlht::kBinSlots; ++i) {
      const uint64_t word = ref.index->slot(*ref.bin, links, i).word.load(std::memory_order_acquire);
      live += dlht::valid(header, i) && (word & dlht::kDead) == 0;
    }
    if (live == dlht::kBinSlots && ref.bin->header.load(std::memory_order_acquire) == header) return true;
    dlht::wait_a_little(spins);
  }
}

InsertCode Dlht::make_room(const BinRef& ref, uint64_t hash, bool links_out) {
  if (!links_out && !full(ref)) return InsertCode::kInserted;
  Index& index = *ref.index;
  if (index.next.load(std::memory_order_acquire) == nullptr) {
    // The newest index: the current one, or the one that a resize is filling. The latter keeps links for the rest of
    // the resize, so when links run out there may be some again once it has ended.
    Index* const current_index = current();
    const bool filling = current_index != &index;
    if (filling && links_out) {
      WEFT_MARK_OUTSIDE("dlht_resize_finished_by_insert");
      if (current_index->next.load(std::memory_order_acquire) == &index) finish_resize(*current_index);
      return InsertCode::kInserted;
    }
    if (!half_full(index)) return InsertCode::kBinFull;
    if (!resizable_) return InsertCode::kNoMemory;
    if (filling) {
      if (current_index->next.load(std::memory_order_acquire) == &index) finish_resize(*current_index);
      return InsertCode::kInserted;
    }
    if (!begin_resize(index)) return InsertCode::kNoMemory;
  }
  move_bin(index, index.number_of(hash));
  return InsertCode::kInserted;
}

bool Dlht::begin_resize(Index& index) {
  const std::lock_guard lock(mutex_);
  if (index.next.load(std::memory_order_acquire) != nullptr || current() != &index) return true;
  const uint64_t least = index.bin_count() < kDoubleFromBins ? 4 : 2;
  for (uint64_t factor = std::max(least, growth(index.bytes())); factor >= least; factor /= 2) {
    const uint64_t bins = index.bin_count() * factor;
    if (bins > Index::kBinsMax) continue;
    std::byte* const memory = memory_->allocate(Index::bytes_for(bins));
    if (memory == nullptr) continue;
    auto next = std::make_unique<Index>(memory, bins, index.kept_links());
    bytes_.fetch_add(next->bytes(), std::memory_order_relaxed);
    resizes_.fetch_add(1, std::memory_order_relaxed);
    index.next.store(next.release(), std::memory_order_release);
    return true;
  }
  WEFT_MARK_OUTSIDE("dlht_resize_no_memory");
  return false;
}

bool Dlht::help_resize(uint64_t bins) {
  Index& from = *current();
  if (from.next.load(std::memory_order_acquire) == nullptr) return false;
  if (from.claimed.load(std::memory_order_relaxed) < from.bin_count()) {
    const uint64_t first = from.claimed.fetch_add(bins, std::memory_order_relaxed);
    const uint64_t end = std::min(first + bins, from.bin_count());
    for (uint64_t number = first; number < end; ++number) move_bin(from, number);
  }
  return true;
}

// Moves all bins that no thread has taken, then waits for the rest.
void Dlht::finish_resize(Index& from) {
  for (uint64_t number = 0; number < from.bin_count(); ++number) move_bin(from, number);
  for (uint32_t spins = 0; current() == &from; ++spins) dlht::wait_a_little(spins);
}

// The thread that sets the state to moving moves the bin; for others this does nothing.
void Dlht::move_bin(Index& from, uint64_t number) {
  Bin& bin = from.bin(number);
  if ((bin.header.load(std::memory_order_relaxed) & dlht::kStateMask) != 0) return;
  const uint64_t header = bin.header.fetch_or(dlht::kMoving, std::memory_order_acq_rel);
  if ((header & dlht::kStateMask) != 0) return;
  move_keys(from, *from.next.load(std::memory_order_acquire), number, header);
  bin.header.fetch_add(dlht::kMoved - dlht::kMoving, std::memory_order_acq_rel);
  if (from.moved.fetch_add(1, std::memory_order_acq_rel) + 1 == from.bin_count()) switch_to_next(from);
}

// Only this thread uses the bins of `to` until this bin is moved, so plain loads and stores would do.
void Dlht::move_keys(Index& from, Index& to, uint64_t number, uint64_t header) {
  if ((header & dlht::kValidBits) == 0) return;
  Bin& bin = from.bin(number);
  const uint64_t links = bin.links.load(std::memory_order_acquire);
  const uint64_t first = from.first_hash(number);
  for (uint64_t rest = header & dlht::kValidBits; rest != 0; rest &= rest - 1) {
    Slot& slot = from.slot(bin, links, std::countr_zero(rest) / 2);
    uint64_t word;
    uint64_t value;
    do {
      value = dlht::value_of(slot);
      word = slot.word.load(std::memory_order_acquire);
    } while ((word & dlht::kDead) == 0 && !dlht::swap(slot, word, value, word | dlht::kFrozen, value));
    if ((word & dlht::kDead) != 0) continue;  // erased, and the header is about to show it

    const uint64_t hash = from.hash_of(first, word);
    Bin& child = to.bin_of(hash);
    const uint64_t child_header = child.header.load(std::memory_order_relaxed);
    const int at = dlht::count_valid(child_header);
    uint64_t child_links = child.links.load(std::memory_order_relaxed);
    if (at == dlht::kSingleFirst) child_links |= to.take_kept(1);
    if (at == dlht::kPairFirst) child_links |= uint64_t{to.take_kept(2)} << 32;
    child.links.store(child_links, std::memory_order_relaxed);
    Slot& copy = to.slot(child, child_links, at);
    copy.value.store(value, std::memory_order_release);
    copy.word.store(to.low(hash) | to.next_tag(0), std::memory_order_release);
    child.header.store(child_header + dlht::with(dlht::kValid, at), std::memory_order_release);
  }
}

void Dlht::switch_to_next(Index& from) {
  Index* const next = from.next.load(std::memory_order_acquire);
  next->release_kept();
  const std::lock_guard lock(mutex_);
  WEFT_CHECK(current() == &from, "a resize ends once, in its turn");
  current_.store(next, std::memory_order_seq_cst);
  retired_.push_back({&from, quiescence_.mark()});
  retired_count_.store(retired_.size(), std::memory_order_relaxed);
}

}  // namespace weft
