// How nodes are filled, split and joined. The caller holds every node that a function here changes.
#include <algorithm>
#include <string>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/store/ordered_index.h"
#include "weft/store/record.h"

namespace weft {

void OrderedIndex::put_key(OrderNode& node, int position, ByteView key, uint64_t ref) {
  Shape shape = node.shape();
  if (shape.skip != 0) {
    const size_t common = shape.count == 0 ? 0 : keys_.common(key, node.ref(true, 0));
    if (common < static_cast<size_t>(shape.skip)) set_skip(node, static_cast<int>(common));
    shape = node.shape();
  }
  for (int i = shape.count; i > position; --i) node.set_key(true, i, node.prefix(i - 1), node.ref(true, i - 1));
  node.set_key(true, position, keys_.prefix(key, shape.skip), ref);
  node.set_shape({shape.count + 1, 0, shape.skip});
}

// The key that separates the child at `position` from its new right neighbour. `prefix` is an integer's.
void OrderedIndex::put_separator(OrderNode& node, int position, uint64_t prefix, uint64_t ref, uint32_t right) {
  Shape shape = node.shape();
  if (!keys_.integers()) {
    const size_t common = shape.keys() == 0 ? 0 : keys_.common(ref, node.ref(false, 0));
    if (common < static_cast<size_t>(shape.skip)) set_skip(node, static_cast<int>(common));
    shape = node.shape();
    prefix = keys_.prefix(ref, shape.skip);
  }
  for (int i = shape.keys(); i > position; --i) {
    node.set_key(false, i, node.prefix(i - 1), node.ref(false, i - 1));
    node.set_child(i + 1, node.child(i));
  }
  node.set_key(false, position, prefix, ref);
  node.set_child(position + 1, right);
  node.set_shape({shape.count + 1, shape.level, shape.skip});
}

// Of an inner node, the child to the right of the key too.
void OrderedIndex::remove_key(OrderNode& node, int position) {
  const Shape shape = node.shape();
  const bool leaf = shape.is_leaf();
  for (int i = position; i + 1 < shape.keys(); ++i) {
    node.set_key(leaf, i, node.prefix(i + 1), node.ref(leaf, i + 1));
    if (!leaf) node.set_child(i + 1, node.child(i + 2));
  }
  node.set_shape({shape.count - 1, shape.level, shape.skip});
}

void OrderedIndex::set_skip(OrderNode& node, int skip) {
  const Shape shape = node.shape();
  const bool leaf = shape.is_leaf();
  for (int i = 0; i < shape.keys(); ++i) {
    const uint64_t ref = node.ref(leaf, i);
    node.set_key(leaf, i, keys_.prefix(ref, skip), ref);
  }
  node.set_shape({shape.count, shape.level, skip});
}

// Skips what all keys have in common. Costs a look at every key: only after a split or a join.
void OrderedIndex::fit_skip(OrderNode& node) {
  if (keys_.integers()) return;
  const Shape shape = node.shape();
  const bool leaf = shape.is_leaf();
  size_t common = 0;
  if (shape.keys() > 1) common = keys_.common(node.ref(leaf, 0), node.ref(leaf, shape.keys() - 1));
  set_skip(node, static_cast<int>(std::min<size_t>(common, kSkipMax)));
}

// Makes room on the way to `key`; the caller then starts again. Keys that come in order leave full nodes behind.
OrderedIndex::Attempt OrderedIndex::split(PartitionId partition, const Descent& full, ByteView key) {
  const Parent& parent = full.parent;
  OrderNode& node = *full.node;
  if (!parent.latch->try_lock(parent.version)) return Attempt::kRetry;
  if (!node.latch.try_lock(full.version)) {
    parent.latch->unlock();
    return Attempt::kRetry;
  }
  const Shape shape = full.shape;
  const bool leaf = shape.is_leaf();
  int position = 0;
  search(node, node.latch.held(), shape, key, true, &position);
  const bool last = parent.node == nullptr || parent.position + 1 == parent.node->shape().count;
  const int middle = last && position == shape.keys() ? shape.count - 1 : shape.count / 2;

  const uint32_t right_number = space_.allocate();
  const uint32_t root_number = parent.node == nullptr && right_number != 0 ? space_.allocate() : 0;
  const uint64_t prefix = node.prefix(leaf ? middle : middle - 1);
  uint64_t ref = leaf ? 0 : node.ref(false, middle - 1);
  bool room = right_number != 0 && (parent.node != nullptr || root_number != 0);
  if (room && leaf && !keys_.integers()) {
    ref = keys_.make_separator(partition, node.ref(true, middle - 1), node.ref(true, middle));
    room = ref != 0;
  }
  if (!room) {
    if (root_number != 0) space_.free(root_number);
    if (right_number != 0) space_.free(right_number);
    node.latch.unlock();
    parent.latch->unlock();
    return Attempt::kNoMemory;
  }

  OrderNode& right = at(right_number);
  right.set_shape({shape.count - middle, shape.level, shape.skip});
  for (int i = middle; i < shape.keys(); ++i) right.set_key(leaf, i - middle, node.prefix(i), node.ref(leaf, i));
  for (int i = middle; !leaf && i < shape.count; ++i) right.set_child(i - middle, node.child(i));
  node.set_shape({middle, shape.level, shape.skip});
  fit_skip(node);
  fit_skip(right);
  if (parent.node != nullptr) {
    put_separator(*parent.node, parent.position, prefix, ref, right_number);
  } else {
    Tree& own = tree(partition);
    OrderNode& root = at(root_number);
    root.set_shape({1, shape.level + 1, 0});
    root.set_child(0, own.root.load(std::memory_order_relaxed));
    put_separator(root, 0, prefix, ref, right_number);
    root.latch.unlock();
    own.root.store(root_number, std::memory_order_release);
  }
  right.latch.unlock();
  node.latch.unlock();
  parent.latch->unlock();
  return Attempt::kRetry;
}

namespace {

bool few_enough(OrderNode::Shape left, OrderNode::Shape right) {
  if (!left.is_leaf()) return left.count + right.count <= kInnerJoined;
  return left.count + right.count <= kLeafJoined || left.count == 0 || right.count == 0;
}

}  // namespace

// With the parent held: joins the children at `position` and after it if they have few keys; then, in the inner node
// that this made, the two that met there, and so on down.
bool OrderedIndex::join(PartitionId partition, OrderNode& parent, int position) {
  if (position + 1 >= parent.shape().count) return false;
  const uint32_t right_number = parent.child(position + 1);
  OrderNode& left = at(parent.child(position));
  OrderNode& right = at(right_number);
  left.latch.lock();
  right.latch.lock();
  const Shape into = left.shape();
  const Shape from = right.shape();
  if (!few_enough(into, from)) {
    right.latch.unlock();
    left.latch.unlock();
    return false;
  }
  const bool leaf = into.is_leaf();
  const uint64_t separator = parent.ref(false, position);
  const int keys = into.count;  // of an inner node: with the separator, which comes down
  if (leaf) {
    keys_.free_separator(partition, separator);
  } else {
    left.set_key(false, into.keys(), parent.prefix(position), separator);
  }
  for (int i = 0; i < from.keys(); ++i) left.set_key(leaf, keys + i, right.prefix(i), right.ref(leaf, i));
  for (int i = 0; !leaf && i < from.count; ++i) left.set_child(into.count + i, right.child(i));
  left.set_shape({into.count + from.count, into.level, 0});
  fit_skip(left);
  remove_key(parent, position);
  space_.free(right_number);
  if (!leaf) {
    WEFT_MARK_OUTSIDE("order: inner nodes joined");
    join(partition, left, into.count - 1);
  }
  left.latch.unlock();
  return true;
}

// A guess without locks.
bool OrderedIndex::joinable(const Descent& at_parent, int position) const {
  const OrderNode& parent = *at_parent.node;
  if (position < 0 || position + 1 >= at_parent.shape.count) return false;
  const uint32_t left = parent.child(position);
  const uint32_t right = parent.child(position + 1);
  return parent.latch.unchanged(at_parent.version) && few_enough(at(left).shape(), at(right).shape());
}

void OrderedIndex::join_around(PartitionId partition, ByteView key) {
  for (uint32_t spins = 0; try_join_around(partition, key) == Attempt::kRetry; ++spins) {
    if (spins > 8) dlht::wait_a_little(spins);
  }
}

OrderedIndex::Attempt OrderedIndex::try_join_around(PartitionId partition, ByteView key) {
  Tree& own = tree(partition);
  Descent to;
  if (!enter(own, &to)) return Attempt::kRetry;
  if (to.node == nullptr) return Attempt::kDone;
  if (to.shape.keys() == 0) return lower(own, to);
  while (!to.shape.is_leaf()) {
    int position = 0;
    if (!search(*to.node, to.version, to.shape, key, true, &position)) return Attempt::kRetry;
    for (const int left : {position - 1, position}) {
      if (!joinable(to, left)) continue;
      if (!to.node->latch.try_lock(to.version)) return Attempt::kRetry;
      join(partition, *to.node, left);
      to.node->latch.unlock();
      return Attempt::kRetry;
    }
    if (!go_down(key, &to)) return Attempt::kRetry;
  }
  return Attempt::kDone;
}

// A root with one child gives its place to it; an empty leaf leaves none.
OrderedIndex::Attempt OrderedIndex::lower(Tree& tree, const Descent& root) {
  if (!tree.latch.try_lock(root.parent.version)) return Attempt::kRetry;
  if (root.node->latch.try_lock(root.version)) {
    const uint32_t number = tree.root.load(std::memory_order_relaxed);
    tree.root.store(root.shape.is_leaf() ? 0 : root.node->child(0), std::memory_order_release);
    space_.free(number);
  }
  tree.latch.unlock();
  return Attempt::kRetry;
}

namespace {

struct OrderCheck {
  const OrderSpace& space;
  const OrderKeys& keys;
  std::string last;
  bool any = false;
  uint64_t entries = 0;

  std::string text(const OrderNode& node, bool leaf, int i) const {
    std::string out(keys.integers() ? sizeof(uint64_t) : kKeyBytesMax, '\0');
    auto* const to = reinterpret_cast<std::byte*>(out.data());
    if (keys.integers()) {
      store(to, __builtin_bswap64(node.prefix(i)));
    } else {
      out.resize(keys.copy(node.ref(leaf, i), to));
    }
    return out;
  }
  void pass(const std::string& key, bool strictly) {
    WEFT_CHECK(!any || last < key || (!strictly && last == key), "the keys of an ordered index are in order");
    last = key;
    any = true;
  }
  void walk(uint32_t number, int level) {
    const OrderNode& node = space.at(number);
    const OrderNode::Shape shape = node.shape();
    WEFT_CHECK(level < 0 || shape.level == level, "all leaves of an ordered index are at one level");
    for (int i = 0; i < shape.count; ++i) {
      if (shape.is_leaf()) {
        // A separator may be the first key to its right.
        pass(text(node, true, i), i > 0);
        ++entries;
        continue;
      }
      walk(node.child(i), shape.level - 1);
      if (i + 1 < shape.count) pass(text(node, false, i), true);
    }
  }
};

}  // namespace

uint64_t OrderedIndex::check(PartitionId partition) const {
  OrderCheck check{space_, keys_, {}};
  const uint32_t root = tree(partition).root.load(std::memory_order_acquire);
  if (root != 0) check.walk(root, -1);
  return check.entries;
}

}  // namespace weft
