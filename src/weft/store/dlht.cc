#include "weft/store/dlht.h"

#include <algorithm>
#include <string>

#include "weft/base/bytes.h"
#include "weft/base/check.h"
#include "weft/base/hash.h"
#include "weft/base/marks.h"

namespace weft {

size_t Dlht::bytes_for(uint64_t capacity) { return Index::bytes_for(Index::bins_for(capacity)); }

Result<std::unique_ptr<Dlht>> Dlht::create(const DlhtOptions& options, IndexMemory* memory) {
  constexpr uint64_t kCapacityMax = Index::kBinsMax;
  if (options.capacity > kCapacityMax) {
    return Error{Code::kBadOption, "an index for " + std::to_string(options.capacity) + " keys: the limit is " +
                                       std::to_string(kCapacityMax)};
  }
  if (options.readers < 1) return Error{Code::kBadOption, "an index has one reader at least"};
  const uint64_t bins = Index::bins_for(options.capacity);
  const size_t bytes = Index::bytes_for(bins);
  std::byte* const bytes_at = memory->allocate(bytes);
  if (bytes_at == nullptr) {
    return Error{Code::kNoMemory, "an index for " + std::to_string(options.capacity) + " keys takes " +
                                      std::to_string(bytes) + " bytes: the limit is " +
                                      std::to_string(memory->limit())};
  }
  return std::unique_ptr<Dlht>(new Dlht(options, memory, new Index(bytes_at, bins, 0)));
}

Dlht::Dlht(const DlhtOptions& options, IndexMemory* memory, Index* index)
    : current_(index),
      memory_(memory),
      resizable_(options.resizable),
      quiescence_(options.readers),
      counters_(new Counter[kCounters]),
      bytes_(index->bytes()) {}

Dlht::~Dlht() {
  for (const Retired& retired : retired_) drop(retired.index);
  Index* const index = current();
  if (Index* const next = index->next.load()) drop(next);
  drop(index);
}

// Threads count on different cache lines, so that they do not contend. The address of its thread-local data selects a
// thread's line; two that share a line are slower, not wrong.
void Dlht::count(int64_t change) {
  static thread_local char here;
  const uint64_t line = mix64(reinterpret_cast<uintptr_t>(&here)) % kCounters;
  counters_[line].keys.fetch_add(change, std::memory_order_relaxed);
}

uint64_t Dlht::size() const {
  int64_t keys = 0;
  for (size_t i = 0; i < kCounters; ++i) keys += counters_[i].keys.load(std::memory_order_relaxed);
  return static_cast<uint64_t>(std::max<int64_t>(0, keys));
}

Dlht::Bins Dlht::bins() const {
  const Index* const index = current();
  return {index->memory(), index->bin_count()};
}

uint64_t Dlht::bin_number(uint64_t hash, uint64_t bins) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(hash) * bins) >> 64);
}

namespace {

// In copies of consecutive slots, the first of which is the bin's number `first`.
uint64_t find_in_slot_copies(const std::byte* slots, int first, int count, uint64_t valid, uint64_t hash,
                             uint64_t low_mask) {
  for (int i = 0; i < count; ++i) {
    if ((valid >> (first + i) & 1) == 0) continue;
    const std::byte* const slot = slots + static_cast<size_t>(i) * sizeof(dlht::Slot);
    const auto word = load<uint64_t>(slot + offsetof(dlht::Slot, word));
    if ((word & (low_mask | dlht::kDead)) != (hash & low_mask)) continue;
    return load<uint64_t>(slot + offsetof(dlht::Slot, value));
  }
  return 0;
}

// Bit i: slot i has a key.
uint64_t valid_slots(uint64_t header) {
  uint64_t out = 0;
  for (int i = 0; i < dlht::kBinSlots; ++i) out |= uint64_t{dlht::valid(header, i)} << i;
  return out;
}

}  // namespace

uint64_t Dlht::find_in_bin_copy(const std::byte* bin, uint64_t hash, uint64_t bins) {
  const auto header = load<uint64_t>(bin + offsetof(Bin, header));
  if ((header & dlht::kMoved) != 0) return 0;
  return find_in_slot_copies(bin + offsetof(Bin, slots), 0, dlht::kInlineSlots, valid_slots(header), hash,
                             Index::low_mask_for(bins));
}

Dlht::LinkedSlots Dlht::linked_slots(const std::byte* bin, uint64_t bins) {
  const auto header = load<uint64_t>(bin + offsetof(Bin, header));
  const auto links = load<uint64_t>(bin + offsetof(Bin, links));
  if ((header & dlht::kMoved) != 0) return {};
  const uint64_t most = Index::links_of(bins);
  const uint64_t single = dlht::single_of(links), pair = dlht::pair_of(links);
  LinkedSlots out;
  out.valid = static_cast<uint16_t>(valid_slots(header));
  if ((header & dlht::kSingleBits & dlht::kValidBits) != 0 && single <= most) out.single = dlht::single_of(links);
  if ((header & dlht::kPairBits & dlht::kValidBits) != 0 && pair + 1 <= most) out.pair = dlht::pair_of(links);
  return out;
}

uint64_t Dlht::find_in_link_copies(const std::byte* single, const std::byte* pair, const LinkedSlots& of, uint64_t hash,
                                   uint64_t bins) {
  const uint64_t low_mask = Index::low_mask_for(bins);
  uint64_t found = 0;
  if (of.single != 0) {
    found = find_in_slot_copies(single, dlht::kSingleFirst, dlht::kLinkSlots, of.valid, hash, low_mask);
  }
  if (found != 0 || of.pair == 0) return found;
  return find_in_slot_copies(pair, dlht::kPairFirst, 2 * dlht::kLinkSlots, of.valid, hash, low_mask);
}

DlhtStats Dlht::stats() const {
  const Index* const index = current();
  return {.size = size(),
          .bins = index->bin_count(),
          .links = index->link_count(),
          .links_used = index->links_used(),
          .bytes = bytes_.load(std::memory_order_relaxed),
          .resizes = resizes_.load(std::memory_order_relaxed),
          .resizing = index->next.load(std::memory_order_relaxed) != nullptr};
}

// ---- Batches.

void Dlht::prefetch_links(uint64_t hash) const {
  const Index* const index = current();
  const Bin& bin = index->bin_of(hash);
  const uint64_t header = bin.header.load(std::memory_order_relaxed);
  if ((header & dlht::kLinkedValid) == 0) [[likely]]
    return;
  const uint64_t links = bin.links.load(std::memory_order_relaxed);
  __builtin_prefetch(&index->link(dlht::single_of(links)));
  if ((header & dlht::kPairBits & dlht::kValidBits) == 0 || dlht::pair_of(links) == 0) return;
  __builtin_prefetch(&index->link(dlht::pair_of(links)));
  __builtin_prefetch(&index->link(dlht::pair_of(links) + 1));
}

namespace {

// The number of requests between two stages of a batch. A core cannot have more cache misses outstanding, and the first
// lines could be evicted again.
constexpr size_t kAhead = 24;

// Runs three stages over n requests, each kAhead requests behind the previous one: a short batch passes them one after
// the other, a long one keeps all three busy, so that memory is never idle.
template <class First, class Second, class Third>
void in_stages(size_t n, First first, Second second, Third third) {
  if (n <= kAhead) {
    for (size_t i = 0; i < n; ++i) first(i);
    for (size_t i = 0; i < n; ++i) second(i);
    for (size_t i = 0; i < n; ++i) third(i);
    return;
  }
  for (size_t i = 0; i < n + 2 * kAhead; ++i) {
    if (i < n) first(i);
    if (i - kAhead < n) second(i - kAhead);  // false while i < kAhead: unsigned
    if (i - 2 * kAhead < n) third(i - 2 * kAhead);
  }
}

}  // namespace

void Dlht::run(std::span<DlhtRequest> requests) {
  const bool gets_only =
      std::all_of(requests.begin(), requests.end(), [](const DlhtRequest& r) { return r.op == DlhtOp::kGet; });
  if (gets_only) return run_gets(requests);
  in_stages(
      requests.size(), [&](size_t i) { prefetch(requests[i].hash); },
      [&](size_t i) { prefetch_links(requests[i].hash); }, [&](size_t i) { run_one(requests[i]); });
}

void Dlht::run_one(DlhtRequest& request) {
  uint64_t old;
  switch (request.op) {
    case DlhtOp::kGet:
      request.ok = get(request.hash, MatchAny(), &request.value);
      return;
    case DlhtOp::kPut:
      request.ok = put(request.hash, MatchAny(), request.value, &old);
      return;
    case DlhtOp::kInsert:
      request.insert = insert(request.hash, MatchAny(), request.value).code;
      request.ok = request.insert == InsertCode::kInserted;
      return;
    case DlhtOp::kErase:
      request.ok = erase(request.hash, MatchAny(), &request.value);
      return;
  }
}

// Gets need no order among themselves, so those whose keys are in the bin itself finish in the second stage, and only
// the others wait for their links.
void Dlht::run_gets(std::span<DlhtRequest> requests) const {
  static_assert(kAhead <= 64, "one bit for each request between the second and the third stage");
  const Index* const index = current();
  const uint64_t mask = index->strict();
  uint64_t later = 0;
  in_stages(
      requests.size(), [&](size_t i) { __builtin_prefetch(&index->bin_of(requests[i].hash)); },
      [&](size_t i) {
        DlhtRequest& request = requests[i];
        const Bin& bin = index->bin_of(request.hash);
        const uint64_t header = bin.header.load(std::memory_order_acquire);
        const uint64_t hits = inline_hits(bin, header, index->low(request.hash), mask);
        if (hits != 0 && (header & dlht::kStateMask) == 0) [[likely]] {
          request.value = dlht::value_of(bin.slots[std::countr_zero(hits) / 2]);
          request.ok = true;
          if (bin.header.load(std::memory_order_acquire) == header) [[likely]]
            return;
        }
        prefetch_links(request.hash);
        later |= uint64_t{1} << (i % 64);
      },
      [&](size_t i) {
        if ((later >> (i % 64) & 1) == 0) [[likely]]
          return;
        later &= ~(uint64_t{1} << (i % 64));
        requests[i].ok = get(requests[i].hash, MatchAny(), &requests[i].value);
      });
}

// ---- Walking.

Dlht::Snapshot Dlht::snapshot(uint64_t cursor) const {
  const Index* index = current();
  for (;;) {
    const uint64_t number = index->number_of(cursor);
    Bin& bin = index->bin(number);
    const uint64_t header = bin.header.load(std::memory_order_acquire);
    if ((header & dlht::kMoved) != 0) {
      index = index->next.load(std::memory_order_acquire);
      continue;
    }
    const uint64_t links = bin.links.load(std::memory_order_acquire);
    const uint64_t first = index->first_hash(number);
    Snapshot out;
    for (uint64_t rest = header & dlht::kValidBits; rest != 0; rest &= rest - 1) {
      const Slot& slot = index->slot(bin, links, std::countr_zero(rest) / 2);
      const uint64_t word = slot.word.load(std::memory_order_acquire);
      const uint64_t hash = index->hash_of(first, word);
      // A cursor in the middle of a bin comes from an index with smaller bins; lower hashes were visited there.
      if ((word & dlht::kDead) != 0 || hash < cursor) continue;
      out.entries[out.count++] = {hash, dlht::value_of(slot)};
    }
    if (bin.header.load(std::memory_order_acquire) != header) continue;
    out.next = index->first_hash(number + 1);
    return out;
  }
}

// ---- Bins.

Dlht::BinRef Dlht::writable(uint64_t hash) const {
  Index* index = current();
  for (uint32_t spins = 0;; ++spins) {
    Bin& bin = index->bin_of(hash);
    const uint64_t header = bin.header.load(std::memory_order_acquire);
    if ((header & dlht::kStateMask) == 0) [[likely]]
      return {index, &bin, header};
    if ((header & dlht::kMoved) != 0) {
      index = index->next.load(std::memory_order_acquire);
    } else {
      dlht::wait_a_little(spins);
    }
  }
}

// Ensures that the bin has the link bucket of this slot. False: no bucket is left.
bool Dlht::attach(const BinRef& ref, int number) {
  if (number < dlht::kInlineSlots) return true;
  const bool single = number < dlht::kPairFirst;
  uint64_t links = ref.bin->links.load(std::memory_order_acquire);
  if ((single ? dlht::single_of(links) : dlht::pair_of(links)) != 0) return true;
  const uint32_t link = single ? ref.index->take_single() : ref.index->take_pair();
  if (link == 0) return false;
  const uint64_t add = single ? uint64_t{link} : uint64_t{link} << 32;
  for (;;) {
    if ((single ? dlht::single_of(links) : dlht::pair_of(links)) != 0) {
      single ? ref.index->give_single(link) : ref.index->give_pair(link);
      return true;
    }
    if (ref.bin->links.compare_exchange_weak(links, links | add, std::memory_order_acq_rel)) return true;
  }
}

void Dlht::detach(Index& index, Bin& bin) {
  detach(index, bin, dlht::kPairBits);
  // A single link without a pair can be detached; with one, it would leave a hole that a resize must handle.
  if (dlht::pair_of(bin.links.load(std::memory_order_acquire)) == 0) detach(index, bin, dlht::kSingleBits);
}

// Returns the single link or the pair to the arena if all its slots are empty: reserves them all, so that no insert
// can, detaches the link, and leaves the slots empty for later links.
void Dlht::detach(Index& index, Bin& bin, uint64_t slots) {
  const bool single = slots == dlht::kSingleBits;
  const uint64_t trying = slots & dlht::kSlotsLow;
  uint64_t header = bin.header.load(std::memory_order_acquire);
  uint32_t link;
  do {
    if ((header & (dlht::kStateMask | slots)) != 0) return;
    const uint64_t links = bin.links.load(std::memory_order_acquire);
    link = single ? dlht::single_of(links) : dlht::pair_of(links);
    if (link == 0) return;
  } while (!bin.header.compare_exchange_weak(header, header + dlht::kVersionOne + trying, std::memory_order_acq_rel));
  WEFT_MARK_OUTSIDE("dlht_link_detached");
  bin.links.fetch_and(single ? ~uint64_t{0xffffffffU} : uint64_t{0xffffffffU}, std::memory_order_acq_rel);
  single ? index.give_single(link) : index.give_pair(link);
  bin.header.fetch_add(dlht::kVersionOne - trying, std::memory_order_acq_rel);
}

// ---- Reclamation.

void Dlht::quiesce(int reader) {
  quiescence_.quiesce(reader);
  if (current()->next.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
    help_resize(kHelpQuiesce);
  if (retired_count_.load(std::memory_order_relaxed) != 0) [[unlikely]]
    reclaim();
}

void Dlht::reclaim() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  std::erase_if(retired_, [this](const Retired& retired) {
    if (!quiescence_.passed(retired.ticket)) return false;
    drop(retired.index);
    return true;
  });
  retired_count_.store(retired_.size(), std::memory_order_relaxed);
}

void Dlht::drop(Index* index) {
  bytes_.fetch_sub(index->bytes(), std::memory_order_relaxed);
  memory_->free(index->memory(), index->bytes());
  delete index;
}

}  // namespace weft
