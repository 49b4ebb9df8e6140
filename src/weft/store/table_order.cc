// The order of an ordered table: an index of its keys beside the DLHT, which changes where the DLHT does. A key has an
// entry there from add_slot to remove_slot, whatever state its record is in: one that is being inserted is there as a
// deleted record with an owner, a tombstone of a backup as a deleted one without.
//
// The DLHT comes first, in both. So two workers that both remove a tombstone, one of which then inserts the key again,
// may come to the ordered index in any order: an insert replaces the old slot, and an erase finds its own slot or none.
// A block is freed after its entry is gone, so an entry that a reader can rely on is at a block of its key.
#include <array>
#include <string>
#include <string_view>

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

int Table::compare(ByteView a, ByteView b) const {
  if (!integer_keys_) return as_text(a).compare(as_text(b));
  const auto left = load<uint64_t>(a.data()), right = load<uint64_t>(b.data());
  return left < right ? -1 : left > right ? 1 : 0;
}

namespace {

// How many bytes of a key, from its start, decide its partition and that of all keys that start alike. 0: it is not
// decided by a start.
size_t deciding_bytes(const TableSpec& spec, std::string_view key) {
  if (spec.partition == PartitionBy::kPrefix) return key.size() < spec.prefix_bytes ? 0 : spec.prefix_bytes;
  const size_t open = key.find('{');
  if (open == std::string_view::npos) return 0;
  const size_t close = key.find('}', open + 1);
  return close == std::string_view::npos || close == open + 1 ? 0 : close + 1;
}

}  // namespace

bool Table::share_prefix(ByteView from, ByteView to) const {
  if (integer_keys_) {
    if (spec_.prefix_bytes >= sizeof(uint64_t)) return load<uint64_t>(to.data()) - load<uint64_t>(from.data()) <= 1;
    const uint32_t rest = 64 - 8 * spec_.prefix_bytes;
    return load<uint64_t>(from.data()) >> rest == (load<uint64_t>(to.data()) - 1) >> rest;
  }
  const size_t bytes = deciding_bytes(spec_, as_text(from));
  if (bytes == 0) return false;
  const std::string_view prefix = as_text(from).substr(0, bytes), end = as_text(to);
  if (end.substr(0, bytes) == prefix) return true;
  // `to` may also be the first key above all that begin with the prefix.
  size_t same = bytes;
  while (same > 0 && prefix[same - 1] == '\xff') --same;
  if (same == 0) return true;  // there is none
  std::string above(prefix.substr(0, same));
  ++above[same - 1];
  return end <= above;
}

}  // namespace weft
