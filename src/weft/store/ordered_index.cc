// Searching, inserting and erasing; ordered_index_shape.cc splits and joins nodes.
#include "weft/store/ordered_index.h"

#include "weft/base/marks.h"

namespace weft {

OrderedIndex::OrderedIndex(const OrderKeys& keys, std::byte* memory, uint32_t nodes, int partitions)
    : keys_(keys), space_(memory, nodes), trees_(new Tree[static_cast<size_t>(partitions)]) {}

bool OrderedIndex::search(const OrderNode& node, uint64_t version, Shape shape, ByteView key, bool including,
                          int* position) const {
  const int keys = shape.keys();
  *position = 0;
  if (keys == 0) return true;
  if (shape.skip != 0) {
    const uint64_t first = node.ref(shape.is_leaf(), 0);
    if (!node.latch.unchanged(version)) return false;
    const int beside = keys_.compare(key, first, static_cast<size_t>(shape.skip));
    if (beside != 0) {
      *position = beside < 0 ? 0 : keys;
      return true;
    }
  }
  const uint64_t prefix = keys_.prefix(key, shape.skip);
  int low = 0;
  for (int left = keys; left > 0;) {
    const int half = left / 2;
    const bool below = node.prefix(low + half) < prefix;
    low = below ? low + half + 1 : low;
    left = below ? left - half - 1 : half;
  }
  *position = low;
  if (low == keys || node.prefix(low) != prefix) return true;
  if (keys_.integers()) {
    *position += including ? 1 : 0;
    return true;
  }
  int high = low + 1;
  while (high < keys && node.prefix(high) == prefix) ++high;
  return search_equal(node, version, shape.is_leaf(), low, high, key, including, position);
}

// Among keys whose prefix is the key's.
bool OrderedIndex::search_equal(const OrderNode& node, uint64_t version, bool is_leaf, int low, int high, ByteView key,
                                bool including, int* position) const {
  while (low < high) {
    const int middle = low + (high - low) / 2;
    const uint64_t ref = node.ref(is_leaf, middle);
    if (!node.latch.unchanged(version)) return false;
    const int beside = keys_.compare(key, ref);
    if (beside > 0 || (beside == 0 && including)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  *position = low;
  return true;
}

// To the root; its node is nullptr if the tree is empty. False: start again.
bool OrderedIndex::enter(Tree& tree, Descent* to) const {
  to->parent = {&tree.latch, tree.latch.read(), nullptr, 0};
  const uint32_t root = tree.root.load(std::memory_order_acquire);
  to->node = root == 0 ? nullptr : &at(root);
  if (root != 0) {
    to->version = to->node->latch.read();
    to->shape = to->node->shape();
  }
  return tree.latch.unchanged(to->parent.version);
}

// From an inner node to the child that has the key.
bool OrderedIndex::go_down(ByteView key, Descent* to) const {
  OrderNode& node = *to->node;
  int position = 0;
  if (!search(node, to->version, to->shape, key, true, &position)) return false;
  const uint32_t child = node.child(position);
  if (!node.latch.unchanged(to->version)) return false;
  OrderNode& next = at(child);
  if (to->shape.level == 1) next.prefetch();
  const uint64_t version = next.latch.read();
  const Shape shape = next.shape();
  if (!node.latch.unchanged(to->version)) return false;
  *to = {{&node.latch, to->version, &node, position}, &next, version, shape};
  return true;
}

bool OrderedIndex::find_leaf(PartitionId partition, ByteView key, Descent* to) const {
  if (!enter(tree(partition), to)) return false;
  if (to->node == nullptr) return true;
  while (!to->shape.is_leaf()) {
    if (!go_down(key, to)) return false;
  }
  return true;
}

bool OrderedIndex::insert(PartitionId partition, ByteView key, uint64_t slot_bits) {
  const uint64_t ref = OrderKeys::ref(slot_bits, key.size());
  for (uint32_t spins = 0;; ++spins) {
    const Attempt attempt = try_insert(partition, key, ref);
    if (attempt != Attempt::kRetry) return attempt == Attempt::kDone;
    if (spins > 8) dlht::wait_a_little(spins);
  }
}

OrderedIndex::Attempt OrderedIndex::try_insert(PartitionId partition, ByteView key, uint64_t ref) {
  Tree& own = tree(partition);
  Descent to;
  if (!enter(own, &to)) return Attempt::kRetry;
  if (to.node == nullptr) return plant(own, to.parent.version, key, ref);
  for (;;) {
    if (to.shape.full()) return split(partition, to, key);
    if (to.shape.is_leaf()) break;
    if (!go_down(key, &to)) return Attempt::kRetry;
  }
  OrderNode& leaf = *to.node;
  if (!leaf.latch.try_lock(to.version)) return Attempt::kRetry;
  int position = 0;
  int after = 0;
  search(leaf, leaf.latch.held(), to.shape, key, false, &position);
  search(leaf, leaf.latch.held(), to.shape, key, true, &after);
  if (after > position) {
    WEFT_MARK_OUTSIDE("order: a key that its last holder has not removed yet");
    leaf.set_key(true, position, leaf.prefix(position), ref);
  } else {
    put_key(leaf, position, key, ref);
  }
  leaf.latch.unlock();
  return Attempt::kDone;
}

// The first key of a tree.
OrderedIndex::Attempt OrderedIndex::plant(Tree& tree, uint64_t version, ByteView key, uint64_t ref) {
  if (!tree.latch.try_lock(version)) return Attempt::kRetry;
  const uint32_t root = space_.allocate();
  if (root != 0) {
    OrderNode& leaf = at(root);
    leaf.set_shape({0, 0, 0});
    put_key(leaf, 0, key, ref);
    leaf.latch.unlock();
    tree.root.store(root, std::memory_order_release);
  }
  tree.latch.unlock();
  return root != 0 ? Attempt::kDone : Attempt::kNoMemory;
}

void OrderedIndex::erase(PartitionId partition, ByteView key, uint64_t slot_bits) {
  bool crowded = false;
  for (uint32_t spins = 0; try_change(partition, key, slot_bits, 0, &crowded) == Attempt::kRetry; ++spins) {
    if (spins > 8) dlht::wait_a_little(spins);
  }
  if (!crowded) join_around(partition, key);
}

void OrderedIndex::replace(PartitionId partition, ByteView key, uint64_t old_bits, uint64_t new_bits) {
  bool crowded = false;
  for (uint32_t spins = 0; try_change(partition, key, old_bits, new_bits, &crowded) == Attempt::kRetry; ++spins) {
    if (spins > 8) dlht::wait_a_little(spins);
  }
}

// Replaces or removes (new_bits is 0) a key at old_bits. `crowded`: no two neighbours can be joined because of it.
OrderedIndex::Attempt OrderedIndex::try_change(PartitionId partition, ByteView key, uint64_t old_bits,
                                               uint64_t new_bits, bool* crowded) {
  *crowded = true;
  Descent to;
  if (!find_leaf(partition, key, &to)) return Attempt::kRetry;
  if (to.node == nullptr) return Attempt::kDone;
  OrderNode& leaf = *to.node;
  if (!leaf.latch.try_lock(to.version)) return Attempt::kRetry;
  int position = 0;
  int after = 0;
  search(leaf, leaf.latch.held(), to.shape, key, false, &position);
  search(leaf, leaf.latch.held(), to.shape, key, true, &after);
  if (after > position && leaf.ref(true, position) == OrderKeys::ref(old_bits, key.size())) {
    if (new_bits != 0) {
      leaf.set_key(true, position, leaf.prefix(position), OrderKeys::ref(new_bits, key.size()));
    } else {
      remove_key(leaf, position);
      *crowded = leaf.shape().count > kLeafJoined;
    }
  }
  leaf.latch.unlock();
  return Attempt::kDone;
}

}  // namespace weft
