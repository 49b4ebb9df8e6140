#include "weft/store/blocks.h"

#include "weft/base/check.h"
#include "weft/base/marks.h"

namespace weft {
namespace {

constexpr int kLinkBits = 40;
constexpr uint64_t kLinkMask = (uint64_t{1} << kLinkBits) - 1;
constexpr uint64_t kFreeMeta = ~kLinkMask;

constexpr uint64_t next_tag(uint64_t head) { return (head & ~kLinkMask) + (uint64_t{1} << kLinkBits); }

}  // namespace

Blocks::Blocks(std::byte* base, uint64_t begin, uint64_t end)
    : base_(base),
      map_(reinterpret_cast<uint16_t*>(base + begin)),
      begin_(begin + map_bytes(end - begin)),
      end_(end),
      cursor_(begin_) {
  WEFT_CHECK(begin != 0 && begin % 64 == 0 && end % 64 == 0 && begin_ <= end, "a block area");
}

uint64_t Blocks::allocate(int block_class) {
  List& list = lists_[static_cast<size_t>(block_class)];
  uint64_t head = list.head.load(std::memory_order_acquire);
  while ((head & kLinkMask) != 0) {
    const uint64_t offset = (head & kLinkMask) * kBlockAlign;
    // Another thread may have allocated the block and be writing there: then this is not a link, and the tag has
    // changed.
    const uint64_t link = load_shared(base_ + offset + kMetaAt) & kLinkMask;
    if (list.head.compare_exchange_weak(head, next_tag(head) | link, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
      return offset;
    }
  }
  return cut(block_class);
}

void Blocks::free(uint64_t offset, int block_class) { push(lists_[static_cast<size_t>(block_class)], offset, offset); }

void Blocks::push(List& list, uint64_t first, uint64_t last) {
  uint64_t head = list.head.load(std::memory_order_relaxed);
  do {
    store_ordered(base_ + last + kMetaAt, kFreeMeta | (head & kLinkMask));
  } while (!list.head.compare_exchange_weak(head, next_tag(head) | first / kBlockAlign, std::memory_order_acq_rel,
                                            std::memory_order_relaxed));
}

uint64_t Blocks::cut(int block_class) {
  const size_t bytes = block_bytes(block_class);
  const size_t slab = slab_bytes(block_class);
  uint64_t at = cursor_.load(std::memory_order_relaxed);
  do {
    if (end_ - at < slab) {
      WEFT_MARK_OUTSIDE("blocks: area used up");
      return 0;
    }
  } while (!cursor_.compare_exchange_weak(at, at + slab, std::memory_order_relaxed));
  // The first block goes to the caller, the others are chained in address order. Each is marked deleted before anyone
  // finds it.
  const uint64_t last = at + (slab / bytes - 1) * bytes;
  for (uint64_t block = at; block <= last; block += bytes) {
    store_word(base_ + block, Word(Version(0), kDeleted));
    store_ordered(base_ + block + kMetaAt, kFreeMeta | (block == last ? 0 : (block + bytes) / kBlockAlign));
  }
  const uint64_t grain = (at - begin_) / kSlabGrain;
  const uint64_t inside = (at - begin_) % kSlabGrain / 64;
  __atomic_store_n(map_ + grain, static_cast<uint16_t>(inside << 8 | static_cast<uint64_t>(block_class + 1)),
                   __ATOMIC_RELEASE);
  if (last > at) push(lists_[static_cast<size_t>(block_class)], at + bytes, last);
  return at;
}

}  // namespace weft
