#include "weft/store/order_node.h"

#include "weft/base/marks.h"

namespace weft {

uint32_t OrderSpace::allocate() {
  uint64_t head = free_.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(head) != 0) {
    OrderNode& node = at(static_cast<uint32_t>(head));
    // Another thread may have taken it and given it back: then the tag has changed.
    const uint64_t next = node.next_free.load(std::memory_order_acquire);
    const uint64_t tag = (head >> 32) + 1;
    if (free_.compare_exchange_weak(head, tag << 32 | next, std::memory_order_acq_rel, std::memory_order_acquire)) {
      used_.fetch_add(1, std::memory_order_relaxed);
      node.latch.lock_free_node();
      return static_cast<uint32_t>(head);
    }
  }
  uint32_t cut = cut_.load(std::memory_order_relaxed);
  do {
    if (cut == nodes_) {
      WEFT_MARK_OUTSIDE("order: area used up");
      return 0;
    }
  } while (!cut_.compare_exchange_weak(cut, cut + 1, std::memory_order_relaxed));
  used_.fetch_add(1, std::memory_order_relaxed);
  at(cut + 1).latch.lock_free_node();
  return cut + 1;
}

void OrderSpace::free(uint32_t number) {
  OrderNode& node = at(number);
  node.latch.unlock();
  used_.fetch_sub(1, std::memory_order_relaxed);
  uint64_t head = free_.load(std::memory_order_relaxed);
  do {
    node.next_free.store(static_cast<uint32_t>(head), std::memory_order_release);
  } while (!free_.compare_exchange_weak(head, ((head >> 32) + 1) << 32 | number, std::memory_order_acq_rel,
                                        std::memory_order_relaxed));
}

}  // namespace weft
