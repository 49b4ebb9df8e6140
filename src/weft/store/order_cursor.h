// OrderCursor: visits the keys of one partition of an ordered index in order, forward or backward, while others change
// it. A key that is there throughout is visited exactly once; one that comes or goes meanwhile may be visited or not.
//
// It copies a run of entries from a leaf, and goes on to the neighbour by way of the inner nodes that it came through.
// If one of these has changed it looks for the last key it gave, and goes on behind it.
//
// Thread-safety: one thread at a time. It may be kept for as long as its index exists.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "weft/base/bytes.h"
#include "weft/store/ordered_index.h"
#include "weft/types.h"

namespace weft {

class OrderCursor {
 public:
  explicit OrderCursor(const OrderedIndex& index);

  // From `from` on and below `to`, or backward from the last key below `to` down to `from`; without a bound, to the
  // end. Both must stay until the last next(). `expected`: how many the caller will probably take.
  void start(PartitionId partition, std::optional<ByteView> from, std::optional<ByteView> to, bool backward,
             uint64_t expected);
  // The key, valid until the next call, and the slot of the table it was at. False: there are no more.
  bool next(ByteView* key, uint64_t* slot_bits) {
    if (run_next_ == run_count_ || !keys_.integers()) return next_otherwise(key, slot_bits);
    const Entry& entry = run_[static_cast<size_t>(run_next_++)];
    *key = give_integer(entry);
    *slot_bits = OrderKeys::slot_bits(entry.ref, partition_);
    return true;
  }

 private:
  using Shape = OrderNode::Shape;
  static constexpr int kLevelsMax = 16;
  struct Level {
    const OrderNode* node;
    uint64_t version;
    int position;
    int count;
  };
  struct Entry {
    uint64_t prefix;
    uint64_t ref;
  };

  bool next_otherwise(ByteView* key, uint64_t* slot_bits);
  bool give(const Entry& entry, ByteView* key);
  ByteView give_integer(const Entry& entry) {
    integer_ = entry.prefix;
    const ByteView key(reinterpret_cast<const std::byte*>(&integer_), sizeof integer_);
    if (!last_) last_ = key;  // it stays where it is
    return key;
  }
  bool beyond(ByteView key) const;
  bool integer_beyond(uint64_t number) const;

  // Fills the run; it may stay empty. False: something changed on the way.
  bool descend();
  bool step();
  bool enter_child(const OrderNode& parent, uint64_t version, uint32_t child, const OrderNode** node,
                   uint64_t* node_version) const;
  bool go_to_edge(const OrderNode* node, uint64_t version);
  bool first_position(const OrderNode& node, uint64_t version, Shape shape, int* position) const;
  bool fill(const OrderNode& leaf, uint64_t version, Shape shape, int position);

  const OrderedIndex& index_;
  const OrderKeys& keys_;
  PartitionId partition_;
  bool backward_ = false;
  std::optional<ByteView> from_;
  std::optional<ByteView> to_;
  uint64_t expected_ = 0;  // after the run

  std::array<Level, kLevelsMax> path_;
  int depth_ = 0;
  bool placed_ = false;  // the path leads to the leaf of the run
  bool ended_ = false;
  const OrderNode* leaf_ = nullptr;
  uint64_t leaf_version_ = 0;
  int leaf_rest_ = -1;  // the entry after the run, if the leaf has more
  std::array<Entry, kLeafEntries> run_;
  int run_count_ = 0;
  int run_next_ = 0;

  std::optional<ByteView> last_;  // given
  uint64_t integer_ = 0;
  // Of byte strings: the last key and the one that is being copied, by turns.
  std::unique_ptr<std::byte[]> buffers_;
  int buffer_ = 0;
};

}  // namespace weft
