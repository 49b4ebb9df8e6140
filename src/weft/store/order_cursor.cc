#include "weft/store/order_cursor.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/base/marks.h"
#include "weft/store/record.h"

namespace weft {

OrderCursor::OrderCursor(const OrderedIndex& index) : index_(index), keys_(index.keys_) {
  if (!keys_.integers()) buffers_ = std::make_unique_for_overwrite<std::byte[]>(size_t{2} * kKeyBytesMax);
}

void OrderCursor::start(PartitionId partition, std::optional<ByteView> from, std::optional<ByteView> to, bool backward,
                        uint64_t expected) {
  partition_ = partition;
  from_ = from;
  to_ = to;
  backward_ = backward;
  expected_ = expected;
  last_.reset();
  placed_ = ended_ = false;
  run_count_ = run_next_ = 0;
}

bool OrderCursor::next_otherwise(ByteView* key, uint64_t* slot_bits) {
  for (uint32_t spins = 0;; ++spins) {
    if (run_next_ < run_count_) {
      const Entry& entry = run_[static_cast<size_t>(run_next_++)];
      if (give(entry, key)) {
        *slot_bits = OrderKeys::slot_bits(entry.ref, partition_);
        return true;
      }
      if (ended_) return false;
      placed_ = false;  // the leaf has changed
    } else if (ended_) {
      return false;
    }
    run_count_ = run_next_ = 0;
    if (placed_ && (leaf_rest_ >= 0 ? fill(*leaf_, leaf_version_, leaf_->shape(), leaf_rest_) : step())) continue;
    placed_ = descend();
    if (!placed_) {
      WEFT_MARK_OUTSIDE("order: a scan starts again behind its last key");
      run_count_ = 0;
      if (spins > 8) dlht::wait_a_little(spins);
    }
  }
}

// False: it is not in the leaf any more, or it is the end.
bool OrderCursor::give(const Entry& entry, ByteView* key) {
  if (keys_.integers()) {
    *key = give_integer(entry);
    return true;
  }
  std::byte* const to = buffers_.get() + size_t{kKeyBytesMax} * static_cast<size_t>(buffer_);
  *key = ByteView(to, keys_.copy(entry.ref, to));
  if (!leaf_->latch.unchanged(leaf_version_)) return false;
  if (beyond(*key)) {
    ended_ = true;
    return false;
  }
  buffer_ = 1 - buffer_;
  last_ = *key;
  return true;
}

bool OrderCursor::beyond(ByteView key) const {
  if (backward_) return from_ && as_text(key) < as_text(*from_);
  return to_ && as_text(key) >= as_text(*to_);
}

bool OrderCursor::integer_beyond(uint64_t number) const {
  if (backward_) return from_ && number < load<uint64_t>(from_->data());
  return to_ && number >= load<uint64_t>(to_->data());
}

// Where to begin in a node: at the first child that can have such a key, or at the first entry to give.
bool OrderCursor::first_position(const OrderNode& node, uint64_t version, Shape shape, int* position) const {
  const std::optional<ByteView> bound = last_ ? last_ : backward_ ? to_ : from_;
  if (!bound) {
    *position = backward_ ? shape.count - 1 : 0;
    return true;
  }
  if (!shape.is_leaf()) return index_.search(node, version, shape, *bound, !backward_, position);
  const bool including = !backward_ && last_.has_value();
  if (!index_.search(node, version, shape, *bound, including, position)) return false;
  if (backward_) --*position;
  return true;
}

bool OrderCursor::descend() {
  depth_ = 0;
  OrderedIndex::Descent root;
  if (!index_.enter(index_.tree(partition_), &root)) return false;
  if (root.node == nullptr) {
    ended_ = true;
    return true;
  }
  const OrderNode* node = root.node;
  uint64_t version = root.version;
  for (;;) {
    const Shape shape = node->shape();
    int position = 0;
    if (!first_position(*node, version, shape, &position)) return false;
    if (shape.is_leaf()) return fill(*node, version, shape, position);
    WEFT_CHECK(depth_ < kLevelsMax, "an ordered index is not that deep");
    path_[static_cast<size_t>(depth_++)] = {node, version, position, shape.count};
    const OrderNode* const parent = node;
    if (!enter_child(*parent, version, parent->child(position), &node, &version)) return false;
  }
}

bool OrderCursor::enter_child(const OrderNode& parent, uint64_t version, uint32_t child, const OrderNode** node,
                              uint64_t* node_version) const {
  if (!parent.latch.unchanged(version)) return false;
  const OrderNode& next = index_.at(child);
  if (parent.shape().level == 1) next.prefetch();
  *node = &next;
  *node_version = next.latch.read();
  return parent.latch.unchanged(version);
}

// On to the next leaf that has entries, or to the end.
bool OrderCursor::step() {
  const int by = backward_ ? -1 : 1;
  while (depth_ > 0) {
    Level& level = path_[static_cast<size_t>(depth_ - 1)];
    level.position += by;
    if (level.position < 0 || level.position >= level.count) {
      // A root that was split has a neighbour, which is not on the path.
      if (!level.node->latch.unchanged(level.version)) return false;
      --depth_;
      continue;
    }
    const OrderNode* node = nullptr;
    uint64_t version = 0;
    const uint32_t child = level.node->child(level.position);
    if (!enter_child(*level.node, level.version, child, &node, &version) || !go_to_edge(node, version)) return false;
    if (run_count_ > 0 || ended_) return true;
  }
  ended_ = true;
  return true;
}

// Down to the first leaf of a subtree, or backward to the last one.
bool OrderCursor::go_to_edge(const OrderNode* node, uint64_t version) {
  for (;;) {
    const Shape shape = node->shape();
    const int position = backward_ ? shape.count - 1 : 0;
    if (shape.is_leaf()) return fill(*node, version, shape, position);
    WEFT_CHECK(depth_ < kLevelsMax, "an ordered index is not that deep");
    path_[static_cast<size_t>(depth_++)] = {node, version, position, shape.count};
    const OrderNode* const parent = node;
    if (!enter_child(*parent, version, parent->child(position), &node, &version)) return false;
  }
}

bool OrderCursor::fill(const OrderNode& leaf, uint64_t version, Shape shape, int position) {
  const int by = backward_ ? -1 : 1;
  const bool integers = keys_.integers();
  const auto most = static_cast<int>(std::clamp<uint64_t>(expected_, 1, kLeafEntries));
  run_count_ = run_next_ = 0;
  bool ends = false;
  int i = position;
  for (; i >= 0 && i < shape.count && run_count_ < most; i += by) {
    const Entry entry{integers ? leaf.prefix(i) : 0, leaf.ref(true, i)};
    if (integers && integer_beyond(entry.prefix)) {
      ends = true;
      break;
    }
    run_[static_cast<size_t>(run_count_++)] = entry;
  }
  if (!leaf.latch.unchanged(version)) return false;
  expected_ -= std::min<uint64_t>(expected_, static_cast<uint64_t>(run_count_));
  for (int n = 0; n < run_count_; ++n) keys_.prefetch_record(run_[static_cast<size_t>(n)].ref);
  ended_ = ends;
  leaf_ = &leaf;
  leaf_version_ = version;
  leaf_rest_ = i >= 0 && i < shape.count ? i : -1;
  return true;
}

}  // namespace weft
