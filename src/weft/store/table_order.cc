// The order of an ordered table: an index of its keys beside the DLHT, which changes where the DLHT does. A key has an
// entry there from add_slot to remove_slot, whatever state its record is in: one that is being inserted is there as a
// deleted record with an owner, a tombstone of a backup as a deleted one without.
//
// The DLHT comes first, in both. So two workers that both remove a tombstone, one of which then inserts the key again,
// may come to the ordered index in any order: an insert replaces the old slot, and an erase finds its own slot or none.
// A block is freed after its entry is gone, so an entry that a reader can rely on is at a block of its key.
#include <array>

#include "weft/store/ordered_index.h"
#include "weft/store/table_inline.h"

namespace weft {

void Table::make_order(const TableOptions& options, const TableLayout& layout) {
  const OrderKeys keys(base_, &blocks_, usage_.get(), integer_keys_);
  order_ = std::make_unique<OrderedIndex>(keys, base_ + layout.order_at, layout.order_nodes, options.partitions);
}

InsertCode Table::add_to_order(const HashedKey& key, RecordSlot slot) {
  if (order_->insert(key.partition, key.bytes, slot.bits)) return InsertCode::kInserted;
  remove_slot(key, slot);
  return InsertCode::kNoMemory;
}

void Table::remove_from_order(PartitionId partition, ByteView key, RecordSlot slot) {
  order_->erase(partition, key, slot.bits);
}

// For drop_partitions(): nobody writes the record.
void Table::drop_from_order(RecordSlot slot) {
  std::array<std::byte, kKeyBytesMax> key;
  const std::optional<size_t> bytes = copy_key(slot, key.data());
  WEFT_CHECK(bytes.has_value(), "a record of a dropped partition is whole");
  count_erase(slot.partition());
  order_->erase(slot.partition(), ByteView(key.data(), *bytes), slot.bits);
}

}  // namespace weft
