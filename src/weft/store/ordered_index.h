// OrderedIndex: the keys of an ordered table in order, beside the DLHT that serves point access. One B+ tree of
// order_node.h's nodes for each partition; a leaf has the references of the keys, no values.
//
// Readers take no locks (order_node.h). Writers descend as readers do and lock only the nodes that they change:
//   insert  locks the leaf. A full node on the way is split first, with its parent locked too; the parent is not full,
//           since it was passed before.
//   erase   locks the leaf. Two neighbours of one parent that fit one node with room to spare are joined afterwards.
// A writer that holds a node tries to lock a lower one and starts again if it cannot; only a join waits, for nodes
// below those that it holds. So nobody waits in a circle.
//
// From parent to child: the child's version is read, then the parent's is checked. At that moment the child was the
// parent's, and the version its own; whatever happens to the child later changes that version.
//
// Memory: neighbours of one parent have together about half a node at least (the half that a split leaves, and a join
// follows every erase that leaves less than two thirds in two). So n keys take at most nodes_for(n) nodes, in whatever
// order they came and went. The nodes of all partitions come from one area.
//
// Thread-safety: any thread may call anything, also for one key.
#pragma once

#include <cstdint>
#include <memory>

#include "weft/base/bytes.h"
#include "weft/store/order_keys.h"
#include "weft/store/order_node.h"
#include "weft/types.h"

namespace weft {

class OrderedIndex {
 public:
  OrderedIndex(const OrderKeys& keys, std::byte* memory, uint32_t nodes, int partitions);
  // The most nodes that so many keys of one partition take.
  static constexpr uint64_t nodes_for(uint64_t keys) { return keys / 12 + 8; }

  // The key is at this slot of the table from now on, whether it was there or not. False: no memory is left, and
  // nothing has changed.
  bool insert(PartitionId partition, ByteView key, uint64_t slot_bits);
  // Removes the key if it is at this slot.
  void erase(PartitionId partition, ByteView key, uint64_t slot_bits);
  // The record has moved to another block.
  void replace(PartitionId partition, ByteView key, uint64_t old_bits, uint64_t new_bits);

  const OrderSpace& space() const { return space_; }
  uint64_t memory_bytes() const { return uint64_t{space_.ever_used()} * kOrderNodeBytes; }
  // Counts the entries of a partition, and checks that they are in order and within the bounds of their parents. While
  // nobody writes, for tests.
  uint64_t check(PartitionId partition) const;

 private:
  friend class OrderCursor;
  using Shape = OrderNode::Shape;
  enum class Attempt : uint8_t { kDone, kRetry, kNoMemory };
  struct alignas(64) Tree {
    VersionLatch latch;
    std::atomic<uint32_t> root{0};
  };
  struct Parent {  // of a node: another node, or the tree itself
    VersionLatch* latch;
    uint64_t version;
    OrderNode* node;  // nullptr: the tree
    int position;     // of the child
  };
  struct Descent {  // to a node, which has been read at this version
    Parent parent;
    OrderNode* node;
    uint64_t version;
    Shape shape;
  };

  Tree& tree(PartitionId partition) const { return trees_[partition.value]; }
  OrderNode& at(uint32_t node) const { return space_.at(node); }

  // The number of keys in the node below `key`, or with `including` not above it. False: the node has changed.
  bool search(const OrderNode& node, uint64_t version, Shape shape, ByteView key, bool including, int* position) const;
  bool search_equal(const OrderNode& node, uint64_t version, bool is_leaf, int low, int high, ByteView key,
                    bool including, int* position) const;

  bool enter(Tree& tree, Descent* to) const;
  bool go_down(ByteView key, Descent* to) const;
  bool find_leaf(PartitionId partition, ByteView key, Descent* to) const;

  Attempt try_insert(PartitionId partition, ByteView key, uint64_t ref);
  Attempt plant(Tree& tree, uint64_t version, ByteView key, uint64_t ref);
  Attempt try_change(PartitionId partition, ByteView key, uint64_t old_bits, uint64_t new_bits, bool* crowded);

  // ordered_index_shape.cc: changes of nodes that the caller holds.
  void put_key(OrderNode& node, int position, ByteView key, uint64_t ref);
  void put_separator(OrderNode& node, int position, uint64_t prefix, uint64_t ref, uint32_t right);
  void remove_key(OrderNode& node, int position);
  void fit_skip(OrderNode& node);
  void set_skip(OrderNode& node, int skip);
  Attempt split(PartitionId partition, const Descent& full, ByteView key);
  bool join(PartitionId partition, OrderNode& parent, int position);
  bool joinable(const Descent& at_parent, int position) const;
  // Joins what can be joined on the way to a key, and lowers the tree.
  void join_around(PartitionId partition, ByteView key);
  Attempt try_join_around(PartitionId partition, ByteView key);
  Attempt lower(Tree& tree, const Descent& root);

  OrderKeys keys_;
  OrderSpace space_;
  std::unique_ptr<Tree[]> trees_;
};

}  // namespace weft
