// The nodes of an ordered index (ordered_index.h), 1 KiB each, and the area of a region that they come from.
//
//    0         8       12          16                                                        1024
//   | version | shape | next free | leaf:  prefixes (63), refs (63)                            |
//   |         |       |           | inner: prefixes (50), refs (50), children (51)             |
//
//   version  odd while a writer holds the node; each time it is held it ends two higher
//   shape    number of entries of a leaf, of children of an inner node (16 bits), level (8 bits, a leaf has 0), skip
//   (8) prefix   of a key: an integer key itself, or 8 bytes of a byte string as a big-endian number: those after the
//   first
//            `skip`, which all keys of the node have in common
//   ref      where the whole key is (order_keys.h); of an inner node, of the key that separates two children
//
// A reader takes no lock. It reads the version, then what it wants, then the version again; if that changed, what it
// read is worth nothing. A word of a node is used as an address only after such a check. Everything is read by acquire
// loads and written by release stores, plain ones on x86: a reader that saw a writer's word sees its version too.
//
// A freed node is used again at once, like a block (blocks.h): nodes stay nodes, and their versions only increase, so
// whoever still has an old reference notices.
//
// Thread-safety: all of it may be called by any thread; nothing waits, except that read() and lock() wait for the
// writer of that node.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/store/dlht_bin.h"

namespace weft {

class VersionLatch {
 public:
  uint64_t read() const {
    for (uint32_t spins = 0;; ++spins) {
      const uint64_t version = word_.load(std::memory_order_acquire);
      if ((version & 1) == 0) return version;
      dlht::wait_a_little(spins);
    }
  }
  bool unchanged(uint64_t version) const { return word_.load(std::memory_order_acquire) == version; }
  bool try_lock(uint64_t version) {
    return word_.compare_exchange_strong(version, version + 1, std::memory_order_acq_rel, std::memory_order_relaxed);
  }
  void lock() {
    while (!try_lock(read())) {
    }
  }
  // Of a node that nobody else may lock: a free one.
  void lock_free_node() { word_.store(held() + 1, std::memory_order_release); }
  void unlock() { word_.store(held() + 1, std::memory_order_release); }
  // The version while the caller holds it.
  uint64_t held() const { return word_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> word_{0};
};

inline constexpr size_t kOrderNodeBytes = 1024;
inline constexpr int kLeafEntries = 63;
inline constexpr int kInnerChildren = 51;
inline constexpr int kSkipMax = 255;
// Neighbours with so many entries or children together become one node.
inline constexpr int kLeafJoined = kLeafEntries * 2 / 3;
inline constexpr int kInnerJoined = kInnerChildren * 2 / 3;

struct alignas(64) OrderNode {
  struct Leaf {
    std::atomic<uint64_t> prefixes[kLeafEntries];
    std::atomic<uint64_t> refs[kLeafEntries];
  };
  struct Inner {
    std::atomic<uint64_t> prefixes[kInnerChildren - 1];
    std::atomic<uint64_t> refs[kInnerChildren - 1];
    std::atomic<uint32_t> children[kInnerChildren];
  };

  VersionLatch latch;
  std::atomic<uint32_t> shape_word;
  std::atomic<uint32_t> next_free;
  union {
    Leaf leaf;
    Inner inner;
  };

  struct Shape {
    int count;
    int level;
    int skip;
    bool is_leaf() const { return level == 0; }
    bool full() const { return count >= (is_leaf() ? kLeafEntries : kInnerChildren); }
    int keys() const { return is_leaf() ? count : count - 1; }
  };
  Shape shape() const {
    const uint32_t word = shape_word.load(std::memory_order_acquire);
    return {static_cast<int>(word & 0xffff), static_cast<int>(word >> 16 & 0xff), static_cast<int>(word >> 24)};
  }
  void set_shape(Shape shape) {
    shape_word.store(static_cast<uint32_t>(shape.skip) << 24 | static_cast<uint32_t>(shape.level) << 16 |
                         static_cast<uint32_t>(shape.count),
                     std::memory_order_release);
  }

  // Both kinds have their prefixes in the same place.
  uint64_t prefix(int i) const { return leaf.prefixes[i].load(std::memory_order_acquire); }
  uint64_t ref(bool is_leaf, int i) const {
    return (is_leaf ? leaf.refs[i] : inner.refs[i]).load(std::memory_order_acquire);
  }
  uint32_t child(int i) const { return inner.children[i].load(std::memory_order_acquire); }

  void set_key(bool is_leaf, int i, uint64_t prefix, uint64_t ref) {
    leaf.prefixes[i].store(prefix, std::memory_order_release);
    (is_leaf ? leaf.refs[i] : inner.refs[i]).store(ref, std::memory_order_release);
  }
  void set_child(int i, uint32_t child) { inner.children[i].store(child, std::memory_order_release); }

  // Of a leaf, whose version, prefixes and refs would otherwise be waited for one after the other.
  void prefetch() const {
    const auto* const at = reinterpret_cast<const std::byte*>(this);
    for (size_t i = 0; i < kOrderNodeBytes; i += 64) __builtin_prefetch(at + i);
  }
};
static_assert(sizeof(OrderNode) == kOrderNodeBytes);

// The nodes of one table, by number from 1 on; 0 is none.
class OrderSpace {
 public:
  // `memory` is zeroed, aligned to 64 bytes and has room for that many nodes.
  OrderSpace(std::byte* memory, uint32_t nodes) : memory_(memory), nodes_(nodes) {}

  OrderNode& at(uint32_t number) const {
    return *reinterpret_cast<OrderNode*>(memory_ + size_t{number - 1} * kOrderNodeBytes);
  }
  // A node that the caller holds; 0: none is left.
  uint32_t allocate();
  // A node that the caller holds, and that nothing refers to any more.
  void free(uint32_t number);

  uint32_t nodes() const { return nodes_; }
  uint32_t used() const { return used_.load(std::memory_order_relaxed); }
  uint32_t ever_used() const { return cut_.load(std::memory_order_relaxed); }  // what the kernel has given pages for

 private:
  std::byte* const memory_;
  const uint32_t nodes_;
  std::atomic<uint32_t> cut_{0};
  std::atomic<uint32_t> used_{0};
  alignas(64) std::atomic<uint64_t> free_{0};  // tag against ABA (32 bits) | first free node
};

}  // namespace weft
